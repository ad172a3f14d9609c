//! The shape of a series: whether it grows, and whether that will go on.
//!
//! Growth counts as growth only where it goes through the whole window, has not slowed down, did not come in a few steps,
//! is more than what came and went before, and is not explained by the load. Everything else has a name of its own.

use super::load::{few_follow, follows};
use super::series::{FigureSeries, LEVELS, Point, width_s};
use super::trend::{Slope, median, noise, slope, speed_at_end};

/// A window needs so many points, unless its values are exact.
const LEAST_POINTS: usize = 16;
const LEAST_EXACT: usize = 4;

/// And at least this time; a shorter one where so many values are exact.
const LEAST_S: f64 = 80.0;
const LEAST_EXACT_S: f64 = 25.0;
const SHORT_EXACT: usize = 5;

/// The first part of a life is warm-up: this share of it, within these bounds.
const WARM_UP: f64 = 0.12;
const WARM_UP_S: (f64, f64) = (20.0, 1200.0);

/// A fall by this share of the range says that the figure comes and goes.
const FALL: f64 = 0.35;

/// Where it comes and goes, so many low points in a row must rise.
const LEAST_LOWS: usize = 6;

/// Growth that came in fewer rises than this is a matter of steps.
const LEAST_RISES: f64 = 5.0;

/// Growth is slowing down where its last part is below this share of the part before.
const SLOWING: f64 = 0.77;

/// And where a parabola through all values grows at its end by less than this share of its mean.
const SPEED_AT_END: f64 = 0.6;

/// How sure it must be that the last half grows, in standard deviations.
const LATE_Z: f64 = 1.6;

/// The same for a few exact values: the last rise against the first.
const SLOWING_FEW: f64 = 0.72;

/// Growth that began lately must be this many times what the figure varied by before.
const BEYOND: f64 = 1.0;

/// What a series looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// There is too little to tell.
    #[default]
    TooShort,
    /// It does not grow, or not by more than it varies.
    Flat,
    /// It grows all the time.
    Rising,
    /// It grows less and less.
    Slowing,
    /// It has grown and does not any more.
    Level,
    /// It has grown in a few steps.
    Stepped,
    /// It rises and falls.
    Swinging,
    /// It grows as the load does.
    FollowsLoad,
    /// It shrinks.
    Falling,
}

impl Shape {
    /// In a few words, for explanations.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::TooShort => "too little is known yet",
            Self::Flat => "flat",
            Self::Rising => "grows steadily",
            Self::Slowing => "grows, but slows down",
            Self::Level => "has grown and is level now",
            Self::Stepped => "grew in a few steps",
            Self::Swinging => "rises and falls",
            Self::FollowsLoad => "follows the load",
            Self::Falling => "shrinks",
        }
    }
}

/// What growth of a figure is worth looking at.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The least growth within a window that matters.
    pub least: f64,
    /// The same as a share of the value.
    pub least_share: f64,
    /// How sure the bounds of the rate are, in standard deviations.
    pub z: f64,
    /// What one sampled unit stands for; zero where everything is counted.
    pub grain: f64,
    /// Values are exact and come rarely, so that a few of them are enough.
    pub exact: bool,
}

/// How a figure has grown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Growth {
    /// Its shape.
    pub shape: Shape,
    /// How fast, in units per second.
    pub rate: Slope,
    /// By how much within the window.
    pub grown: f64,
    /// The latest value.
    pub now: f64,
    /// The window: its length, and when it began.
    pub seconds: f64,
    /// See `seconds`.
    pub from_s: f64,
    /// Since when the value is about what it is now, or since when it rises.
    pub since_s: f64,
    /// Points that the window had.
    pub points: usize,
    /// The last rise, as a share of the typical one: below one where growth slows down.
    pub pace_at_end: f64,
}

impl Growth {
    /// Whether it grows and nothing says that this will end.
    #[must_use]
    pub fn is_rising(&self) -> bool {
        self.shape == Shape::Rising
    }

    /// Whether it has stopped growing, or never did.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        matches!(self.shape, Shape::Flat | Shape::Level | Shape::Falling | Shape::Swinging)
    }
}

