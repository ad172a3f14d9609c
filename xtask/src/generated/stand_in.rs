//! What the stand-in of the agent in Python knows: an empty report, the settings, the policies.

use std::fmt::Write as _;

use neurogc_policy::POLICIES;
use neurogc_settings::{CATALOGUE, ENVIRONMENT_PREFIX, FILE_NAME, SettingKind, Settings, env};
use neurogc_wire::status::Status;
use serde_json::Value;

/// The module.
pub(super) fn module() -> String {
    let mut text =
        "\"\"\"Written by `cargo run -p xtask -- docs` from crates/wire, crates/settings and crates/policy. \
                    Change it there.\"\"\"\n"
            .to_owned();
    let defaults = Settings::default();
    let _ = writeln!(text, "\nENVIRONMENT_PREFIX = {ENVIRONMENT_PREFIX:?}\nFILE_NAME = {FILE_NAME:?}");
    let _ = writeln!(
        text,
        "CONFIG = {:?}\n\n# Names in the environment that are not settings.\nNOT_SETTINGS = {{",
        env::CONFIG
    );
    for name in env::ALL {
        let _ = writeln!(text, "    {name:?},");
    }
    text.push_str("}\n\n# Each setting: what may be written, and the default.\nSETTINGS = {\n");
    for setting in CATALOGUE {
        let kind = match setting.kind {
            SettingKind::Policy => "(\"policy\",)".to_owned(),
            SettingKind::Text | SettingKind::Address | SettingKind::Secret => "(\"text\",)".to_owned(),
            SettingKind::Number(least, most) => format!("(\"number\", {least}, {most})"),
            SettingKind::Switch => "(\"switch\",)".to_owned(),
            SettingKind::Choice(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
                format!("(\"choice\", {})", words.join(", "))
            }
        };
        let _ = writeln!(text, "    {:?}: ({kind}, {:?}),", setting.name, (setting.show)(&defaults));
    }
    text.push_str("}\n\n# Each policy: what stands behind its colon, how it is written, and what is said where that is wrong.\nPOLICIES = {\n");
    for entry in POLICIES {
        let parameter = entry.parameter.name();
        let _ = writeln!(text, "    {:?}: ({parameter:?}, {:?}, {:?}),", entry.name, entry.written, entry.wanted);
    }
    text.push_str("}\n\n# A report of which nothing is known.\nREPORT = ");
    let report = serde_json::to_value(Status::default()).unwrap_or_default();
    python(&report, 0, &mut text);
    text.push('\n');
    text
}

/// A value as Python writes it.
fn python(value: &Value, depth: usize, to: &mut String) {
    match value {
        Value::Null => to.push_str("None"),
        Value::Bool(yes) => to.push_str(if *yes { "True" } else { "False" }),
        Value::Array(items) if items.is_empty() => to.push_str("[]"),
        Value::Object(fields) => {
            to.push_str("{\n");
            for (name, value) in fields {
                let _ = write!(to, "{}{name:?}: ", "    ".repeat(depth + 1));
                python(value, depth + 1, to);
                to.push_str(",\n");
            }
            to.push_str(&"    ".repeat(depth));
            to.push('}');
        }
        other => {
            let _ = write!(to, "{other}");
        }
    }
}
