//! The cheapest way to free everything in the simpler problem: dynamic programming over the turns.

use super::timeline::Timeline;
use crate::line::Line;
use crate::model::ObjectSizes;

/// What stops cost at least, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopCosts {
    /// A young, a middle and a full collection that frees something that died late.
    pub(super) sweeps: [f64; 3],
    /// The clone of a snapshot by resident bytes, and what objects weigh; nothing where there are no snapshots.
    pub(super) clone: Option<(Line, ObjectSizes)>,
    /// Its walk.
    pub(super) walk: f64,
    /// How much longer work takes meanwhile, as a share.
    pub(super) slowdown: f64,
    /// Each object that is freed.
    pub(super) each: f64,
    /// Births between that of what dies late and its death.
    pub(super) lag: f64,
}

/// The simpler problem, with prices in milliseconds of cost.
pub(super) struct Optimum<'t> {
    timeline: &'t Timeline,
    stops: StopCosts,
    /// What holding an object for a nanosecond costs.
    hold: f64,
    /// What delaying each turn by a nanosecond costs, beyond what its own garbage takes of it; the sum before each; and the
    /// lowest of a turn that counts.
    late: Vec<f64>,
    late_before: Vec<f64>,
    least_late: f64,
    /// Objects of each turn that die with it, and late.
    young: Vec<f64>,
    old: Vec<f64>,
    /// Time at work and idle, up to the end of each turn.
    worked: Vec<f64>,
    idled: Vec<f64>,
    /// After each turn, the next before which the program idles.
    stretches: Vec<usize>,
}

impl<'t> Optimum<'t> {
    pub(super) fn new(timeline: &'t Timeline, stops: StopCosts, delay: f64, hold: f64) -> Self {
        let turns = &timeline.turns;
        let (mut late, mut young, mut old) = (Vec::new(), Vec::new(), Vec::new());
        for turn in turns {
            let delay = if turn.counts { delay } else { 0.0 };
            let price = hold * (turn.young + turn.old);
            let share = if !timeline.queues || price <= delay { 1.0 } else { delay / price };
            late.push(if timeline.queues { delay - share * price } else { delay });
            young.push(share * turn.young);
            old.push(share * turn.old);
        }
        let counted = late.iter().zip(turns).filter(|(_, turn)| turn.counts);
        let least_late = counted.map(|(late, _)| *late).fold(f64::INFINITY, f64::min);
        let mut stretches = vec![turns.len(); turns.len()];
        for index in (1..turns.len()).rev() {
            stretches[index - 1] = if turns[index].idle > 0.0 { index } else { stretches[index] };
        }
        Self {
            timeline,
            stops,
            hold,
            late_before: sums(late.iter().copied()),
            late,
            least_late: if least_late.is_finite() { least_late } else { 0.0 },
            young,
            old,
            worked: sums(turns.iter().map(|turn| turn.service)).split_off(1),
            idled: sums(turns.iter().map(|turn| turn.idle)).split_off(1),
            stretches,
        }
    }

    /// The least that anything costs.
    pub(super) fn cost(&self) -> f64 {
        self.dying_young() + self.dying_late()
    }

    /// What a stop after a turn costs in delay, less what the walk of a snapshot may claim of it.
    fn delay(&self, after: usize, stop: f64) -> f64 {
        let turns = &self.timeline.turns;
        let Some(next) = turns.get(after + 1) else { return 0.0 };
        let claimed = self.claimed(after + 1) * (stop - next.idle).max(0.0);
        if !self.timeline.queues {
            return self.late[after + 1] * (stop - next.idle).max(0.0) - claimed;
        }
        let (mut sum, mut left, mut at) = (0.0, stop, after + 1);
        while at < turns.len() {
            left -= turns[at].idle;
            if left <= 0.0 {
                break;
            }
            let end = self.stretches[at];
            sum += left * (self.late_before[end] - self.late_before[at]);
            at = end;
        }
        (sum - claimed).max(0.0)
    }

    /// What each nanosecond of a stop after a turn costs, however short it is.
    fn slope(&self, after: usize) -> f64 {
        let turns = &self.timeline.turns;
        let Some(next) = turns.get(after + 1) else { return 0.0 };
        if next.idle > 0.0 {
            return 0.0;
        }
        let end = if self.timeline.queues { self.stretches[after + 1] } else { after + 2 };
        (self.late_before[end] - self.late_before[after + 1] - self.claimed(after + 1)).max(0.0)
    }

    /// What a walk may claim of each nanosecond by which a stop delays a turn.
    fn claimed(&self, turn: usize) -> f64 {
        let share = self.stops.slowdown / (1.0 + self.stops.slowdown);
        if self.timeline.turns[turn].counts { share * self.least_late } else { 0.0 }
    }

    /// What a walk costs that begins between the end of a turn and that of the next: all turns after that one are slowed down
    /// that are over before it ends, had no other stop come.
    fn walk(&self, after: usize) -> f64 {
        let slowness = 1.0 + self.stops.slowdown;
        let wall = |turn: usize| slowness * self.worked[turn] + self.idled[turn];
        let from = after + 2;
        let turns = &self.timeline.turns;
        if !turns.get(after + 1).is_some_and(|turn| turn.counts) || self.stops.slowdown == 0.0 {
            return 0.0;
        }
        let ends = wall(after) + self.stops.walk;
        // The first that is not over by then.
        let (mut reached, mut high) = (from.min(turns.len()), turns.len());
        while reached < high {
            let middle = usize::midpoint(reached, high);
            if wall(middle) <= ends { reached = middle + 1 } else { high = middle }
        }
        if reached <= from {
            return 0.0;
        }
        (self.worked[reached - 1] - self.worked[after + 1]) * self.stops.slowdown * self.least_late
    }