/// Looks at a series that began with its process at second zero, at the end of the series. `loads` are those that the
/// figure might follow.
#[must_use]
pub fn judge(series: &FigureSeries, loads: &[&FigureSeries], scale: &Scale) -> Growth {
    let Some((first, last)) = series.span() else { return Growth::default() };
    let from = first.max((last * WARM_UP).clamp(WARM_UP_S.0, WARM_UP_S.1));
    let least = if scale.exact { LEAST_EXACT } else { LEAST_POINTS };
    // A bucket that begins before that is left out, unless each value of it is exact.
    let from = |level: usize| if scale.exact { from - width_s(level) / 2.0 } else { from + width_s(level) / 2.0 };
    let mut windows: Vec<_> = (0..LEVELS).map(|level| (level, Window::of(series, loads, level, from(level)))).collect();
    windows.retain(|(level, window)| *level == 0 || window.points.len() >= least);
    // Exact values are few: the finest level that reaches back far enough has them all.
    if scale.exact {
        let whole = windows.last().map_or(0.0, |(_, window)| window.seconds());
        let enough = windows.iter().position(|(_, window)| window.seconds() >= 0.8 * whole).unwrap_or(0);
        windows.truncate(enough + 1);
    }
    let Some((_, longest)) = windows.pop() else { return Growth::default() };
    let whole = Growth { now: series.now(), ..longest.growth(scale) };
    if whole.is_rising() {
        return whole;
    }
    // It may have begun lately.
    for (_, window) in windows.iter().rev() {
        let growth = Growth { now: series.now(), ..window.growth(scale) };
        if growth.is_rising() && is_beyond(&growth, &longest) {
            return growth;
        }
    }
    whole
}

/// Whether growth is more than what the figure did before it began.
fn is_beyond(growth: &Growth, longest: &Window) -> bool {
    let before: Vec<_> = longest.points.iter().filter(|point| point.at_s < growth.from_s).collect();
    if before.len() < 3 {
        // The window is nearly all there is, and the longer one did not rise.
        return growth.seconds >= 0.8 * longest.seconds();
    }
    let most = before.iter().map(|point| point.mean).fold(f64::NEG_INFINITY, f64::max);
    let least = before.iter().map(|point| point.low).fold(f64::INFINITY, f64::min);
    growth.now > most && growth.grown > BEYOND * (most - least)
}

/// The points of one level, with the loads.
struct Window {
    points: Vec<Point>,
    loads: Vec<Load>,
}

/// A load: its values at the times of the points, and all that is known of it meanwhile.
struct Load {
    values: Vec<f64>,
    whole: Vec<(f64, f64)>,
}

impl Load {
    /// Without what was before the point with this index.
    fn since(&self, index: usize, at_s: f64) -> Self {
        let whole = self.whole.iter().copied().filter(|point| point.0 >= at_s).collect();
        Self { values: self.values[index..].to_vec(), whole }
    }
}

impl Window {
    fn of(series: &FigureSeries, loads: &[&FigureSeries], level: usize, from_s: f64) -> Self {
        let points: Vec<_> = series.points(level, from_s).collect();
        let (first, last) = (points.first().map_or(0.0, |it| it.at_s), points.last().map_or(0.0, |it| it.at_s));
        let loads = loads
            .iter()
            .map(|load| Load {
                values: points.iter().map(|point| load.at(level, point.at_s).unwrap_or(f64::NAN)).collect(),
                whole: load
                    .points(level, first)
                    .filter(|point| point.at_s <= last)
                    .map(|point| (point.at_s, point.mean))
                    .collect(),
            })
            .filter(|load| load.values.iter().all(|value| value.is_finite()))
            .collect();
        Self { points, loads }
    }

    fn seconds(&self) -> f64 {
        match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) => last.at_s - first.at_s,
            _ => 0.0,
        }
    }

    fn growth(&self, scale: &Scale) -> Growth {
        let lows: Vec<_> = self.points.iter().map(|point| (point.at_s, point.low)).collect();
        let (Some(first), Some(last)) = (lows.first(), lows.last()) else { return Growth::default() };
        let seconds = last.0 - first.0;
        let rate = slope(&lows, scale.z);
        let mut growth = Growth {
            shape: Shape::TooShort,
            rate,
            grown: rise(&lows),
            now: last.1,
            seconds,
            from_s: first.0,
            since_s: first.0,
            points: lows.len(),
            pace_at_end: pace_at_end(&lows),
        };
        let few = lows.len() < LEAST_POINTS;
        let short = seconds < LEAST_S && !(scale.exact && seconds >= LEAST_EXACT_S && lows.len() >= SHORT_EXACT);
        if short || (few && !(scale.exact && lows.len() >= LEAST_EXACT)) {
            return growth;
        }
        growth.since_s = level_since(&lows, &growth, scale);
        let (shape, rate) = shape(&lows, &self.loads, &growth, scale, 2);
        if shape == Shape::Rising {
            let start = first.1 + 0.05 * growth.grown;
            growth.since_s = lows.iter().rev().find(|point| point.1 <= start).map_or(first.0, |point| point.0);
        }
        Growth { shape, rate, ..growth }
    }
}

