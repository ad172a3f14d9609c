//! Search by the cross-entropy method: draw many, keep the best, draw the next around those.

use std::thread;

use neurogc_load::Chance;

/// How hard to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effort {
    /// How many are drawn in a round.
    pub(super) population: usize,
    /// How many rounds there are.
    pub(super) rounds: usize,
    /// On how many processors.
    pub(super) threads: usize,
    /// Decides all that is left to chance.
    pub(super) seed: u64,
}

/// Which part of a round is kept, and how narrow a search may become.
const KEPT: usize = 4;
const NARROWEST: f64 = 0.03;

/// The point with the lowest score that is found around a start, and its score. The start itself takes part, so that
/// nothing worse comes out.
pub(super) fn search(
    start: &[f64],
    spread: f64,
    effort: Effort,
    score: &(dyn Fn(&[f64]) -> f64 + Sync),
    tell: &mut dyn FnMut(usize, f64),
) -> (Vec<f64>, f64) {
    let mut chance = Chance::new(effort.seed);
    let mut center = start.to_vec();
    let mut spreads = vec![spread; start.len()];
    let mut best = (start.to_vec(), score(start));
    for round in 0..effort.rounds {
        let drawn: Vec<Vec<f64>> = (0..effort.population.max(KEPT))
            .map(|_| center.iter().zip(&spreads).map(|(at, spread)| at + spread * normal(&mut chance)).collect())
            .collect();
        let mut scored: Vec<(f64, Vec<f64>)> =
            all_scores(&drawn, effort.threads, score).into_iter().zip(drawn).collect();
        scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((least, point)) = scored.first().filter(|first| first.0 < best.1) {
            best = (point.clone(), *least);
        }
        scored.truncate((effort.population / KEPT).max(2));
        let kept = scored.len() as f64;
        for (index, (center, spread)) in center.iter_mut().zip(&mut spreads).enumerate() {
            let mean = scored.iter().map(|(_, point)| point[index]).sum::<f64>() / kept;
            let square = scored.iter().map(|(_, point)| (point[index] - mean).powi(2)).sum::<f64>() / kept;
            (*center, *spread) = (mean, square.sqrt().max(NARROWEST));
        }
        tell(round + 1, best.1);
    }
    best
}

/// The scores of all points, whichever thread finds them.
fn all_scores(points: &[Vec<f64>], threads: usize, score: &(dyn Fn(&[f64]) -> f64 + Sync)) -> Vec<f64> {
    let each = points.len().div_ceil(threads.max(1)).max(1);
    thread::scope(|scope| {
        let parts: Vec<_> = points
            .chunks(each)
            .map(|part| scope.spawn(move || part.iter().map(|point| score(point)).collect::<Vec<f64>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    })
}

/// About normal: twelve even numbers added up.
fn normal(chance: &mut Chance) -> f64 {
    (0..12).map(|_| chance.share()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bowl(point: &[f64]) -> f64 {
        point.iter().zip([1.0, -2.0, 0.5]).map(|(at, bottom)| (at - bottom).powi(2)).sum()
    }

    #[test]
    fn the_bottom_is_found_and_the_same_seed_finds_the_same() {
        let effort = Effort { population: 40, rounds: 25, threads: 2, seed: 1 };
        let (point, least) = search(&[0.0; 3], 1.0, effort, &bowl, &mut |_, _| {});
        assert!(least < 0.01, "{point:?}");
        let alone = Effort { threads: 1, ..effort };
        assert_eq!(search(&[0.0; 3], 1.0, alone, &bowl, &mut |_, _| {}), (point, least));
    }

    #[test]
    fn nothing_worse_than_the_start_comes_out() {
        let effort = Effort { population: 4, rounds: 1, threads: 2, seed: 1 };
        let (point, least) = search(&[1.0, -2.0, 0.5], 3.0, effort, &bowl, &mut |_, _| {});
        assert_eq!((point, least), (vec![1.0, -2.0, 0.5], 0.0));
    }
}
