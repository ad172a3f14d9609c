//! The Python package where the target can load it: where it is installed, or a copy in the target's file system.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::facts::TargetFacts;
use super::root::TargetFolder;
use super::text::literal;
use crate::home::Home;

/// The agent's library inside the package.
const AGENT: &str = "_agent.abi3.so";

/// A package that the target can load.
#[derive(Debug)]
pub(crate) struct PlacedPackage {
    /// Its path as the target sees it.
    pub(crate) inside: String,
    /// The folder that was made for it.
    copy: Option<TargetFolder>,
}

impl PlacedPackage {
    /// The package of this command, where the target sees the very same files and may read them; otherwise a copy.
    pub(crate) fn for_target(home: &Home, target: &TargetFacts) -> Result<Self, String> {
        let folder = home.folder();
        if !folder.join(AGENT).is_file() {
            return Err(format!("{} has no {AGENT}: NeuroGC is not completely installed", folder.display()));
        }
        if let Some(inside) = folder.to_str()
            && is_visible(folder, target)
        {
            return Ok(Self { inside: inside.to_owned(), copy: None });
        }
        copy(folder, target).map_err(|error| {
            format!(
                "process {} cannot see {}, and no copy can be put where it could load it ({error}). Its /tmp, /var/tmp, \
                 /dev/shm or /run must be writable for you and not be mounted noexec",
                target.pid,
                folder.display()
            )
        })
    }

    /// Code that loads the package's own part of `attach` as `module`.
    pub(crate) fn loading(&self) -> String {
        loading(&self.inside)
    }

    /// Takes the copy away again, where the target does not need it.
    pub(crate) fn remove(&self) {
        if let Some(copy) = &self.copy {
            copy.remove();
        }
    }
}

fn loading(inside: &str) -> String {
    format!(
        "from _frozen_importlib import module_from_spec\n\
         from _frozen_importlib_external import spec_from_file_location\n\
         home = {home}\n\
         spec = spec_from_file_location('neurogc._attach', home + '/_attach.py')\n\
         module = module_from_spec(spec)\n\
         spec.loader.exec_module(module)\n",
        home = literal(inside)
    )
}

/// Whether the target sees the same file at the same path, and its user may read it.
fn is_visible(folder: &Path, target: &TargetFacts) -> bool {
    let library = folder.join(AGENT);
    let Ok(ours) = fs::metadata(&library) else { return false };
    let root = PathBuf::from(format!("/proc/{}/root", target.pid));
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let Ok(theirs) = fs::metadata(inside(&library)) else { return false };
    let may = |metadata: &fs::Metadata, right: u32| {
        target.uid == 0
            || if metadata.uid() == target.uid {
                metadata.mode() & (right << 6) != 0
            } else if metadata.gid() == target.gid {
                metadata.mode() & (right << 3) != 0
            } else {
                metadata.mode() & right != 0
            }
    };
    let may_enter = |path: &Path| fs::metadata(inside(path)).is_ok_and(|metadata| may(&metadata, 0o1));
    (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
        && may(&theirs, 0o4)
        && fs::metadata(folder.join("__init__.py")).is_ok_and(|metadata| may(&metadata, 0o4))
        && folder.ancestors().all(may_enter)
}

fn copy(folder: &Path, target: &TargetFacts) -> io::Result<PlacedPackage> {
    let made = TargetFolder::create(target, true)?;
    let placed = PlacedPackage { inside: made.inside.clone(), copy: Some(made) };
    let copied = placed.copy.as_ref().map_or(Ok(()), |made| copy_into(made, folder, Path::new("")));
    if copied.is_err() {
        placed.remove();
    }
    copied.map(|()| placed)
}

/// Copies what a program can need at run time.
fn copy_into(made: &TargetFolder, folder: &Path, below: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = below.join(&name);
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if name != "__pycache__" && name != "_inject" {
                made.make_folder(&path)?;
                copy_into(made, folder, &path)?;
            }
        } else if !name.starts_with('.') && !name.ends_with(".pyi") && !name.contains("preload") {
            let mode = if name.ends_with(".so") { 0o700 } else { 0o600 };
            made.write(&path, &fs::read(entry.path())?, mode)?;
        }
    }
    Ok(())
}
