//! Models in files: the policies that have one, and who decides where it cannot be used.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use neurogc_policy::{Bytes, CLASSIC_MODEL, MOST_BYTES, ModelError, Name, Policy, classic, learned, policy};
use neurogc_settings::Settings;

use crate::sense::process::machine_memory;
use crate::sys::native::own_library;

/// The policy of a name, with the model of its file. Where that is no good, another one decides, and `trouble` is told why.
pub(crate) fn policy_of(settings: &Settings, name: Name, trouble: impl FnOnce(String)) -> Box<dyn Policy> {
    let tuning = settings.tuning;
    match name {
        Name::Neural(Some(file)) => load(Path::new(&*file), |bytes| learned(bytes, tuning)).unwrap_or_else(|reason| {
            trouble(format!("gap decides instead of neural: {reason}"));
            policy(Name::Gap, tuning)
        }),
        Name::Classic(percent) => {
            let made_of = |bytes: &[u8]| classic(bytes, percent, memory(settings));
            load(&in_package(CLASSIC_MODEL), made_of).unwrap_or_else(|reason| {
                trouble(format!("cpython decides instead of classic: {reason}"));
                policy(Name::Cpython, tuning)
            })
        }
        _ => policy(name, tuning),
    }
}

/// The policy of a model's file, or why there is none.
fn load(
    file: &Path,
    made_of: impl FnOnce(&[u8]) -> Result<Box<dyn Policy>, ModelError>,
) -> Result<Box<dyn Policy>, String> {
    let loaded = read(file).and_then(|bytes| made_of(&bytes).map_err(|error| error.to_string()));
    loaded.map_err(|reason| format!("the model {} cannot be used: {reason}", file.display()))
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
fn memory(settings: &Settings) -> Bytes {
    [machine_memory().map(Bytes::new), settings.limits.ceiling].into_iter().flatten().min().unwrap_or(Bytes::MAX)
}
