//! Who a process is: the service that it belongs to, and what it is in it. Both come from command lines and the
//! environment, so that they are the same after a restart.

use std::sync::atomic::{AtomicU32, Ordering};

/// Servers whose child processes are workers.
const SERVERS: [&str; 8] =
    ["uvicorn", "gunicorn", "hypercorn", "granian", "daphne", "uwsgi", "celery", "waitress-serve"];

/// Those that start workers in other processes whatever their options say.
const MASTERS: [&str; 4] = ["gunicorn", "granian", "hypercorn", "celery"];

/// Longer names are cut: they stand in every line of a page of metrics.
const LONGEST: usize = 100;

/// What a process is in its service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessRole {
    /// A program of one process.
    #[default]
    Main,
    /// A server that leaves the work to its workers.
    Master,
    /// One of them.
    Worker,
    /// Another process that this one started.
    Child(u32),
    /// Python's own, which removes what processes leave behind.
    ResourceTracker,
}

/// Who a process is.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub(crate) service: String,
    pub(crate) role: ProcessRole,
    /// The number of a worker among those of its server; 0 until the uplink has got one.
    pub(crate) worker: AtomicU32,
}

impl Identity {
    /// Of a process with this command line, whose parent has that one. `named` is what was set for it, if anything.
    pub(crate) fn new(named: Option<String>, words: &[String], parent: u32, parents: &[String]) -> Self {
        let is = |what: &str| words.iter().any(|word| word.contains(what));
        let spawned = is("multiprocessing.spawn") || is("--multiprocessing-fork") || is("multiprocessing.forkserver");
        let role = if is("multiprocessing.resource_tracker") {
            ProcessRole::ResourceTracker
        } else if spawned && server(parents).is_some() {
            ProcessRole::Worker
        } else if spawned {
            ProcessRole::Child(parent)
        } else if is_master(words) {
            ProcessRole::Master
        } else {
            ProcessRole::Main
        };
        let inherited = spawned || role == ProcessRole::ResourceTracker;
        let service = named.unwrap_or_else(|| application(if inherited { parents } else { words }));
        Self { service: cut(&service), role, worker: AtomicU32::new(0) }
    }

    /// Of a child that this process, with this command line, has forked.
    pub(crate) fn in_child(&self, parent: u32, words: &[String], forks_workers: bool) -> Self {
        let serves = forks_workers || server(words).is_some();
        let role =
            if serves && self.role != ProcessRole::Worker { ProcessRole::Worker } else { ProcessRole::Child(parent) };
        Self { service: self.service.clone(), role, worker: AtomicU32::new(0) }
    }

    /// The role in words.
    pub(crate) fn role(&self) -> String {
        match (self.role, self.worker.load(Ordering::Relaxed)) {
            (ProcessRole::Main, _) => "main".to_owned(),
            (ProcessRole::Master, _) => "master".to_owned(),
            (ProcessRole::Worker, 0) => "worker".to_owned(),
            (ProcessRole::Worker, number) => format!("worker {number}"),
            (ProcessRole::Child(parent), _) => format!("child of {parent}"),
            (ProcessRole::ResourceTracker, _) => "resource tracker".to_owned(),
        }
    }
}

/// The name that OpenTelemetry is given for a service, by one of its variables.
pub(crate) fn named_for_opentelemetry(name: Option<&str>, attributes: Option<&str>) -> Option<String> {
    let of_attributes = || {
        let pairs = attributes?.split(',').filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(key, value)| (key.trim(), value.trim()))
            .find(|(key, _)| *key == "service.name")
            .map(|(_, name)| name)
    };
    name.map(str::trim).filter(|name| !name.is_empty()).or_else(of_attributes).map(str::to_owned)
}

/// The words of a command line.
pub(crate) fn command_line(process: &str) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn cut(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(LONGEST).collect()
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A command line without the interpreter and its options: what is run, and its arguments.
enum Started<'w> {
    Module(&'w str, &'w [String]),
    Script(&'w str, &'w [String]),
    Code,
}

fn started(words: &[String]) -> Option<Started<'_>> {
    let (first, mut rest) = words.split_first()?;
    let name = base(first);
    if !(name.starts_with("python") || name.starts_with("pypy")) {
        return Some(Started::Script(first, rest));
    }
    while let Some((word, after)) = rest.split_first() {
        match word.as_str() {
            "-m" => return after.split_first().map(|(module, rest)| Started::Module(module, rest)),
            "-c" | "-" => return Some(Started::Code),
            // These two take the next word.
            "-W" | "-X" => rest = after.get(1..).unwrap_or(&[]),
            option if option.starts_with('-') => rest = after,
            script => return Some(Started::Script(script, after)),
        }
    }
    None
}

/// The server that a command line starts, with its arguments.
fn server(words: &[String]) -> Option<(&'static str, &[String])> {
    let (name, rest) = match started(words)? {
        Started::Module(name, rest) => (name.split('.').next().unwrap_or(name), rest),
        Started::Script(path, rest) => (base(path), rest),
        Started::Code => return None,
    };
    SERVERS.iter().find(|server| **server == name).map(|server| (*server, rest))
}

