//! Measures an analysis: seconds of each step, and memory for each object.
//!
//! `analyse make OBJECTS FILE [shuffled]` writes a made-up dump, and `analyse FILE` analyses one. `bench/heap.py` does the
//! same with dumps of real programs.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use neurogc_heap::sample::{HeapSample, ReferenceRun};
use neurogc_heap::views::{self, PlaceTable, TypeOrder};
use neurogc_heap::{Dump, Heap, HeapPlaces, Paths};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", objects, file] => Ok(fs::write(file, service(objects.parse()?, false))?),
        ["make", objects, file, "shuffled"] => Ok(fs::write(file, service(objects.parse()?, true))?),
        [file] => analyse(Path::new(file)),
        _ => Err("analyse FILE, or analyse make OBJECTS FILE [shuffled]".into()),
    }
}

/// A random number that is the same each time.
fn random(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as usize % below.max(1)
}

/// Orders with lines and texts; shuffled ones are in random order and each refers to others as well.
fn service(objects: usize, shuffled: bool) -> Vec<u8> {
    let mut sample = HeapSample::new();
    let order = sample.class("shop.Order", &["name", "lines", "total", "others"]);
    let mut state = 88_172_645_463_325_252;
    let (mut orders, mut texts) = (Vec::new(), Vec::new());
    while sample.len() < objects {
        for _ in 0..4 {
            texts.push(sample.text(&format!("text {}", texts.len())));
        }
        let mut pick = |texts: &[u32]| {
            let near = texts.len() - 1 - random(&mut state, 3);
            if shuffled { texts[random(&mut state, texts.len())] } else { texts[near] }
        };
        let (name, first, second) = (pick(&texts), pick(&texts), pick(&texts));
        let total = sample.integer(sample.len() as i64);
        let lines = sample.list(&[first, second]);
        orders.push(sample.instance(order, &[name, lines, total]));
        if shuffled && orders.len().is_multiple_of(10) {
            let others: Vec<u32> = (0..20).map(|_| orders[random(&mut state, orders.len())]).collect();
            let list = sample.list(&others);
            let last = orders[orders.len() - 1];
            sample.link(last, ReferenceRun::Fields(vec![(9, list)]));
        }
    }
    let (orders, texts) = (sample.list(&orders), sample.list(&texts));
    sample.module("shop", &[("orders", orders), ("texts", texts)]);
    sample.encode()
}

/// Anonymous memory: the most so far, as far as the kernel tells, and now, in bytes.
fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    (figure("VmHWM:").saturating_sub(figure("RssFile:")), figure("RssAnon:"))
}

fn analyse(file: &Path) -> Outcome {
    let began = Instant::now();
    let mut last = (began, "open");
    let mut lap = |next: &'static str| {
        let (from, what) = std::mem::replace(&mut last, (Instant::now(), next));
        println!("{:8.3} s  {what:<24} {:6} MB now", from.elapsed().as_secs_f64(), memory().1 >> 20);
    };
    let dump = Dump::open(file)?;
    let heap = Heap::analyse(dump, &mut |step| lap(step.name()))?;
    lap("types");
    let types = views::types(&heap, TypeOrder::Bytes);
    lap("paths");
    let paths = Paths::find(&heap)?;
    lap("suspects and largest");
    let shown = views::suspects(&heap, &paths).len() + views::largest(&heap, &paths, 15).len();
    lap("end of show");
    let (all, (most, _)) = (began.elapsed().as_secs_f64(), memory());
    let objects = heap.graph.objects() as u64;
    println!(
        "{all:8.3} s  show: {objects} objects, {} references, {} types, {shown} lines; at most {} bytes an object",
        heap.graph.links.targets.len(),
        types.len(),
        most / objects
    );
    lap("places");
    let places = HeapPlaces::of(&heap, &paths)?;
    let table = PlaceTable::new(&places, &views::summary(&heap));
    lap("end");
    let rows = views::growth(&table, &table, None, 1).rows.len();
    println!("{} places, {rows} grew; at most {} bytes an object", places.nodes.len(), memory().0 / objects);
    Ok(())
}
