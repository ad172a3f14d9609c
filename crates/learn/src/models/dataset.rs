//! What models learn from: moments of a program, with what came after them.

use neurogc_neural::{OUTPUTS, WINDOW};

/// The parts of a dataset by time: most is for training, the rest to stop in time and to judge by.
const TRAIN_SHARE: f64 = 0.6;
const VALIDATION_SHARE: f64 = 0.2;

/// How few samples a part may have.
const FEWEST: usize = 50;

/// Samples in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    features: Vec<String>,
    windows: Vec<f32>,
    targets: Vec<[f32; OUTPUTS]>,
    weights: Vec<f32>,
    times: Vec<f64>,
}

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingSample<'a> {
    /// The last `WINDOW` rows of features, as they are measured, the oldest first.
    pub window: &'a [f32],
    /// What a perfect forecast would have said, in the order of `OUTPUT_NAMES`; NaN where it is not known.
    pub targets: [f32; OUTPUTS],
    /// How much it counts.
    pub weight: f32,
    /// When it was, in seconds of its trace.
    pub at: f64,
}

/// A dataset in three, by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// To learn from.
    pub train: Dataset,
    /// To stop by.
    pub validation: Dataset,
    /// To judge by; nothing is chosen by it.
    pub test: Dataset,
}

/// Too little to learn from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {samples} samples, and at least {fewest} are needed: record for longer, or under more load")]
pub struct SplitError {
    samples: usize,
    fewest: usize,
}

impl Dataset {
    /// Nothing yet, of these features.
    #[must_use]
    pub fn new(features: Vec<String>) -> Self {
        Self { features, ..Self::default() }
    }

    /// Adds a sample, which is later than those before. A window that is too short begins with what is not known.
    pub fn push(&mut self, sample: TrainingSample<'_>) {
        let width = WINDOW * self.features.len();
        let known = &sample.window[sample.window.len().saturating_sub(width)..];
        self.windows.extend(std::iter::repeat_n(f32::NAN, width - known.len()));
        self.windows.extend_from_slice(known);
        self.targets.push(sample.targets);
        self.weights.push(sample.weight);
        self.times.push(sample.at);
    }

    /// What the features are called.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// How many samples there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The samples in order.
    pub fn samples(&self) -> impl Iterator<Item = TrainingSample<'_>> {
        let windows = self.windows.chunks_exact((WINDOW * self.features.len()).max(1));
        let rest = self.targets.iter().zip(&self.weights).zip(&self.times);
        windows.zip(rest).map(|(window, ((targets, weight), at))| TrainingSample {
            window,
            targets: *targets,
            weight: *weight,
            at: *at,
        })
    }

    /// How long it lasts, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.times.last().zip(self.times.first()).map_or(0.0, |(last, first)| last - first)
    }

    /// At most so many samples, evenly over the whole.
    #[must_use]
    pub fn thinned(&self, most: usize) -> Self {
        let step = (self.len() as f64 / most.max(1) as f64).max(1.0);
        let mut next = 0.0;
        let mut thinned = Self::new(self.features.clone());
        for (at, sample) in self.samples().enumerate() {
            if at as f64 >= next {
                thinned.push(sample);
                next += step;
            }
        }
        thinned
    }

    /// In three by time. Between the parts a window's worth of samples is left out, so that none is seen by two.
    ///
    /// # Errors
    ///
    /// When there is too little for three parts.
    pub fn split(&self) -> Result<Split, SplitError> {
        let part = |from: f64, to: f64| {
            let at = |share: f64| (self.len() as f64 * share).round() as usize;
            let first = if from > 0.0 { at(from) + WINDOW } else { 0 };
            let mut part = Self::new(self.features.clone());
            self.samples().take(at(to)).skip(first).for_each(|sample| part.push(sample));
            part
        };
        let validated = TRAIN_SHARE + VALIDATION_SHARE;
        let split = Split {
            train: part(0.0, TRAIN_SHARE),
            validation: part(TRAIN_SHARE, validated),
            test: part(validated, 1.0),
        };
        if split.validation.len().min(split.test.len()) < FEWEST {
            let fewest = ((FEWEST + WINDOW) as f64 / VALIDATION_SHARE).ceil() as usize;
            return Err(SplitError { samples: self.len(), fewest });
        }
        Ok(split)
    }
}

impl Split {
    /// Adds another trace, which was split by itself. Traces of other features are left out.
    pub fn join(&mut self, other: &Self) {
        for (own, other) in
            [(&mut self.train, &other.train), (&mut self.validation, &other.validation), (&mut self.test, &other.test)]
        {
            if own.features.is_empty() {
                own.features.clone_from(&other.features);
            }
            if own.features == other.features {
                other.samples().for_each(|sample| own.push(sample));
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn counted(count: usize) -> Dataset {
        let mut dataset = Dataset::new(vec!["a".to_owned()]);
        for at in 0..count {
            let window = [at as f32; WINDOW];
            dataset.push(TrainingSample { window: &window, targets: [0.0; OUTPUTS], weight: 1.0, at: at as f64 });
        }
        dataset
    }

    #[test]
    fn parts_follow_each_other_with_a_gap() {
        let split = counted(1000).split().unwrap();
        let span = |part: &Dataset| (part.times[0], *part.times.last().unwrap());
        assert_eq!(span(&split.train), (0.0, 599.0));
        assert_eq!(span(&split.validation), (608.0, 799.0));
        assert_eq!(span(&split.test), (808.0, 999.0));
        let mut joined = split.clone();
        joined.join(&split);
        assert_eq!(joined.test.len(), 2 * split.test.len());
    }

    #[test]
    fn too_little_is_refused_with_what_would_do() {
        let error = counted(200).split().unwrap_err().to_string();
        assert!(error.contains("200 samples") && error.contains("at least 290"), "{error}");
        assert!(counted(290).split().is_ok());
    }

    #[test]
    fn thinning_keeps_the_whole_span() {
        let thinned = counted(1000).thinned(100);
        assert_eq!((thinned.len(), thinned.seconds()), (100, 990.0));
        assert_eq!(counted(10).thinned(100), counted(10));
    }

    #[test]
    fn a_short_window_begins_unknown() {
        let mut dataset = Dataset::new(vec!["a".to_owned()]);
        dataset.push(TrainingSample { window: &[1.0, 2.0], targets: [0.0; OUTPUTS], weight: 1.0, at: 0.0 });
        let window = dataset.samples().next().unwrap().window;
        assert!(window[..6].iter().all(|it| it.is_nan()) && window[6..] == [1.0, 2.0], "{window:?}");
    }
}