fn is_master(words: &[String]) -> bool {
    let Some((name, rest)) = server(words) else { return false };
    let several = |value: Option<&str>| value.and_then(|value| value.parse::<u32>().ok()).is_some_and(|many| many > 1);
    let workers = rest.iter().enumerate().any(|(place, word)| match word.as_str() {
        "--workers" | "-w" => several(rest.get(place + 1).map(String::as_str)),
        word => several(word.strip_prefix("--workers=")),
    });
    MASTERS.contains(&name) || workers || rest.iter().any(|word| word == "--reload")
}

/// The application's name: the module given to a server or to `-m`, or the script.
fn application(words: &[String]) -> String {
    if let Some((name, rest)) = server(words) {
        return served(name, rest).unwrap_or_else(|| name.to_owned());
    }
    match started(words) {
        Some(Started::Module(module, _)) => module.trim_end_matches(".__main__").to_owned(),
        Some(Started::Script(path, _)) => match base(path).trim_end_matches(".py") {
            "__main__" => path.rsplit('/').nth(1).unwrap_or("python").to_owned(),
            stem => stem.to_owned(),
        },
        Some(Started::Code) | None => "python".to_owned(),
    }
}

/// The module that a server serves: `shop.app` of `shop.app:app`.
fn served(server: &str, rest: &[String]) -> Option<String> {
    if server == "celery" {
        let place = rest.iter().position(|word| word == "-A" || word == "--app")?;
        return rest.get(place + 1).cloned();
    }
    let is_module = |text: &str| {
        text.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && text.chars().all(|letter| letter.is_alphanumeric() || "._".contains(letter))
    };
    let with_attribute = rest.iter().enumerate().find_map(|(place, word)| {
        let (module, attribute) = word.split_once(':')?;
        let bound = place > 0 && matches!(rest[place - 1].as_str(), "-b" | "--bind" | "--host");
        let is_one = !bound && is_module(module) && !attribute.starts_with(|first: char| first.is_ascii_digit());
        is_one.then(|| module.to_owned())
    });
    with_attribute.or_else(|| rest.last().filter(|word| is_module(word)).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn check(line: &str, parents: &str, expected: (&str, &str)) {
        let identity = Identity::new(None, &words(line), 4242, &words(parents));
        assert_eq!((&*identity.service, &*identity.role()), expected, "{line}");
    }

    #[test]
    fn a_service_is_named_for_its_application() {
        check("python app.py --port 1", "bash", ("app", "main"));
        check("/usr/bin/python3.12 -X dev -u /srv/shop/worker.py", "bash", ("worker", "main"));
        check("python -m shop.worker", "bash", ("shop.worker", "main"));
        check("python /srv/shop/__main__.py", "bash", ("shop", "main"));
        check("python -c pass", "bash", ("python", "main"));
        check("/venv/bin/python /venv/bin/uvicorn shop.app:app --port 80", "bash", ("shop.app", "main"));
        check("python -m uvicorn --host 0.0.0.0:80 --factory shop:make", "bash", ("shop", "main"));
        check("python /venv/bin/uvicorn app:app --workers 2", "bash", ("app", "master"));
        check("python /venv/bin/uvicorn app:app --workers=1", "bash", ("app", "main"));
        check("python /venv/bin/gunicorn -w 3 -b localhost:8000 shop.wsgi", "bash", ("shop.wsgi", "master"));
        check("python /venv/bin/gunicorn -w 3 -b :8000 app:app", "bash", ("app", "master"));
        check("celery -A shop worker", "bash", ("shop", "master"));
        check("", "", ("python", "main"));
    }

    #[test]
    fn what_multiprocessing_starts_belongs_to_its_parent() {
        let spawn = "python -B -c from_multiprocessing.spawn_import_spawn_main --multiprocessing-fork";
        check(spawn, "python /venv/bin/uvicorn shop.app:app --workers 2", ("shop.app", "worker"));
        check(spawn, "python pool.py", ("pool", "child of 4242"));
        let tracker = "python -c from_multiprocessing.resource_tracker_import_main";
        check(tracker, "python /venv/bin/uvicorn app:app --workers 2", ("app", "resource tracker"));
    }

    #[test]
    fn a_forked_child_keeps_the_service() {
        let line = words("python /venv/bin/gunicorn -w 3 shop:app");
        let master = Identity::new(Some("checkout".to_owned()), &line, 1, &[]);
        let worker = master.in_child(4242, &line, true);
        worker.worker.store(2, Ordering::Relaxed);
        assert_eq!((&*worker.service, &*worker.role()), ("checkout", "worker 2"));
        assert_eq!(worker.in_child(4250, &line, false).role(), "child of 4250");
        let script = words("python pool.py");
        let main = Identity::new(None, &script, 1, &[]);
        assert_eq!(main.in_child(7, &script, false).role(), "child of 7");
    }

    #[test]
    fn opentelemetrys_names_are_taken() {
        let name = |name, attributes| named_for_opentelemetry(name, attributes);
        assert_eq!(name(Some("shop"), Some("service.name=other")).as_deref(), Some("shop"));
        assert_eq!(name(Some(" "), Some("env=prod, service.name=shop")).as_deref(), Some("shop"));
        assert_eq!(name(None, Some("env=prod")), None);
    }
}
