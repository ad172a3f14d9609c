//! `neurogc run --memory-plot`: the memory of a command over time, as one HTML file that loads nothing.
//!
//! `watched` runs the command, `tree` reads its processes from outside, `course` keeps what they had in memory of a fixed size, `marks` reads what the
//! program itself has left behind: collections, requests and marked functions. So there is a file also where the program crashes.

pub(crate) mod course;
pub(crate) mod marks;
pub(crate) mod tree;
pub(crate) mod watched;

use serde::Serialize;

use course::PlotCourse;
use marks::Marks;

/// The page, made by `dashboard/build`.
const PAGE: &str = include_str!("../../../../dashboard/dist/plot.html");

/// Where the page expects its data.
const MARK: &str = "\"NEUROGC-PLOT-DATA\"";

/// What the page shows beside the courses and the marks. Its fields are those of `dashboard/src/plot/data.ts`.
#[derive(Debug, Serialize)]
pub(crate) struct PlotHead {
    pub(crate) command: String,
    /// How the command ended.
    pub(crate) outcome: String,
    /// The date and time of its beginning.
    pub(crate) began: String,
    pub(crate) seconds: f64,
    pub(crate) remarks: Vec<String>,
}

#[derive(Serialize)]
struct PlotData<'p> {
    #[serde(flatten)]
    head: &'p PlotHead,
    #[serde(flatten)]
    course: &'p PlotCourse,
    #[serde(flatten)]
    marks: &'p Marks,
}

/// The file. Names come from the program: nothing in them can end the element that the data are in.
pub(crate) fn encode(head: &PlotHead, course: &PlotCourse, marks: &Marks) -> Result<String, serde_json::Error> {
    let data = inside_script(&PlotData { head, course, marks })?;
    Ok(PAGE.replacen(MARK, &data, 1))
}

/// Data as JSON that can stand inside an element `script`.
pub(crate) fn inside_script(data: &impl Serialize) -> Result<String, serde_json::Error> {
    // JSON has `<` and the two line separators within strings only, where they may be written as numbers.
    let text = serde_json::to_string(data)?;
    Ok(text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_ends_the_element() {
        let head = PlotHead {
            command: "python </script><b>.py".to_owned(),
            outcome: "exit code 0".to_owned(),
            began: String::new(),
            seconds: 1.0,
            remarks: Vec::new(),
        };
        let page = encode(&head, &PlotCourse::new(), &Marks::default()).unwrap();
        assert!(page.contains(r#""command":"python \u003c/script>\u003cb>.py""#));
        assert_eq!((page.matches("</script>").count(), page.matches(MARK).count()), (2, 0));
        // The name of SVG's elements is no address that is loaded.
        let loaded = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!loaded.contains("http://") && !loaded.contains("https://"));
    }
}
