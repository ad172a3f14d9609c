//! By route: how many objects of a request become old, and what share of them dies.
//!
//! Collections count what becomes old of all requests together. Each route's part is found by stepwise regression: where more
//! has become old than the routes' means say, those that had requests are corrected, in proportion. So a route whose requests
//! keep more is told apart after some dozens of collections, without a mark at each object. All tables are of fixed size.

use std::time::Duration;

use super::Forecast;
use super::quantiles::{LEVELS, Quantiles};
use crate::observation::Generation;

/// Routes that are told apart, by number; all others are the first.
pub const MOST_ROUTES: usize = 64;

/// So many requests, and so much time, make one observation.
const FEWEST: f32 = 20.0;
const SHORTEST: Duration = Duration::from_millis(100);

/// How far an observation corrects the means: all the way at first, and then this part of it.
const STEP: f32 = 0.2;
/// The same for what dies, of which there are far fewer observations.
const STEP_DEAD: f32 = 0.4;

/// A route's rate follows the last second or so.
const RATE_TIME: f32 = 1.0;

/// How long a flight takes before one has shown it, and the shortest and longest time over which forecasts are compared with
/// what came. How much of it the latest flight decides.
const FLIGHT: Duration = Duration::from_millis(200);
const FLIGHTS: (Duration, Duration) = (SHORTEST, Duration::from_secs(2));
const FOLLOWS: f32 = 0.5;

/// Observations after which anything is foretold.
const FEWEST_OBSERVATIONS: u32 = 5;

/// Cycles after which it is known what dies.
const FEWEST_CYCLES: u32 = 2;

/// One route.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RouteRow {
    /// Objects of a request that become old, on average, and requests in a second.
    promoted: f32,
    rate: f32,
    /// The share of these that dies.
    dead: f32,
    /// Requests since the last observation, and objects that have become old since the last cycle.
    requests: f32,
    grown: f32,
}

/// A stretch as long as a flight: what was foretold for each second of it, and what has become old in it.
#[derive(Clone, Copy, Debug, Default)]
struct ForetoldSpan {
    began: Duration,
    foretold: f32,
    grown: f32,
}

/// What is known about the routes of a program.
#[derive(Clone, Debug)]
pub struct RouteTables {
    rows: [RouteRow; MOST_ROUTES],
    /// Requests of all routes so far, as the program counts them.
    counted: u64,
    /// When the last observation ended, and what has become old since.
    observed: Option<Duration>,
    grown: f32,
    /// What young collections have left.
    survivors: f32,
    observations: u32,
    cycles: u32,
    /// How long a flight takes, and the stretch of that length that is being compared.
    flight: Duration,
    span: ForetoldSpan,
    /// How many times as much becomes old in such a stretch as was foretold.
    surprise: Quantiles,
}

impl Default for RouteTables {
    fn default() -> Self {
        Self {
            rows: [RouteRow::default(); MOST_ROUTES],
            counted: 0,
            observed: None,
            grown: 0.0,
            survivors: 0.0,
            observations: 0,
            cycles: 0,
            flight: FLIGHT,
            span: ForetoldSpan::default(),
            surprise: Quantiles::default(),
        }
    }
}

impl RouteTables {
    /// So many requests of a route have ended.
    pub fn ended(&mut self, route: u8, requests: u32) {
        self.rows[usize::from(route) % MOST_ROUTES].requests += requests as f32;
        self.counted += u64::from(requests);
    }

    /// The program has served so many requests. Those whose route was not told count for the first one.
    pub fn served(&mut self, requests: u64) {
        let more = requests.saturating_sub(self.counted);
        self.rows[0].requests += more as f32;
        self.counted = self.counted.max(requests);
    }

    /// A collection has left so many more young objects than it has freed. What a young one leaves is old only after the next one of
    /// the middle generation, which frees some of it: then that number is below zero.
    pub fn collected(&mut self, now: Duration, generation: Generation, left: f64) {
        match generation {
            Generation::Young => self.survivors += left as f32,
            Generation::Middle => self.all_became_old(now, left),
            Generation::Full => self.survivors = 0.0,
        }
    }

    /// So many young objects are old now, and all that young collections have left, too.
    pub fn all_became_old(&mut self, now: Duration, young: f64) {
        let survivors = std::mem::take(&mut self.survivors);
        self.became_old(now, f64::from(survivors) + young);
    }

