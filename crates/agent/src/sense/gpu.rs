//! Memory of GPUs: what PyTorch's allocator said at the ends of steps and once a second, what held the memory when it was
//! looked at, and the verdict on both.
//!
//! Threads of the program fill it, with the GIL held, through `python::gpu`; they never wait for its lock.

use std::collections::VecDeque;

use neurogc_diagnose::gpu::{GpuEvidence, StepFigures, StepSeries, diagnose_gpu, step_growth};
use neurogc_wire::finding::Finding;
use neurogc_wire::gpu::{Gpu, GpuDevice, GpuMoment, GpuReport};

use super::spans::seconds;

/// Devices that are told apart.
const DEVICES: usize = 16;

/// Steps in a status report.
const RECENT: usize = 120;

/// A verdict is made again after so many steps.
const JUDGE_STEPS: u64 = 8;

/// Looks at what holds the memory, while it grows: how many steps apart the first two are, how often in a run, how many are
/// kept, and how many times as far apart as one takes the later ones are.
const LOOK_STEPS: u64 = 24;
const MOST_LOOKS: u32 = 12;
const KEPT_LOOKS: usize = 2;
const LOOK_RARITY: u64 = 1000;

/// A program that goes on for so long after an error has handled it.
const HANDLED_NS: u64 = 10_000_000_000;

/// What the allocator says of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceFigures {
    pub(crate) allocated: u64,
    pub(crate) reserved: u64,
    pub(crate) active: u64,
    pub(crate) inactive: u64,
    pub(crate) blocks: u64,
    pub(crate) peak: u64,
    pub(crate) retries: u64,
    pub(crate) ooms: u64,
}

/// One device.
#[derive(Debug, Default)]
struct Watched {
    shown: GpuDevice,
    series: StepSeries,
}

/// Everything that is known of GPUs. It is empty until one is used.
#[derive(Debug, Default)]
pub(crate) struct GpuBook {
    at: u64,
    steps: u64,
    judged: u64,
    devices: Vec<Watched>,
    recent: VecDeque<GpuMoment>,
    pinned: Option<u64>,
    ooms: u64,
    handled: u64,
    /// Errors since the last step, and when the latest was.
    open_ooms: u64,
    oom_at: u64,
    oom_report: String,
    looks: Vec<GpuReport>,
    looked: u32,
    /// The step of the latest look, and until when there is no other.
    look_step: u64,
    look_due: u64,
    grows: bool,
    findings: Vec<Finding>,
}

impl GpuBook {
    /// Takes in what the allocator says of a device.
    pub(crate) fn figures(&mut self, now: u64, device: u32, figures: DeviceFigures) {
        let Some(watched) = self.device(device) else { return };
        let shown = &mut watched.shown;
        shown.allocated_bytes = figures.allocated;
        shown.reserved_bytes = figures.reserved;
        shown.active_bytes = figures.active;
        shown.inactive_bytes = figures.inactive;
        shown.blocks = figures.blocks;
        shown.retries = figures.retries;
        shown.ooms = figures.ooms;
        shown.peak_bytes = shown.peak_bytes.max(figures.peak).max(figures.allocated);
        self.at = now;
        if now >= self.oom_at + HANDLED_NS {
            self.went_on();
        }
    }

    /// Other processes on the card of a device, where the driver tells, and what they have there.
    pub(crate) fn others(&mut self, device: u32, told: Option<(u64, u64)>) {
        if let Some(watched) = self.device(device) {
            watched.shown.other_processes = told.map(|(count, _)| count);
            watched.shown.other_processes_bytes = told.map(|(_, bytes)| bytes);
        }
    }

    /// The program goes on: it has handled the errors so far.
    pub(crate) fn went_on(&mut self) {
        self.handled += std::mem::take(&mut self.open_ooms);
    }

    /// Takes in what is known of the card.
    pub(crate) fn card(&mut self, device: u32, total: u64, free: u64) {
        if let Some(watched) = self.device(device) {
            (watched.shown.card_bytes, watched.shown.card_free_bytes) = (total, free);
        }
    }

    /// Takes in the pinned memory of the host.
    pub(crate) fn pinned(&mut self, bytes: Option<u64>) {
        self.pinned = bytes;
    }

