//! A folder with a stand-in for the Python package, and the binary started in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary under test.
pub(crate) const NEUROGC: &str = env!("CARGO_BIN_EXE_neurogc");

/// A package that answers as the real one does, without an agent.
const PACKAGE: &str = r#"
def install(policy="auto", **settings): pass
def status(): return {"pid": 1, "python": "CPython", "neurogc": "0.1.0", "policy": "observe",
                      "degraded": ["this is a stand-in"], "memory": {"rss": 1, "limit": 1048576}}
"#;

pub(crate) struct CliScene {
    folder: tempfile::TempDir,
}

impl CliScene {
    pub(crate) fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(scene.home().join("_inject")).unwrap();
        fs::create_dir(scene.work()).unwrap();
        fs::write(scene.home().join("__init__.py"), PACKAGE).unwrap();
        fs::write(scene.home().join("_agent.abi3.so"), "").unwrap();
        fs::write(scene.home().join("_inject/sitecustomize.py"), "").unwrap();
        scene
    }

    /// The stand-in package.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("neurogc")
    }

    /// The working directory.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file in the working directory.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes an executable file in the working directory.
    pub(crate) fn program(&self, name: &str, content: &str) -> PathBuf {
        let path = self.file(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A program that sees the environment of the scene.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("NEUROGC_") || name == "PYTHONPATH" || name == "VIRTUAL_ENV" {
                command.env_remove(name);
            }
        }
        command.current_dir(self.work()).env("NEUROGC_HOME", self.home());
        command
    }

    /// The binary with arguments.
    pub(crate) fn neurogc(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(NEUROGC);
        command.args(arguments);
        command
    }

    /// Runs the binary and expects an exit code and a part of what it says on standard error.
    #[track_caller]
    pub(crate) fn check(&self, arguments: &[&str], code: i32, expect: &str) -> Output {
        check(&mut self.neurogc(arguments), code, expect)
    }
}

/// Runs a command and expects an exit code and a part of what it says on standard error.
#[track_caller]
pub(crate) fn check(command: &mut Command, code: i32, expect: &str) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(expect), "{errors}");
    output
}

/// What a command wrote.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