    /// So many objects have become old.
    fn became_old(&mut self, now: Duration, objects: f64) {
        self.grown += objects as f32;
        self.span.grown += objects as f32;
        self.compare(now);
        let Some(observed) = self.observed else {
            // What came before the first one belongs to no request.
            self.start(now);
            return;
        };
        let lasted = now.saturating_sub(observed);
        let requests: f32 = self.rows.iter().map(|row| row.requests).sum();
        if requests >= FEWEST && lasted >= SHORTEST && self.grown >= 0.0 {
            self.observe(lasted.as_secs_f32());
            self.start(now);
        } else if lasted > SHORTEST * 100 {
            // A program that does next to nothing: what becomes old is not that of its requests.
            let part = (-lasted.as_secs_f32() / RATE_TIME).exp();
            self.rows.iter_mut().for_each(|row| row.rate *= part);
            self.start(now);
            self.span = ForetoldSpan { began: now, ..ForetoldSpan::default() };
        }
    }

    /// A snapshot was walked for so long.
    pub fn flown(&mut self, flight: Duration) {
        let flight = flight.clamp(FLIGHTS.0, FLIGHTS.1).as_secs_f32();
        let known = self.flight.as_secs_f32();
        self.flight = Duration::from_secs_f32(known + FOLLOWS * (flight - known));
    }

    /// Where a stretch as long as a flight is over: how far off its forecast was. The next one begins.
    fn compare(&mut self, now: Duration) {
        let span = self.span;
        let lasted = now.saturating_sub(span.began);
        if lasted < self.flight {
            return;
        }
        let said = span.foretold * lasted.as_secs_f32();
        if said >= 1.0 && lasted < 2 * FLIGHTS.1 {
            self.surprise.add(span.grown.max(0.0) / said);
        }
        let foretold = if self.observations >= FEWEST_OBSERVATIONS { self.mean() } else { 0.0 };
        self.span = ForetoldSpan { began: now, foretold, grown: 0.0 };
    }

    /// Objects that become old in a second, on average.
    fn mean(&self) -> f32 {
        self.rows.iter().map(|row| row.rate * row.promoted).sum()
    }

    fn start(&mut self, now: Duration) {
        self.observed = Some(now);
        self.grown = 0.0;
        self.rows.iter_mut().for_each(|row| row.requests = 0.0);
    }

    fn observe(&mut self, seconds: f32) {
        let grown = self.grown;
        let said: f32 = self.rows.iter().map(|row| row.requests * row.promoted).sum();
        self.observations = self.observations.saturating_add(1);
        let squares: f32 = self.rows.iter().map(|row| row.requests * row.requests).sum();
        let step = STEP.max(1.0 / self.observations as f32);
        let fresh = (1.0 - (-seconds / RATE_TIME).exp()).max(1.0 / self.observations as f32);
        for row in &mut self.rows {
            row.promoted = (row.promoted + step * (grown - said) * row.requests / squares.max(1.0)).max(0.0);
            row.rate += fresh * (row.requests / seconds - row.rate);
        }
        // What has become old is shared out by the means, so that the parts make the whole.
        let said: f32 = self.rows.iter().map(|row| row.requests * row.promoted).sum();
        for row in &mut self.rows {
            row.grown += if said > 0.0 { grown * row.requests * row.promoted / said } else { 0.0 };
        }
    }

    /// A cycle has looked at everything that had become old, and found so many dead.
    pub fn cycle(&mut self, found: f64) {
        let found = found.max(0.0) as f32;
        let said: f32 = self.rows.iter().map(|row| row.grown * row.dead).sum();
        let squares: f32 = self.rows.iter().map(|row| row.grown * row.grown).sum();
        self.cycles = self.cycles.saturating_add(1);
        let step = STEP_DEAD.max(1.0 / self.cycles as f32);
        for row in &mut self.rows {
            row.dead = (row.dead + step * (found - said) * row.grown / squares.max(1.0)).clamp(0.0, 1.0);
            row.grown = 0.0;
        }
    }

    /// Objects that become old in a second of a flight, at six levels of certainty; nothing before enough is known.
    #[must_use]
    pub fn promoted(&self) -> Option<[f64; LEVELS.len()]> {
        let mean = self.mean();
        self.surprise.values().map(|values| values.map(|factor| f64::from(mean * factor.max(0.0))))
    }

    /// Objects of a request of a route that become old, on average, and the share of them that dies.
    #[must_use]
    pub fn route(&self, route: u8) -> (f64, f64) {
        let row = &self.rows[usize::from(route) % MOST_ROUTES];
        (f64::from(row.promoted), f64::from(row.dead))
    }

