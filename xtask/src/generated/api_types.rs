//! The answers of the hub as types for the dashboard, read from the source of the structs that the hub writes as JSON.
//!
//! The structs are private to the hub and are only ever written, so that their shape cannot be asked for at run time as that
//! of the status report can. A type or an attribute that is not understood here is an error, not a guess.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use syn::{Attribute, Field, Fields, GenericArgument, Item, ItemEnum, ItemStruct, PathArguments, Type};

/// Where the types are defined.
pub(crate) const SOURCES: &[&str] = &[
    "crates/cli/src/bench/course.rs",
    "crates/cli/src/bench/machine.rs",
    "crates/cli/src/bench/record.rs",
    "crates/gpu/src/history.rs",
    "crates/gpu/src/map.rs",
    "crates/gpu/src/report.rs",
    "crates/heap/src/views/diff.rs",
    "crates/heap/src/views/merged.rs",
    "crates/heap/src/views/mod.rs",
    "crates/heap/src/views/suspects.rs",
    "crates/heap/src/views/tree.rs",
    "crates/hub/src/alerts/report.rs",
    "crates/hub/src/api/chart.rs",
    "crates/hub/src/api/compare.rs",
    "crates/hub/src/api/heaps.rs",
    "crates/hub/src/api/heat.rs",
    "crates/hub/src/api/orders.rs",
    "crates/hub/src/api/own.rs",
    "crates/hub/src/api/processes.rs",
    "crates/hub/src/api/recordings.rs",
    "crates/hub/src/api/sites.rs",
    "crates/hub/src/census.rs",
    "crates/hub/src/event.rs",
    "crates/hub/src/facts.rs",
    "crates/hub/src/heaps/mod.rs",
    "crates/hub/src/history/mod.rs",
    "crates/hub/src/message.rs",
    "crates/hub/src/process.rs",
    "crates/hub/src/services.rs",
    "crates/hub/src/shelf.rs",
    "crates/hub/src/store/mod.rs",
    "crates/hub/src/store/tiers.rs",
    "crates/hub/src/traces.rs",
    "crates/sites/src/flame.rs",
    "crates/sites/src/group.rs",
    "crates/sites/src/head.rs",
    "crates/sites/src/measure.rs",
    "crates/sites/src/place.rs",
    "crates/sites/src/report.rs",
];

/// What the page asks for; the types that these consist of follow from them.
const ANSWERS: &[&str] = &[
    "HubReport",
    "List",
    "One",
    "SeriesAnswer",
    "HeatAnswer",
    "Events",
    "Comparison",
    "PolicyOffer",
    "ShelfEntry",
    "TraceAnswer",
    "RecordingHead",
    "Run",
    "Sites",
    "LiveMessage",
    "CensusAnswer",
    "HeapList",
    "HeapAnswer",
    "HeapBranches",
    "HeapPaths",
    "HeapGrowth",
    "AlertsReport",
    "GpuSnapshot",
];

/// Types that write themselves as values by the names of series.
const VALUES: &[&str] = &["FigureRow", "ServiceFigures"];

/// Types of the status report, which are in a file of their own.
const OF_STATUS: &[&str] = &["Cause", "Conduct", "Status"];

/// The types, from how files read now.
pub(super) fn types(now: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut known = Definitions::default();
    for path in SOURCES {
        let text = now(path).ok_or_else(|| format!("{path} is not there"))?;
        known.read(&text).map_err(|error| format!("{path}: {error}"))?;
    }
    let mut writer =
        Writer { known: &known, wanted: ANSWERS.iter().map(ToString::to_string).collect(), imports: BTreeSet::new() };
    let mut written: BTreeMap<String, String> = BTreeMap::new();
    while let Some(name) = writer.wanted.pop_first() {
        if let Entry::Vacant(place) = written.entry(name) {
            let name = place.key();
            let text = writer.definition(name).map_err(|error| format!("the type {name} of the API: {error}"))?;
            place.insert(text);
        }
    }
    let mut text = "// Written by `cargo run -p xtask -- docs` from crates/hub, crates/gpu, crates/heap, crates/sites and crates/cli: what the hub answers. Change it there.\n\n".to_owned();
    let imports: Vec<_> = writer.imports.into_iter().collect();
    let _ = writeln!(text, "import type {{ {} }} from \"./status\";", imports.join(", "));
    let _ =
        writeln!(text, "\n/** Values by the names of series. */\nexport type Values = Record<string, number | null>;");
    written.values().for_each(|definition| text.push_str(definition));
    Ok(text)
}

/// Everything that is defined in the sources.
#[derive(Default)]
struct Definitions {
    structs: BTreeMap<String, ItemStruct>,
    enums: BTreeMap<String, ItemEnum>,
    aliases: BTreeMap<String, Type>,
}

