//! A snapshot of PyTorch's allocator, as text.

use std::fmt::Write;

use neurogc_gpu::{BlockLine, DeviceHistory, DeviceMemory, GpuSnapshot, SiteLine};

use crate::figures::{bytes, count, ms, plain, shorten_front};
use crate::memory::diagnosis::draw;
use crate::table::{Alignment, Table};

/// Frames below the line of the program that are shown of the first sites.
const CALLERS: usize = 2;

/// Settings of the allocator that explain what is seen.
const SETTINGS: [&str; 4] =
    ["PYTORCH_CUDA_ALLOC_CONF", "expandable_segments", "max_split_size", "garbage_collection_threshold"];

/// The report. `top` is how many rows a table may have, `room` how wide a line may be.
pub(crate) fn text(name: &str, report: &GpuSnapshot, top: usize, room: Option<usize>) -> String {
    let mut text = format!("{}: {}", plain(name), bytes(report.file_bytes));
    for setting in SETTINGS {
        let value = report.settings.get(setting).filter(|value| !["", "-1", "0", "false"].contains(&value.as_str()));
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(text, ", {setting} {}", plain(value));
        }
    }
    text.push('\n');
    for remark in &report.remarks {
        let _ = writeln!(text, "{}", plain(remark));
    }
    if report.devices.is_empty() {
        text.push_str("\nThe allocator has taken no memory.\n");
    }
    report.devices.iter().for_each(|device| of_device(&mut text, device));
    if report.sites.is_empty() && !report.largest.is_empty() {
        text.push_str(
            "\nNo call stacks are recorded: call torch.cuda.memory._record_memory_history() before the snapshot to have them.\n",
        );
    }
    sites(&mut text, "\nin use, by the line that allocated it", &report.sites, top, room);
    largest(&mut text, &report.largest, top, room);
    report.history.iter().for_each(|history| of_history(&mut text, history, top, room));
    text
}

fn of_device(to: &mut String, device: &DeviceMemory) {
    let (used, reserved) = (bytes(device.allocated_bytes), bytes(device.reserved_bytes));
    let (blocks, segments) = (counted(device.blocks, "block"), counted(device.segments, "segment"));
    let _ = writeln!(to, "\nGPU {}: {used} in use in {blocks}, {reserved} reserved in {segments}", device.device);
    let mut table = Table::new(&[("MEMORY", Alignment::Right), ("SHARE", Alignment::Right), ("USE", Alignment::Left)]);
    let rounding = device.allocated_bytes.saturating_sub(device.requested_bytes);
    for (size, use_) in [
        (device.allocated_bytes, format!("in use, of which {} is rounding", bytes(rounding))),
        (device.pending_bytes, "freed, and another stream may still use it".to_owned()),
        (device.inactive_bytes, "free in pieces of segments that are in use".to_owned()),
        (device.cached_bytes, "cached, free: torch.cuda.empty_cache() gives it back".to_owned()),
    ] {
        table.row([bytes(size), share(size, device.reserved_bytes), use_]);
    }
    to.push_str(&table.render(2));
    if device.free_blocks > 0 {
        let _ = writeln!(
            to,
            "  fragmentation {:.1} %: {} free in {}, the largest {}",
            100.0 * device.fragmentation,
            bytes(device.inactive_bytes.saturating_add(device.cached_bytes)),
            counted(device.free_blocks, "piece"),
            bytes(device.largest_free_bytes)
        );
    }
    if device.private_bytes > 0 {
        let _ =
            writeln!(to, "  {} are of pools of their own, such as those of CUDA graphs", bytes(device.private_bytes));
    }
    if device.streams.len() > 1 {
        streams(to, device);
    }
}

fn streams(to: &mut String, device: &DeviceMemory) {
    let mut table = Table::new(&[
        ("STREAM", Alignment::Left),
        ("SEGMENTS", Alignment::Right),
        ("RESERVED", Alignment::Right),
        ("IN USE", Alignment::Right),
        ("ACTIVE", Alignment::Right),
        ("IN PIECES", Alignment::Right),
        ("CACHED", Alignment::Right),
    ]);
    for stream in &device.streams {
        let name = if stream.stream == 0 { "default".to_owned() } else { format!("{:#x}", stream.stream) };
        let sizes = [
            stream.reserved_bytes,
            stream.allocated_bytes,
            stream.active_bytes,
            stream.inactive_bytes,
            stream.cached_bytes,
        ];
        table.row([name, count(stream.segments)].into_iter().chain(sizes.map(bytes)));
    }
    to.push_str(&table.render(2));
}

fn sites(to: &mut String, title: &str, sites: &[SiteLine], top: usize, room: Option<usize>) {
    if sites.is_empty() {
        return;
    }
    let _ = writeln!(to, "{title}");
    let mut table =
        Table::new(&[("MEMORY", Alignment::Right), ("BLOCKS", Alignment::Right), ("ALLOCATED AT", Alignment::Left)]);
    for line in sites.iter().take(top) {
        table.row([bytes(line.bytes), count(line.blocks), stack(&line.site, &line.frames)]);
    }
    table.fit_last(2, room, shorten_front);
    to.push_str(&table.render(2));
}

