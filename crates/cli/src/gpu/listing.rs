//! Who holds the memory of GPUs, as text.

use std::fmt::Write;

use neurogc_wire::finding::Finding;
use neurogc_wire::gpu::{Gpu, GpuDevice, GpuHeld, GpuReport};

use crate::figures::{bytes, count, ms, plain, shorten};
use crate::table::{Alignment, Table};
use crate::verdict;

/// Rows of holders.
const HOLDERS: usize = 15;

/// The report, with what is the matter before it. `room` is how wide a line may be.
pub(crate) fn text(report: &GpuReport, findings: &[Finding], room: Option<usize>) -> String {
    let mut text = String::new();
    for finding in findings {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", verdict::line(finding));
        if !finding.pattern.is_empty() {
            let _ = writeln!(text, "  pattern: {}", plain(&finding.pattern));
        }
    }
    if !findings.is_empty() {
        text.push('\n');
    }
    if report.devices.is_empty() {
        text.push_str("No GPU is in use.\n");
    }
    report.devices.iter().for_each(|device| of_device(&mut text, device));
    holders(&mut text, report, room);
    let all = if report.complete { "" } else { "; time ran out, so that something may be missing" };
    let _ = writeln!(text, "\nlooked for {}{all}", ms(report.took_ms));
    text
}

fn of_device(to: &mut String, device: &GpuHeld) {
    let card = match device.card_bytes {
        0 => String::new(),
        total => format!(", {} of {} on the card free", bytes(device.card_free_bytes), bytes(total)),
    };
    let name = if device.name.is_empty() { String::new() } else { format!(" ({})", plain(&device.name)) };
    let _ = writeln!(
        to,
        "GPU {}{name}: {} in use, {} reserved{card}",
        device.device,
        bytes(device.allocated_bytes),
        bytes(device.reserved_bytes)
    );
    let mut table = Table::new(&[("MEMORY", Alignment::Right), ("SHARE", Alignment::Right), ("USE", Alignment::Left)]);
    let share = |size: u64| format!("{:.1} %", 100.0 * size as f64 / (device.reserved_bytes.max(1)) as f64);
    let kept = [("cached, free: torch.cuda.empty_cache() gives it back", device.cached)];
    let pieces = [("free in pieces of segments that are in use", device.fragmented)];
    for (use_, size) in device.categories().into_iter().chain(kept).chain(pieces) {
        table.row([bytes(size), share(size), use_.to_owned()]);
    }
    if let Some(size) = device.not_pytorch {
        table.row([bytes(size), String::new(), "not PyTorch's: CUDA itself, other libraries".to_owned()]);
    }
    for other in &device.others {
        table.row([bytes(other.bytes), String::new(), format!("process {}", other.pid)]);
    }
    to.push_str(&table.render(2));
    let _ = writeln!(to, "  {:.1} % of what is in use is attributed", 100.0 * device.attributed());
}

fn holders(to: &mut String, report: &GpuReport, room: Option<usize>) {
    if report.holders.is_empty() {
        return;
    }
    to.push_str("\nother tensors, and the graphs that they keep\n");
    let mut table = Table::new(&[
        ("TENSORS", Alignment::Right),
        ("MEMORY", Alignment::Right),
        ("GRAPH", Alignment::Right),
        ("HELD BY", Alignment::Left),
    ]);
    for holder in report.holders.iter().take(HOLDERS) {
        let path = match holder.path.as_str() {
            "" => "(nothing that Python code shows)".to_owned(),
            path => plain(path),
        };
        table.row([count(holder.tensors), bytes(holder.bytes), bytes(holder.graph_bytes), path]);
    }
    table.fit_last(2, room, shorten);
    to.push_str(&table.render(2));
    if report.holders.len() > HOLDERS {
        let _ = writeln!(to, "  and {} more", report.holders.len() - HOLDERS);
    }
}

/// The memory of GPUs in a status report; empty where none is used.
pub(crate) fn of_status(gpu: &Gpu) -> String {
    let mut text = String::new();
    for device in &gpu.devices {
        let _ = writeln!(
            text,
            "  GPU {}: {} in use (peak {}), {} active, {} reserved, {} free in pieces, {} retries",
            device.device,
            bytes(device.allocated_bytes),
            bytes(device.peak_bytes),
            bytes(device.active_bytes),
            bytes(device.reserved_bytes),
            bytes(device.inactive_bytes),
            count(device.retries)
        );
        if device.card_bytes > 0 {
            let (free, total) = (bytes(device.card_free_bytes), bytes(device.card_bytes));
            let others = match (device.other_processes, device.other_processes_bytes) {
                (Some(1), Some(size)) => format!("; one other process has {}", bytes(size)),
                (Some(many @ 2..), Some(size)) => format!("; {} other processes have {}", count(many), bytes(size)),
                _ => String::new(),
            };
            let _ = writeln!(text, "    on the card {free} of {total} are free{others}");
        }
    }
    if let Some(pinned) = gpu.pinned_bytes.filter(|_| !gpu.devices.is_empty()) {
        let _ = writeln!(text, "  {} steps, pinned host memory {}", count(gpu.steps), bytes(pinned));
    }
    if gpu.ooms > 0 {
        let (all, handled) = (count(gpu.ooms), count(gpu.ooms_handled));
        let _ = writeln!(
            text,
            "  out of memory: {all}, of which the program handled {handled}; {}",
            plain(&gpu.oom_report)
        );
    }
    text
}

