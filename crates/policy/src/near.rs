//! Suggestions for a name that was probably mistyped.

/// The known names closest to a wrong one, best first, at most three.
fn near_misses<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut close: Vec<_> = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .collect();
    close.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    close.into_iter().take(3).map(|(_, name)| name).collect()
}

/// ` Did you mean …?`, or nothing where no name is close.
#[must_use]
pub fn suggestion<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let close = near_misses(wrong, known);
    if close.is_empty() { String::new() } else { format!(" Did you mean {}?", close.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_comes_first() {
        assert_eq!(near_misses("obsrve", ["cpython", "observe", "gap"]), ["observe"]);
        assert!(near_misses("xyz", ["cpython", "observe", "gap"]).is_empty());
    }
}
