//! The Python face of the agent: `neurogc._agent`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use neurogc_settings::{Effective, FILE_NAME, Sources, env, resolve};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::current::{
    current, current_or_error, forget_resume, resume, resume_later, set_current, start, start_no_more,
};
use super::gc_functions::{give_back, repay, take_over};
use super::moments::MAIN_THREAD;
use crate::act::loans::repay_collecting;
use crate::alloc;
use crate::book::status;
use crate::cpython::heap_layout::heap_layout_for;
use crate::cpython::{Interpreter, arenas, is_main_interpreter};
use crate::host::identity::{Identity, command_line, named_for_opentelemetry};
use crate::host::{Host, ProcessStart};
use crate::lifecycle::agent::{Agent, EXIT_PATIENCE};
use crate::python::prefork::{forked_worker, share_heap};
use crate::sys::heap;

/// Whether the hooks that cannot be taken back (fork, exit) are in place.
static HOOKED: AtomicBool = AtomicBool::new(false);

/// Ends an agent's threads and its snapshot, if one is out.
fn stop(py: Python<'_>, agent: &Agent) {
    py.detach(|| {
        agent.stop(EXIT_PATIENCE);
        agent.acting.snapshots.shut_down();
    });
}

/// The extension module.
#[pymodule(gil_used = true)]
mod _agent {
    #[pymodule_export]
    use super::{
        adapters, after_fork_in_child, after_fork_in_parent, before_fork, degrade, install, installed, layout, quiet,
        shutdown, sites_json, status_json, uninstall,
    };
    #[pymodule_export]
    use crate::python::counts::{count_begin, count_end, count_figures, count_mark, sampled_weights};
    #[pymodule_export]
    use crate::python::gc_functions::{collect, get_threshold, set_threshold};
    #[pymodule_export]
    use crate::python::gpu::{
        gpu_card, gpu_figures, gpu_holders, gpu_oom, gpu_oom_reported, gpu_others, gpu_pinned, gpu_report_folder,
        gpu_step, gpu_watch,
    };
    #[pymodule_export]
    use crate::python::heap::{dump_soon, dump_triggers, heap_count, heap_dump, memory_room, next_dump};
    #[pymodule_export]
    use crate::python::line_book::LineBook;
    #[pymodule_export]
    use crate::python::mark::Mark;
    #[pymodule_export]
    use crate::python::memory::{memory_json, memory_site, memory_trim};
    #[pymodule_export]
    use crate::python::moments::{gap, gc_event, is_due, on_request_end, passing, progress};
    #[pymodule_export]
    use crate::python::prefork::forks_workers;
    #[pymodule_export]
    use crate::python::snapshots::{
        collect_snapshot, prefers_snapshot, snapshot_cancel, snapshot_figures, snapshot_launch, snapshot_look,
        snapshot_reap,
    };
    #[pymodule_export]
    use crate::python::training::{batch, boundary, rank_step, ranks_parted};

    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        if !super::is_main_interpreter() {
            return Err(PyImportError::new_err("NeuroGC observes the main interpreter, not a subinterpreter"));
        }
        // A panic is caught where it happens; its message would only disturb the program's output.
        std::panic::set_hook(Box::new(|_| {}));
        module.add("originals", PyDict::new(module.py()))?;
        module.add("stand_ins", PyDict::new(module.py()))?;
        crate::cpython::originals::remember_functions(module.py())?;
        module.add("version", super::status::VERSION)
    }
}

