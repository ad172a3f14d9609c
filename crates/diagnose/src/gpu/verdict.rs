//! The verdict on the memory of a GPU: growth joined to what holds it, pieces, and what the allocator keeps.

use neurogc_wire::finding::{CERTAIN, Finding, FindingKind};
use neurogc_wire::gpu::{GpuHolder, GpuReport};

use super::growth::{StepGrowth, WARM_UP, step_growth};
use super::patterns::{HolderGrowth, pattern_of};
use super::series::{StepFigures, StepSeries};
use crate::words;

/// Steps before anything is said.
const EARLY: usize = 48;

/// Growth that was seen for so many steps is certain where its holder is known, and likely where it is not.
const SURE_STEPS: u64 = 96;
const LONG_STEPS: u64 = 256;

/// A holder must explain this share of the growth between two looks.
const EXPLAINED: f64 = 0.4;

/// Slower growth is no alarm.
const SLOW: f64 = 4096.0;

/// Pieces are worth a finding from this size, and from this share of what is reserved.
const PIECES: u64 = 64 << 20;
const PIECES_SHARE: f64 = 0.1;

/// So is what the allocator keeps.
const KEPT: u64 = 256 << 20;
const KEPT_SHARE: f64 = 0.3;

const DOC: &str = "docs/gpu.md#leaks";

/// What is known of one device.
#[derive(Clone, Copy, Debug)]
pub struct GpuEvidence<'a> {
    /// PyTorch's number for it.
    pub device: u32,
    /// Its memory at the ends of steps.
    pub series: &'a StepSeries,
    /// What held its memory, at several moments, the oldest first.
    pub looks: &'a [GpuReport],
}

/// What is the matter with the memory of a device. Nothing before there were enough steps.
#[must_use]
pub fn diagnose_gpu(evidence: &GpuEvidence<'_>) -> Vec<Finding> {
    let recent = evidence.series.recent();
    let Some(last) = evidence.series.last().filter(|_| recent.len() >= EARLY) else { return Vec::new() };
    if let Some(growth) = step_growth(evidence.series) {
        return vec![leak(evidence, growth, last)];
    }
    // The first steps make what all later ones use.
    let warm: Vec<StepFigures> = recent.into_iter().filter(|it| it.step > WARM_UP).collect();
    fragmented(evidence.device, &warm).or_else(|| kept(evidence.device, last)).into_iter().collect()
}

fn leak(evidence: &GpuEvidence<'_>, growth: StepGrowth, last: StepFigures) -> Finding {
    let per_step = words::small_bytes(growth.bytes_step as u64);
    let device = evidence.device;
    let base = Finding {
        kind: FindingKind::GpuLeak,
        rate_bytes_h: growth.bytes_h,
        bytes: last.allocated,
        since_s: growth.since_s,
        doc: DOC.to_owned(),
        ..Finding::default()
    };
    let Some((holder, grown, share)) = grown_most(evidence.looks) else {
        let confidence = if growth.steps >= LONG_STEPS && growth.bytes_step >= SLOW { 0.7 } else { 0.4 };
        return Finding {
            confidence,
            text: format!("Memory of GPU {device} grows by {per_step} per step, and what holds it is not known yet."),
            pattern: "blocks stay from step to step".to_owned(),
            advice: "See who holds the memory: neurogc gpu PID, now and some steps later.".to_owned(),
            ..base
        };
    };
    let confidence = match (growth.bytes_step >= SLOW, growth.steps >= SURE_STEPS, holder.bound) {
        (_, _, Some(bound)) if holder.tensors <= bound => 0.4,
        (false, ..) => 0.5,
        (true, true, _) => 0.95,
        (true, false, _) => 0.75,
    };
    let known = pattern_of(holder.kind, grown);
    let sure = if confidence >= CERTAIN { "certain" } else { "likely" };
    let lead = if confidence >= 0.6 { format!("GPU leak, {sure}") } else { "Perhaps a GPU leak".to_owned() };
    let graphs = match holder.graph_bytes {
        0 => String::new(),
        bytes => format!(", and {} by their graphs", words::small_bytes(bytes)),
    };
    let (count, own) = (words::count(holder.tensors), words::small_bytes(holder.bytes));
    let tensors = if holder.tensors == 1 { "tensor" } else { "tensors" };
    Finding {
        confidence,
        text: format!(
            "{lead}: {} grows by {per_step} per step on GPU {device}: {count} {tensors}, {own}{graphs}.",
            holder.path
        ),
        holder: holder.path.clone(),
        pattern: known.pattern.to_owned(),
        advice: known.advice.to_owned(),
        bytes: holder.all_bytes(),
        share,
        ..base
    }
}

