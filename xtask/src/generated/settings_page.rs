//! docs/settings.md, written from the catalogue of settings.

use std::fmt::Write as _;

use neurogc_settings::{CATALOGUE, ENVIRONMENT_PREFIX, FILE_NAME, PROJECT_FILE_NAME, Settings, env};

/// The page as it must read.
pub(super) fn text() -> String {
    let defaults = Settings::default();
    let mut page = format!(
        "# Settings\n\n\
        <!-- Written by `cargo run -p xtask -- docs` from crates/settings. Change it there. -->\n\n\
        A setting can be given in five places. The first place in this list that names it takes precedence:\n\n\
        1. a keyword of `neurogc.install(…)`, or `--set NAME=VALUE` of `neurogc run`;\n\
        2. the environment: `{ENVIRONMENT_PREFIX}` and the name in capitals;\n\
        3. the file `{FILE_NAME}` in the working directory, or the file that `{}` names;\n\
        4. the table `tool.neurogc` of `{PROJECT_FILE_NAME}` in the working directory. Only the command reads it: \
        `neurogc run` passes its settings on to the program; a program that calls `neurogc.install()` does not look at it;\n\
        5. the default.\n\n\
        `neurogc doctor` prints the values in force and where each comes from. An unknown name or an invalid value is \
        an error that suggests a correction.\n\n\
        | setting | environment | default | what it does |\n|---|---|---|---|\n",
        env::CONFIG
    );
    for setting in CATALOGUE {
        let shown = (setting.show)(&defaults);
        let default = if shown.is_empty() { "none".to_owned() } else { format!("`{shown}`") };
        let variable = format!("{ENVIRONMENT_PREFIX}{}", setting.name.to_ascii_uppercase());
        let _ =
            writeln!(page, "| `{}` | `{variable}` | {default} | {} |", setting.name, setting.help.replace('|', "\\|"));
    }
    page.push_str(
        "\nThe file is flat TOML:\n\n```toml\npolicy = \"observe\"\nstall_ms = 10\ntrace = \"service.ngct\"\n```\n\n\
        In a project file the settings have a table of their own:\n\n```toml\n[tool.neurogc]\npolicy = \"observe\"\nstall_ms = 10\n```\n",
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_row() {
        let page = text();
        for setting in CATALOGUE {
            assert!(page.contains(&format!("| `{}` |", setting.name)), "{} is missing", setting.name);
        }
        assert!(page.contains("| `trace` | `NEUROGC_TRACE` | none |"), "{page}");
    }
}
