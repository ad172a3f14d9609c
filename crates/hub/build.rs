//! Lists the files of the built dashboard, so that the hub carries them all.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../dashboard/dist");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut list = String::from("&[\n");
    if folder.is_dir() {
        add(&folder.canonicalize()?, "", &mut list)?;
    }
    list.push(']');
    fs::write(Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("assets.rs"), list)
}

fn add(folder: &Path, above: &str, list: &mut String) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{above}/{}", entry.file_name().to_string_lossy());
        println!("cargo::rerun-if-changed={}", entry.path().display());
        if entry.file_type()?.is_dir() {
            add(&entry.path(), &name, list)?;
        } else {
            writeln!(list, "    ({name:?}, include_bytes!({:?})),", entry.path()).map_err(io::Error::other)?;
        }
    }
    Ok(())
}
