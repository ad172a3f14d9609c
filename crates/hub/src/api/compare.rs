//! Two processes side by side: without and with, before and after.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::chart::Columns;
use super::error::ApiError;
use super::parameters::QueryParameters;
use super::processes::known;
use super::{App, blocking, json_text};
use crate::facts::ProcessFacts;
use crate::hub::to_text;
use crate::row::{FigureRow, Folder, fold_into_steps};
use crate::store::Span;

#[derive(Serialize)]
struct Comparison<'c> {
    a: &'c ProcessFacts,
    b: &'c ProcessFacts,
    align: &'static str,
    from_ms: u64,
    to_ms: u64,
    step_ms: u64,
    t: Vec<u64>,
    series: Columns<Pair<Vec<Option<f32>>>>,
    whole: Columns<Whole>,
}

#[derive(Serialize)]
struct Pair<T> {
    a: T,
    b: T,
    diff: T,
}

#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    pair: Pair<Option<f32>>,
    percent: Option<f32>,
}

pub(super) async fn compare(State(app): State<Arc<App>>, parameters: QueryParameters) -> Result<Response, ApiError> {
    let id =
        |name: &str| parameters.get(name).ok_or_else(|| ApiError::bad_request(format!("{name} must name a process")));
    let (a, b) = (known(&app, id("a")?).await?, known(&app, id("b")?).await?);
    let (span, places) = (parameters.span()?, parameters.series()?);
    let from_start = match parameters.get("align") {
        None | Some("clock") => false,
        Some("start") => true,
        Some(_) => return Err(ApiError::bad_request("align must be clock or start")),
    };
    let own = |facts: &ProcessFacts| if from_start { since_start(facts, span) } else { span };
    let (course_a, course_b) = tokio::try_join!(
        app.hub.history.course(&a.id, own(&a), &places),
        app.hub.history.course(&b.id, own(&b), &places),
    )?;
    blocking(move || {
        let step_ms = course_a.step_ms.max(course_b.step_ms);
        let steps = |rows: Vec<FigureRow>, facts: &ProcessFacts| {
            let start = if from_start { facts.started_ms } else { 0 };
            let shifted = rows.into_iter().map(|mut row| {
                row.t = row.t.saturating_sub(start);
                row
            });
            fold_into_steps(shifted, step_ms)
        };
        let (rows_a, rows_b) = (steps(course_a.rows, &a), steps(course_b.rows, &b));
        let (from_ms, to_ms) = if from_start { (0, span.to_ms - span.from_ms) } else { (span.from_ms, span.to_ms) };
        let (t, pairs) = side_by_side(&rows_a, &rows_b);
        let series = Columns(places.iter().map(|place| (*place, columns(&pairs, *place))).collect());
        let (all_a, all_b) = (folded(&rows_a), folded(&rows_b));
        let whole =
            Columns(places.iter().map(|place| (*place, whole(all_a.as_ref(), all_b.as_ref(), *place))).collect());
        let align = if from_start { "start" } else { "clock" };
        Ok(json_text(to_text(&Comparison { a: &a, b: &b, align, from_ms, to_ms, step_ms, t, series, whole })))
    })
    .await
}

/// The same length, from the start of a process on.
fn since_start(facts: &ProcessFacts, span: Span) -> Span {
    Span { from_ms: facts.started_ms, to_ms: facts.started_ms + (span.to_ms - span.from_ms), ..span }
}

type Both<'r> = (Option<&'r FigureRow>, Option<&'r FigureRow>);

fn side_by_side<'r>(a: &'r [FigureRow], b: &'r [FigureRow]) -> (Vec<u64>, Vec<Both<'r>>) {
    let mut steps: BTreeMap<u64, Both<'r>> = BTreeMap::new();
    a.iter().for_each(|row| steps.entry(row.t).or_default().0 = Some(row));
    b.iter().for_each(|row| steps.entry(row.t).or_default().1 = Some(row));
    steps.into_iter().unzip()
}

fn columns(pairs: &[Both<'_>], place: usize) -> Pair<Vec<Option<f32>>> {
    let mut columns = Pair { a: Vec::new(), b: Vec::new(), diff: Vec::new() };
    for (a, b) in pairs {
        let pair = pair(*a, *b, place);
        columns.a.push(pair.a);
        columns.b.push(pair.b);
        columns.diff.push(pair.diff);
    }
    columns
}

fn pair(a: Option<&FigureRow>, b: Option<&FigureRow>, place: usize) -> Pair<Option<f32>> {
    let value = |row: Option<&FigureRow>| row.and_then(|row| row.value(place));
    let (a, b) = (value(a), value(b));
    Pair { a, b, diff: a.zip(b).map(|(a, b)| b - a) }
}

fn folded(rows: &[FigureRow]) -> Option<FigureRow> {
    let mut folder = Folder::default();
    rows.iter().for_each(|row| folder.add(row));
    folder.fold(0)
}

fn whole(a: Option<&FigureRow>, b: Option<&FigureRow>, place: usize) -> Whole {
    let pair = pair(a, b, place);
    let percent = pair.diff.zip(pair.a).filter(|(_, a)| *a != 0.0).map(|(diff, a)| 100.0 * diff / a);
    Whole { pair, percent }
}
