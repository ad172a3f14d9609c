//! What collections cost, and what objects weigh.

use neurogc_wire::stop::StopKind;

use super::Unseen;
use super::seen::{RecordedStop, TraceContents};
use crate::line::{Line, median};
use crate::machine::PAGE;
use crate::model::{Costs, Disturbed, FEW, ObjectSizes, Sweep};

/// What the kernel takes to copy a page.
const COPY_NS: f64 = 5_000.0;

/// A heap that grows by less than this share says nothing about the bytes of an object.
const GROWTH: f64 = 0.02;

/// No object weighs less, in bytes.
const LIGHTEST: f64 = 16.0;

impl TraceContents {
    /// What collections cost here, and where there were none, in other traces.
    pub(super) fn costs(&self, others: &[Self], busy: f64, assumed: &mut Vec<Unseen>) -> Costs {
        let usual = Costs::default();
        let points = StopKind::GENERATIONS.map(|kind| self.sweeps(kind, others));
        let through = |kind: usize, usual: Sweep, what: Unseen, assumed: &mut Vec<Unseen>| {
            Sweep::through(&points[kind]).unwrap_or_else(|| {
                assumed.push(what);
                usual
            })
        };
        let young = through(0, usual.young, Unseen::Young, assumed);
        let middle = through(1, young, Unseen::Middle, assumed);
        let full = through(2, usual.full, Unseen::Full, assumed);
        // What it costs to free an object is seen where most were freed.
        let sum = |kind: usize, of: fn(&(f64, f64, f64)) -> f64| points[kind].iter().map(of).sum::<f64>();
        let freed = [0, 1, 2].map(|kind| sum(kind, |point| point.1));
        let sweeps = [young, middle, full];
        let most = (0..3).max_by(|&a, &b| freed[a].total_cmp(&freed[b])).unwrap_or(0);
        let [young, middle, full] = [0, 1, 2].map(|kind| {
            let seen = points[kind].is_empty() || freed[kind] >= 0.01 * sum(kind, |point| point.0);
            if seen { sweeps[kind] } else { Sweep { freed: sweeps[most].freed, ..sweeps[kind] } }
        });
        let all = || std::iter::once(self).chain(others);
        let reap = all().find_map(Self::reap).unwrap_or_else(|| {
            assumed.push(Unseen::Reap);
            usual.reap
        });
        let clone = all().find_map(Self::clone_cost).unwrap_or_else(|| {
            assumed.push(Unseen::Clone);
            usual.clone
        });
        let costs = Costs { young, middle, full, clone, reap, ..usual };
        all().find_map(|seen| seen.walks(costs, busy)).unwrap_or_else(|| {
            assumed.push(Unseen::Walk);
            costs
        })
    }

    /// Objects looked at, objects freed, and pauses of a kind of collection. Where there were few, also those of others;
    /// and what was before the first request is better than nothing.
    fn sweeps(&self, kind: StopKind, others: &[Self]) -> Vec<(f64, f64, f64)> {
        let of = |stop: &RecordedStop| stop.heap.map(|heap| (heap.looked, stop.freed, stop.pause as f64));
        let after = |seen: &Self, from: u64| -> Vec<(f64, f64, f64)> {
            let stops = seen.stops.iter().filter(|stop| stop.kind == kind && stop.at >= from);
            undisturbed(stops.filter_map(of).collect())
        };
        let mut points = after(self, self.window.0);
        if points.len() < FEW {
            points.extend(others.iter().flat_map(|other| after(other, other.window.0)));
        }
        if points.is_empty() { after(self, 0) } else { points }
    }

    fn reap(&self) -> Option<Line> {
        let slices = self.stops.iter().filter(|stop| stop.kind == StopKind::Reap);
        Line::through(&slices.map(|stop| (stop.freed, stop.pause as f64)).collect::<Vec<_>>())
    }

    fn clone_cost(&self) -> Option<Line> {
        let resident = |at: u64| self.looks.iter().rev().find(|look| look.0 <= at).map_or(0.0, |look| look.1);
        let clones = self.stops.iter().filter(|stop| stop.kind == StopKind::Clone);
        let each: Vec<f64> = clones.map(|stop| stop.pause as f64 / resident(stop.at).max(1.0)).collect();
        (!each.is_empty()).then(|| Line { base: 0.0, each: median(each) })
    }