/// Installs the agent with these settings, or takes them over if it is there already. Gives what is wrong in the
/// environment and in the settings file, which does not keep the program from running.
#[pyfunction]
fn install(py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<Vec<String>> {
    let effective = effective_settings(py, settings)?;
    if current().is_some_and(|agent| agent.host.settings == effective.settings) {
        // The program may have emptied `gc.callbacks` meanwhile.
        hook_in(py)?;
        return Ok(effective.complaints);
    }
    if !heap::has_room() {
        return Err(PyMemoryError::new_err("there is no memory for the agent"));
    }
    let interpreter = Interpreter::examine(py)?;
    let sampling = alloc::start(&effective.settings, &interpreter);
    let origin = process_start(py, &effective.settings.service)?;
    let agent = Arc::new(Agent::new(Host::new(effective.settings, interpreter, origin), sampling, MAIN_THREAD));
    effective.complaints.iter().for_each(|complaint| agent.books.ledger().trouble(complaint.clone()));
    agent.acting.snapshots.make_markers(py);
    hook_in(py)?;
    // Several threads may do this at once: each stops what it replaces, and only the last one's agent is started.
    if let Some(replaced) = set_current(Some(Arc::clone(&agent))) {
        repay(py, &replaced);
        stop(py, &replaced);
        give_back(py, &replaced)?;
    }
    take_over(py, &agent)?;
    start(&agent);
    Ok(effective.complaints)
}

/// Takes the agent out again. What it has learned is gone.
#[pyfunction]
fn uninstall(py: Python<'_>) -> PyResult<()> {
    let Some(agent) = set_current(None) else { return Ok(()) };
    alloc::stop();
    repay(py, &agent);
    stop(py, &agent);
    give_back(py, &agent)?;
    let module = py.import("neurogc._agent")?;
    let callbacks = py.import("gc")?.getattr("callbacks")?;
    let hook = module.getattr("gc_event")?;
    if callbacks.contains(&hook)? {
        callbacks.call_method1("remove", (hook,))?;
    }
    Ok(())
}

/// Whether the agent is installed.
#[pyfunction]
fn installed() -> bool {
    current().is_some()
}

/// Whether web servers and frameworks are to be adapted.
#[pyfunction]
fn adapters() -> bool {
    current().is_some_and(|agent| agent.host.settings.adapters)
}

/// The status report as JSON.
#[pyfunction]
fn status_json(py: Python<'_>) -> PyResult<String> {
    let agent = current_or_error()?;
    if !heap::has_room() {
        return Err(PyMemoryError::new_err("there is no memory for a report"));
    }
    resume();
    py.detach(|| {
        agent.refresh();
        serde_json::to_string(&agent.sources().report())
    })
    .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The table of allocation sites as JSON, compared with so many seconds ago if that is given.
#[pyfunction]
fn sites_json(py: Python<'_>, since: Option<u32>) -> PyResult<String> {
    let agent = current_or_error()?;
    py.detach(|| match agent.sensors.sites.table(agent.host.installed_unix_ns, since) {
        Ok(table) => serde_json::to_string(&table).map_err(|error| error.to_string()),
        Err(reason) => Err(reason),
    })
    .map_err(PyRuntimeError::new_err)
}

/// Adds a reason to the status report's `degraded`.
#[pyfunction]
fn degrade(py: Python<'_>, reason: String) {
    if let Some(agent) = current() {
        py.detach(|| agent.books.ledger().trouble(reason));
    }
}

/// The offsets that this interpreter is read with, for the comparison with its headers.
#[pyfunction]
fn layout(py: Python<'_>) -> PyResult<Vec<(&'static str, usize)>> {
    let interpreter = Interpreter::examine(py)?;
    let mut named = interpreter.layout.map_or_else(Vec::new, |layout| layout.named());
    if let Some(heap) = heap_layout_for(&interpreter.version).filter(|_| !named.is_empty()) {
        named.extend(heap.named());
    }
    Ok(named)
}

/// Begins or ends a `paused()` block of the program.
#[pyfunction]
fn quiet(more: bool) {
    if let Some(agent) = current() {
        agent.acting.actor.quiet(more);
    }
}

/// Registered with `os.register_at_fork`.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    alloc::exact::before_fork();
    if let Some(agent) = current() {
        let worker = forked_worker().map(|worker| worker.kind);
        py.detach(|| agent.before_fork(worker));
    }
    arenas::before_fork();
}

/// Registered with `os.register_at_fork`.
#[pyfunction]
fn after_fork_in_parent() {
    alloc::exact::after_fork_in_parent();
    let Some(agent) = current() else { return };
    if forked_worker().is_some() {
        agent.sensors.children.after_fork_in_parent();
    }
    if agent.host.interpreter.version.counts_threads_after_fork_hooks() {
        resume_later();
    } else {
        start(&agent);
    }
}

/// Registered with `os.register_at_fork`. The parent's agent is left alone as it was at the moment of the fork: one of
/// its threads may have held a lock.
#[pyfunction]
fn after_fork_in_child(py: Python<'_>) {
    forget_resume();
    alloc::exact::after_fork_in_child();
    alloc::after_fork_in_child();
    if let Some(parents) = current() {
        repay_collecting(&parents.vm(py), parents.collecting_thread());
        parents.acting.snapshots.leave_to_parent(py, parents.host.interpreter.collector);
        let agent = Arc::new(parents.in_child(forked_worker().is_some()));
        // A finalizer that forks goes on in an order of the parent's agent, whose loans are not the child's.
        parents.acting.actor.stand_down();
        std::mem::forget(set_current(Some(Arc::clone(&agent))));
        std::mem::forget(parents);
        if let Err(error) = share_heap(py, &agent) {
            agent.books.ledger().trouble(format!("what was inherited could not be frozen: {error}"));
        }
        start(&agent);
    }
}

/// Registered with `atexit`.
#[pyfunction]
fn shutdown(py: Python<'_>) {
    start_no_more();
    if let Some(agent) = current() {
        stop(py, &agent);
    }
}

/// Puts the agent's functions where Python calls them.
fn hook_in(py: Python<'_>) -> PyResult<()> {
    let module = py.import("neurogc._agent")?;
    let callbacks = py.import("gc")?.getattr("callbacks")?;
    let hook = module.getattr("gc_event")?;
    if !callbacks.contains(&hook)? {
        callbacks.call_method1("append", (hook,))?;
    }
    if HOOKED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let keywords = PyDict::new(py);
    keywords.set_item("before", module.getattr("before_fork")?)?;
    keywords.set_item("after_in_parent", module.getattr("after_fork_in_parent")?)?;
    keywords.set_item("after_in_child", module.getattr("after_fork_in_child")?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&keywords))?;
    py.import("atexit")?.call_method1("register", (module.getattr("shutdown")?,))?;
    Ok(())
}

