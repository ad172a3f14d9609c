//! Durations counted in fixed buckets, sixteen to a doubling: they can be added, subtracted, kept and sent.
//!
//! All processes use the same buckets, so a percentile over an hour or over two hundred processes is as exact as one over
//! a second: within 3 %.

use serde::{Deserialize, Serialize};

use crate::varint;

/// The width of the shortest buckets.
const UNIT_NS: u64 = 64;
const PER_DOUBLING: u64 = 16;
/// Buckets that make a group: coarse enough to be drawn.
const PER_GROUP: u16 = 4;
const BITS: u32 = PER_DOUBLING.trailing_zeros();

/// Counts by bucket, those without any left out, shortest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Buckets(Vec<(u16, u64)>);

/// Counted durations and their sum, which buckets tell only roughly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// How many of which length.
    pub buckets: Buckets,
    /// All of them together.
    pub total_ms: f64,
}

impl Buckets {
    /// Counts durations.
    pub fn add(&mut self, ns: u64, count: u64) {
        let index = index_of(ns);
        match self.0.binary_search_by_key(&index, |(index, _)| *index) {
            Ok(found) => self.0[found].1 = self.0[found].1.saturating_add(count),
            Err(place) => self.0.insert(place, (index, count)),
        }
    }

    /// Counts all of another one too.
    pub fn merge(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        for &(index, count) in &other.0 {
            self.add(lower_ns(index), count);
        }
    }

    /// What has come since an earlier state of the same counts; all of it where that is no earlier state.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut earlier = before.0.iter().peekable();
        let mut new = Vec::new();
        for &(index, count) in &self.0 {
            let was = match earlier.next_if(|(other, _)| *other == index) {
                Some(&(_, was)) if was <= count => was,
                Some(_) => return self.clone(),
                None => 0,
            };
            if count > was {
                new.push((index, count - was));
            }
        }
        // A bucket that is not there any more: these counts began anew.
        if earlier.peek().is_some() { self.clone() } else { Self(new) }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// How many are not longer than this, as far as buckets can tell.
    #[must_use]
    pub fn within(&self, ns: u64) -> u64 {
        let within = self.0.iter().take_while(|(index, _)| lower_ns(*index + 1) <= ns);
        within.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The duration in milliseconds that a share of all does not exceed; `None` where there are none.
    #[must_use]
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let wanted = share.clamp(0.0, 1.0) * self.count() as f64;
        let mut below = 0.0;
        for &(index, count) in &self.0 {
            let here = count as f64;
            if below + here >= wanted {
                let (from, to) = (lower_ns(index) as f64, lower_ns(index + 1) as f64);
                return Some((from + (to - from) * ((wanted - below) / here).clamp(0.0, 1.0)) / 1e6);
            }
            below += here;
        }
        None
    }

    /// The longest in milliseconds, rounded up to its bucket.
    #[must_use]
    pub fn max_ms(&self) -> Option<f64> {
        self.0.last().map(|(index, _)| lower_ns(index + 1) as f64 / 1e6)
    }

    /// Counts by groups of buckets, four to a doubling, those without any left out, shortest first. [`group_begins_ms`] says
    /// where a group begins.
    #[must_use]
    pub fn groups(&self) -> Vec<(u16, u64)> {
        let mut groups: Vec<(u16, u64)> = Vec::new();
        for &(index, count) in &self.0 {
            let group = index / PER_GROUP;
            match groups.last_mut() {
                Some(last) if last.0 == group => last.1 = last.1.saturating_add(count),
                _ => groups.push((group, count)),
            }
        }
        groups
    }

    /// The bytes that are kept.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 3);
        let mut before = 0;
        for &(index, count) in &self.0 {
            varint::put(&mut bytes, u64::from(index - before));
            varint::put(&mut bytes, count);
            before = index;
        }
        bytes
    }

    /// What was kept; `None` where the bytes are something else.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut counts: Vec<(u16, u64)> = Vec::new();
        while !bytes.is_empty() {
            let step = u16::try_from(varint::take(&mut bytes)?).ok()?;
            let index = counts.last().map_or(Some(step), |(before, _)| before.checked_add(step))?;
            counts.push((index, varint::take(&mut bytes)?));
        }
        Some(Self(counts)).filter(Self::is_sound)
    }

    /// Whether the buckets exist and rise: what comes from outside may say anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let last = index_of(u64::MAX);
        self.0.windows(2).all(|pair| pair[0].0 < pair[1].0) && self.0.last().is_none_or(|(index, _)| *index <= last)
    }
}