    fn device(&mut self, device: u32) -> Option<&mut Watched> {
        if let Some(index) = self.devices.iter().position(|it| it.shown.device == device) {
            return self.devices.get_mut(index);
        }
        if self.devices.len() == DEVICES {
            return None;
        }
        self.devices.push(Watched { shown: GpuDevice { device, ..GpuDevice::default() }, ..Watched::default() });
        self.devices.last_mut()
    }

    /// A step has ended for which no figures were read.
    pub(crate) fn pass(&mut self) {
        self.steps += 1;
        self.went_on();
    }

    /// Whether memory grows, so that the figures of every step are wanted.
    pub(crate) fn grows(&self) -> bool {
        self.grows
    }

    /// A step has ended, and the figures were taken in. Whether what holds the memory should be looked at now.
    pub(crate) fn step(&mut self, now: u64, installed: u64) -> bool {
        let at_s = seconds(now.saturating_sub(installed));
        self.pass();
        let steps = self.steps;
        for Watched { shown, series } in &mut self.devices {
            series.push(StepFigures {
                step: steps,
                at_s,
                allocated: shown.allocated_bytes,
                blocks: shown.blocks,
                reserved: shown.reserved_bytes,
                inactive: shown.inactive_bytes,
                retries: shown.retries,
            });
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        let sum = |of: fn(&GpuDevice) -> u64| self.sum(of);
        let moment = GpuMoment {
            at_s,
            steps,
            allocated_bytes: sum(|it| it.allocated_bytes),
            reserved_bytes: sum(|it| it.reserved_bytes),
            inactive_bytes: sum(|it| it.inactive_bytes),
        };
        self.recent.push_back(moment);
        if steps >= self.judged + JUDGE_STEPS {
            self.judged = steps;
            self.grows = self.devices.iter().any(|it| step_growth(&it.series).is_some());
            if !self.grows {
                // What held the memory then says nothing about growth that begins later.
                self.looks.clear();
            }
            self.judge();
        }
        self.wants_look(now)
    }

    fn wants_look(&self, now: u64) -> bool {
        let far = self.looks.is_empty() || self.steps >= self.look_step + LOOK_STEPS;
        self.grows && far && now >= self.look_due && self.looked < MOST_LOOKS
    }

    /// What holds the memory was looked at, because it grows.
    pub(crate) fn look(&mut self, now: u64, mut report: GpuReport) {
        report.steps = self.steps;
        self.looked += 1;
        self.look_step = self.steps;
        let is_first = self.looks.is_empty();
        self.look_due = if is_first { now } else { now + (report.took_ms * 1e6) as u64 * LOOK_RARITY };
        if self.looks.len() == KEPT_LOOKS {
            // The first one stays: growth is seen best over the longest time.
            self.looks.pop();
        }
        self.looks.push(report);
        self.judge();
    }

    fn judge(&mut self) {
        let looks = &self.looks;
        let found = self
            .devices
            .iter()
            .flat_map(|it| diagnose_gpu(&GpuEvidence { device: it.shown.device, series: &it.series, looks }));
        self.findings = found.collect();
    }

    /// The allocator has found no memory. Gives how many such errors there were.
    pub(crate) fn oom(&mut self, now: u64) -> u64 {
        self.oom_at = now;
        self.ooms += 1;
        self.open_ooms += 1;
        self.ooms
    }

    /// Where the report on the latest error is.
    pub(crate) fn oom_reported(&mut self, path: String) {
        self.oom_report = path;
    }

    /// When figures were last taken in.
    pub(crate) fn last(&self) -> u64 {
        self.at
    }

    /// What is the matter.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn sum(&self, of: fn(&GpuDevice) -> u64) -> u64 {
        self.devices.iter().map(|it| of(&it.shown)).fold(0, u64::saturating_add)
    }

