//! How much memory must be left for a snapshot, as a share of what the program has.

/// Before a snapshot has been measured.
pub(super) const AT_FIRST: f64 = 0.25;

/// At least, where the program is not held up: for a count or a dump, and where no policy acts.
pub(super) const NOT_HELD_UP: f64 = 0.3;

/// How many times what the last walk took for itself.
const OWN_CAUTION: f64 = 1.3;

/// For the pages that a program copies although the pacer holds it up where there is no room for more.
const FOR_COPIES: f64 = 0.12;

/// After a snapshot whose walk took so many bytes for itself. What the program has copied meanwhile does not count: it is held
/// up where there is no room for so much.
pub(super) fn for_the_next(own: u64, resident: u64) -> f64 {
    (own as f64 / resident.max(1) as f64 * OWN_CAUTION + FOR_COPIES).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_last_walk_took_and_some_for_copies() {
        let about = |own, resident, expected: f64| {
            let room = for_the_next(own, resident);
            assert!((room - expected).abs() < 1e-9, "{room}");
        };
        about(10, 100, 0.25);
        about(0, 100, 0.12);
        about(500, 100, 1.0);
        about(0, 0, 0.12);
    }
}
