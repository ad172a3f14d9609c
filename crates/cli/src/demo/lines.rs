//! The demo where there is no terminal: a line for each second.

use super::side::SideFigures;
use crate::figures::{bytes, ms};

/// One second of both sides.
pub(crate) fn line(second: usize, without: &SideFigures, with: &SideFigures) -> String {
    format!("{second:>3} s   without: {}   with NeuroGC: {}", side(without), side(with))
}

fn side(seen: &SideFigures) -> String {
    let figures = seen.figures();
    let slowest = seen.slowest.last().copied().unwrap_or(0.0);
    format!("slowest {:>7}, p99 so far {:>7}, {:>8}", ms(slowest), ms(figures.p99_ms), bytes(seen.rss_now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_both_sides() {
        let seen = |slowest: f64, rss_now| SideFigures { slowest: vec![slowest], rss_now, ..SideFigures::default() };
        assert_eq!(
            line(7, &seen(130.2, 300 << 20), &seen(5.4, 310 << 20)),
            "  7 s   without: slowest  130 ms, p99 so far    0 ms,  300 MiB   with NeuroGC: slowest  5.4 ms, p99 so \
             far    0 ms,  310 MiB"
        );
    }
}