impl Definitions {
    fn read(&mut self, source: &str) -> Result<(), String> {
        let file = syn::parse_file(source).map_err(|error| error.to_string())?;
        for item in file.items {
            let (name, twice) = match item {
                Item::Struct(item) if is_written(&item.attrs) => {
                    (item.ident.to_string(), self.structs.insert(item.ident.to_string(), item).is_some())
                }
                Item::Enum(item) if is_written(&item.attrs) => {
                    (item.ident.to_string(), self.enums.insert(item.ident.to_string(), item).is_some())
                }
                Item::Type(item) => {
                    (item.ident.to_string(), self.aliases.insert(item.ident.to_string(), *item.ty).is_some())
                }
                _ => continue,
            };
            if twice {
                return Err(format!("{name} is defined twice"));
            }
        }
        Ok(())
    }
}

/// Whether a type is written as JSON, and not only read.
fn is_written(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|attribute| {
        let mut found = false;
        let read = attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("Serialize");
            Ok(())
        });
        read.is_ok() && found
    })
}

/// Writes definitions, and notes which others they need.
struct Writer<'d> {
    known: &'d Definitions,
    wanted: BTreeSet<String>,
    imports: BTreeSet<&'static str>,
}

impl Writer<'_> {
    fn definition(&mut self, name: &str) -> Result<String, String> {
        if let Some(item) = self.known.structs.get(name) {
            let generics: Vec<_> = item.generics.type_params().map(|parameter| parameter.ident.to_string()).collect();
            let parameters = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
            let body = self.object(&item.fields, &generics, "")?;
            return Ok(format!("\n{}export type {name}{parameters} = {body};\n", doc(&item.attrs, "")));
        }
        let item = self.known.enums.get(name).ok_or("it is in none of the files that are read")?;
        let serde = Serde::of(&item.attrs)?;
        if serde.rename_all.as_deref() != Some("snake_case") {
            return Err("an enum must have `rename_all = \"snake_case\"`".to_owned());
        }
        let mut variants = Vec::new();
        for variant in &item.variants {
            let word = snake_case(&variant.ident.to_string());
            variants.push(match (&serde.tag, &variant.fields) {
                (None, Fields::Unit) => format!("\"{word}\""),
                (Some(tag), Fields::Named(_)) => {
                    self.object(&variant.fields, &[], &format!("  {tag}: \"{word}\";\n"))?
                }
                _ => return Err(format!("the variant {word} has a form that is not understood")),
            });
        }
        let (before, apart) = if serde.tag.is_some() { ("\n  | ", "\n  | ") } else { (" ", " | ") };
        Ok(format!("\n{}export type {name} ={before}{};\n", doc(&item.attrs, ""), variants.join(apart)))
    }

    /// An object, together with those whose fields are put among its own.
    fn object(&mut self, fields: &Fields, generics: &[String], first: &str) -> Result<String, String> {
        let (mut parts, mut own) = (Vec::new(), first.to_owned());
        for field in fields {
            let serde = Serde::of(&field.attrs)?;
            if serde.skip {
                continue;
            }
            let written = self.written(&field.ty, generics)?;
            if serde.flatten {
                parts.push(written);
            } else {
                let optional = if serde.optional { "?" } else { "" };
                let name = serde.rename.map_or_else(|| field_name(field), Ok)?;
                let _ = writeln!(own, "{}  {name}{optional}: {written};", doc(&field.attrs, "  "));
            }
        }
        parts.push(format!("{{\n{own}}}"));
        Ok(parts.join(" & "))
    }

    fn written(&mut self, shape: &Type, generics: &[String]) -> Result<String, String> {
        let path = match shape {
            Type::Reference(inner) => return self.written(&inner.elem, generics),
            Type::Slice(inner) => return Ok(format!("{}[]", grouped(&self.written(&inner.elem, generics)?))),
            Type::Array(inner) => return Ok(format!("{}[]", grouped(&self.written(&inner.elem, generics)?))),
            Type::Tuple(tuple) => {
                let parts: Result<Vec<_>, _> = tuple.elems.iter().map(|part| self.written(part, generics)).collect();
                return Ok(format!("[{}]", parts?.join(", ")));
            }
            Type::Path(path) => path,
            _ => return Err("a field has a type that is not understood".to_owned()),
        };
        let last = path.path.segments.last().ok_or("a type without a name")?;
        let name = last.ident.to_string();
        let mut inner = Vec::new();
        if let PathArguments::AngleBracketed(arguments) = &last.arguments {
            for argument in &arguments.args {
                if let GenericArgument::Type(shape) = argument {
                    inner.push(self.written(shape, generics)?);
                }
            }
        }
        Ok(match (name.as_str(), inner.as_slice()) {
            ("u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" | "f32" | "f64", _) => "number".to_owned(),
            ("String" | "str" | "PathBuf", _) => "string".to_owned(),
            ("bool", _) => "boolean".to_owned(),
            ("Value", _) => "unknown".to_owned(),
            ("Option", [inner]) => format!("{inner} | null"),
            ("Vec", [inner]) => format!("{}[]", grouped(inner)),
            ("BTreeMap", [_, inner]) | ("Columns", [inner]) => format!("Record<string, {inner}>"),
            (values, []) if VALUES.contains(&values) => "Values".to_owned(),
            (parameter, []) if generics.iter().any(|generic| generic == parameter) => name,
            (status, []) if OF_STATUS.contains(&status) => {
                self.imports.extend(OF_STATUS.iter().find(|known| **known == status));
                name
            }
            (alias, []) if self.known.aliases.contains_key(alias) => {
                self.written(&self.known.aliases[alias], generics)?
            }
            (_, inner) => {
                self.wanted.insert(name.clone());
                if inner.is_empty() { name } else { format!("{name}<{}>", inner.join(", ")) }
            }
        })
    }
}

