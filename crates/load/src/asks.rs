//! What is asked for: paths with their weights, chosen by chance that repeats itself.

use crate::chance::Chance;

/// Paths and how often each is asked for. `{}` in a path becomes the number of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks(Vec<(u32, String)>);

impl Asks {
    /// Always the same path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        Self(vec![(1, path.to_owned())])
    }

    /// Several paths. Weights are relative to each other; a path of weight zero is never asked for.
    #[must_use]
    pub fn weighted(paths: &[(u32, &str)]) -> Self {
        Self(paths.iter().map(|(weight, path)| (*weight, (*path).to_owned())).collect())
    }

    /// The path of one request.
    pub fn path(&self, number: u64, chance: &mut Chance) -> String {
        let all: u64 = self.0.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let mut at = if self.0.len() > 1 { (chance.share() * all as f64) as u64 } else { 0 };
        let chosen = self.0.iter().find(|(weight, _)| {
            let here = at < u64::from(*weight);
            at = at.saturating_sub(u64::from(*weight));
            here
        });
        chosen.map_or_else(|| "/".to_owned(), |(_, path)| path.replace("{}", &number.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_goes_into_the_path() {
        assert_eq!(Asks::of("/item/{}").path(42, &mut Chance::new(0)), "/item/42");
    }

    #[test]
    fn paths_are_chosen_by_their_weights() {
        let asks = Asks::weighted(&[(3, "/often"), (0, "/never"), (1, "/seldom")]);
        let mut chance = Chance::new(1);
        let paths: Vec<_> = (0..4000).map(|number| asks.path(number, &mut chance)).collect();
        let count = |path: &str| paths.iter().filter(|it| *it == path).count();
        assert_eq!(count("/never"), 0);
        assert!((2850..3150).contains(&count("/often")), "{}", count("/often"));
        assert_eq!(count("/often") + count("/seldom"), 4000);
    }
}
