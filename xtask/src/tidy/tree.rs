//! The files of the repository and Cargo's view of its crates.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Everything that the checks look at.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Text files that git tracks or would track.
    pub(super) files: Vec<File>,
    /// Paths of all files, of text or not.
    pub(super) paths: Vec<String>,
    /// `cargo metadata --no-deps`.
    pub(super) metadata: Value,
}

/// A text file.
#[derive(Debug)]
pub(super) struct File {
    /// From the root of the repository, with forward slashes.
    pub(super) path: String,
    /// What it holds.
    pub(super) text: String,
}

impl File {
    /// Lines with their numbers, counted from one.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Whether its name ends in one of these, without the dot.
    pub(super) fn has_extension(&self, extensions: &[&str]) -> bool {
        Path::new(&self.path).extension().is_some_and(|it| extensions.iter().any(|known| it == *known))
    }
}

impl Tree {
    /// Reads the repository at `root`.
    pub(super) fn load(root: &Path) -> Result<Self, String> {
        let list = output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"])?;
        let paths: Vec<_> = list.lines().filter(|path| root.join(path).is_file()).map(str::to_owned).collect();
        let files = paths
            .iter()
            .filter_map(|path| {
                let text = String::from_utf8(std::fs::read(root.join(path)).ok()?).ok()?;
                Some(File { path: path.clone(), text })
            })
            .collect();
        let metadata = output(root, "cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
        let metadata = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
        Ok(Self { files, paths, metadata })
    }

    /// The file at this path.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files of the product and its tools.
    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.has_extension(&["rs"]))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect(),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            metadata: Value::Null,
        }
    }
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let shown = format!("{program} {}", arguments.join(" "));
    let done = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("`{shown}` cannot be run: {error}"))?;
    if !done.status.success() {
        return Err(format!("`{shown}` failed: {}", String::from_utf8_lossy(&done.stderr).trim()));
    }
    String::from_utf8(done.stdout).map_err(|_| format!("`{shown}` did not print text"))
}
