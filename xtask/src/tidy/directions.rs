//! Who may depend on whom, and what may never be loaded into a user's process.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;
use super::tree::Tree;

/// The crates of the repository that each one may use. A new crate needs its line here.
const MAY_USE: &[(&str, &[&str])] = &[
    ("neurogc-policy", &["neurogc-neural"]),
    ("neurogc-neural", &[]),
    ("neurogc-ngch", &[]),
    ("neurogc-wire", &[]),
    ("neurogc-diagnose", &["neurogc-wire"]),
    ("neurogc-sites", &["neurogc-wire"]),
    ("neurogc-load", &[]),
    ("neurogc-preload", &[]),
    ("neurogc-settings", &["neurogc-policy"]),
    ("neurogc-agent", &["neurogc-diagnose", "neurogc-ngch", "neurogc-policy", "neurogc-settings", "neurogc-wire"]),
    ("neurogc-learn", &["neurogc-load", "neurogc-neural", "neurogc-policy", "neurogc-wire"]),
    ("neurogc-gpu", &[]),
    ("neurogc-heap", &["neurogc-ngch"]),
    ("neurogc-hub", &["neurogc-gpu", "neurogc-heap", "neurogc-policy", "neurogc-sites", "neurogc-wire"]),
    (
        "neurogc-cli",
        &[
            "neurogc-diagnose",
            "neurogc-gpu",
            "neurogc-heap",
            "neurogc-hub",
            "neurogc-learn",
            "neurogc-load",
            "neurogc-neural",
            "neurogc-ngch",
            "neurogc-policy",
            "neurogc-settings",
            "neurogc-sites",
            "neurogc-wire",
        ],
    ),
    ("xtask", &["neurogc-policy", "neurogc-settings", "neurogc-wire"]),
];

/// What is loaded into the user's process carries none of these, however deep.
const NEVER_IN_THE_AGENT: [&str; 8] =
    ["tokio", "axum", "hyper", "clap", "clap_builder", "ratatui", "candle-core", "rayon"];

const AGENT: &str = "neurogc-agent";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let uses = used_by_members(&tree.metadata);
    let lock = tree.file("Cargo.lock").map_or("", |file| file.text.as_str());
    let mut findings = wrong_directions(&uses);
    findings.extend(heavy_agent(&uses, lock));
    findings
}

/// Crate → what it uses when it runs or builds, and whether that is one of our own. Tests may use more.
type Uses = BTreeMap<String, BTreeSet<String>>;

fn used_by_members(metadata: &Value) -> Uses {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    list(&metadata["packages"])
        .iter()
        .map(|package| {
            let used = list(&package["dependencies"]);
            (name(package), used.iter().filter(|it| it["kind"] != "dev").map(name).collect())
        })
        .collect()
}

fn wrong_directions(uses: &Uses) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (member, used) in uses {
        let manifest = manifest(member);
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| name == member) else {
            let message = format!("{member} has no line in xtask/src/tidy/directions.rs: what may it use?");
            findings.push(Finding::new(&manifest, 1, message));
            continue;
        };
        for wrong in used.iter().filter(|it| uses.contains_key(*it) && !allowed.contains(&it.as_str())) {
            let message = format!("{member} may not use {wrong} (see ARCHITECTURE.md)");
            findings.push(Finding::new(&manifest, 1, message));
        }
    }
    findings
}

fn manifest(member: &str) -> String {
    match member.strip_prefix("neurogc-") {
        Some(name) => format!("crates/{name}/Cargo.toml"),
        None => format!("{member}/Cargo.toml"),
    }
}

/// Walks everything that the agent brings along, through our manifests and then through the lock file.
fn heavy_agent(uses: &Uses, lock: &str) -> Vec<Finding> {
    let locked = match used_by_locked(lock) {
        Ok(locked) => locked,
        Err(reason) => return vec![Finding::new("Cargo.lock", 1, reason)],
    };
    let mut seen = BTreeMap::from([(AGENT.to_owned(), String::new())]);
    let mut open = vec![AGENT.to_owned()];
    while let Some(name) = open.pop() {
        for next in uses.get(&name).or_else(|| locked.get(&name)).into_iter().flatten() {
            if !seen.contains_key(next) {
                seen.insert(next.clone(), name.clone());
                open.push(next.clone());
            }
        }
    }
    let heavy = NEVER_IN_THE_AGENT.iter().filter_map(|name| Some((name, seen.get(*name)?)));
    heavy
        .map(|(name, by)| {
            let message = format!("`{name}` would be loaded into the user's process (brought by {by})");
            Finding::new(&manifest(AGENT), 1, message)
        })
        .collect()
}

fn used_by_locked(lock: &str) -> Result<Uses, String> {
    let table: toml::Table = lock.parse().map_err(|error| format!("the lock file cannot be read: {error}"))?;
    let packages = table.get("package").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let mut uses = Uses::new();
    for package in &packages {
        let name = package.get("name").and_then(toml::Value::as_str).unwrap_or_default();
        let used = package.get("dependencies").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        // An entry is a name, followed by a version where two are locked; versions make no difference here.
        let names = used.iter().filter_map(|it| Some(it.as_str()?.split(' ').next()?.to_owned()));
        uses.entry(name.to_owned()).or_default().extend(names);
    }
    Ok(uses)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(metadata: Value, lock: &str) -> Vec<String> {
        let mut tree = Tree::of(&[("Cargo.lock", lock)]);
        tree.metadata = metadata;
        check(&tree).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_leaf_that_uses_a_crate_is_found() {
        let metadata = json!({"packages": [
            {"name": "neurogc-policy", "dependencies": [{"name": "neurogc-wire", "kind": null}]},
            {"name": "neurogc-wire", "dependencies": [{"name": "neurogc-policy", "kind": "dev"}]},
        ]});
        assert_eq!(messages(metadata, ""), ["neurogc-policy may not use neurogc-wire (see ARCHITECTURE.md)"]);
    }

    #[test]
    fn a_new_crate_needs_its_line() {
        let metadata = json!({"packages": [{"name": "neurogc-new", "dependencies": []}]});
        assert!(messages(metadata, "")[0].starts_with("neurogc-new has no line in"));
    }

    #[test]
    fn a_heavy_crate_deep_below_the_agent_is_found() {
        let metadata = json!({"packages": [
            {"name": "neurogc-agent", "dependencies": [{"name": "light", "kind": null}, {"name": "clap", "kind": "dev"}]},
        ]});
        let lock = "[[package]]\nname = \"light\"\nversion = \"1.0.0\"\ndependencies = [\"tokio 1.0.0\"]\n";
        assert_eq!(messages(metadata, lock), ["`tokio` would be loaded into the user's process (brought by light)"]);
    }
}
