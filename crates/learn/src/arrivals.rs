//! When requests came, from when they began to be served.
//!
//! A program that is busy does not see who waits: the mark of a request is set when its turn comes. But who began right
//! after another, or right after a pause, had waited. Such requests came at some moment of the busy stretch, and the
//! trace does not say at which: their times are drawn evenly, so that each came after the one before it and before its
//! own turn (Gibbs sampling from a spread over the whole stretch; the seed decides). Where the kernel or a proxy has said when
//! a request came, that is when.

use neurogc_load::Chance;

/// How often all times are drawn anew, each between its neighbours.
const SWEEPS: usize = 20;

/// One turn: the earliest that its request can have come, and when it was served. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServiceTurn {
    pub(crate) earliest: u64,
    pub(crate) began: u64,
    /// When it came, where that was recorded.
    pub(crate) came: Option<u64>,
}

/// The times at which requests came.
pub(crate) fn arrivals(turns: &[ServiceTurn], seed: u64) -> Vec<u64> {
    let mut chance = Chance::new(seed);
    let mut came: Vec<u64> = Vec::with_capacity(turns.len());
    // A stretch goes on with each request that may have come before the turn of the one before.
    let mut before = 0;
    for stretch in turns.chunk_by(|one, next| next.earliest < one.began) {
        came.extend(spread(stretch, before, &mut chance));
        before = came.last().copied().unwrap_or(0);
    }
    let known = |index: usize| turns[index].came;
    for (index, came) in came.iter_mut().enumerate() {
        *came = known(index).unwrap_or(*came);
    }
    for _ in 0..SWEEPS {
        for index in (0..came.len()).rev().filter(|&index| known(index).is_none()) {
            let latest = came.get(index + 1).map_or(turns[index].began, |next| turns[index].began.min(*next));
            let before = index.checked_sub(1).map_or(0, |before| came[before]);
            let earliest = before.max(turns[index].earliest).min(latest);
            came[index] = earliest + ((latest - earliest) as f64 * chance.share()) as u64;
        }
    }
    came
}

/// Times to begin with, all over the stretch: a queue that is hundreds long would hardly move from where it began.
fn spread(stretch: &[ServiceTurn], before: u64, chance: &mut Chance) -> Vec<u64> {
    let (first, last) = (stretch[0].earliest.max(before), stretch[stretch.len() - 1].began);
    let mut times: Vec<u64> = stretch.iter().map(|_| first + (chance.share() * (last - first) as f64) as u64).collect();
    times.sort_unstable();
    times.iter().zip(stretch).map(|(time, turn)| turn.began.min(*time)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One server that serves all requests in turn.
    fn serve(came: &[u64], service: u64) -> Vec<ServiceTurn> {
        let mut free = 0;
        let turn = |at: &u64| {
            let began = free.max(*at);
            let turn = ServiceTurn { earliest: if free < *at { began } else { 0 }, began, came: None };
            free = began + service;
            turn
        };
        came.iter().map(turn).collect()
    }

    /// Independent clients, so many in a second.
    fn clients(rate: f64) -> Vec<u64> {
        let mut chance = Chance::new(3);
        let mut at = 0.0;
        let mut next = || {
            at += chance.exponential(rate) * 1e9;
            at as u64
        };
        (0..20_000).map(|_| next()).collect()
    }

    /// Shares of all waiting times, in milliseconds.
    fn waits(turns: &[ServiceTurn], came: &[u64]) -> [f64; 3] {
        let mut waits: Vec<u64> = turns.iter().zip(came).map(|(turn, at)| turn.began - at).collect();
        waits.sort_unstable();
        [0.5, 0.75, 0.95].map(|share| waits[(waits.len() as f64 * share) as usize] as f64 / 1e6)
    }

    fn check(came: &[u64], turns: &[ServiceTurn]) {
        let (real, found) = (waits(turns, came), waits(turns, &arrivals(turns, 1)));
        let near = real.iter().zip(&found).all(|(real, found)| (found - real).abs() < 0.15 * real + 0.5);
        assert!(near, "{found:?} for {real:?}");
    }

    #[test]
    fn waiting_times_are_found_again() {
        let came = clients(100.0);
        check(&came, &serve(&came, 6_000_000));
    }

    #[test]
    fn those_who_wait_for_a_long_pause_come_all_through_it() {
        // Every second the program stands still for a fifth of it.
        let came = clients(300.0);
        let (mut free, mut idle) = (0, 0);
        let turn = |at: &u64| {
            let mut began = free.max(*at);
            if began / 1_000_000_000 != free / 1_000_000_000 {
                began = began.max(began / 1_000_000_000 * 1_000_000_000 + 200_000_000);
            }
            // A request that is served at once shows that no other waits.
            idle = if began == *at { began } else { idle };
            let turn = ServiceTurn { earliest: idle, began, came: None };
            free = began + 2_000_000;
            turn
        };
        let turns: Vec<ServiceTurn> = came.iter().map(turn).collect();
        check(&came, &turns);
    }

    #[test]
    fn what_was_recorded_is_taken() {
        let came = clients(100.0);
        let mut turns = serve(&came, 9_500_000);
        for (index, (turn, at)) in turns.iter_mut().zip(&came).enumerate() {
            turn.came = (index % 4 != 3).then_some(*at);
        }
        let found = arrivals(&turns, 1);
        let known = found.iter().zip(&turns).filter(|(_, turn)| turn.came.is_some());
        assert!(known.into_iter().all(|(found, turn)| Some(*found) == turn.came));
        assert!(found.is_sorted(), "those between are between");
    }

    proptest! {
        #[test]
        fn no_request_comes_after_its_turn_or_overtakes(
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
