//! A flame graph as one HTML file that loads nothing.

use crate::flame::Flame;

/// The page, made by `dashboard/build`.
const PAGE: &str = include_str!("../../../../dashboard/dist/flame.html");

/// Where the page expects its data.
const MARK: &str = "\"NEUROGC-FLAME-DATA\"";

/// The file. Names come from the program: nothing in them can end the element that the data are in.
pub fn encode(flame: &Flame) -> Result<String, serde_json::Error> {
    // JSON has `<` and the two line separators within strings only, where they may be written as numbers.
    let data = serde_json::to_string(flame)?
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    Ok(PAGE.replacen(MARK, &data, 1))
}