    /// What the pacer is told.
    #[must_use]
    pub fn forecast(&self) -> Option<Forecast> {
        let promoted = *self.promoted()?.last()?;
        let grown: f32 = self.rows.iter().map(|row| row.grown).sum();
        let dead: f32 = self.rows.iter().map(|row| row.grown * row.dead).sum();
        let known = self.cycles >= FEWEST_CYCLES && grown > 0.0;
        Some(Forecast { promoted, dead: known.then(|| f64::from((dead / grown).clamp(0.0, 1.0))) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of routes, as (objects that become old, share that dies), each chosen with the same chance; a collection for
    /// every ten. Gives the tables after so many cycles.
    fn play(routes: &[(f64, f64)], cycles: usize) -> RouteTables {
        let mut tables = RouteTables::default();
        let mut state = 5_u64;
        let mut now = Duration::ZERO;
        for _ in 0..cycles {
            let mut dead = 0.0;
            for _ in 0..200 {
                let mut grown = 0.0;
                for _ in 0..10 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let route = (state >> 33) as usize % routes.len();
                    // Half as much more or less.
                    let objects = routes[route].0 * (0.5 + ((state >> 20) % 1000) as f64 / 1000.0);
                    grown += objects;
                    dead += objects * routes[route].1;
                    tables.ended(route as u8, 1);
                }
                now += Duration::from_millis(25);
                tables.became_old(now, grown);
            }
            tables.cycle(dead);
        }
        tables
    }

    #[test]
    fn routes_are_told_apart() {
        let routes = [(0.0, 0.0), (200.0, 1.0), (20.0, 0.1), (1_000.0, 0.0)];
        let tables = play(&routes, 10);
        for (index, (objects, _)) in routes.iter().enumerate() {
            let found = tables.route(index as u8).0;
            assert!((found - objects).abs() < 0.15 * objects + 40.0, "{index}: {found} for {objects}");
        }
    }

    #[test]
    fn what_will_become_old_is_foretold() {
        let routes = [(100.0, 0.9), (300.0, 0.9)];
        let mut tables = play(&routes, 3);
        // Four hundred requests a second, with 200 objects each.
        let [low, .., middle_high, high, highest] = tables.promoted().unwrap_or_default();
        assert!(low > 50_000.0 && low < 80_000.0 && middle_high > 80_000.0, "{low} {middle_high}");
        // In the time of a flight there are about a hundred requests: their sum varies by a sixteenth.
        assert!(highest >= high && highest < 110_000.0, "{high} {highest}");
        assert_eq!(tables.forecast().and_then(|forecast| forecast.dead), None, "nothing has become old since");
        for _ in 0..10 {
            (0..30).for_each(|index| tables.ended(index % 2, 1));
            tables.became_old(Duration::from_secs(1_000), 6_000.0);
        }
        (0..30).for_each(|index| tables.ended(index % 2, 1));
        tables.became_old(Duration::from_secs(1_001), 6_000.0);
        let dead = tables.forecast().and_then(|forecast| forecast.dead).unwrap_or_default();
        assert!((dead - 0.9).abs() < 0.05, "{dead}");
    }

    #[test]
    fn what_middle_collections_free_of_young_survivors_was_never_old() {
        let mut tables = RouteTables::default();
        for tick in 1..=2_000_u64 {
            tables.served(tick * 10);
            // Each young collection leaves 200; the tenth is a middle one, which frees 1,500 of what these have left.
            let now = Duration::from_millis(25 * tick);
            if tick % 10 == 0 {
                tables.collected(now, Generation::Middle, 200.0 - 1_500.0);
            } else {
                tables.collected(now, Generation::Young, 200.0);
            }
        }
        // 500 of a hundred requests.
        let found = tables.route(0).0;
        assert!((found - 5.0).abs() < 0.5, "{found}");
    }

    #[test]
    fn forecasts_of_long_flights_are_surer_than_those_of_short_ones() {
        let highest = |flight: u64| {
            let mut tables = RouteTables::default();
            let mut state = 5_u64;
            (0..40).for_each(|_| tables.flown(Duration::from_millis(flight)));
            for tick in 1..=8_000_u64 {
                tables.served(tick * 10);
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                tables.became_old(Duration::from_millis(25 * tick), if (state >> 60) == 0 { 16_000.0 } else { 0.0 });
            }
            // A thousand in 25 ms, on average.
            tables.promoted().unwrap_or_default()[5] / 40_000.0
        };
        let (short, long) = (highest(100), highest(2_000));
        assert!(long < 0.7 * short && long > 1.0, "{short} {long}");
    }

    #[test]
    fn requests_without_a_route_are_the_first_ones() {
        let mut tables = RouteTables::default();
        for tick in 1..=100_u64 {
            tables.served(tick * 10);
            tables.became_old(Duration::from_millis(50 * tick), 1_000.0);
        }
        assert!((tables.route(0).0 - 100.0).abs() < 5.0, "{:?}", tables.route(0));
        assert!(size_of::<RouteTables>() < 4 * 1024);
    }

    #[test]
    fn a_program_that_changes_is_followed() {
        let mut tables = play(&[(100.0, 1.0)], 3);
        let mut now = Duration::from_secs(100);
        for _ in 0..60 {
            (0..25).for_each(|_| tables.ended(0, 1));
            now += Duration::from_millis(100);
            tables.became_old(now, 25.0 * 400.0);
        }
        assert!((tables.route(0).0 - 400.0).abs() < 40.0, "{:?}", tables.route(0));
    }
}