fn largest(to: &mut String, blocks: &[BlockLine], top: usize, room: Option<usize>) {
    if blocks.is_empty() {
        return;
    }
    to.push_str("\nlargest blocks\n");
    let mut table = Table::new(&[
        ("GPU", Alignment::Right),
        ("MEMORY", Alignment::Right),
        ("ASKED FOR", Alignment::Right),
        ("ADDRESS", Alignment::Left),
        ("ALLOCATED AT", Alignment::Left),
    ]);
    for block in blocks.iter().take(top) {
        let freed = if block.pending { "(freed) " } else { "" };
        let at = format!("{freed}{}", stack(&block.site, &block.frames));
        table.row([
            block.device.to_string(),
            bytes(block.bytes),
            bytes(block.requested_bytes),
            block.address.clone(),
            at,
        ]);
    }
    table.fit_last(2, room, shorten_front);
    to.push_str(&table.render(2));
}

/// The line of the program, and its callers.
fn stack(site: &str, frames: &[String]) -> String {
    if site.is_empty() {
        return "(not recorded)".to_owned();
    }
    let at = frames.iter().position(|frame| frame == site).unwrap_or(0);
    let callers = frames.iter().skip(at + 1).take(CALLERS);
    let parts: Vec<_> = std::iter::once(site).chain(callers.map(String::as_str)).map(plain).collect();
    parts.join(" < ")
}

fn of_history(to: &mut String, history: &DeviceHistory, top: usize, room: Option<usize>) {
    let lasted = if history.seconds > 0.0 { format!(" in {}", ms(1e3 * history.seconds)) } else { String::new() };
    let _ = writeln!(
        to,
        "\nhistory of GPU {}: {}{lasted}; {} allocations, {} frees, {} taken from the card, {} given back",
        history.device,
        counted(history.events, "event"),
        count(history.allocs),
        count(history.frees),
        counted(history.segment_allocs, "segment"),
        count(history.segment_frees)
    );
    let points: Vec<_> =
        history.course.iter().map(|point| (point.event as f64, point.allocated_bytes as f64)).collect();
    if points.len() > 1 {
        let _ = writeln!(to, "  {}", draw(&points).0);
    }
    let _ = writeln!(
        to,
        "  in use: {} before, at most {} after event {}, {} at the end",
        bytes(history.start_bytes),
        bytes(history.peak_bytes),
        count(history.peak_event),
        bytes(history.end_bytes)
    );
    if !history.anchored {
        to.push_str("  What was in use before is not known: these sizes are above it.\n");
    }
    for error in &history.errors {
        let by =
            if error.site.is_empty() { String::new() } else { format!(", by {}", stack(&error.site, &error.frames)) };
        let _ = writeln!(
            to,
            "  out of memory at event {}: {} asked for, {} in use, {} free on the card{by}",
            count(error.event),
            bytes(error.asked_bytes),
            bytes(error.allocated_bytes),
            bytes(error.device_free_bytes)
        );
    }
    if history.ooms > history.errors.len() as u64 {
        let _ = writeln!(to, "  and {} more", counted(history.ooms - history.errors.len() as u64, "such error"));
    }
    sites(to, "  allocated since the first event, in use at the peak", &history.at_peak, top, room);
    sites(to, "  allocated since the first event, in use at the end", &history.at_end, top, room);
}

fn share(size: u64, of: u64) -> String {
    format!("{:.1} %", 100.0 * size as f64 / of.max(1) as f64)
}

fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_gpu::sample::{self, Plain};
    use neurogc_gpu::{ReadLimits, read};

    use super::*;

    fn told(bytes: &[u8]) -> String {
        text("snapshot.pickle", &read(bytes, ReadLimits::default()).unwrap(), 10, None)
    }

    #[test]
    fn a_snapshot_with_history() {
        insta::assert_snapshot!(told(&sample::training().pickle()));
    }

    #[test]
    fn a_snapshot_that_was_cut_off_says_so_first() {
        let bytes = sample::training().pickle();
        let text = told(&bytes[..bytes.len() / 4]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].contains("could be read: it is cut off at byte"), "{text}");
        assert!(text.contains("GPU 0: "), "{text}");
    }

    #[test]
    fn what_is_not_recorded_is_told() {
        let none = || Plain::List(Vec::new());
        let block = sample::block(1 << 30, 1 << 20, 1000, "active_allocated", none());
        let text =
            told(&sample::snapshot(vec![sample::segment(0, 0, 1 << 30, 1 << 20, vec![block])], Vec::new()).pickle());
        assert!(text.contains("No call stacks are recorded") && text.contains("(not recorded)"), "{text}");
        assert!(told(&sample::snapshot(Vec::new(), Vec::new()).pickle()).contains("has taken no memory"));
    }
}