    /// The part of the status report.
    pub(crate) fn report(&self, installed: u64) -> Gpu {
        Gpu {
            at_s: if self.at == 0 { 0.0 } else { seconds(self.at.saturating_sub(installed)) },
            steps: self.steps,
            allocated_bytes: self.sum(|it| it.allocated_bytes),
            reserved_bytes: self.sum(|it| it.reserved_bytes),
            inactive_bytes: self.sum(|it| it.inactive_bytes),
            pinned_bytes: self.pinned,
            ooms: self.ooms,
            ooms_handled: self.handled,
            oom_report: self.oom_report.clone(),
            devices: self.devices.iter().map(|it| it.shown.clone()).collect(),
            recent: self.recent.iter().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use neurogc_wire::gpu::{GpuHeld, GpuHolder, GpuHolderKind};

    use super::*;

    const MS: u64 = 1_000_000;

    fn step(book: &mut GpuBook, number: u64, allocated: u64, blocks: u64) -> bool {
        let now = number * 10 * MS;
        let figures = DeviceFigures { allocated, blocks, reserved: 2 * allocated, peak: 7, ..DeviceFigures::default() };
        book.figures(now, 0, figures);
        book.step(now, 0)
    }

    #[test]
    fn growth_asks_for_two_looks_and_their_difference_is_the_finding() {
        let mut book = GpuBook::default();
        let mut asked = Vec::new();
        for number in 1..=200 {
            if step(&mut book, number, (100 << 20) + (number << 20), 1000 + number) {
                asked.push(number);
                let holder = GpuHolder {
                    path: "losses[…]".to_owned(),
                    kind: GpuHolderKind::Container,
                    tensors: number,
                    bytes: number << 20,
                    ..GpuHolder::default()
                };
                let held = GpuHeld { allocated_bytes: (100 << 20) + (number << 20), ..GpuHeld::default() };
                let report =
                    GpuReport { devices: vec![held], holders: vec![holder], took_ms: 1.0, ..GpuReport::default() };
                book.look(number * 10 * MS, report);
            }
        }
        assert_eq!(asked.first(), Some(&56));
        assert!((2..=MOST_LOOKS as usize).contains(&asked.len()), "{asked:?}");
        let found = book.findings();
        assert!(found[0].is_alarm() && found[0].holder == "losses[…]", "{found:?}");
        let report = book.report(0);
        assert_eq!((report.steps, report.recent.len(), report.devices.len()), (200, RECENT, 1));
        assert_eq!(report.devices[0].peak_bytes, 300 << 20);
    }

    #[test]
    fn steady_memory_asks_for_nothing() {
        let mut book = GpuBook::default();
        assert!((1..=400).all(|number| !step(&mut book, number, 100 << 20, 1000)));
        assert!(!book.findings().iter().any(Finding::is_alarm));
    }

    #[test]
    fn an_error_after_which_a_step_ends_was_handled() {
        let mut book = GpuBook::default();
        assert_eq!((book.oom(1), book.oom(2)), (1, 2));
        assert_eq!(book.report(0).ooms_handled, 0);
        step(&mut book, 1, 1, 1);
        assert_eq!(book.oom(3), 3);
        let report = book.report(0);
        assert_eq!((report.ooms, report.ooms_handled), (3, 2));
    }

    #[test]
    fn an_error_after_which_the_program_goes_on_without_steps_was_handled() {
        let mut book = GpuBook::default();
        book.oom(5_000 * MS);
        book.figures(14_999 * MS, 0, DeviceFigures::default());
        assert_eq!(book.report(0).ooms_handled, 0);
        book.figures(15_000 * MS, 0, DeviceFigures::default());
        assert_eq!(book.report(0).ooms_handled, 1);
        // The end of an evaluation.
        book.oom(15_001 * MS);
        book.went_on();
        book.went_on();
        assert_eq!(book.report(0).ooms_handled, 2);
    }

    #[test]
    fn other_processes_on_a_card_may_be_unknown() {
        let mut book = GpuBook::default();
        let told = |book: &GpuBook| {
            let device = &book.report(0).devices[0];
            (device.other_processes, device.other_processes_bytes)
        };
        book.others(0, Some((2, 700)));
        assert_eq!(told(&book), (Some(2), Some(700)));
        book.others(0, None);
        assert_eq!(told(&book), (None, None));
    }

    #[test]
    fn devices_are_bounded() {
        let mut book = GpuBook::default();
        (0..100).for_each(|device| book.figures(1, device, DeviceFigures::default()));
        assert_eq!(book.report(0).devices.len(), DEVICES);
    }
}