/// The difference between the middle of the last values and that of the first.
fn rise(points: &[(f64, f64)]) -> f64 {
    let part = (points.len() / 8).max(1);
    let middle = |points: &[(f64, f64)]| median(&mut points.iter().map(|point| point.1).collect::<Vec<_>>());
    middle(&points[points.len() - part..]) - middle(&points[..part])
}

/// What matters for a figure of this value.
fn least(now: f64, scale: &Scale) -> f64 {
    // Sampled figures vary by the root of how many samples there are.
    let sampled = 4.0 * (now.max(scale.grain) * scale.grain).sqrt();
    scale.least.max(scale.least_share * now.abs()).max(sampled)
}

fn shape(points: &[(f64, f64)], loads: &[Load], growth: &Growth, scale: &Scale, depth: u32) -> (Shape, Slope) {
    let rate = slope(points, scale.z);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return (Shape::TooShort, rate) };
    let (seconds, grown, least) = (last.0 - first.0, rise(points), least(growth.now, scale));
    if grown <= -least && rate.high < 0.0 {
        return (Shape::Falling, rate);
    }
    match falls(points, least) {
        Falls::None => {}
        Falls::Swings => return (Shape::Swinging, rate),
        Falls::RisingLows(lows) => {
            let bottoms: Vec<_> = lows.iter().map(|at| points[*at]).collect();
            let follows = loads.iter().any(|it| follows(points, &it.values) || few_follow(&bottoms, &it.whole));
            return (if follows { Shape::FollowsLoad } else { Shape::Rising }, slope(&bottoms, 1.0));
        }
        // It has gone far beyond what it came from: a new window begins there.
        Falls::Beyond(from) if depth > 0 && points.len() - from >= LEAST_POINTS => {
            let loads: Vec<_> = loads.iter().map(|load| load.since(from, points[from].0)).collect();
            return shape(&points[from..], &loads, growth, scale, depth - 1);
        }
        Falls::Beyond(_) => return (Shape::Swinging, rate),
    }
    let steady = rate.middle * seconds;
    if grown < least {
        return (Shape::Flat, rate);
    }
    let few = points.len() < LEAST_POINTS;
    if !few && rate.low <= 0.0 || steady < least {
        return match has_levelled(points, rate) {
            true if rises(points) < LEAST_RISES => (Shape::Stepped, rate),
            true => (Shape::Level, rate),
            false => (Shape::Flat, rate),
        };
    }
    let few_are_of = |load: &Load| few && few_follow(points, &load.whole);
    if loads.iter().any(|load| few_are_of(load) || !few && follows(points, &load.values)) {
        return (Shape::FollowsLoad, rate);
    }
    if few {
        return (shape_of_few(points), rate);
    }
    if rises(points) < LEAST_RISES {
        // Without its largest step, the rest may still grow.
        return match without_largest_step(points) {
            Some(rest) if depth > 0 => {
                let (rest, rate) = shape(&rest, loads, growth, scale, depth - 1);
                (if rest == Shape::Rising { rest } else { Shape::Stepped }, rate)
            }
            _ => (Shape::Stepped, rate),
        };
    }
    (course(points, rate), rate)
}

/// Whether growth goes on to the end.
fn course(points: &[(f64, f64)], rate: Slope) -> Shape {
    let count = points.len();
    let third = slope(&points[count - count.div_ceil(3)..], 1.0);
    if third.middle < 0.5 * rate.middle && third.high < 0.75 * rate.middle {
        return if third.high < 0.25 * rate.middle { Shape::Level } else { Shape::Slowing };
    }
    // The last sixty percent in two halves.
    let late = &points[count - count * 3 / 5..];
    let (before, after) = late.split_at(late.len() / 2);
    let (before, after) = (slope(before, 1.0), slope(after, 1.0));
    let doubt = |slope: Slope| ((slope.high - slope.low) / 2.0).min(f64::MAX);
    let difference = SLOWING * before.middle - after.middle;
    if difference > 0.0 && before.middle - after.middle > 1.5 * doubt(before).hypot(doubt(after)) {
        return Shape::Slowing;
    }
    if speed_at_end(points).is_some_and(|share| share < SPEED_AT_END) {
        return Shape::Slowing;
    }
    // Where values vary so much that the last half does not tell, nothing is said.
    if slope(&points[count / 2..], LATE_Z).low <= 0.0 { Shape::Flat } else { Shape::Rising }
}

