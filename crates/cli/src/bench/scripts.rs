//! The scenarios' scripts: they travel inside the command, so that an installed one needs no source tree.

use std::io;
use std::path::{Path, PathBuf};

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../bench/scenarios/", $name)))),*]
    };
}

const SCRIPTS: &[(&str, &str)] = scripts![
    "stage.py",
    "acyclic.py",
    "attribution.py",
    "daily.py",
    "demo.py",
    "heavy_objects.py",
    "huge_heap.py",
    "large_heap.py",
    "leak.py",
    "leak_service.py",
    "leak_service_fixed.py",
    "llm_loop.py",
    "mixed.py",
    "overload.py",
    "peers.py",
    "saturated.py",
    "scheduled_gaps.py",
    "train.py",
];

/// Writes all scripts into a folder: what was measured is kept beside the figures.
pub(crate) fn write(folder: &Path) -> io::Result<PathBuf> {
    let scripts = folder.join("scenarios");
    std::fs::create_dir_all(&scripts)?;
    for (name, text) in SCRIPTS {
        std::fs::write(scripts.join(name), text)?;
    }
    std::fs::canonicalize(scripts)
}

#[cfg(test)]
pub(crate) fn is_known(name: &str) -> bool {
    SCRIPTS.iter().any(|(known, _)| *known == name)
}
