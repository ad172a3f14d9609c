//! Inputs cut into bins, so that a split is sought among few places.

/// How many bins an input has at most.
pub(super) const MOST_BINS: usize = 64;

/// Where each input is cut, and in which bin each row lies.
pub(super) struct Bins {
    /// For each input, rising; a value is in the bin of as many cuts as it is above.
    pub(super) cuts: Vec<Vec<f32>>,
    /// Input by input, one for each row.
    pub(super) codes: Vec<Vec<u8>>,
}

impl Bins {
    /// Cuts that leave about as many rows in each bin.
    pub(super) fn new(rows: &[f32], inputs: usize) -> Self {
        let columns = (0..inputs).map(|input| rows.iter().skip(input).step_by(inputs).copied().collect::<Vec<f32>>());
        let (cuts, codes) = columns
            .map(|column| {
                let mut sorted = column.clone();
                sorted.sort_unstable_by(f32::total_cmp);
                let mut cuts: Vec<f32> = (1..MOST_BINS)
                    .filter_map(|at| {
                        // Between two values that differ, so that no value lies on a cut.
                        let upper = sorted.partition_point(|it| *it <= sorted[at * (sorted.len() - 1) / MOST_BINS]);
                        let (below, above) = (sorted.get(upper.checked_sub(1)?)?, sorted.get(upper)?);
                        Some(f32::midpoint(*below, *above))
                    })
                    .collect();
                cuts.dedup();
                let codes = column.iter().map(|value| cuts.partition_point(|cut| value > cut) as u8).collect();
                (cuts, codes)
            })
            .unzip();
        Self { cuts, codes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_about_equal_and_what_never_changes_has_no_cut() {
        let rows: Vec<f32> = (0..1000).flat_map(|at| [at as f32 * at as f32, 3.0]).collect();
        let bins = Bins::new(&rows, 2);
        assert_eq!((bins.cuts[0].len(), bins.cuts[1].len()), (MOST_BINS - 1, 0));
        let mut counts = [0; MOST_BINS];
        bins.codes[0].iter().for_each(|code| counts[usize::from(*code)] += 1);
        assert!(counts.iter().all(|count| (10..25).contains(count)), "{counts:?}");
        assert!(bins.codes[1].iter().all(|code| *code == 0));
    }
}
