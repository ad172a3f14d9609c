//! Plots as SVG text: nothing is loaded from anywhere.

use std::fmt::Write as _;

/// One line of a plot.
#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One row of a plot of ratios.
#[derive(Debug)]
pub(crate) struct Dot {
    pub(crate) name: String,
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Colours that people with red-green blindness can tell apart (after Okabe and Ito).
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#666666"];

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 240.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 34.0;

/// Text that may stand in a page.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Latency by the share of requests that do not exceed it; both scales show the slow end.
pub(crate) fn percentiles(curves: &[Curve]) -> String {
    // How many nines.
    let nines = |share: f64| -(1.0 - share).max(1e-6).log10();
    let values = || curves.iter().flat_map(|curve| curve.points.iter().copied()).filter(|(share, _)| *share < 1.0);
    let Some(most) = values().map(|(share, _)| nines(share)).reduce(f64::max).filter(|most| *most > 0.0) else {
        return String::new();
    };
    let lowest = values().map(|(_, ms)| ms.max(1e-3)).fold(f64::INFINITY, f64::min);
    let highest = values().map(|(_, ms)| ms.max(1e-3)).fold(0.0, f64::max);
    let (floor, ceiling) = (lowest.log10().floor(), highest.log10().ceil().max(lowest.log10().floor() + 1.0));
    let x = |share: f64| LEFT + nines(share) / most * (WIDTH - LEFT - RIGHT);
    let y = |ms: f64| TOP + (ceiling - ms.max(1e-3).log10()) / (ceiling - floor) * (HEIGHT - TOP - BOTTOM);
    let mut svg = open(HEIGHT, "Latency by percentile");
    for power in floor as i32..=ceiling as i32 {
        let value = 10.0_f64.powi(power);
        let at = y(value);
        let label = if power < 0 { format!("{value} ms") } else { format!("{value:.0} ms") };
        rule(&mut svg, (LEFT, at), (WIDTH - RIGHT, at));
        label_at(&mut svg, (LEFT - 6.0, at + 4.0), "end", &label);
    }
    for (share, name) in [(0.0, "0"), (0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")] {
        if nines(share) <= most {
            rule(&mut svg, (x(share), TOP), (x(share), HEIGHT - BOTTOM));
            label_at(&mut svg, (x(share), HEIGHT - BOTTOM + 16.0), "middle", name);
        }
    }
    for (at, curve) in curves.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points: Vec<_> = curve
            .points
            .iter()
            .filter(|(share, _)| *share < 1.0)
            .map(|(share, ms)| format!("{:.1},{:.1}", x(*share), y(*ms)))
            .collect();
        line(&mut svg, at, &curve.name, &points, &format!("stroke=\"{colour}\""), dash(at));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Ratios with their bounds, one below the other, on a scale where twice and half are equally far from one.
pub(crate) fn ratios(title: &str, dots: &[Dot]) -> String {
    if dots.is_empty() {
        return String::new();
    }
    let height = TOP + 24.0 * dots.len() as f64 + BOTTOM;
    let left = 250.0;
    let right = WIDTH - 40.0;
    let furthest = dots
        .iter()
        .flat_map(|dot| [dot.mean, dot.low.max(dot.mean / 20.0), dot.high.min(dot.mean * 20.0)])
        .map(|value| value.max(1e-4).log2().abs())
        .fold(1.0, f64::max)
        .ceil();
    let x = |value: f64| {
        let share = (value.max(1e-6).log2() / furthest).clamp(-1.0, 1.0);
        f64::midpoint(left, right) + share * (right - left) / 2.0
    };
    let mut svg = open(height, title);
    let step = (furthest / 4.0).ceil().max(1.0);
    let mut power = -(furthest / step).floor() * step;
    while power <= furthest {
        let value = power.exp2();
        rule(&mut svg, (x(value), TOP), (x(value), height - BOTTOM));
        let label = if value < 1.0 { format!("1/{:.0}", 1.0 / value) } else { format!("{value:.0}×") };
        label_at(&mut svg, (x(value), height - BOTTOM + 16.0), "middle", &label);
        power += step;
    }
    let one = x(1.0);
    let _ = writeln!(
        svg,
        "<line x1=\"{one:.1}\" y1=\"{TOP}\" x2=\"{one:.1}\" y2=\"{:.1}\" stroke=\"currentColor\"/>",
        height - BOTTOM
    );
    for (at, dot) in dots.iter().enumerate() {
        let y = TOP + 24.0 * at as f64 + 14.0;
        let clear = dot.low > 1.0 || dot.high < 1.0;
        let colour = match (clear, dot.mean < 1.0) {
            (true, true) => COLOURS[2],
            (true, false) => COLOURS[1],
            _ => COLOURS[7],
        };
        let (low, high, mean) = (x(dot.low), x(dot.high), x(dot.mean));
        let _ = writeln!(
            svg,
            "<line x1=\"{low:.1}\" y1=\"{y}\" x2=\"{high:.1}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <circle cx=\"{mean:.1}\" cy=\"{y}\" r=\"4.5\" fill=\"{colour}\"><title>{:.3} ({:.3} – {:.3})</title></circle>",
            dot.mean, dot.low, dot.high
        );
        label_at(&mut svg, (left - 12.0, y + 4.0), "end", &dot.name);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Values over time, a line for each curve.
pub(crate) fn course(title: &str, unit: &str, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let last = points().map(|(at, _)| *at).fold(1.0, f64::max);
    let highest = points().map(|(_, value)| *value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let height = 200.0;
    let x = |at: f64| LEFT + at / last * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (1.0 - value / highest) * (height - TOP - BOTTOM);
    let mut svg = open(height, title);
    for share in [0.0, 0.5, 1.0] {
        let value = highest * share;
        rule(&mut svg, (LEFT, y(value)), (WIDTH - RIGHT, y(value)));
        let digits = usize::from(highest < 10.0);
        label_at(&mut svg, (LEFT - 6.0, y(value) + 4.0), "end", &format!("{value:.digits$} {unit}"));
    }
    label_at(&mut svg, (LEFT, height - BOTTOM + 16.0), "start", "0 s");
    label_at(&mut svg, (WIDTH - RIGHT, height - BOTTOM + 16.0), "end", &format!("{last:.0} s"));
    for (at, curve) in curves.iter().enumerate() {
        // The first is that without NeuroGC: the colour of what is not good.
        let colour = COLOURS[(at + 1) % COLOURS.len()];
        let points: Vec<_> = curve.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        line(&mut svg, at, &curve.name, &points, &format!("stroke=\"{colour}\""), dash(at));
    }
    svg.push_str("</svg>\n");
    svg
}

/// How often what was expected happened, over how often it was expected to; the diagonal is right.
pub(crate) fn calibration(curves: &[Curve]) -> String {
    let side = HEIGHT - TOP - BOTTOM;
    let (x, y) = (|share: f64| LEFT + share * side, |share: f64| TOP + (1.0 - share) * side);
    let mut svg = open(HEIGHT, "calibration: how many gaps were over by each expected quantile");
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        rule(&mut svg, (LEFT, y(share)), (LEFT + side, y(share)));
        label_at(&mut svg, (LEFT - 6.0, y(share) + 4.0), "end", &format!("{:.0} %", share * 100.0));
        label_at(&mut svg, (x(share), HEIGHT - BOTTOM + 16.0), "middle", &format!("{:.0} %", share * 100.0));
    }
    rule(&mut svg, (x(0.0), y(0.0)), (x(1.0), y(1.0)));
    for (at, curve) in curves.iter().enumerate() {
        let points: Vec<_> = curve.points.iter().map(|(to, is)| format!("{:.1},{:.1}", x(*to), y(*is))).collect();
        line(&mut svg, at, &curve.name, &points, &format!("stroke=\"{}\"", COLOURS[at % COLOURS.len()]), "");
    }
    svg.push_str("</svg>\n");
    svg
}

/// More lines than colours: the second round is dashed.
fn dash(at: usize) -> &'static str {
    if at < COLOURS.len() { "" } else { " stroke-dasharray=\"5 3\"" }
}

/// A curve, and its row in the legend.
fn line(svg: &mut String, row: usize, name: &str, points: &[String], stroke: &str, dash: &str) {
    let points = points.join(" ");
    let _ = writeln!(svg, "<polyline fill=\"none\" {stroke} stroke-width=\"1.8\"{dash} points=\"{points}\"/>");
    let (y, from) = (TOP + 10.0 + 18.0 * row as f64, WIDTH - RIGHT + 14.0);
    let to = from + 20.0;
    let _ =
        writeln!(svg, "<line x1=\"{from}\" y1=\"{y}\" x2=\"{to}\" y2=\"{y}\" {stroke} stroke-width=\"2.5\"{dash}/>");
    label_at(svg, (from + 26.0, y + 4.0), "start", name);
}

fn open(height: f64, title: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>\n", escape(title))
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"rule\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn label_at(svg: &mut String, at: (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>", at.0, at.1, escape(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_draws_nothing() {
        assert_eq!(percentiles(&[]), "");
        assert_eq!(ratios("p99", &[]), "");
        let flat = Curve { name: "a".to_owned(), points: vec![(0.0, 1.0), (1.0, 1.0)] };
        assert_eq!(percentiles(&[flat]), "", "one share makes no curve");
    }

    #[test]
    fn points_stay_inside_and_names_cannot_break_out() {
        let points = vec![(0.0, 0.5), (0.5, 1.0), (0.9, 5.0), (0.99, 80.0), (0.999, 300.0), (1.0, 310.0)];
        let svg = percentiles(&[Curve { name: "<b>&\"".to_owned(), points }]);
        assert!(svg.contains("&lt;b&gt;&amp;&quot;") && !svg.contains("<b>"));
        let line = svg.lines().find(|line| line.starts_with("<polyline"));
        let inside = line.and_then(|line| line.split("points=\"").nth(1)).is_some_and(|points| {
            points
                .trim_end_matches("\"/>")
                .split([' ', ','])
                .all(|number| number.parse::<f64>().is_ok_and(|number| (0.0..=WIDTH).contains(&number)))
        });
        assert!(inside, "{line:?}");
        let wide = Dot { name: "x".to_owned(), mean: 0.01, low: 1e-9, high: 1e9 };
        assert!(!ratios("p99", &[wide]).contains("NaN"));
        assert!(!course("t", "ms", &[]).contains("NaN"));
    }
}
