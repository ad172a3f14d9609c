//! The objects that each request has allocated.

use super::seen::{ServedRequest, TraceContents};

/// How often objects are shared out among requests, each time by what is known from the time before.
const SHARED_OUT: usize = 10;

/// A time from one collection to the next.
#[derive(Debug)]
struct Span {
    gathered: f64,
    /// How long each request ran in it, from this one on.
    first: usize,
    parts: Vec<f64>,
}

impl TraceContents {
    /// The objects that each request has allocated: what has gathered from one collection to the next, shared out among
    /// those who ran meanwhile. By how long they did at first; and then again and again by how much each allocates in a
    /// time, as far as is known: who ran at many collections allocates more (expectation maximization).
    pub(super) fn share_objects(&self) -> Vec<f64> {
        let (spans, from) = self.spans();
        let mut density = vec![1.0; self.served.len()];
        let mut objects = density.clone();
        for _ in 0..SHARED_OUT {
            objects.fill(0.0);
            for Span { gathered, first, parts } in &spans {
                let all: f64 = parts.iter().zip(&density[*first..]).map(|(part, density)| part * density).sum();
                for (index, part) in (*first..).zip(parts) {
                    objects[index] += gathered * part * density[index] / all.max(f64::MIN_POSITIVE);
                }
            }
            for ((density, objects), served) in density.iter_mut().zip(&objects).zip(&self.served) {
                *density = objects / served.share.max(1.0);
            }
        }
        // After the last collection nothing is known, so it is as before.
        let known = self.served.partition_point(|served| served.began < from);
        let usual = objects.iter().sum::<f64>() / self.served[..known].iter().map(|served| served.share).sum::<f64>();
        for (served, objects) in self.served.iter().zip(&mut objects).skip(known) {
            *objects = usual * served.share;
        }
        objects
    }

    /// The times from one collection to the next, and when the last one was over.
    fn spans(&self) -> (Vec<Span>, u64) {
        let (mut first, mut from, mut gathered) = (0, self.window.0, 0.0);
        let mut spans = Vec::new();
        for stop in self.in_window() {
            let Some(heap) = stop.heap else { continue };
            gathered += heap.gathered;
            while self.served.get(first).is_some_and(|served| served.ended <= from) {
                first += 1;
            }
            let within = self.served[first..].iter().take_while(|served| served.began < stop.at);
            let work = |served: &ServedRequest| if served.shared { 1.0 - self.resting } else { 1.0 };
            let parts: Vec<f64> = within.map(|served| served.part(from, stop.at) * work(served)).collect();
            from = stop.at + stop.pause;
            // Where no request ran, one before or after has made the objects.
            if parts.iter().any(|part| *part > 0.0) {
                spans.push(Span { gathered, first, parts });
                gathered = 0.0;
            }
        }
        (spans, from)
    }

    /// Objects as in another trace of the same program: who works for longer than so many others has what is allocated
    /// there by those who do.
    pub(super) fn objects_like(&self, other: &Self) -> Vec<f64> {
        let theirs = other.by_share();
        let ours = self.by_share();
        let mut objects = vec![0.0; ours.len()];
        for (rank, &index) in ours.iter().enumerate() {
            objects[index] = other.objects[theirs[rank * theirs.len() / ours.len()]];
        }
        objects
    }

    /// Requests by how long they worked.
    fn by_share(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.served.len()).collect();
        order.sort_by(|&a, &b| self.served[a].share.total_cmp(&self.served[b].share));
        order
    }
}
