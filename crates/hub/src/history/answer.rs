//! Answers of Prometheus' HTTP API, and of what is compatible with it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::Deserialize;

/// The longest reason of a server that is told.
const LONGEST_REASON: usize = 300;

/// Labels and their values.
pub(super) type Labels = BTreeMap<String, String>;

/// Values of one combination of labels, each with its moment in milliseconds since 1970, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LabelledValues {
    pub(super) labels: Labels,
    pub(super) values: Vec<(u64, f64)>,
}

impl LabelledValues {
    /// The value of a label; empty where it has none, as Prometheus means it.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

#[derive(Deserialize)]
struct Envelope<T> {
    status: String,
    #[serde(default = "Option::default")]
    data: Option<T>,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct QueryResult<'t> {
    #[serde(borrow)]
    result: Vec<RawLine<'t>>,
}

/// Of a range there are `values`, of a moment there is one `value`. They are written as texts.
#[derive(Deserialize)]
struct RawLine<'t> {
    #[serde(default)]
    metric: Labels,
    #[serde(borrow, default)]
    values: Vec<(f64, Cow<'t, str>)>,
    #[serde(borrow, default)]
    value: Option<(f64, Cow<'t, str>)>,
}

/// The lines of an answer to `query` or `query_range`. What is not a number is left out.
pub(super) fn lines(status: StatusCode, body: &[u8]) -> Result<Vec<LabelledValues>, String> {
    let answer: QueryResult<'_> = data(status, body)?;
    let read = |raw: RawLine<'_>| {
        let value = |(seconds, text): (f64, Cow<'_, str>)| {
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
            Some(((seconds * 1e3).round() as u64, value))
        };
        LabelledValues {
            labels: raw.metric,
            values: raw.values.into_iter().chain(raw.value).filter_map(value).collect(),
        }
    };
    Ok(answer.result.into_iter().map(read).collect())
}

/// The combinations of labels of an answer to `series`.
pub(super) fn series(status: StatusCode, body: &[u8]) -> Result<Vec<Labels>, String> {
    data(status, body)
}

fn data<'t, T: Deserialize<'t>>(status: StatusCode, body: &'t [u8]) -> Result<T, String> {
    let refused = |reason: &str| {
        let reason: String = reason.chars().take(LONGEST_REASON).collect();
        if reason.is_empty() {
            format!("it answers HTTP {status}")
        } else {
            format!("it answers HTTP {status}: {reason}")
        }
    };
    match serde_json::from_slice::<Envelope<T>>(body) {
        Ok(Envelope { status: said, data: Some(data), .. }) if said == "success" && status.is_success() => Ok(data),
        Ok(Envelope { error, .. }) => Err(refused(&error)),
        Err(_) if !status.is_success() => {
            // Some servers say what is wrong in an envelope without data, others in plain text.
            let said = serde_json::from_slice::<Envelope<serde::de::IgnoredAny>>(body).map(|it| it.error);
            Err(refused(&said.unwrap_or_default()))
        }
        Err(error) => Err(format!("its answer is not that of Prometheus: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_moments_are_read() {
        let range = br#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"worker":"main"},"values":[[1700000000,"1.5"],[1700000015.5,"NaN"],[1700000030,"2e3"]]}]}}"#;
        let found = lines(StatusCode::OK, range).unwrap_or_default();
        assert_eq!(found[0].values, [(1_700_000_000_000, 1.5), (1_700_000_030_000, 2000.0)]);
        assert_eq!((found[0].label("worker"), found[0].label("host")), ("main", ""));
        let moment =
            br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"+Inf"]}]}}"#;
        assert_eq!(lines(StatusCode::OK, moment), Ok(vec![LabelledValues::default()]));
        let labels = br#"{"status":"success","data":[{"__name__":"a","x":"y"}]}"#;
        assert_eq!(series(StatusCode::OK, labels).unwrap_or_default()[0]["x"], "y");
    }

    #[test]
    fn a_refusal_says_what_the_server_says() {
        let refusal = br#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}"#;
        let said = lines(StatusCode::BAD_REQUEST, refusal);
        assert_eq!(said, Err("it answers HTTP 400 Bad Request: parse error: unexpected end".to_owned()));
        assert_eq!(lines(StatusCode::NOT_FOUND, b"no page"), Err("it answers HTTP 404 Not Found".to_owned()));
        for nonsense in
            [&b"<html>"[..], b"{}", br#"{"status":"success"}"#, br#"{"status":"success","data":{"result":7}}"#]
        {
            assert!(lines(StatusCode::OK, nonsense).is_err());
        }
    }
}
