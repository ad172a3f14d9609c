//! Models in files: the policies that have one, and who decides where it cannot be used.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use neurogc_policy::{Bytes, CLASSIC_MODEL, MOST_BYTES, ModelError, Name, Policy, classic, learned, policy};

use crate::lifecycle::agent::Agent;
use crate::sense::process::machine_memory;
use crate::sys::native::own_library;

/// The policy of a name, with the model of its file. Where that is no good, another one decides, and the status says so.
pub(crate) fn policy_of(agent: &Agent, name: Name) -> Box<dyn Policy> {
    let tuning = agent.host.settings.tuning;
    match name {
        Name::Neural(Some(file)) => {
            let rules = ("gap decides instead of neural", Name::Gap);
            load(agent, Path::new(&*file), rules, |bytes| learned(bytes, tuning))
        }
        Name::Classic(percent) => {
            let plain = ("cpython decides instead of classic", Name::Cpython);
            load(agent, &in_package(CLASSIC_MODEL), plain, |bytes| classic(bytes, percent, memory(agent)))
        }
        _ => policy(name, tuning),
    }
}

fn load(
    agent: &Agent,
    file: &Path,
    (trouble, instead): (&str, Name),
    made_of: impl FnOnce(&[u8]) -> Result<Box<dyn Policy>, ModelError>,
) -> Box<dyn Policy> {
    let loaded = read(file).and_then(|bytes| made_of(&bytes).map_err(|error| error.to_string()));
    loaded.unwrap_or_else(|reason| {
        let file = file.display();
        agent.ledger().trouble(format!("{trouble}: the model {file} cannot be used: {reason}"));
        policy(instead, agent.host.settings.tuning)
    })
}

/// Reads a model's file, however large it claims to be.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let open = File::open(file).map_err(|error| error.to_string())?;
    open.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// A file of the Python package, where the agent's own library is, too.
fn in_package(file: &str) -> PathBuf {
    own_library().map(PathBuf::from).unwrap_or_default().with_file_name(file)
}

/// What the program can have: all of the machine, or what the user leaves it.
fn memory(agent: &Agent) -> Bytes {
    [machine_memory().map(Bytes::new), agent.host.settings.limits.ceiling]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(Bytes::MAX)
}
