//! What the sites were at earlier moments, so that growth can be shown: a few hundred kilobytes at most.
//!
//! A moment is kept every 10 seconds for 2 minutes, every minute for 20 minutes, and every 10 minutes for 4 hours.

use std::collections::{HashMap, VecDeque};
use std::mem::size_of;

use neurogc_wire::sites::SiteCounts;

use super::live::SiteKey;

const SECOND: u64 = 1_000_000_000;

/// Up to which age moments are kept at which distance.
const TIERS: [(u64, u64); 3] =
    [(120 * SECOND, 10 * SECOND), (1200 * SECOND, 60 * SECOND), (14_400 * SECOND, 600 * SECOND)];

/// As many as the tiers hold, and those that are between two tiers.
const MOMENTS: usize = 60;

/// Sites that are kept of a moment: those with the most live bytes, and those that have allocated the most.
const BY_LIVE: usize = 220;
const BY_MADE: usize = 110;

const _: () = assert!(MOMENTS * (BY_LIVE + BY_MADE) * size_of::<Kept>() < 400_000);

/// The moments, the oldest first.
#[derive(Debug, Default)]
pub(super) struct SiteHistory {
    moments: VecDeque<SiteMoment>,
}

/// The largest sites at one moment.
#[derive(Debug)]
pub(super) struct SiteMoment {
    /// By the monotonic clock.
    pub(super) at: u64,
    pub(super) unix_ms: u64,
    /// Bytes that all sites have allocated.
    pub(super) made: u64,
    sites: Vec<Kept>,
}

/// Counts with the precision that estimates need.
#[derive(Clone, Copy, Debug)]
struct Kept {
    site: SiteKey,
    live_bytes: f32,
    live_blocks: f32,
    made_bytes: f32,
    made_blocks: f32,
}

impl SiteHistory {
    /// Whether a moment is due to be kept.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        // Rounds of the uplink are a little early or late.
        self.moments.back().is_none_or(|last| now.saturating_sub(last.at) >= TIERS[0].1 - SECOND / 2)
    }

    /// Keeps this moment.
    pub(super) fn keep(&mut self, now: u64, unix_ms: u64, made: u64, sites: &HashMap<SiteKey, SiteCounts>) {
        let mut chosen: Vec<_> = sites.iter().collect();
        chosen.sort_unstable_by_key(|(_, counts)| std::cmp::Reverse(counts.live_bytes));
        let mut rest = chosen.split_off(chosen.len().min(BY_LIVE));
        rest.sort_unstable_by_key(|(_, counts)| std::cmp::Reverse(counts.made_bytes));
        rest.truncate(BY_MADE);
        let sites = chosen.into_iter().chain(rest).map(|(site, counts)| Kept {
            site: *site,
            live_bytes: counts.live_bytes as f32,
            live_blocks: counts.live_blocks as f32,
            made_bytes: counts.made_bytes as f32,
            made_blocks: counts.made_blocks as f32,
        });
        let mut sites: Vec<_> = sites.collect();
        sites.shrink_to_fit();
        self.moments.push_back(SiteMoment { at: now, unix_ms, made, sites });
        self.thin(now);
    }

    /// Leaves out what is too old for its distance to the one before.
    fn thin(&mut self, now: u64) {
        let mut last_slot = None;
        self.moments.retain(|moment| {
            let age = now.saturating_sub(moment.at);
            let Some((_, distance)) = TIERS.iter().find(|(limit, _)| age <= *limit) else { return false };
            // In the youngest tier every moment is kept: they come at its distance anyhow.
            let slot = Some((*distance, moment.at / distance));
            let is_new = *distance == TIERS[0].1 || slot != last_slot;
            last_slot = slot;
            is_new
        });
        while self.moments.len() > MOMENTS {
            self.moments.pop_front();
        }
    }

    /// The moment nearest to so long ago.
    pub(super) fn nearest(&self, now: u64, ago: u64) -> Option<&SiteMoment> {
        let wanted = now.saturating_sub(ago);
        self.moments.iter().min_by_key(|moment| moment.at.abs_diff(wanted))
    }

    /// The latest moment that is at least so long ago.
    pub(super) fn latest_before(&self, now: u64, ago: u64) -> Option<&SiteMoment> {
        self.moments.iter().rev().find(|moment| now.saturating_sub(moment.at) >= ago)
    }
}

impl SiteMoment {
    /// The sites of that moment.
    pub(super) fn sites(&self) -> HashMap<SiteKey, SiteCounts> {
        let counts = |kept: &Kept| SiteCounts {
            live_bytes: kept.live_bytes as u64,
            live_blocks: kept.live_blocks as u64,
            made_bytes: kept.made_bytes as u64,
            made_blocks: kept.made_blocks as u64,
        };
        self.sites.iter().map(|kept| (kept.site, counts(kept))).collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn sites(count: u32, bytes: u64) -> HashMap<SiteKey, SiteCounts> {
        let counts = |index: u32| SiteCounts {
            live_bytes: bytes + u64::from(index),
            made_bytes: 10 * (bytes + u64::from(count - index)),
            ..SiteCounts::default()
        };
        (0..count).map(|index| (SiteKey(index), counts(index))).collect()
    }

    #[test]
    fn hours_of_moments_fit_and_are_found() {
        let mut history = SiteHistory::default();
        let (count, hours) = (1000, 6);
        for step in 0..hours * 360_u64 {
            let now = (100 + step * 10) * SECOND;
            assert!(history.is_due(now));
            history.keep(now, step * 10_000, step, &sites(count, step));
            assert!(!history.is_due(now + SECOND) && history.moments.len() <= MOMENTS);
        }
        let now = (100 + (hours * 360 - 1) * 10) * SECOND;
        for (ago, tolerance) in [(20, 10), (100, 10), (300, 60), (1100, 60), (3600, 600), (14_000, 600)] {
            let found = history.nearest(now, ago * SECOND).unwrap();
            assert!(
                (now - found.at).abs_diff(ago * SECOND) <= tolerance * SECOND,
                "{ago}: {}",
                (now - found.at) / SECOND
            );
        }
        assert!(history.moments.iter().all(|moment| moment.sites.len() == BY_LIVE + BY_MADE));
        assert!(now - history.moments[0].at > 13_000 * SECOND);
    }

    #[test]
    fn the_largest_sites_are_kept() {
        let mut history = SiteHistory::default();
        history.keep(1, 1, 0, &sites(1000, 5));
        let kept = history.nearest(1, 0).unwrap().sites();
        assert_eq!(kept[&SiteKey(999)].live_bytes, 1004);
        assert!(kept.contains_key(&SiteKey(0)) && !kept.contains_key(&SiteKey(500)));
    }
}
