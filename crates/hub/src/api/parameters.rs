//! The parameters of requests: which while, which series, how many points.

use std::collections::{BTreeSet, HashMap};

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;

use super::error::ApiError;
use crate::clock::unix_ms;
use crate::event::KINDS;
use crate::series::{CATALOGUE, position};
use crate::store::{MAX_AGE_S, Span, Wish};

const POINTS: u64 = 600;
const MOST_POINTS: u64 = 5000;
/// No moment is later: more milliseconds could not be told apart.
const LATEST_MS: f64 = (1_u64 << 53) as f64;
const EVENTS: usize = 2000;
const MOST_EVENTS: usize = 20_000;

/// The parameters of one request.
#[derive(Debug, Default)]
pub(crate) struct QueryParameters(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for QueryParameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Query::from_request_parts(parts, state).await;
        read.map(|Query(map)| Self(map)).map_err(|_| ApiError::bad_request("the query string cannot be read"))
    }
}

impl QueryParameters {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1" | "yes"))
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let read = |text: &str| text.parse().map_err(|_| ApiError::bad_request(format!("{name} must be a number")));
        self.get(name).map(read).transpose()
    }

    /// The while that is asked for, `[from, to]` in milliseconds; `whole` where nothing is said.
    pub(crate) fn bounds(&self, whole: (u64, u64)) -> Result<(u64, u64), ApiError> {
        let (from, to) = match (self.get("range"), self.number::<f64>("from")?, self.number::<f64>("to")?) {
            (Some(range), None, None) => (whole.1.saturating_sub(range_ms("range", range)?), whole.1),
            (None, from, to) => {
                let moment = |ms: f64| ms.clamp(0.0, LATEST_MS) as u64;
                (from.map_or(whole.0, moment), to.map_or(whole.1, moment))
            }
            _ => return Err(ApiError::bad_request("range and from/to exclude each other")),
        };
        if from < to { Ok((from, to)) } else { Err(ApiError::bad_request("from must lie before to")) }
    }

    /// The last hour where nothing is said.
    pub(crate) fn bounds_until_now(&self) -> Result<(u64, u64), ApiError> {
        let now = unix_ms();
        self.bounds((now.saturating_sub(3_600_000), now))
    }

    pub(crate) fn points(&self) -> Result<u64, ApiError> {
        match self.number("points")?.unwrap_or(POINTS) {
            points @ 2..=MOST_POINTS => Ok(points),
            _ => Err(ApiError::bad_request(format!("points must be from 2 to {MOST_POINTS}"))),
        }
    }

    pub(crate) fn span(&self) -> Result<Span, ApiError> {
        let (from_ms, to_ms) = self.bounds_until_now()?;
        Ok(Span { from_ms, to_ms, points: self.points()? })
    }

    /// A time in seconds: `30`, or `30s`, `5m`, `1h`.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<u32>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let plain = text.parse().ok().filter(|seconds| (1..=MAX_AGE_S as u32).contains(seconds));
        match plain {
            Some(seconds) => Ok(Some(seconds)),
            None => Ok(Some((range_ms(name, text)? / 1000) as u32)),
        }
    }

    /// A count from 1 to `most`.
    pub(crate) fn count(&self, name: &str, usual: usize, most: usize) -> Result<usize, ApiError> {
        match self.number(name)?.unwrap_or(usual) {
            count if (1..=most).contains(&count) => Ok(count),
            _ => Err(ApiError::bad_request(format!("{name} must be from 1 to {most}"))),
        }
    }

    /// One of some words; the first one where nothing is said.
    pub(crate) fn one_of<T: Copy, const N: usize>(
        &self,
        name: &str,
        all: [(T, &'static str); N],
    ) -> Result<T, ApiError> {
        let Some(given) = self.get(name) else { return Ok(all[0].0) };
        let found = all.iter().find(|(_, word)| *word == given).map(|(value, _)| *value);
        found.ok_or_else(|| {
            let words = all.map(|(_, word)| word).join(", ");
            ApiError::bad_request(format!("{name} must be one of {words}"))
        })
    }

    /// Places of the series that are wanted, each once.
    pub(crate) fn series(&self) -> Result<Vec<usize>, ApiError> {
        let Some(names) = self.get("names") else { return Ok((0..CATALOGUE.len()).collect()) };
        let find = |name: &str| {
            position(name).ok_or_else(|| {
                let shown: String = name.chars().take(60).collect();
                ApiError::bad_request(format!("there is no series {shown:?}; GET /api/v1/series lists them"))
            })
        };
        let wanted = names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(find);
        Ok(wanted.collect::<Result<BTreeSet<_>, _>>()?.into_iter().collect())
    }

    /// The events that are wanted from a while.
    pub(crate) fn wish(&self, (from_ms, to_ms): (u64, u64)) -> Result<Wish, ApiError> {
        let kinds: Vec<String> = self
            .get("kinds")
            .map(|kinds| kinds.split(',').map(|kind| kind.trim().to_owned()).collect())
            .unwrap_or_default();
        if let Some(wrong) = kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            let shown: String = wrong.chars().take(60).collect();
            return Err(ApiError::bad_request(format!(
                "there is no kind {shown:?} of events; there are {}",
                KINDS.join(", ")
            )));
        }
        let limit = self.count("limit", EVENTS, MOST_EVENTS)?;
        Ok(Wish { from_ms, to_ms, kinds, min_ms: self.number("min_ms")?.unwrap_or(0.0), limit })
    }
}

