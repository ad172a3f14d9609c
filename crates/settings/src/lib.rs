//! NeuroGC's settings: one list of names, defaults and checks, and the order in which sources win.
//!
//! keyword > environment (`NEUROGC_<NAME>`) > `neurogc.toml` > `pyproject.toml` > default. Reading the sources is the caller's work, so
//! that nothing here touches the environment or a file.

#![forbid(unsafe_code)]

mod catalogue;
mod dumps;
mod hub;
mod resolve;

pub use catalogue::{AllocationSetting, CATALOGUE, ExplicitCollect, Setting, SettingKind, Settings};
pub use dumps::{DumpSignal, HeapDumpOn};
pub use hub::{HUB_PORT, HubAddress, Secret};
pub use resolve::{Effective, Origin, SettingsError, Sources, resolve};

/// Where every setting is looked for in the environment: `NEUROGC_` and its name in capitals.
pub const ENVIRONMENT_PREFIX: &str = "NEUROGC_";

/// Names in the environment that are not settings.
pub mod env {
    /// A settings file other than `neurogc.toml` in the working directory.
    pub const CONFIG: &str = "NEUROGC_CONFIG";
    /// Set by `neurogc run`: the folder of the Python package to load where none is installed.
    pub const HOME: &str = "NEUROGC_HOME";
    /// Set by `neurogc run`: the process that it became. Other processes are its children.
    pub const ROOT_PID: &str = "NEUROGC_ROOT_PID";
    /// Read by the tests: interpreters to test with.
    pub const TEST_PYTHONS: &str = "NEUROGC_TEST_PYTHONS";

    /// Read by the tests: the built command.
    pub const BIN: &str = "NEUROGC_BIN";
    /// Read by the tests: the stand-in for the agent will do.
    pub const ALLOW_FALLBACK: &str = "NEUROGC_ALLOW_FALLBACK";

    /// All of them.
    pub const ALL: [&str; 6] = [CONFIG, HOME, ROOT_PID, TEST_PYTHONS, BIN, ALLOW_FALLBACK];
}

/// The settings file that is read from the working directory.
pub const FILE_NAME: &str = "neurogc.toml";

/// The project file of the working directory, whose table `tool.neurogc` the command reads.
pub const PROJECT_FILE_NAME: &str = "pyproject.toml";
