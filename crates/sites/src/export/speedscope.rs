//! The file format of speedscope.app: live memory, what was allocated, and growth where there is a comparison.

use std::collections::HashMap;

use neurogc_wire::sites::SiteTable;
use serde_json::{Value, json};

use crate::group::{GroupBy, SiteFilter, SiteGroup, group};
use crate::place::CodeLine;

/// The file, as JSON.
#[must_use]
pub fn encode(table: &SiteTable) -> Value {
    let mut frames = Frames::default();
    let stacks: Vec<(Vec<usize>, SiteGroup<'_>)> = group(table, GroupBy::Stack, SiteFilter::All)
        .into_iter()
        .map(|stack| (stack.places.iter().rev().map(|place| frames.index(*place)).collect(), stack))
        .collect();
    let live = |stack: &SiteGroup<'_>| stack.now.live_bytes;
    let made = |stack: &SiteGroup<'_>| stack.now.made_bytes.saturating_sub(stack.before.made_bytes);
    let grown = |stack: &SiteGroup<'_>| stack.now.live_bytes.saturating_sub(stack.before.live_bytes);
    let mut profiles = vec![profile("live bytes", &stacks, live), profile("allocated bytes", &stacks, made)];
    if table.compared_unix_ms.is_some() {
        profiles.push(profile("growth of live bytes", &stacks, grown));
    }
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("neurogc ", env!("CARGO_PKG_VERSION")),
        "name": format!("memory of process {}", table.pid),
        "activeProfileIndex": 0,
        "shared": {"frames": frames.list},
        "profiles": profiles,
    })
}

#[derive(Default)]
struct Frames<'t> {
    list: Vec<Value>,
    indices: HashMap<CodeLine<'t>, usize>,
}

impl<'t> Frames<'t> {
    fn index(&mut self, place: CodeLine<'t>) -> usize {
        let Self { list, indices } = self;
        *indices.entry(place).or_insert_with(|| {
            let mut frame = json!({"name": place.function});
            if !place.file.is_empty() {
                frame["file"] = place.file.into();
            }
            if place.line > 0 {
                frame["line"] = place.line.into();
            }
            list.push(frame);
            list.len() - 1
        })
    }
}

fn profile(name: &str, stacks: &[(Vec<usize>, SiteGroup<'_>)], weight: impl Fn(&SiteGroup<'_>) -> u64) -> Value {
    let weighty: Vec<_> = stacks.iter().map(|(frames, stack)| (frames, weight(stack))).filter(|it| it.1 > 0).collect();
    let end = weighty.iter().fold(0_u64, |sum, (_, weight)| sum.saturating_add(*weight));
    json!({
        "type": "sampled",
        "name": name,
        "unit": "bytes",
        "startValue": 0,
        "endValue": end,
        "samples": weighty.iter().map(|(frames, _)| frames).collect::<Vec<_>>(),
        "weights": weighty.iter().map(|(_, weight)| weight).collect::<Vec<_>>(),
    })
}
