//! Whether memory grows from step to step.
//!
//! Steps are grouped into windows, and the lowest of each window counts, so that what accumulation, evaluation and other
//! phases take for a while does not. Growth is growth of bytes *and* of blocks: tensors that only get larger, as with
//! longer sequences, take the place of others.

use super::series::{StepFigures, StepSeries};

/// Steps that warm up: optimizers make their state, libraries their workspaces, compilers their code.
pub(super) const WARM_UP: u64 = 8;

/// Windows, the fewest points of a window, and the most.
const WINDOWS: usize = 6;
const LEAST: usize = 8;
const MOST: usize = 32;

/// Growth of the later windows as a share of that of the earlier ones: less means that it comes to an end.
const STEADY: f64 = 0.4;

/// The least growth that is spoken of, over all windows.
const LEAST_BYTES: u64 = 16 * 1024;

/// How memory grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepGrowth {
    /// Bytes per step.
    pub bytes_step: f64,
    /// Blocks per step.
    pub blocks_step: f64,
    /// Steps over which it was seen.
    pub steps: u64,
    /// Bytes per hour.
    pub bytes_h: f64,
    /// When it was first seen, in seconds.
    pub since_s: f64,
}

/// The lowest of one window.
#[derive(Clone, Copy)]
struct Low {
    allocated: u64,
    blocks: u64,
}

/// Whether the memory of a device grows: in the latest steps, or over the whole run.
#[must_use]
pub fn step_growth(series: &StepSeries) -> Option<StepGrowth> {
    let recent = growth_of(&series.recent());
    // A slow leak is hidden in the noise of the latest steps, but not in the lowest points of thousands.
    recent.or_else(|| growth_of(series.whole()).filter(|_| series.whole().len() >= WINDOWS * LEAST * 2))
}

fn growth_of(points: &[StepFigures]) -> Option<StepGrowth> {
    let points = &points[points.partition_point(|point| point.step <= WARM_UP)..];
    let size = (points.len() / WINDOWS).min(MOST);
    if size < LEAST {
        return None;
    }
    let points = &points[points.len() - WINDOWS * size..];
    let lows: Vec<Low> = points.chunks(size).map(lowest).collect();
    let rises = lows.windows(2).all(|pair| pair[1].allocated > pair[0].allocated && pair[1].blocks > pair[0].blocks);
    if !rises {
        return None;
    }
    let (first, middle, last) = (lows[0], lows[WINDOWS / 2], lows[WINDOWS - 1]);
    let grown = last.allocated - first.allocated;
    let [early, late] = [middle.allocated - first.allocated, last.allocated - middle.allocated].map(|it| it as f64);
    // Three windows' distance early, two late.
    if late / 2.0 < STEADY * early / 3.0 || grown < LEAST_BYTES {
        return None;
    }
    let (from, to) = (points[0], points[points.len() - 1]);
    let steps = (to.step - from.step).max(1);
    // The lows of the first and of the last window are this many steps apart, on average.
    let apart = steps as f64 * (WINDOWS - 1) as f64 / WINDOWS as f64;
    let hours = (to.at_s - from.at_s).max(1e-3) / 3600.0;
    let bytes_step = grown as f64 / apart;
    Some(StepGrowth {
        bytes_step,
        blocks_step: (last.blocks - first.blocks) as f64 / apart,
        steps,
        bytes_h: bytes_step * steps as f64 / hours,
        since_s: from.at_s,
    })
}

fn lowest(window: &[StepFigures]) -> Low {
    let allocated = window.iter().map(|point| point.allocated).min().unwrap_or(0);
    let blocks = window.iter().map(|point| point.blocks).min().unwrap_or(0);
    Low { allocated, blocks }
}
