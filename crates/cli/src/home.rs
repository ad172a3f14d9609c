//! Finding the Python package that is injected: the folder with the agent and its bootstrap.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder inside the package that goes on `PYTHONPATH`.
const INJECT: &str = "_inject";

/// The library inside the package that is preloaded.
const PRELOAD: &str = "libneurogc_preload.abi3.so";

/// The folder of the Python package `neurogc`, checked to be whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home(PathBuf);

impl Home {
    /// Looks where `NEUROGC_HOME` says, or else around the running executable.
    pub(crate) fn find() -> Result<Self, String> {
        let named = std::env::var_os(neurogc_settings::env::HOME).filter(|value| !value.is_empty());
        if let Some(named) = named {
            return Self::check(Path::new(&named)).map_err(|missing| {
                format!(
                    "NEUROGC_HOME is {}, which is not NeuroGC's Python package: {missing}. \
                     Unset it to use the package that was installed with this command",
                    Path::new(&named).display()
                )
            });
        }
        let executable = std::env::current_exe()
            .and_then(fs::canonicalize)
            .map_err(|error| format!("cannot tell where this command is installed: {error}. Set NEUROGC_HOME"))?;
        Self::near(&executable)
    }

    /// Looks around an executable: the package of the same environment, or that of a source tree.
    fn near(executable: &Path) -> Result<Self, String> {
        let candidates = candidates(executable);
        let mut flaw = None;
        for candidate in candidates {
            match Self::check(&candidate) {
                Ok(home) => return Ok(home),
                // A folder that is nearly right tells more than one that is not there at all.
                Err(missing) if candidate.join(INJECT).is_dir() => {
                    flaw.get_or_insert_with(|| format!("; {} is incomplete: {missing}", candidate.display()));
                }
                Err(_) => {}
            }
        }
        Err(format!(
            "cannot find NeuroGC's Python package near {}{}. \
             Install it with `pip install .`, or set NEUROGC_HOME to the folder `neurogc` that holds __init__.py",
            executable.display(),
            flaw.unwrap_or_default()
        ))
    }

    /// Takes a folder that holds everything, or says what is missing. The extension module is not asked for: PyPy and
    /// free-threaded interpreters do without. The path is made absolute, because the program may change its working
    /// directory.
    fn check(folder: &Path) -> Result<Self, String> {
        let folder = fs::canonicalize(folder).map_err(|error| error.to_string())?;
        for part in [Path::new("__init__.py"), &Path::new(INJECT).join("sitecustomize.py")] {
            if !folder.join(part).is_file() {
                return Err(format!("{} is missing", part.display()));
            }
        }
        Ok(Self(folder))
    }

    /// The package's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// The library that samples native allocations, where this package has it.
    pub(crate) fn preload(&self) -> Option<PathBuf> {
        let library = self.0.join(PRELOAD);
        (cfg!(any(target_arch = "aarch64", target_arch = "x86_64")) && library.is_file()).then_some(library)
    }

    /// What goes on `PYTHONPATH`.
    pub(crate) fn inject(&self) -> PathBuf {
        self.0.join(INJECT)
    }
}

/// Where the package may be for an executable, likeliest first.
fn candidates(executable: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(prefix) = executable.parent().and_then(Path::parent) {
        for lib in ["lib", "lib64"] {
            let lib = prefix.join(lib);
            let mut pythons: Vec<_> = entries(&lib)
                .into_iter()
                .filter(|name| name.starts_with("python3") || name.starts_with("pypy3"))
                .collect();
            pythons.sort_unstable();
            for python in pythons.iter().rev() {
                found.push(lib.join(python).join("site-packages/neurogc"));
                found.push(lib.join(python).join("dist-packages/neurogc"));
            }
        }
        found.push(prefix.join("neurogc"));
    }
    found.extend(executable.ancestors().map(|above| above.join("python/neurogc")));
    found
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn package(at: &Path) {
        fs::create_dir_all(at.join(INJECT)).unwrap();
        for file in ["__init__.py", "_inject/sitecustomize.py"] {
            fs::write(at.join(file), "").unwrap();
        }
    }

    #[test]
    fn every_way_of_installing_is_found() {
        let ways = [
            ("bin/neurogc", "lib/python3.12/site-packages/neurogc"),
            ("bin/neurogc", "lib/python3/dist-packages/neurogc"),
            ("bin/neurogc", "lib64/python3.11/site-packages/neurogc"),
            ("bin/neurogc", "lib/pypy3.11/site-packages/neurogc"),
            ("bin/neurogc", "neurogc"),
            ("target/release/neurogc", "python/neurogc"),
        ];
        for (executable, home) in ways {
            let root = tempfile::tempdir().unwrap();
            package(&root.path().join(home));
            let found = Home::near(&root.path().join(executable)).unwrap();
            assert_eq!(found.folder(), fs::canonicalize(root.path()).unwrap().join(home));
        }
    }

    #[test]
    fn a_package_that_is_not_whole_says_what_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("python/neurogc");
        package(&home);
        fs::remove_file(home.join("__init__.py")).unwrap();
        let error = Home::near(&root.path().join("target/debug/neurogc")).unwrap_err();
        assert!(error.contains("__init__.py is missing"), "{error}");
        assert!(error.contains("pip install ."), "{error}");
    }

    #[test]
    fn nothing_found_says_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let error = Home::near(&root.path().join("bin/neurogc")).unwrap_err();
        assert!(error.contains("set NEUROGC_HOME"), "{error}");
    }
}
