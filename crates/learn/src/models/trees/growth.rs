//! Growing one tree: level by level, the question that helps most over all branches at once.

use neurogc_load::Chance;

use super::bins::{Bins, MOST_BINS};

/// How many questions a tree asks.
pub(super) const DEPTH: usize = 6;

/// The share of rows, and of inputs, that each tree is grown from: trees that differ are better together.
const ROW_SHARE: f64 = 0.5;
const INPUT_SHARE: f64 = 0.4;
const FEWEST_INPUTS: f64 = 8.0;

/// As if each leaf had so many more rows that want no change.
pub(super) const PRIOR: f32 = 20.0;

/// What rows want: how each output should move, and how much the row counts.
pub(super) struct Wants {
    /// How many outputs there are.
    pub(super) outputs: usize,
    /// Row by row, `outputs` wishes times weight, then the weight. Rows of weight zero are left out.
    pub(super) rows: Vec<f32>,
}

/// A tree's questions: which input, and whether it is above what.
pub(super) type Questions = Vec<(u16, f32)>;

/// Seeks the questions of a tree. Fewer than `DEPTH`, or none, where no more help.
pub(super) fn questions(bins: &Bins, wants: &Wants, seed: u64) -> Questions {
    let mut chance = Chance::new(seed);
    let stride = wants.outputs + 1;
    let counts = |row: usize| wants.rows[row * stride + wants.outputs] > 0.0;
    let all = (0..wants.rows.len() / stride).filter(|row| counts(*row));
    let rows: Vec<usize> = all.filter(|_| chance.share() < ROW_SHARE).collect();
    let usable = || (0..bins.cuts.len()).filter(|input| !bins.cuts[*input].is_empty());
    let share = INPUT_SHARE.max(FEWEST_INPUTS / usable().count().max(1) as f64);
    let inputs: Vec<usize> = usable().filter(|_| chance.share() < share).collect();
    let mut branches = vec![0_usize; rows.len()];
    let mut sums = Sums::new(stride);
    let mut found = Questions::new();
    let mut reached = f32::MIN;
    for level in 0..DEPTH {
        let mut best = None;
        for input in &inputs {
            sums.fill(&bins.codes[*input], &rows, &branches, wants, 1 << level);
            for (cut, gain) in sums.gains(1 << level, bins.cuts[*input].len()).into_iter().enumerate() {
                if best.is_none_or(|(most, _, _)| gain > most) {
                    best = Some((gain, *input, cut));
                }
            }
        }
        match best {
            Some((gain, input, cut)) if gain > reached * 1.000_01 && gain > 0.0 => {
                reached = gain;
                found.push((input as u16, bins.cuts[input][cut]));
                for (branch, row) in branches.iter_mut().zip(&rows) {
                    *branch = 2 * *branch + usize::from(usize::from(bins.codes[input][*row]) > cut);
                }
            }
            _ => break,
        }
    }
    found
}

/// Sums of what the rows in each branch and bin want, for one input.
struct Sums {
    stride: usize,
    bins: Vec<f32>,
}

impl Sums {
    fn new(stride: usize) -> Self {
        Self { stride, bins: vec![0.0; (stride * MOST_BINS) << DEPTH] }
    }

    fn fill(&mut self, codes: &[u8], rows: &[usize], branches: &[usize], wants: &Wants, branch_count: usize) {
        self.bins[..branch_count * MOST_BINS * self.stride].fill(0.0);
        for (row, branch) in rows.iter().zip(branches) {
            let bin = (branch * MOST_BINS + usize::from(codes[*row])) * self.stride;
            let wants = &wants.rows[row * self.stride..][..self.stride];
            for (sum, want) in self.bins[bin..].iter_mut().zip(wants) {
                *sum += want;
            }
        }
    }

    /// For each cut, how much better leaves would fit after it.
    fn gains(&self, branch_count: usize, cuts: usize) -> Vec<f32> {
        let mut gains = vec![0.0; cuts];
        let mut all = vec![0.0; self.stride];
        let mut below = vec![0.0; self.stride];
        for branch in self.bins.chunks_exact(MOST_BINS * self.stride).take(branch_count) {
            all.fill(0.0);
            below.fill(0.0);
            for bin in branch.chunks_exact(self.stride) {
                add(&mut all, bin);
            }
            for (bin, gain) in branch.chunks_exact(self.stride).zip(&mut gains) {
                add(&mut below, bin);
                *gain += fit(&below, |at| below[at]) + fit(&all, |at| all[at] - below[at]);
            }
        }
        gains
    }
}

fn add(to: &mut [f32], added: &[f32]) {
    for (to, added) in to.iter_mut().zip(added) {
        *to += added;
    }
}

/// How well a leaf fits rows with these sums, the last of which is their weight.
fn fit(like: &[f32], sum: impl Fn(usize) -> f32) -> f32 {
    let outputs = like.len() - 1;
    (0..outputs).map(|at| sum(at) * sum(at)).sum::<f32>() / (sum(outputs) + PRIOR)
}
