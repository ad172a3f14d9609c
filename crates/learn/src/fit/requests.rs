//! The requests of a trace: what each took, and when it came.

use super::seen::{RecordedStop, ServedRequest, TraceContents, within};
use crate::arrivals::{ServiceTurn, arrivals};
use crate::workload::{Pace, Request, Start, Workload};

/// A request that waits for others comes to the interpreter about so often: to send something, for each part of the answer,
/// and to be over.
const VISITS: u32 = 5;

/// Who begins later after another has not waited for it. How long a program takes to go on to one that waits is seen where
/// one follows the other sooner than that: nine tenths of them had waited.
const SLACK_NS: u64 = 300_000;
const HAD_WAITED: f64 = 0.9;

/// A program that finds several waiting reads what each of them asks before it serves the first. Then they follow each
/// other so closely.
const CLOSE_NS: u64 = 100_000;

/// What it may do meanwhile for each of those in flight.
const PIECE_NS: u64 = 1_000_000;

/// A program that has held the GIL for so long, whenever it was looked at, serves a queue. Then it may take so long until it
/// serves the next.
const BUSY_NS: u64 = 20_000_000;
const BUSY_SLACK_NS: u64 = 3_000_000;

/// A stretch with the GIL held, so long and before the first request, is a program that loads.
const LOADING_NS: u64 = 50_000_000;

/// Users who wait for their answers are told from other clients where there are so many, and where nearly all of them are
/// there for this share of the time. The first part in so many of it is left out.
const FEWEST_USERS: usize = 3;
const NEARLY_ALWAYS: f64 = 0.9;
const RAMP: u64 = 10;

/// The share of a process's time that the agent takes, about.
const AGENT: f64 = 0.04;

impl TraceContents {
    /// Finds out how long each request worked.
    pub(super) fn share_time(&mut self) {
        self.compare();
        self.share_flights();
        (self.around, self.resting) = self.outside();
    }

    /// Looks how closely requests follow each other.
    fn compare(&mut self) {
        let slack = self.slack();
        let mut queues = self.held.iter().rev().filter(|held| held.1 - held.0 >= BUSY_NS).peekable();
        let mut next = ServedRequest { began: u64::MAX, ..ServedRequest::default() };
        for served in self.served.iter_mut().rev() {
            while queues.next_if(|queue| queue.0 > served.began).is_some() {}
            let in_queue = queues.peek().is_some_and(|queue| served.began < queue.1);
            let at_once = next.began <= served.ended + CLOSE_NS;
            served.shared = next.began < served.ended;
            served.slack = slack + if at_once { next.slack } else { 0 };
            next = *served;
            if in_queue {
                served.slack = served.slack.max(BUSY_SLACK_NS);
            }
        }
    }

    /// How long the program takes to go on to a request that waits already, at most.
    fn slack(&self) -> u64 {
        let between =
            |pair: &[ServedRequest]| pair[1].began.checked_sub(pair[0].ended).filter(|&between| between <= SLACK_NS);
        let mut between: Vec<u64> = self.served.windows(2).filter_map(between).collect();
        between.sort_unstable();
        between.get((between.len() as f64 * HAD_WAITED) as usize).copied().unwrap_or(SLACK_NS)
    }

    /// Shares out the time in which requests were in flight among them, pauses left out.
    fn share_flights(&mut self) {
        let mut edges: Vec<(u64, usize, bool)> = Vec::with_capacity(2 * self.served.len());
        for (index, served) in self.served.iter().enumerate() {
            edges.extend([(served.began, index, true), (served.ended, index, false)]);
        }
        // Ends before beginnings at the same moment.
        edges.sort_unstable_by_key(|(at, _, begins)| (*at, *begins));
        let mut stops = self.stops.iter().peekable();
        let mut stopped_to = 0;
        let mut in_flight: Vec<usize> = Vec::new();
        let mut before = 0;
        for (at, index, begins) in edges {
            let mut stopped = 0;
            // Pauses within the stretch, and what is left of one that began before it.
            let mut from = before;
            loop {
                if stopped_to > from {
                    let to = stopped_to.min(at);
                    stopped += to - from.min(to);
                    from = to;
                }
                let Some(stop) = stops.next_if(|stop| stop.at < at) else { break };
                from = from.max(stop.at);
                stopped_to = stopped_to.max(stop.at + stop.pause);
            }
            let time = (at - before).saturating_sub(stopped) as f64;
            // No other request begins while this one is in flight, so it does not let go of the interpreter.
            match in_flight.iter().find(|&&each| !self.served[each].shared) {
                Some(&alone) => self.served[alone].share += time,
                None => in_flight.iter().for_each(|&each| self.served[each].share += time / in_flight.len() as f64),
            }
            before = at;
            if begins {
                in_flight.push(index);
            } else {
                in_flight.retain(|&each| each != index);
            }
        }
    }