/// The holder that has grown most from the first look to the last, by how much, and its share of the growth.
fn grown_most(looks: &[GpuReport]) -> Option<(&GpuHolder, HolderGrowth, f64)> {
    let (before, after) = (looks.first()?, looks.last()?);
    if after.steps <= before.steps {
        return None;
    }
    let total = |report: &GpuReport| report.devices.iter().map(|it| it.allocated_bytes).sum::<u64>() as f64;
    let grown = after.holders.iter().map(|holder| {
        let earlier = before.holders.iter().find(|it| it.path == holder.path);
        (holder, HolderGrowth::between(earlier, holder))
    });
    let (holder, grown) = grown.filter(|(it, _)| !it.path.is_empty()).max_by_key(|(_, grown)| grown.all())?;
    let share = grown.all() as f64 / (total(after) - total(before)).max(1.0);
    let adds = grown.tensors > 0 || grown.graph_nodes > 0 || grown.graph_bytes > 0;
    (grown.all() > 0 && adds && share >= EXPLAINED).then_some((holder, grown, share.min(1.0)))
}

/// Free pieces that grow while what is in use does not.
fn fragmented(device: u32, recent: &[StepFigures]) -> Option<Finding> {
    let size = recent.len() / 4;
    let windows: Vec<&[StepFigures]> = recent.chunks(size.max(1)).take(4).collect();
    let low = |window: &[StepFigures], of: fn(&StepFigures) -> u64| window.iter().map(of).min().unwrap_or(0);
    let pieces: Vec<u64> = windows.iter().map(|window| low(window, |it| it.inactive)).collect();
    let used: Vec<u64> = windows.iter().map(|window| low(window, |it| it.allocated)).collect();
    let (first, last) = (recent.first()?, recent.last()?);
    let retries = last.retries.saturating_sub(first.retries);
    let now = *pieces.last()?;
    let large = now >= PIECES && now as f64 >= PIECES_SHARE * last.reserved as f64;
    let grows = pieces.windows(2).all(|pair| pair[1] > pair[0]) && now as f64 >= 1.2 * *pieces.first()? as f64;
    let steady = *used.last()? as f64 <= 1.05 * *used.first()? as f64;
    if !large || !steady || !(grows || retries >= 3) {
        return None;
    }
    let (shown, reserved) = (words::bytes(now), words::bytes(last.reserved));
    let tried = match retries {
        0 => String::new(),
        many => format!(" The allocator had to empty its cache {} meanwhile.", words::times(many)),
    };
    Some(Finding {
        kind: FindingKind::GpuFragmented,
        confidence: if grows && retries > 0 { 0.95 } else { 0.75 },
        text: format!(
            "Memory of GPU {device} is in pieces: {shown} of {reserved} is free in pieces that cannot be given back, and \
             that grows while what is in use does not.{tried}"
        ),
        pattern: "fragmentation: blocks of many sizes are cut out of the same segments".to_owned(),
        advice:
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; keep batches and sequences to few sizes (padding, \
                 buckets); call torch.cuda.empty_cache() once after a phase with other sizes, not in each step."
                .to_owned(),
        bytes: now,
        doc: "docs/gpu.md#fragmentation".to_owned(),
        ..Finding::default()
    })
}

/// What the allocator keeps and the program does not use.
fn kept(device: u32, last: StepFigures) -> Option<Finding> {
    let kept = last.reserved.saturating_sub(last.allocated);
    if kept < KEPT || (kept as f64) < KEPT_SHARE * last.reserved as f64 {
        return None;
    }
    let shown = words::bytes(kept);
    Some(Finding {
        kind: FindingKind::GpuCacheKeeps,
        confidence: 0.9,
        text: format!(
            "No leak on GPU {device}: the caching allocator keeps {shown} that steps need again; nvidia-smi counts it as \
             used."
        ),
        advice: String::new(),
        bytes: kept,
        doc: "docs/gpu.md#no-leak".to_owned(),
        ..Finding::default()
    })
}
