//! FigureSeries of many things of one sort, of which the fastest growing are kept: sites, types, containers.

use std::collections::HashMap;
use std::hash::Hash;

use super::FigureSeries;

/// What was not seen for so long makes room for others.
const FORGOTTEN_S: f64 = 1800.0;

/// Things that are followed, at most so many.
#[derive(Clone, Debug)]
pub struct Tracks<K, F> {
    kept: HashMap<K, Track<F>>,
    most: usize,
}

/// One thing that is followed.
#[derive(Clone, Debug)]
pub struct Track<F> {
    /// Its figure over time.
    pub series: FigureSeries,
    /// What else is known of it, by the latest look.
    pub facts: F,
    first: f64,
    seen_s: f64,
}

impl<F> Track<F> {
    fn grown(&self) -> f64 {
        self.series.now() - self.first
    }
}

impl<K: Eq + Hash + Clone, F> Tracks<K, F> {
    /// Follows nothing yet, and never more than this.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { kept: HashMap::with_capacity(most), most }
    }

    /// Everything that is followed.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Track<F>)> {
        self.kept.iter()
    }

    /// How many things are followed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Adds a value to what is followed already. False where it is not.
    pub fn push(&mut self, key: &K, at_s: f64, value: f64, update: impl FnOnce(&mut F)) -> bool {
        let Some(track) = self.kept.get_mut(key) else { return false };
        track.series.push(at_s, value);
        track.seen_s = at_s;
        update(&mut track.facts);
        true
    }

    /// Follows one more thing, which had an earlier value too if that is known. Where there is no room, it takes that of
    /// the one that has grown least, if it has itself grown by more. False where it is not followed.
    pub fn follow(&mut self, key: K, earlier: Option<(f64, f64)>, at_s: f64, value: f64, facts: F) -> bool {
        let first = earlier.map_or(value, |(_, value)| value);
        if self.kept.len() >= self.most {
            let grown = |track: &Track<F>| {
                if at_s - track.seen_s > FORGOTTEN_S { f64::NEG_INFINITY } else { track.grown() }
            };
            let least = self.kept.iter().min_by(|one, other| grown(one.1).total_cmp(&grown(other.1)));
            let Some((least, by)) = least.map(|(key, track)| (key.clone(), grown(track))) else { return false };
            if by >= value - first {
                return false;
            }
            self.kept.remove(&least);
        }
        let mut series = FigureSeries::default();
        earlier.into_iter().chain([(at_s, value)]).for_each(|(at_s, value)| series.push(at_s, value));
        self.kept.insert(key, Track { series, facts, first, seen_s: at_s });
        true
    }

    /// Forgets what is gone.
    pub fn retain(&mut self, is_there: impl Fn(&K) -> bool) {
        self.kept.retain(|key, _| is_there(key));
    }

    /// Notes for everything that was not seen at this moment that it has this value.
    pub fn rest_is(&mut self, at_s: f64, value: f64) {
        self.kept.values_mut().filter(|track| track.seen_s < at_s).for_each(|track| track.series.push(at_s, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_growing_stay() {
        let mut tracks = Tracks::new(2);
        assert!(tracks.follow("calm", None, 0.0, 50.0, ()) && tracks.follow("grows", None, 0.0, 1.0, ()));
        assert!(tracks.push(&"grows", 5.0, 40.0, |()| ()) && tracks.push(&"calm", 5.0, 51.0, |()| ()));
        assert!(!tracks.follow("new", None, 5.0, 900.0, ()), "it has not grown yet");
        assert!(tracks.follow("leak", Some((0.0, 10.0)), 5.0, 100.0, ()));
        let mut names: Vec<_> = tracks.iter().map(|(key, _)| *key).collect();
        names.sort_unstable();
        assert_eq!((names, tracks.len()), (vec!["grows", "leak"], 2));
    }

    #[test]
    fn what_is_gone_makes_room_and_has_no_value() {
        let mut tracks = Tracks::new(1);
        tracks.follow("gone", Some((0.0, 0.0)), 1.0, 1e9, ());
        tracks.rest_is(6.0, 0.0);
        assert_eq!(tracks.iter().next().map(|(_, track)| track.series.now()), Some(0.0));
        assert!(tracks.follow("next", None, 4000.0, 1.0, ()));
    }
}
