//! When requests came, from when they began to be served.
//!
//! A program that is busy does not see who waits: the mark of a request is set when its turn comes. But who began right
//! after another, or right after a pause, had waited. Such requests came at some moment of the busy stretch, and as
//! far as anybody can tell at any moment of it: their times are drawn evenly, so that each came after the one before
//! it and before its own turn (Gibbs sampling; the seed decides).

use neurogc_load::Chance;

/// How often all times are drawn anew, each between its neighbours.
const SWEEPS: usize = 20;

/// One turn: the earliest that its request can have come, and when it was served. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) earliest: u64,
    pub(crate) began: u64,
}

/// The times at which requests came.
pub(crate) fn arrivals(turns: &[Turn], seed: u64) -> Vec<u64> {
    let mut chance = Chance::new(seed);
    let mut came: Vec<u64> = turns.iter().map(|turn| turn.began).collect();
    for _ in 0..SWEEPS {
        for index in (0..came.len()).rev() {
            let latest = came.get(index + 1).map_or(turns[index].began, |next| turns[index].began.min(*next));
            let before = index.checked_sub(1).map_or(0, |before| came[before]);
            let earliest = before.max(turns[index].earliest).min(latest);
            came[index] = earliest + ((latest - earliest) as f64 * chance.share()) as u64;
        }
    }
    came
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One who serves whoever comes, in turn.
    fn serve(came: &[u64], service: u64) -> Vec<Turn> {
        let mut free = 0;
        let turn = |at: &u64| {
            let began = free.max(*at);
            let turn = Turn { earliest: if free < *at { began } else { 0 }, began };
            free = began + service;
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
        let (real, found) = (mean(&came), mean(&arrivals(&turns, 1)));
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
            let found = arrivals(&turns, seed);
            prop_assert!(found.is_sorted());
            prop_assert!(found.iter().zip(&turns).all(|(at, turn)| *at <= turn.began));
            prop_assert_eq!(found[0], came[0]);
        }
    }
}