/// A union in a list needs brackets.
fn grouped(written: &str) -> String {
    if written.contains(" | ") && !written.ends_with('>') { format!("({written})") } else { written.to_owned() }
}

fn field_name(field: &Field) -> Result<String, String> {
    let name = field.ident.as_ref().ok_or("a field has no name")?.to_string();
    Ok(name.trim_start_matches("r#").to_owned())
}

/// What serde is told about a type or a field, as far as it matters for what is written.
#[derive(Default)]
struct Serde {
    flatten: bool,
    skip: bool,
    optional: bool,
    tag: Option<String>,
    rename: Option<String>,
    rename_all: Option<String>,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Result<Self, String> {
        let mut serde = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            let read = attribute.parse_nested_meta(|meta| {
                let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let text = || meta.value()?.parse::<syn::LitStr>().map(|text| text.value());
                match word.as_str() {
                    "flatten" => serde.flatten = true,
                    "skip" => serde.skip = true,
                    "skip_serializing_if" => serde.optional = !text()?.is_empty(),
                    "tag" => serde.tag = Some(text()?),
                    "rename" => serde.rename = Some(text()?),
                    "rename_all" => serde.rename_all = Some(text()?),
                    // This is about reading only.
                    "default" => {}
                    _ => return Err(meta.error("this attribute is not understood")),
                }
                Ok(())
            });
            read.map_err(|error| error.to_string())?;
        }
        Ok(serde)
    }
}

/// The comment before a definition or a field.
fn doc(attributes: &[Attribute], indent: &str) -> String {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(|attribute| {
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) =
            &attribute.meta.require_name_value().ok()?.value
        else {
            return None;
        };
        Some(text.value().trim().to_owned())
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    if text.is_empty() { text } else { format!("{indent}/** {text} */\n") }
}

/// `InGapArrivals` as `in_gap_arrivals`.
fn snake_case(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, name: &str, expect: &str) {
        let mut known = Definitions::default();
        let source = source
            .replace("struct ", "#[derive(Debug, Serialize)] struct ")
            .replace("enum ", "#[derive(Serialize)] enum ");
        known.read(&source).unwrap_or_else(|error| panic!("{error}"));
        let mut writer = Writer { known: &known, wanted: BTreeSet::new(), imports: BTreeSet::new() };
        let text = writer.definition(name).unwrap_or_else(|error| error);
        assert_eq!(text.trim(), expect);
    }

    #[test]
    fn structs_and_enums_become_types() {
        check(
            "/// One.\nstruct A<'a> { #[serde(flatten)] head: B, /// Its name.\n name: &'a str, t: Vec<Option<f32>>, #[serde(skip)] x: X }",
            "A",
            "/** One. */\nexport type A = B & {\n  /** Its name. */\n  name: string;\n  t: (number | null)[];\n};",
        );
        check(
            "struct P<T> { a: T, r#type: Columns<P<Vec<T>>>, #[serde(skip_serializing_if = \"F::none\")] f: F }\ntype F = BTreeMap<String, f64>;",
            "P",
            "export type P<T> = {\n  a: T;\n  type: Record<string, P<T[]>>;\n  f?: Record<string, number>;\n};",
        );
        check("struct A { #[serde(rename = \"type\")] a: u8 }", "A", "export type A = {\n  type: number;\n};");
        check(
            "#[serde(rename_all = \"snake_case\")] enum E { InGap, Gone }",
            "E",
            "export type E = \"in_gap\" | \"gone\";",
        );
        check(
            "#[serde(tag = \"kind\", rename_all = \"snake_case\")] enum E { Gone { id: u64 } }",
            "E",
            "export type E =\n  | {\n  kind: \"gone\";\n  id: number;\n};",
        );
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        check("struct A { #[serde(with = \"b\")] a: u8 }", "A", "this attribute is not understood");
        check("enum E { A }", "E", "an enum must have `rename_all = \"snake_case\"`");
        check("struct A { a: fn() }", "A", "a field has a type that is not understood");
        check("struct A { a: u8 }", "B", "it is in none of the files that are read");
    }
}