/// Puts the settings together from keywords, environment and file.
fn effective_settings(py: Python<'_>, keywords: &Bound<'_, PyDict>) -> PyResult<Effective> {
    let keywords = keywords
        .iter()
        .map(|(name, value)| Ok((name.extract::<String>()?, value.str()?.extract::<String>()?)))
        .collect::<PyResult<Vec<_>>>()?;
    // Python's view of the environment: programs change it without telling the C library.
    let environ = py.import("os")?.getattr("environ")?;
    let mut environment = Vec::new();
    // Not by `collect`: it would ask for a length, and so import a module that the program may never need.
    for item in environ.call_method0("items")?.try_iter()? {
        if let Ok((name, value)) = item.and_then(|item| item.extract::<(String, String)>())
            && name.starts_with(neurogc_settings::ENVIRONMENT_PREFIX)
        {
            environment.push((name, value));
        }
    }
    let named = environment.iter().find(|(name, _)| name == env::CONFIG).map(|(_, path)| PathBuf::from(path));
    let (file, unread) = match read_file(named) {
        Ok(file) => (file, None),
        Err((path, error)) => (None, Some(format!("{}: {error}. The defaults hold", path.display()))),
    };
    let mut effective = resolve(&Sources { keywords, environment, file, project: None })
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    effective.complaints.extend(unread);
    // The program may change its working directory.
    if let Some(path) = &mut effective.settings.trace
        && let Ok(absolute) = std::path::absolute(&*path)
    {
        *path = absolute;
    }
    Ok(effective)
}

/// The settings file: the named one must be readable, the one in the working directory may be missing.
fn read_file(named: Option<PathBuf>) -> Result<Option<(PathBuf, String)>, (PathBuf, std::io::Error)> {
    let must_exist = named.is_some();
    let path = named.unwrap_or_else(|| PathBuf::from(FILE_NAME));
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        // Where the working directory may not even be searched, there is no file of ours to be read.
        Err(_) if !must_exist && path.symlink_metadata().is_err() => Ok(None),
        Err(error) => Err((path, error)),
    }
}

fn process_start(py: Python<'_>, service: &str) -> PyResult<ProcessStart> {
    let environ = py.import("os")?.getattr("environ")?;
    let variable = |name: &str| -> PyResult<Option<String>> {
        Ok(environ.call_method1("get", (name,))?.extract::<String>().ok().filter(|value| !value.is_empty()))
    };
    let root: Option<u32> = variable(env::ROOT_PID)?.and_then(|pid| pid.parse().ok());
    let (name, attributes) = (variable("OTEL_SERVICE_NAME")?, variable("OTEL_RESOURCE_ATTRIBUTES")?);
    let named = Some(service.to_owned()).filter(|name| !name.is_empty());
    let named = named.or_else(|| named_for_opentelemetry(name.as_deref(), attributes.as_deref()));
    let parent = std::os::unix::process::parent_id();
    let identity = Identity::new(named, &command_line("self"), parent, &command_line(&parent.to_string()));
    Ok(ProcessStart {
        command: command(),
        identity,
        thresholds: py.import("gc")?.call_method0("get_threshold")?.extract()?,
        owns_trace: root.is_none_or(|root| root == std::process::id()),
    })
}

/// The command line, shortened. At start-up Python has not split it yet, so the kernel is asked.
fn command() -> String {
    const LONGEST: usize = 200;
    let words = command_line("self");
    let mut words = words.iter();
    let program = words.next().map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()).unwrap_or_default();
    let line = std::iter::once(&program).chain(words).map(String::as_str).collect::<Vec<_>>().join(" ");
    line.chars().take(LONGEST).map(|character| if character.is_control() { ' ' } else { character }).collect()
}
