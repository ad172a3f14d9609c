//! How often the agent's sampler looks at a simulated program.
//!
//! While a program is busy it is looked at every few milliseconds. One that uses its processor little is looked at when it has used it
//! for so long, unless the policy wants to be asked regularly.

use crate::simulate::step;

/// As in the sampler: a program that lately used a smaller share of a processor than this is light, and is looked at when it has
/// worked for so many nanoseconds.
const LIGHT: f64 = 0.25;
const LATELY: f64 = 100e6;
const LIGHT_WORK: f64 = 8e6;

/// Looks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SamplerLooks {
    /// The share of the time in which the program has run lately.
    share: f64,
    looks: f64,
}

impl SamplerLooks {
    /// The program has run, or waited, for so many nanoseconds; `may_rest` where nothing but the program's work asks for looks.
    pub(crate) fn span(&mut self, idle: bool, lasted: u64, counts: bool, may_rest: bool) {
        let light = may_rest && self.is_light(0);
        let before = self.share;
        let kept = (-(lasted as f64) / LATELY).exp();
        self.share = before * kept + if idle { 0.0 } else { 1.0 - kept };
        if !counts {
            return;
        }
        self.looks += match (light, idle) {
            (true, true) => 0.0,
            (true, false) => lasted as f64 / LIGHT_WORK,
            (false, false) => lasted as f64 / step(None) as f64,
            (false, true) => looks_in_gap(lasted, before, may_rest),
        };
    }

    /// Whether the program is light after it has been idle for so long.
    pub(crate) fn is_light(&self, idle: u64) -> bool {
        self.share * (-(idle as f64) / LATELY).exp() < LIGHT
    }

    pub(crate) fn looks(&self) -> f64 {
        self.looks
    }
}

/// Looks in a gap that follows work which took this share of the time. As the gap goes on the program becomes light.
fn looks_in_gap(lasted: u64, share: f64, may_rest: bool) -> f64 {
    let light_after = if may_rest { LATELY * (share / LIGHT).max(1.0).ln() } else { f64::INFINITY };
    let until = light_after.min(lasted as f64);
    let (mut at, mut looks) = (0, 0.0);
    while (at as f64) < until {
        let next = step(Some(at));
        looks += ((until - at as f64) / next as f64).min(1.0);
        at += next;
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Looks in ten seconds of a program that works for so long and then rests for so long.
    fn check(work: u64, rest: u64, may_rest: bool) -> f64 {
        let mut looks = SamplerLooks::default();
        for _ in 0..10_000 / (work + rest) {
            looks.span(false, work * MS, true, may_rest);
            looks.span(true, rest * MS, true, may_rest);
        }
        looks.looks()
    }

    #[test]
    fn a_light_program_is_looked_at_when_it_works() {
        let (light, asked) = (check(1, 9, true), check(1, 9, false));
        assert!((light - 1_000.0 / 8.0).abs() < 5.0, "{light}");
        assert!((asked - 5_000.0).abs() < 100.0, "{asked}");
    }

    #[test]
    fn a_busy_program_is_looked_at_alike_whatever_the_policy_wants() {
        let (rests, asked) = (check(9, 3, true), check(9, 3, false));
        assert!((rests / asked - 1.0).abs() < 0.01, "{rests} {asked}");
    }
}