/// A few exact values: each must be above the one before, and the last rise not much slower than the others.
fn shape_of_few(points: &[(f64, f64)]) -> Shape {
    let rates: Vec<_> = points.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).collect();
    let middle = median(&mut rates.clone());
    let last = rates.last().copied().unwrap_or(0.0);
    let flat = rates.iter().rev().take_while(|rate| **rate <= 0.0).count();
    if flat > 0 {
        Shape::Level
    } else if rates.iter().any(|rate| *rate < 0.0) {
        Shape::Swinging
    } else if rates.iter().filter(|rate| **rate > 0.0).count() < 3 {
        Shape::Stepped
    } else if last < 0.5 * middle || (mostly_down(&rates) && last < SLOWING_FEW * rates[0]) {
        Shape::Slowing
    } else {
        Shape::Rising
    }
}

/// The rate of the last rise as a share of the median of all.
fn pace_at_end(points: &[(f64, f64)]) -> f64 {
    let mut rates: Vec<_> = points.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).collect();
    let last = rates.last().copied().unwrap_or(0.0);
    let middle = median(&mut rates);
    if middle > 0.0 { last / middle } else { 0.0 }
}

fn mostly_down(rates: &[f64]) -> bool {
    let down = rates.windows(2).filter(|pair| pair[1] < pair[0]).count();
    down * 4 >= 3 * (rates.len() - 1)
}

/// Whether a rise is over: the last third is flat against the whole.
fn has_levelled(points: &[(f64, f64)], rate: Slope) -> bool {
    let last = slope(&points[points.len() - points.len().div_ceil(3)..], 1.0);
    let (Some(first), Some(end)) = (points.first(), points.last()) else { return false };
    let whole = (rise(points) / (end.0 - first.0)).max(rate.middle);
    last.high < 0.5 * whole
}

/// Since when values are about the last one.
fn level_since(points: &[(f64, f64)], growth: &Growth, scale: &Scale) -> f64 {
    let allowed = (0.02 * growth.now.abs()).max(3.0 * noise(points, growth.rate.middle)).max(scale.least / 2.0);
    let near = points.iter().rev().take_while(|point| (point.1 - growth.now).abs() <= allowed);
    near.last().map_or(growth.from_s, |point| point.0)
}

/// How many rises growth consists of: equal ones count in full.
fn rises(points: &[(f64, f64)]) -> f64 {
    let ups = points.windows(2).map(|pair| (pair[1].1 - pair[0].1).max(0.0));
    let (sum, squares) = ups.fold((0.0, 0.0), |(sum, squares), up| (sum + up, squares + up * up));
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

fn without_largest_step(points: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let up = |at: &usize| points[*at].1 - points[*at - 1].1;
    let at = (1..points.len()).max_by(|one, other| up(one).total_cmp(&up(other)))?;
    let step = up(&at);
    let lowered =
        points.iter().enumerate().map(|(index, point)| (point.0, point.1 - if index >= at { step } else { 0.0 }));
    Some(lowered.collect())
}

/// What falls by a good part of the range say.
enum Falls {
    /// There was none.
    None,
    /// It rises and falls.
    Swings,
    /// It falls again and again, and each time to a higher value, at these indices.
    RisingLows(Vec<usize>),
    /// Since the low point of this index it has gone far beyond its earlier range.
    Beyond(usize),
}

fn falls(points: &[(f64, f64)], least: f64) -> Falls {
    let highest = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    let lowest = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let fall = (FALL * (highest(points) - lowest(points))).max(least);
    let (mut peak, mut low, mut falling) = (0, 0, false);
    let mut lows = Vec::new();
    for (at, point) in points.iter().enumerate() {
        if falling {
            if point.1 < points[low].1 {
                low = at;
            } else if point.1 - points[low].1 >= fall {
                lows.push(low);
                (falling, peak) = (false, at);
            }
        } else if point.1 > points[peak].1 {
            peak = at;
        } else if points[peak].1 - point.1 >= fall {
            (falling, low) = (true, at);
        }
    }
    if falling {
        lows.push(low);
    }
    let Some(&last) = lows.last() else { return Falls::None };
    let bottoms: Vec<_> = lows.iter().map(|at| points[*at]).collect();
    let up = bottoms.windows(2).all(|pair| pair[1].1 > pair[0].1);
    if bottoms.len() >= LEAST_LOWS && up && shape_of_few(&bottoms) == Shape::Rising && rise(&bottoms) > 0.8 * fall {
        return Falls::RisingLows(lows);
    }
    let before = highest(&points[..=last]) - lowest(&points[..=last]);
    let since = points.last().map_or(0.0, |end| end.1 - points[last].1);
    if !falling && since > 2.0 * before { Falls::Beyond(last) } else { Falls::Swings }
}

#[cfg(test)]
mod tests;
