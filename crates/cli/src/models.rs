//! Models in files: the policy `neural:FILE` as it holds wherever a program changes to.

use std::fs;

use neurogc_policy::{Name, Policy, Tuning, learned, policy};

use crate::failure::Failure;

/// The same policy, with the full path of its file, which must hold a model that this version can use.
pub(crate) fn checked(name: Name) -> Result<Name, Failure> {
    let Name::Neural(Some(file)) = name else { return Ok(name) };
    load(name, Tuning::default())?;
    let path = fs::canonicalize(file).map_err(|error| wrong(file, &error.to_string()))?;
    let path = path.to_str().ok_or_else(|| wrong(file, "its full path is not valid UTF-8"))?;
    Ok(format!("neural:{path}").parse()?)
}

/// The policy of a name, with the model of its file.
pub(crate) fn load(name: Name, tuning: Tuning) -> Result<Box<dyn Policy>, Failure> {
    let Name::Neural(Some(file)) = name else { return Ok(policy(name, tuning)) };
    let bytes = fs::read(file).map_err(|error| wrong(file, &error.to_string()))?;
    learned(&bytes, tuning).map_err(|error| wrong(file, &error.to_string()))
}

fn wrong(file: &str, reason: &str) -> Failure {
    Failure::usage(format!("cannot use the model {file}: {reason}"))
}
