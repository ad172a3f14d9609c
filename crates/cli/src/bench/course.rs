//! Memory over time: the points of a trial, made few enough to keep, and where they are heading.

use serde::{Deserialize, Serialize};

/// Points that are kept of a trial, however long it was.
const KEPT: usize = 300;

/// Seconds since figures began to count, and bytes.
pub(crate) type MemoryCourse = Vec<(f64, f64)>;

/// The memory of one trial over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Courses {
    /// Resident memory of the process itself.
    pub(crate) rss: MemoryCourse,
    /// The process and its children, with shared pages counted once: what the processes of its cgroup have mapped, or the
    /// proportional memory of the tree where it has no cgroup of its own.
    pub(crate) tree: MemoryCourse,
}

impl Courses {
    /// Whether nothing was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.rss.is_empty() && self.tree.is_empty()
    }

    /// The same with as few points as are kept.
    pub(crate) fn thinned(&self) -> Self {
        Self { rss: thinned(&self.rss, KEPT), tree: thinned(&self.tree, KEPT) }
    }
}

/// At most so many points: of neighbours the highest is kept, so that no peak is lost.
fn thinned(course: &[(f64, f64)], most: usize) -> MemoryCourse {
    let together = course.len().div_ceil(most.max(1)).max(1);
    let highest = |points: &[(f64, f64)]| points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    course.chunks(together).filter_map(highest).collect()
}

/// How fast a course grows in its last half, in bytes a second: the slope of the straight line that fits best.
pub(crate) fn trend(course: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (course.first()?.0, course.last()?.0);
    let middle = f64::midpoint(first, last);
    let half: Vec<_> = course.iter().filter(|(at, _)| *at >= middle).collect();
    let count = half.len() as f64;
    let mean_at = half.iter().map(|(at, _)| at).sum::<f64>() / count;
    let mean_value = half.iter().map(|(_, value)| value).sum::<f64>() / count;
    let spread: f64 = half.iter().map(|(at, _)| (at - mean_at).powi(2)).sum();
    let slope = half.iter().map(|(at, value)| (at - mean_at) * (value - mean_value)).sum::<f64>() / spread;
    (half.len() > 2 && spread > 0.0).then_some(slope)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn course(values: impl Fn(f64) -> f64) -> MemoryCourse {
        (0..200).map(|step| f64::from(step) / 10.0).map(|at| (at, values(at))).collect()
    }

    #[test]
    fn the_trend_is_that_of_the_last_half() {
        // It rises by 30 in a second for half of the time, and then no more.
        let trend_of = |values: &dyn Fn(f64) -> f64| trend(&course(values)).unwrap();
        assert!(trend_of(&|at| 30.0 * at.min(9.0)).abs() < 1e-6);
        assert!((trend_of(&|at| 30.0 * (at - 9.0).max(0.0)) - 30.0).abs() < 1e-6);
        assert!((trend_of(&|at| 500.0 - 2.0 * at) + 2.0).abs() < 1e-6);
    }

    #[test]
    fn teeth_of_a_saw_are_no_trend() {
        let saw = trend(&course(|at| 300.0 + 60.0 * at.fract())).unwrap();
        assert!(saw.abs() < 1.0, "{saw}");
    }

    #[test]
    fn too_little_has_no_trend() {
        assert_eq!(trend(&[]), None);
        assert_eq!(trend(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(trend(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }

    #[test]
    fn a_long_course_keeps_its_peak() {
        let long = course(|at| if (at - 7.3).abs() < 0.01 { 900.0 } else { at });
        let few = thinned(&long, 30);
        assert!(few.len() <= 30, "{}", few.len());
        assert!(few.contains(&(7.3, 900.0)));
        assert_eq!(thinned(&long[..20], 30), long[..20]);
    }
}
