//! When requests came, from when they began to be served.
//!
//! A program that is busy does not see who waits: the mark of a request is set when its turn comes. But who began right
//! after another, or right after a pause, had waited. Such requests came at some moment of the busy stretch, and as
//! far as anybody can tell at any moment of it: their times are drawn evenly, so that each came after the one before
//! it and before its own turn (Gibbs sampling; the seed decides).

use neurogc_load::Chance;

/// How often all times are drawn anew, each between its neighbours.
const SWEEPS: usize = 20;

/// One turn: when it was possible at the earliest, because nothing else ran, and when it began. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) free: u64,
    pub(crate) began: u64,
}

/// The times at which requests came. One that began later than `slack` after the program was free did not wait.
pub(crate) fn arrivals(turns: &[Turn], slack: u64, seed: u64) -> Vec<u64> {
    let mut chance = Chance::new(seed);
    let mut came: Vec<u64> = turns.iter().map(|turn| turn.began).collect();
    let mut first = 0;
    for next in 1..=turns.len() {
        let waited = turns.get(next).is_some_and(|turn| turn.began.saturating_sub(turn.free) <= slack);
        if !waited {
            spread(&mut came[first..next], &mut chance);
            first = next;
        }
    }
    came
}

/// Spreads the times of one busy stretch: the first did not wait, the others did.
fn spread(came: &mut [u64], chance: &mut Chance) {
    let turns = came.to_vec();
    for _ in 0..SWEEPS {
        for index in (1..came.len()).rev() {
            let latest = came.get(index + 1).map_or(turns[index], |next| turns[index].min(*next));
            let earliest = came[index - 1];
            came[index] = earliest + ((latest - earliest) as f64 * chance.share()) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One who serves whoever comes, in turn.
    fn serve(came: &[u64], service: u64) -> Vec<Turn> {
        let mut free = 0;
        let turn = |at: &u64| {
            let turn = Turn { free, began: free.max(*at) };
            free = turn.began + service;
            turn
        };
        came.iter().map(turn).collect()
    }

    #[test]
    fn waiting_times_are_found_again_on_average() {
        let mut chance = Chance::new(3);
        let (mut at, service) = (0.0, 6_000_000);
        let came: Vec<u64> = (0..20_000)
            .map(|_| {
                at += chance.exponential(100.0) * 1e9;
                at as u64
            })
            .collect();
        let turns = serve(&came, service);
        let mean = |came: &[u64]| turns.iter().zip(came).map(|(turn, at)| (turn.began - at) as f64).sum::<f64>() / 2e4;
        let (real, found) = (mean(&came), mean(&arrivals(&turns, 0, 1)));
        assert!((found / real - 1.0).abs() < 0.1, "{found} for {real}");
    }

    proptest! {
        #[test]
        fn nobody_comes_after_their_turn_or_overtakes(
            steps in prop::collection::vec(0..20_u64, 1..60), service in 1..15_u64, seed: u64
        ) {
            let mut at = 0;
            let came: Vec<u64> = steps.iter().map(|step| { at += step; at }).collect();
            let turns = serve(&came, service);
            let found = arrivals(&turns, 0, seed);
            prop_assert!(found.is_sorted());
            prop_assert!(found.iter().zip(&turns).all(|(at, turn)| *at <= turn.began));
            prop_assert_eq!(found[0], came[0]);
        }
    }
}