fn index_of(ns: u64) -> u16 {
    let value = ns / UNIT_NS;
    let index = match value.checked_ilog2() {
        Some(power) if power >= BITS => {
            let shift = power - BITS;
            u64::from(shift + 1) * PER_DOUBLING + ((value >> shift) & (PER_DOUBLING - 1))
        }
        _ => value,
    };
    index as u16
}

/// Where a bucket begins, which is where the one before it ends.
fn lower_ns(index: u16) -> u64 {
    let index = u64::from(index);
    if index < PER_DOUBLING {
        return index * UNIT_NS;
    }
    let (shift, rest) = (index / PER_DOUBLING - 1, index % PER_DOUBLING);
    let lower = (u128::from(PER_DOUBLING + rest) * u128::from(UNIT_NS)) << shift;
    u64::try_from(lower).unwrap_or(u64::MAX)
}

/// Where a group of buckets begins, in milliseconds, which is where the one before it ends.
#[must_use]
pub fn group_begins_ms(group: u16) -> f64 {
    lower_ns(group.saturating_mul(PER_GROUP)) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(durations: &[u64]) -> Buckets {
        let mut buckets = Buckets::default();
        durations.iter().for_each(|ns| buckets.add(*ns, 1));
        buckets
    }

    proptest! {
        #[test]
        fn a_duration_lies_in_its_bucket(ns: u64) {
            let index = index_of(ns);
            prop_assert!(lower_ns(index) <= ns && (ns < lower_ns(index + 1) || lower_ns(index + 1) == u64::MAX));
        }

        #[test]
        fn buckets_survive_the_way(durations: Vec<u64>) {
            let buckets = of(&durations);
            prop_assert_eq!(Buckets::from_bytes(&buckets.to_bytes()), Some(buckets));
        }

        #[test]
        fn what_came_since_and_what_was_before_are_all(before: Vec<u64>, after: Vec<u64>) {
            let (earlier, mut now) = (of(&before), of(&before));
            now.merge(&of(&after));
            prop_assert_eq!(now.since(&earlier), of(&after));
        }

        #[test]
        fn a_duration_lies_in_its_group(ns in 0..u64::MAX / 2) {
            let groups = of(&[ns]).groups();
            let ms = ns as f64 / 1e6;
            prop_assert!(groups.len() == 1 && groups[0].1 == 1);
            prop_assert!(group_begins_ms(groups[0].0) <= ms && ms <= group_begins_ms(groups[0].0 + 1));
        }

        #[test]
        fn groups_count_everything_once(durations: Vec<u64>) {
            let groups = of(&durations).groups();
            prop_assert_eq!(groups.iter().map(|(_, count)| count).sum::<u64>(), durations.len() as u64);
            prop_assert!(groups.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }

        #[test]
        fn no_bytes_make_unsound_buckets(bytes: Vec<u8>) {
            prop_assert!(Buckets::from_bytes(&bytes).is_none_or(|buckets| buckets.is_sound()));
        }
    }

    #[test]
    fn percentiles_are_close() {
        let buckets = of(&(1..=1000).map(|ms| ms * 1_000_000).collect::<Vec<_>>());
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = buckets.quantile_ms(share).unwrap_or_default();
            assert!((found / expected - 1.0).abs() < 0.03, "{found} for {expected}");
        }
        assert_eq!(Buckets::default().quantile_ms(0.5), None);
        assert_eq!((buckets.count(), buckets.within(u64::MAX)), (1000, 1000));
    }

    #[test]
    fn counts_that_began_anew_are_all_new() {
        assert_eq!(of(&[5_000]).since(&of(&[5_000, 5_000])), of(&[5_000]));
        assert_eq!(of(&[5_000]).since(&of(&[9_000_000])), of(&[5_000]));
    }
}
