//! How long objects live.

use neurogc_wire::stop::StopKind;

use super::Unseen;
use super::seen::{HeapThen, RecordedStop, TraceContents};
use crate::line::median;
use crate::model::Lifetimes;

/// What dies within the allocations of so many requests dies with its own.
const SOON: f64 = 20.0;

impl TraceContents {
    pub(super) fn lifetimes(&self, assumed: &mut Vec<Unseen>) -> Lifetimes {
        // Where collections are as small as a few requests, the middle ones find the rest of what has died young: young
        // ones in the middle of a request leave what that still holds.
        let small = SOON * self.objects.iter().sum::<f64>() / self.served.len() as f64;
        let soon = |stop: &RecordedStop, heap: &HeapThen| {
            stop.kind == StopKind::Young || (stop.kind == StopKind::Middle && heap.looked <= small)
        };
        let (mut gathered, mut freed, mut promoted, mut in_hand, mut middles) = (0.0, 0.0, 0.0, 0.0, 0.0_f64);
        for (stop, heap) in self.in_window().filter_map(|stop| Some((stop, stop.heap?))) {
            if soon(stop, &heap) {
                gathered += heap.gathered;
                freed += stop.freed;
            }
            promoted += heap.promoted;
            if soon(stop, &heap) && stop.kind == StopKind::Middle {
                in_hand += self.in_hand(stop.at);
                middles += 1.0;
            }
        }
        let by_reference = self.by_reference();
        // What is in the hands of a request when it becomes old dies old, and says nothing about what dies young.
        let done = (gathered - in_hand).max(freed);
        let die_young = if done > 0.0 { freed / done } else { 0.0 };
        // What has been freed of the old so far, by what has been allocated so far.
        let (mut clock, mut old, mut was_in_hand) = (0.0, 0.0, 0.0);
        let mut points = Vec::new();
        let mut flights = self.flights.iter().peekable();
        for stop in self.in_window() {
            while let Some(flight) = flights.next_if(|flight| flight.0 <= stop.at) {
                if clock > 0.0 {
                    old += (flight.4 - die_young * std::mem::take(&mut was_in_hand)).max(0.0);
                    points.push((clock, old));
                }
            }
            let Some(heap) = stop.heap else { continue };
            clock += heap.gathered;
            if stop.kind == StopKind::Middle {
                was_in_hand += self.in_hand(stop.at);
            }
            if !soon(stop, &heap) {
                let young =
                    heap.gathered + if stop.kind == StopKind::Full { std::mem::take(&mut was_in_hand) } else { 0.0 };
                old += (stop.freed - die_young * young).max(0.0);
            }
            if stop.kind == StopKind::Full {
                points.push((clock, old));
            }
        }
        let most = (1.0 - die_young - by_reference).max(0.0);
        points.retain(|(_, old)| *old > 0.0);
        let Some(&(last_clock, last_old)) = points.last() else {
            assumed.push(Unseen::DyingLate);
            return Lifetimes { die_young, by_reference, held: 0.0, die_old: 0.0, lag: 0.0 };
        };
        // With one point only, everything that survives is taken to die some time.
        let (first_clock, first_old) = points[0];
        let slope = if points.len() > 1 { (last_old - first_old) / (last_clock - first_clock) } else { most };
        let die_old = slope.clamp(0.0, most);
        let lag = median(points.iter().map(|(clock, old)| clock - old / die_old.max(1e-9))).max(0.0);
        if lag >= small || middles == 0.0 {
            return Lifetimes { die_young, by_reference, held: 0.0, die_old, lag };
        }
        // They died with their requests, and were only found late. What has become old besides those who stay, and
        // besides what the request at work has in hand, is held by those that wait for others.
        let die_young = die_young + die_old;
        let stay = (1.0 - die_young - by_reference).max(0.0) * gathered;
        let held = (promoted - stay - in_hand).max(0.0) / middles;
        Lifetimes { die_young, by_reference, held, die_old: 0.0, lag: 0.0 }
    }

    /// The share of objects that went without any collection: what gathered between full collections, which know how many
    /// objects there are, and was neither freed by collections nor is there.
    fn by_reference(&self) -> f64 {
        let (mut first, mut last, mut gathered, mut freed) = (None, None, 0.0, 0.0);
        let (mut since, mut freed_since) = (0.0, 0.0);
        for (stop, heap) in self.in_window().filter_map(|stop| Some((stop, stop.heap?))) {
            since += heap.gathered;
            freed_since += stop.freed;
            if stop.kind == StopKind::Full {
                if first.is_some() {
                    gathered += since;
                    freed += freed_since;
                }
                first = first.or(Some(heap.tenured));
                last = Some(heap.tenured);
                (since, freed_since) = (0.0, 0.0);
            }
        }
        let (Some(first), Some(last)) = (first, last) else { return 0.0 };
        if gathered > 0.0 { ((gathered - freed - (last - first)) / gathered).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Objects that the request at work has allocated so far: half of its own, at a collection that they brought about.
    fn in_hand(&self, at: u64) -> f64 {
        let last = self.served.partition_point(|served| served.began <= at).checked_sub(1);
        last.filter(|&last| self.served[last].ended > at && !self.served[last].shared)
            .map_or(0.0, |last| self.objects[last] / 2.0)
    }
}