/// The same in a few words, for the live view: in use and reserved, and as much more as fits into `room` columns, errors first.
pub(crate) fn in_brief(gpu: &Gpu, room: usize) -> Option<String> {
    if gpu.devices.is_empty() {
        return None;
    }
    let sum = |of: fn(&GpuDevice) -> u64| gpu.devices.iter().map(of).fold(0, u64::saturating_add);
    let retries = sum(|it| it.retries);
    let more = [
        (gpu.ooms > 0).then(|| format!("{} out of memory", count(gpu.ooms))),
        (retries > 0).then(|| format!("{} retries", count(retries))),
        Some(format!("{} in pieces", bytes(gpu.inactive_bytes))),
        Some(format!("{} active", bytes(sum(|it| it.active_bytes)))),
    ];
    let mut text = format!("gpu {} of {} reserved", bytes(gpu.allocated_bytes), bytes(gpu.reserved_bytes));
    for part in more.into_iter().flatten() {
        if text.len() + 2 + part.len() > room {
            break;
        }
        let _ = write!(text, ", {part}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use neurogc_wire::finding::FindingKind;
    use neurogc_wire::gpu::{GpuHolder, GpuHolderKind, GpuProcess};

    use super::*;

    fn report() -> GpuReport {
        let mib = |size: u64| size << 20;
        let device = GpuHeld {
            name: "NVIDIA H200".to_owned(),
            card_bytes: mib(143_000),
            card_free_bytes: mib(120_000),
            reserved_bytes: mib(20_000),
            allocated_bytes: mib(16_000),
            parameters: mib(4000),
            gradients: mib(2000),
            optimizer: mib(8000),
            buffers: mib(10),
            activations: mib(1500),
            other: mib(400),
            unseen: mib(90),
            cached: mib(3100),
            fragmented: mib(900),
            not_pytorch: Some(mib(520)),
            others: vec![GpuProcess { pid: 77, bytes: mib(2000) }],
            ..GpuHeld::default()
        };
        let holder = GpuHolder {
            path: r#"__main__.trainer.history["loss"][…]"#.to_owned(),
            kind: GpuHolderKind::Container,
            tensors: 412,
            bytes: mib(1),
            graph_bytes: mib(1200),
            graph_nodes: 9000,
            bound: None,
        };
        let rest = GpuHolder { tensors: 3, bytes: mib(20), ..GpuHolder::default() };
        GpuReport { devices: vec![device], holders: vec![holder, rest], steps: 412, took_ms: 118.0, complete: true }
    }

    #[test]
    fn the_report_of_a_training_loop() {
        let finding = Finding {
            kind: FindingKind::GpuLeak,
            confidence: 0.95,
            text: "GPU leak, certain: losses[…] grows by 3 MiB per step on GPU 0.".to_owned(),
            pattern: "loss or output kept with its graph".to_owned(),
            advice: "Keep loss.item().".to_owned(),
            ..Finding::default()
        };
        insta::assert_snapshot!(text(&report(), &[finding], Some(100)));
    }

    #[test]
    fn a_process_without_a_gpu_has_no_lines() {
        assert_eq!((of_status(&Gpu::default()), in_brief(&Gpu::default(), 80)), (String::new(), None));
        assert!(text(&GpuReport::default(), &[], None).starts_with("No GPU is in use.\n"));
    }

    #[test]
    fn the_status_names_devices_and_errors() {
        let device = GpuDevice {
            allocated_bytes: 1 << 30,
            active_bytes: 3 << 29,
            reserved_bytes: 2 << 30,
            retries: 4,
            card_bytes: 8 << 30,
            other_processes: Some(2),
            other_processes_bytes: Some(1 << 30),
            ..GpuDevice::default()
        };
        let gpu = Gpu {
            allocated_bytes: 1 << 30,
            reserved_bytes: 2 << 30,
            inactive_bytes: 1 << 28,
            ooms: 3,
            ooms_handled: 2,
            oom_report: "/tmp/neurogc-oom-7.txt".to_owned(),
            devices: vec![device],
            ..Gpu::default()
        };
        let text = of_status(&gpu);
        assert!(text.contains("1.0 GiB in use") && text.contains("handled 2; /tmp/neurogc-oom-7.txt"), "{text}");
        assert!(text.contains("1.5 GiB active") && text.contains("2 other processes have 1.0 GiB"), "{text}");
        let all = "gpu 1.0 GiB of 2.0 GiB reserved, 3 out of memory, 4 retries, 256 MiB in pieces, 1.5 GiB active";
        assert_eq!(in_brief(&gpu, 200).as_deref(), Some(all));
        assert_eq!(in_brief(&gpu, all.len() - 1).as_deref(), all.strip_suffix(", 1.5 GiB active"));
        assert_eq!(in_brief(&gpu, 10).as_deref(), Some("gpu 1.0 GiB of 2.0 GiB reserved"));
    }
}