    /// What is done around the marks of a request, and the share of its time in which a request waits for others that lets
    /// others begin. All of the others' time is work.
    fn outside(&self) -> (f64, f64) {
        let around = self.around();
        let marked = self.served.iter().map(|each| each.share).sum::<f64>();
        let shared = self.served.iter().filter(|each| each.shared).map(|each| each.share).sum::<f64>();
        let worked = self.processor().unwrap_or(marked) - around * self.served.len() as f64;
        (around, ((marked - worked) / shared.max(1.0)).clamp(0.0, 0.9))
    }

    /// What a program does around each request: from the end of one to the beginning of the next that waits already.
    fn around(&self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0_f64);
        for pair in self.served.windows(2) {
            let between = pair[1].began.saturating_sub(pair[0].ended);
            if pair[1].began >= pair[0].ended && between <= pair[1].slack {
                sum += between.saturating_sub(self.paused(pair[0].ended, pair[1].began)) as f64;
                count += 1.0;
            }
        }
        sum / count.max(1.0)
    }

    /// Processor time that requests took, pauses and the agent's own threads left out.
    fn processor(&self) -> Option<f64> {
        let inside = || self.looks.iter().filter(|look| within(self.window, look.0));
        let (first, last) = (inside().next()?, inside().next_back()?);
        let used = (last.2 - first.2 - self.paused(first.0, last.0) as f64).max(0.0) * (1.0 - AGENT);
        let seen = self.served.iter().filter(|each| within((first.0, last.0), each.began)).count() as f64;
        // The looks may have begun late, or ended early.
        let all = self.served.len() as f64;
        (seen > 0.5 * all).then(|| used * all / seen)
    }

    /// The requests, and the heap that they begin with.
    pub(super) fn workload(&self, objects: &[f64], seed: u64) -> Workload {
        let mut workload = Workload::new(self.start(self.window.0));
        let came = match (self.users(workload.start.at), self.thoughts(workload.start.at)) {
            (Some((users, thoughts)), _) => {
                workload.pace = Pace::Closed(users);
                thoughts
            }
            (None, Some(thoughts)) => {
                workload.pace = Pace::Closed(1);
                thoughts
            }
            (None, None) => arrivals(&self.turns(), seed),
        };
        // In a loop, what is done around a step is part of the time until the next.
        let around = if workload.pace == Pace::Closed(1) { 0.0 } else { self.around };
        let requests = self.served.iter().zip(came).zip(objects).map(|((served, at), &objects)| {
            let rest = if served.shared { served.share * self.resting } else { 0.0 };
            let service = (served.share - rest + around) as u64;
            Request { at, service, rest: rest as u64, objects, visits: if served.shared { VISITS } else { 1 } }
        });
        workload.requests = requests.collect();
        if workload.pace == Pace::Open {
            workload.requests.sort_by_key(|request| request.at);
        }
        workload
    }

    /// Users who wait for their answers, and how long each thinks before a request: nothing where requests come from
    /// clients that do not wait for each other. Of users, nearly all wait for an answer nearly all of the time, and there are
    /// never more.
    fn users(&self, start: u64) -> Option<(u32, Vec<u64>)> {
        let came: Vec<u64> = self.served.iter().filter_map(|served| served.came).collect();
        if came.len() < self.served.len() {
            return None;
        }
        let mut ends: Vec<u64> = self.served.iter().map(|served| served.ended).collect();
        ends.sort_unstable();
        let comings = came.iter().map(|at| (*at, true));
        let mut edges: Vec<(u64, bool)> = comings.chain(ends.iter().map(|at| (*at, false))).collect();
        // Ends before beginnings at the same moment.
        edges.sort_unstable();
        // How long there were so many, without the time in which the first come and the last go.
        let last = came.iter().max()?;
        let settled = self.window.0 + (last.saturating_sub(self.window.0)) / RAMP;
        let mut long = vec![0_u64; 1];
        let (mut there, mut before) = (0, 0);
        for (at, comes) in edges {
            let (from, to) = (settled.max(before), at.min(*last));
            if long.len() <= there {
                long.resize(there + 1, 0);
            }
            long[there] += to.saturating_sub(from);
            before = at;
            there = if comes { there + 1 } else { there.saturating_sub(1) };
        }
        let users = long.iter().rposition(|long| *long > 0)?;
        let nearly: u64 = long[users - (users / 10).max(1).min(users)..].iter().sum();
        let whole: u64 = long.iter().sum();
        if users < FEWEST_USERS || (nearly as f64) < NEARLY_ALWAYS * whole as f64 {
            return None;
        }
        // Who comes next has got the oldest answer that none has followed yet.
        let mut order: Vec<u64> = came.clone();
        order.sort_unstable();
        let thinks = |index: usize| match index.checked_sub(users) {
            None => order[index].saturating_sub(start),
            Some(answer) => order[index].saturating_sub(ends[answer]),
        };
        let ranks = came.iter().map(|at| order.partition_point(|other| other < at));
        Some((users as u32, ranks.map(thinks).collect()))
    }

    /// How long a program that steps in a loop waits before each step; nothing where requests come from outside. In a loop
    /// waits are alike, for an accelerator perhaps, or there are none. A service that is overloaded is idle now and then
    /// all the same.
    fn thoughts(&self, start: u64) -> Option<Vec<u64>> {
        if self.served.iter().any(|served| served.shared) {
            return None;
        }
        let waits: Vec<u64> = self.served.windows(2).map(|pair| pair[1].began - pair[0].ended).collect();
        let mut sorted = waits.clone();
        sorted.sort_unstable();
        let [short, long, longest] = [10, 90, 99].map(|percent| sorted[sorted.len() * percent / 100]);
        let alike = short > SLACK_NS && long <= 2 * short;
        let first = self.served[0].began - start;
        // A wait that is longer was a pause that outlasted it.
        let steps = || std::iter::once(first).chain(waits.iter().map(|wait| long.min(*wait))).collect();
        (alike || longest <= SLACK_NS).then(steps)
    }

    /// When each request can have come, and when its turn was.
    fn turns(&self) -> Vec<ServiceTurn> {
        // Until when the program was seen to do something, how many are in flight, and the last moment at which no
        // request can have waited.
        let (mut seen, mut in_flight, mut idle) = (0, 0, 0);
        let mut stops = self.stops.iter().peekable();
        let mut ends: Vec<u64> = self.served.iter().map(|served| served.ended).collect();
        ends.sort_unstable();
        let mut ends = ends.into_iter().peekable();
        let turn = |served: &ServedRequest| {
            while let Some(end) = ends.next_if(|end| *end <= served.began) {
                seen = seen.max(end);
                in_flight -= 1;
            }
            let slack = served.slack + in_flight * PIECE_NS;
            while let Some(stop) = stops.next_if(|stop| stop.at < served.began) {
                if stop.at > seen + slack {
                    idle = idle.max(stop.at);
                }
                seen = seen.max((stop.at + stop.pause).min(served.began));
            }
            if served.began > seen + slack {
                idle = served.began;
            }
            seen = served.began;
            in_flight += 1;
            ServiceTurn { earliest: idle.min(served.began), began: served.began, came: served.came }
        };
        self.served.iter().map(turn).collect()
    }

    /// The moment at which the program had loaded, and its heap then.
    fn start(&self, first: u64) -> Start {
        let loading = self.held.iter().filter(|held| held.1 - held.0 >= LOADING_NS && held.1 <= first);
        let at = loading.map(|held| held.1).max().unwrap_or(first);
        let known = |stop: &RecordedStop| stop.heap.filter(|_| stop.at <= first);
        let before = self.stops.iter().rev().find_map(known).or_else(|| self.stops.iter().find_map(|stop| stop.heap));
        // What is young or middle-aged then will be old soon, and is counted as old.
        let (tenured, pending) = before.map_or((0.0, 0.0), |heap| (heap.tenured, heap.left - heap.tenured));
        Start { at: at.min(first), tenured, pending }
    }
}
