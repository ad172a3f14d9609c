//! Models in files: the policy `neural:FILE` as it holds wherever a program changes to, and that of `classic`.

use std::fs;
use std::path::Path;

use neurogc_policy::{Bytes, CLASSIC_MODEL, ModelError, Name, Policy, Tuning, classic, learned, policy};

use crate::failure::Failure;
use crate::home::Home;

/// What memory a simulated machine has.
const SIMULATED_MEMORY: Bytes = Bytes::mebibytes(2048);

/// The same policy, with the full path of its file, which must hold a model that this version can use.
pub(crate) fn checked(name: Name) -> Result<Name, Failure> {
    let Name::Neural(Some(file)) = &name else { return Ok(name) };
    load(name.clone(), Tuning::default())?;
    let path = fs::canonicalize(&**file).map_err(|error| wrong(Path::new(&**file), &error.to_string()))?;
    let path = path.to_str().ok_or_else(|| wrong(Path::new(&**file), "its full path is not valid UTF-8"))?;
    Ok(format!("neural:{path}").parse()?)
}

/// The policy of a name, with the model of its file, to be simulated.
pub(crate) fn load(name: Name, tuning: Tuning) -> Result<Box<dyn Policy>, Failure> {
    match name {
        Name::Neural(Some(file)) => read(Path::new(&*file), |bytes| learned(bytes, tuning)),
        Name::Classic(percent) => {
            let home = Home::find().map_err(Failure::failed)?;
            read(&home.folder().join(CLASSIC_MODEL), |bytes| classic(bytes, percent, SIMULATED_MEMORY))
        }
        _ => Ok(policy(name, tuning)),
    }
}

fn read(
    file: &Path,
    made_of: impl FnOnce(&[u8]) -> Result<Box<dyn Policy>, ModelError>,
) -> Result<Box<dyn Policy>, Failure> {
    let bytes = fs::read(file).map_err(|error| wrong(file, &error.to_string()))?;
    made_of(&bytes).map_err(|error| wrong(file, &error.to_string()))
}

fn wrong(file: &Path, reason: &str) -> Failure {
    Failure::usage(format!("cannot use the model {}: {reason}", file.display()))
}