/// `15m` in milliseconds.
fn range_ms(name: &str, text: &str) -> Result<u64, ApiError> {
    let wrong = || ApiError::bad_request(format!("{name} must look like 30s, 5m, 1h or 7d, and 7d is the longest"));
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    match count.checked_mul(seconds) {
        Some(length @ 1..=MAX_AGE_S) => Ok(length * 1000),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(pairs: &[(&str, &str)]) -> QueryParameters {
        QueryParameters(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn ranges_are_read() {
        for (text, expect) in [("1m", Some(60_000)), ("7d", Some(604_800_000)), ("8d", None), ("0s", None), ("µ", None)]
        {
            assert_eq!(range_ms("range", text).ok(), expect, "{text}");
        }
        for (text, expect) in [("90", Some(90)), ("5m", Some(300)), ("0", None), ("-3", None), ("1w", None)] {
            assert_eq!(parameters(&[("since", text)]).seconds("since").ok().flatten(), expect, "{text}");
        }
    }

    #[test]
    fn bounds_are_checked() {
        assert_eq!(parameters(&[("range", "1m")]).bounds((0, 100_000)).ok(), Some((40_000, 100_000)));
        assert_eq!(parameters(&[("from", "5"), ("to", "9.5")]).bounds((0, 100)).ok(), Some((5, 9)));
        assert_eq!(parameters(&[]).bounds((3, 100)).ok(), Some((3, 100)));
        assert_eq!(parameters(&[("from", "-inf"), ("to", "1e300")]).bounds((3, 100)).ok(), Some((0, 1 << 53)));
        for wrong in [&[("range", "1m"), ("from", "5")][..], &[("from", "9"), ("to", "5")], &[("from", "x")]] {
            assert!(parameters(wrong).bounds((0, 100)).is_err());
        }
    }

    #[test]
    fn unknown_names_are_told() {
        assert!(parameters(&[("names", "memory.rss,nothing")]).series().is_err());
        assert_eq!(parameters(&[("names", "memory.rss")]).series().ok().map(|found| found.len()), Some(1));
        assert_eq!(parameters(&[("names", "fds,fds,fds")]).series().ok().map(|found| found.len()), Some(1));
        assert!(parameters(&[("kinds", "party")]).wish((0, 1)).is_err());
        assert!(parameters(&[("points", "1")]).points().is_err());
    }
}