    fn walks(&self, costs: Costs, busy: f64) -> Option<Costs> {
        let flights: Vec<_> = self.flights.iter().filter(|flight| flight.3 > 0.0 && flight.1 > 0.0).collect();
        if flights.is_empty() {
            return None;
        }
        let walk = Line { base: 0.0, each: median(flights.iter().map(|flight| flight.1 / flight.3)) };
        let slow = flights.iter().map(|flight| flight.2 * COPY_NS / (flight.1 * busy.max(0.05)));
        let copied = median(flights.iter().map(|flight| flight.2 * PAGE / flight.3));
        Some(Costs { walk, slowdown: median(slow).min(1.0), copied, ..costs })
    }

    /// Resident memory follows the objects that there are, and those that there have been.
    pub(super) fn memory(&self, assumed: &mut Vec<Unseen>) -> ObjectSizes {
        let usual = ObjectSizes::default();
        let mut stops = self.stops.iter().filter_map(|stop| Some((stop.at, stop.heap?.left))).peekable();
        let (mut objects, mut most) = (0.0, 0.0_f64);
        let mut points = Vec::new();
        for &(at, resident, _) in &self.looks {
            while let Some((_, left)) = stops.next_if(|stop| stop.0 <= at) {
                objects = left;
                most = most.max(left);
            }
            if at >= self.window.0 {
                points.push((objects, most, resident));
            }
        }
        // Least squares of resident memory by the most objects so far, and by how many fewer there are now.
        let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len().max(1) as f64;
        let (most_mean, fewer_mean, resident_mean) = (mean(|it| it.1), mean(|it| it.1 - it.0), mean(|it| it.2));
        let [mut mm, mut ff, mut mf, mut mr, mut fr] = [0.0; 5];
        for (objects, most, resident) in &points {
            let (m, f, r) = (most - most_mean, most - objects - fewer_mean, resident - resident_mean);
            mm += m * m;
            ff += f * f;
            mf += m * f;
            mr += m * r;
            fr += f * r;
        }
        let spread = mm * ff - mf * mf;
        let told_apart = spread > 0.01 * mm * ff;
        let object = if told_apart { (mr * ff - fr * mf) / spread } else { mr / mm };
        let drop = if told_apart { (mr * mf - fr * mm) / spread } else { 0.0 };
        if most - points.first().map_or(0.0, |first| first.1) < GROWTH * most || object.is_nan() || object < LIGHTEST {
            assumed.push(Unseen::Object);
            return ObjectSizes { base: resident_mean - usual.object * most_mean, ..usual };
        }
        let base = resident_mean - object * most_mean + drop * fewer_mean;
        ObjectSizes { base, object, returned: (drop / object).clamp(0.0, 1.0) }
    }

    /// How far each pause was from what its cost says: the machine, and a heap whose objects lie ever less in order. Of a
    /// kind that was not seen here, how far it was in another trace.
    pub(super) fn disturbed(&self, others: &[Self], costs: &Costs) -> Disturbed {
        let mut disturbed = Disturbed::over(self.window);
        for (kind, sweep) in StopKind::GENERATIONS.into_iter().zip([costs.young, costs.middle, costs.full]) {
            let of_kind = |seen: &Self| seen.in_window().any(|stop| stop.kind == kind);
            let Some(seen) = std::iter::once(self).chain(others).find(|seen| of_kind(seen)) else { continue };
            for (stop, heap) in seen.in_window().filter_map(|stop| Some((stop, stop.heap?))) {
                let expected = sweep.at(heap.looked, stop.freed);
                if stop.kind == kind && expected > 0.0 {
                    let at = self.window.0 + (stop.at - seen.window.0);
                    disturbed.add(kind, at, (stop.pause as f64 / expected).clamp(0.2, 5.0));
                }
            }
        }
        disturbed
    }
}

/// The points without the highest twentieth for their place: pauses that something else made longer.
fn undisturbed(mut points: Vec<(f64, f64, f64)>) -> Vec<(f64, f64, f64)> {
    let each = |point: &(f64, f64, f64)| point.2 / point.0.max(1.0);
    points.sort_unstable_by(|a, b| each(a).total_cmp(&each(b)));
    points.truncate(points.len() - points.len() / 20);
    points
}
