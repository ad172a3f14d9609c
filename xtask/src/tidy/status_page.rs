//! docs/status.md names every field of a status report, and no other.

use std::collections::BTreeSet;

use neurogc_wire::status::{
    Child, Conduct, Failure, Gc, Orders, Requests, Route, SlowRequest, Snapshots, Stall, Stalls, Status,
};
use serde_json::Value;

use super::Finding;
use super::tree::Tree;

const PATH: &str = "docs/status.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let page = tree.file(PATH).map_or("", |file| file.text.as_str());
    let (written, real) = (written_fields(page), real_fields());
    let missing = real.difference(&written).map(|field| format!("the field `{field}` is not described"));
    let surplus = written.difference(&real).map(|field| format!("there is no field `{field}`"));
    missing.chain(surplus).map(|message| Finding::new(PATH, 1, message)).collect()
}

fn real_fields() -> BTreeSet<String> {
    let stalls = Stalls { recent: vec![Stall::default()], ..Stalls::default() };
    let conduct = Conduct { orders: vec![Orders::default()], ..Conduct::default() };
    let snapshot = Snapshots { failures: vec![Failure::default()], ..Snapshots::default() };
    let gc = Gc { snapshot, ..Gc::default() };
    let (routes, slowest) = (vec![Route::default()], vec![SlowRequest::default()]);
    let requests = Requests { routes, slowest, ..Requests::default() };
    let status = Status { stalls, conduct, gc, requests, children: vec![Child::default()], ..Status::default() };
    let mut fields = BTreeSet::new();
    gather("", &serde_json::to_value(status).unwrap_or_default(), &mut fields);
    fields
}

fn gather(path: &str, value: &Value, to: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                gather(&format!("{path}{dot}{name}"), value, to);
            }
        }
        Value::Array(items) if !items.is_empty() => items.iter().for_each(|it| gather(&format!("{path}[]"), it, to)),
        _ => drop(to.insert(path.to_owned())),
    }
}

/// The first code of every table row, with `{a,b}` spelt out.
fn written_fields(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.flat_map(spelt_out).collect()
}

fn spelt_out(field: &str) -> Vec<String> {
    let Some((before, rest)) = field.split_once('{') else { return vec![field.to_owned()] };
    let Some((names, after)) = rest.split_once('}') else { return vec![field.to_owned()] };
    names.split(',').flat_map(|name| spelt_out(&format!("{before}{name}{after}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn braces_are_spelt_out() {
        assert_eq!(spelt_out("a.{b,c}.{d,e}"), ["a.b.d", "a.b.e", "a.c.d", "a.c.e"]);
        assert_eq!(spelt_out("a"), ["a"]);
    }

    #[test]
    fn fields_missing_and_surplus_are_found() {
        let all: String = real_fields().iter().map(|field| format!("| `{field}` | x |\n")).collect();
        assert!(check_one(check, PATH, &all).is_empty());
        let found = check_one(check, PATH, &all.replace("| `memory.rss` |", "| `memory.rsz` |"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(real_fields().contains("children[].rss"));
    }
}