    /// Objects that die with their request: each is held until it is freed, and costs its own part of a stop.
    fn dying_young(&self) -> f64 {
        let prices = self.prices(0.0);
        let held = self.young.iter().zip(&prices).zip(&self.timeline.turns);
        held.map(|((objects, price), turn)| objects * (price - self.hold * turn.ends)).sum()
    }

    /// The least that it takes to hold an object from the beginning of time and free it after a turn or later, where it is held
    /// for so long after that turn.
    fn prices(&self, held: f64) -> Vec<f64> {
        let turns = &self.timeline.turns;
        let end = turns.last().map_or(0.0, |last| last.ends);
        let mut least = self.hold * end;
        let mut prices = vec![0.0; turns.len()];
        for (index, turn) in turns.iter().enumerate().rev() {
            let price = self.hold * (turn.ends + held).min(end) + self.stops.each * self.slope(index);
            least = least.min(price);
            prices[index] = least;
        }
        prices
    }

    /// What each way to free what died late costs after a turn, beside its objects: a young, a middle, and a full collection
    /// or a snapshot.
    fn ways(&self, after: usize) -> [f64; 3] {
        let [young, middle, full] = self.stops.sweeps.map(|stop| self.delay(after, stop));
        let snapshot = self.stops.clone.map(|(clone, memory)| {
            let resident = memory.base + memory.object * self.timeline.turns[after].alive;
            self.delay(after, clone.at(resident.max(0.0)).max(0.0)) + self.walk(after)
        });
        [young, middle, full.min(snapshot.unwrap_or(f64::INFINITY))]
    }

    /// How long what died late is held by whatever frees it.
    fn held_at_least(&self) -> f64 {
        let least = self.stops.sweeps.into_iter().fold(f64::INFINITY, f64::min);
        if self.stops.clone.is_some() { least.min(self.stops.walk) } else { least }
    }

    /// Objects that die late: whatever frees them frees all, and costs something by itself.
    fn dying_late(&self) -> f64 {
        let turns = &self.timeline.turns;
        let prices = self.prices(self.held_at_least());
        let end = turns.last().map_or(0.0, |last| last.ends);
        // Objects up to the end of a turn, and what it would cost to hold them from the beginning of time to their death.
        let (mut objects, mut born) = (0.0, 0.0);
        let start = Envelope::starting();
        let (mut after_any, mut after_young, mut long_after) = (start.clone(), Envelope::default(), start);
        let mut least = Ending { objects: 0.0, cost: 0.0, born: 0.0 };
        let mut done: Vec<Ending> = Vec::with_capacity(turns.len());
        let (mut far, mut best) = (0, f64::INFINITY);
        let mut endings = vec![least];
        for (index, turn) in turns.iter().enumerate() {
            objects += self.old[index];
            born += self.hold * self.old[index] * turn.ends;
            let latest = turns.get(index + 1).map_or(turn.clock, |next| next.clock);
            while far < done.len() && latest - turns[far].clock >= self.stops.lag {
                long_after.add(done[far]);
                far += 1;
            }
            let price = prices[index];
            let [young, middle, other] = self.ways(index);
            let from = |envelope: &mut Envelope| envelope.least(price);
            let far_cost = from(&mut long_after);
            let base = price * objects - born;
            let by_young = young + far_cost + base;
            let by_middle = middle + far_cost.min(from(&mut after_young)) + base;
            let by_other = other + from(&mut after_any) + base;
            let of = |cost: f64| Ending { objects, cost, born };
            least = of(by_young.min(by_middle).min(by_other));
            after_young.add(of(by_young));
            after_any.add(least);
            done.push(least);
            endings.push(least);
        }
        for ending in endings {
            let left = self.hold * end * (objects - ending.objects) - (born - ending.born);
            best = best.min(ending.cost + left);
        }
        best
    }
}

/// All is freed up to a turn, at a cost.
#[derive(Clone, Copy, Debug)]
struct Ending {
    objects: f64,
    cost: f64,
    born: f64,
}

/// The least of lines of falling slope, asked at rising places.
#[derive(Clone, Debug, Default)]
struct Envelope {
    /// What is subtracted for each unit of price, and what is left.
    lines: Vec<(f64, f64)>,
    at: usize,
}

impl Envelope {
    /// Nothing has been freed, at no cost.
    fn starting() -> Self {
        Self { lines: vec![(0.0, 0.0)], at: 0 }
    }

    fn add(&mut self, ending: Ending) {
        let new = (ending.objects, ending.cost + ending.born);
        if !new.1.is_finite() {
            return;
        }
        while let Some(&last) = self.lines.last() {
            if last.0 == new.0 {
                if last.1 <= new.1 {
                    return;
                }
            } else if let Some(&before) = self.lines.len().checked_sub(2).and_then(|at| self.lines.get(at)) {
                // The last is least nowhere, if the new one meets the one before it first.
                let meets = (new.1 - before.1) * (last.0 - before.0) <= (last.1 - before.1) * (new.0 - before.0);
                if !meets {
                    break;
                }
            } else {
                break;
            }
            self.lines.pop();
        }
        self.lines.push(new);
        self.at = self.at.min(self.lines.len() - 1);
    }

    fn least(&mut self, price: f64) -> f64 {
        let value = |line: &(f64, f64)| line.1 - price * line.0;
        while self.lines.get(self.at + 1).is_some_and(|next| value(next) <= value(&self.lines[self.at])) {
            self.at += 1;
        }
        self.lines.get(self.at).map_or(f64::INFINITY, value)
    }
}

/// Running sums, beginning with zero.
fn sums(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let rest = values.map(|value| {
        sum += value;
        sum
    });
    std::iter::once(0.0).chain(rest).collect()
}
