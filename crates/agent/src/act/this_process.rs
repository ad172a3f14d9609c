//! The interpreter of this process, as the acting half sees it.

use std::time::Duration;

use neurogc_policy::Thresholds;
use neurogc_wire::gpu::GpuReport;
use pyo3::prelude::*;

use super::gpu_calls::explain;
use super::vm::Vm;
use crate::cpython::Interpreter;
use crate::cpython::gather::{self, GatheredArenas};
use crate::cpython::originals::{GcFunctions, functions};
use crate::sense::process::{has_room, resident};
use crate::snapshot::{
    HeapErrand, HeapReport, Latest, Launched, Reaped, SnapshotFailure, SnapshotProgress, SnapshotRunner, Sortie,
};
use crate::sys::native::{monotonic_ns, pthread_self, thread_cpu_ns};

/// The interpreter of this process, for a thread that holds its GIL.
pub(crate) struct ThisProcess<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) interpreter: &'a Interpreter,
    pub(crate) snapshots: &'a SnapshotRunner,
}

impl ThisProcess<'_, '_> {
    /// Calls a function of `gc` and gives its answer.
    fn call<T>(&self, body: impl FnOnce(&GcFunctions) -> PyResult<T>) -> Result<T, String> {
        functions(self.py).and_then(body).map_err(|error| error.value(self.py).to_string())
    }
}

impl Vm for ThisProcess<'_, '_> {
    fn now(&self) -> u64 {
        monotonic_ns()
    }

    fn processor_time(&self) -> u64 {
        thread_cpu_ns()
    }

    fn thread(&self) -> usize {
        pthread_self()
    }

    fn is_enabled(&self) -> bool {
        self.call(|gc| gc.is_enabled.bind(self.py).call0()?.extract()).unwrap_or(false)
    }

    fn is_collecting(&self) -> bool {
        self.interpreter.collector.is_some_and(|collector| collector.generations(self.py).is_collecting())
    }

    fn set_collecting(&self, collecting: bool) {
        if let Some(collector) = self.interpreter.collector {
            collector.generations(self.py).set_collecting(collecting);
        }
    }

    fn counts(&self) -> [u32; 3] {
        self.interpreter.collector.map_or([0; 3], |collector| collector.generations(self.py).counts())
    }

    fn tenured(&self) -> u64 {
        self.interpreter.collector.map_or(0, |collector| collector.generations(self.py).total().max(0) as u64)
    }

    fn pending(&self) -> u64 {
        self.interpreter.collector.map_or(0, |collector| collector.generations(self.py).pending().max(0) as u64)
    }

    fn tracked_estimate(&self) -> u64 {
        self.interpreter.collector.map_or(0, |collector| {
            let generations = collector.generations(self.py);
            let objects =
                generations.total() + generations.pending().max(0) + generations.young_count().max(0) as isize;
            objects.max(0) as u64
        })
    }

    fn collect(&self, generation: u8) -> Result<u64, String> {
        self.call(|gc| gc.collect.bind(self.py).call1((generation,))?.extract())
    }

    fn freeze(&self) -> Result<(), String> {
        self.call(|gc| gc.freeze.bind(self.py).call0().map(drop))
    }

    fn unfreeze(&self) -> Result<(), String> {
        self.call(|gc| gc.unfreeze.bind(self.py).call0().map(drop))
    }

    fn frozen(&self) -> u64 {
        self.call(|gc| gc.freeze_count.bind(self.py).call0()?.extract()).unwrap_or(0)
    }

    fn thresholds(&self) -> Result<Thresholds, String> {
        self.call(|gc| gc.get_threshold.bind(self.py).call0()?.extract())
    }

    fn set_thresholds(&self, thresholds: Thresholds) -> Result<(), String> {
        let [young, middle, full] = thresholds;
        self.call(|gc| gc.set_threshold.bind(self.py).call1((young, middle, full)).map(drop))
    }

    fn launch(&self, sortie: Sortie) -> Result<Launched, SnapshotFailure> {
        self.snapshots.launch(self.py, self.interpreter, sortie)
    }

    fn launch_heap(&self, errand: HeapErrand) -> Result<u64, SnapshotFailure> {
        self.snapshots.launch_heap(self.py, self.interpreter, errand)
    }

    fn make_all_old(&self) -> u32 {
        let Some(collector) = self.interpreter.collector else { return 0 };
        let generations = collector.generations(self.py);
        let young = generations.young_count().max(0) as u32;
        generations.make_all_old();
        young
    }

    fn heap_told(&self, number: u64) -> Option<Result<HeapReport, SnapshotFailure>> {
        self.snapshots.heap_told(number)
    }

    fn gather(&self) -> u64 {
        gather::ask()
    }

    fn gathered(&self, number: u64) -> Option<GatheredArenas> {
        gather::told(number)
    }

    fn look(&self) -> SnapshotProgress {
        self.snapshots.look()
    }

    fn latest(&self) -> Option<Latest> {
        self.snapshots.latest()
    }

    fn forget_failure(&self) {
        self.snapshots.forget_failure();
    }

    fn refuse(&self, failure: &SnapshotFailure) {
        self.snapshots.refuse(failure);
    }

    fn reap(&self, budget: Duration, whole: bool) -> Option<Reaped> {
        self.snapshots.reap(self.py, budget, whole)
    }

    fn let_others_run(&self, pause: Duration) {
        self.py.detach(|| std::thread::sleep(pause));
    }

    fn resident(&self) -> Option<u64> {
        resident()
    }

    fn explain_gpu(&self) -> Result<GpuReport, String> {
        explain(self.py)
    }

    fn has_room(&self, resident: u64, share: f64) -> bool {
        has_room(resident, share)
    }
}
