//! The layer that every network is made of: each output is a weighted sum of all inputs.

/// How many outputs are computed side by side: half of the registers of the smallest x86-64, so that no addition waits
/// for the one before it.
const LANES: usize = 32;

/// Weights as they are needed: blocks of `LANES` outputs, and in each block one row for each input.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    inputs: usize,
    outputs: usize,
    biases: Vec<[f32; LANES]>,
    rows: Vec<[f32; LANES]>,
}

impl Dense {
    /// From weights as they are in the file: all that one output uses stand together. There is at least one input.
    pub(crate) fn new(inputs: usize, weights: &[f32], biases: &[f32]) -> Self {
        let blocks = biases.len().div_ceil(LANES);
        let mut dense = Self {
            inputs: inputs.max(1),
            outputs: biases.len(),
            biases: vec![[0.0; LANES]; blocks],
            rows: vec![[0.0; LANES]; blocks * inputs.max(1)],
        };
        for (output, (bias, weights)) in biases.iter().zip(weights.chunks_exact(dense.inputs)).enumerate() {
            let (block, lane) = (output / LANES, output % LANES);
            dense.biases[block][lane] = *bias;
            for (input, weight) in weights.iter().enumerate() {
                dense.rows[block * dense.inputs + input][lane] = *weight;
            }
        }
        dense
    }

    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Fills the outputs.
    pub(crate) fn apply(&self, inputs: &[f32], outputs: &mut [f32]) {
        let blocks = self.biases.iter().zip(self.rows.chunks_exact(self.inputs));
        for ((biases, rows), outputs) in blocks.zip(outputs.chunks_mut(LANES)) {
            let mut sums = *biases;
            for (input, row) in inputs.iter().zip(rows) {
                for (sum, weight) in sums.iter_mut().zip(row) {
                    *sum += input * weight;
                }
            }
            for (output, sum) in outputs.iter_mut().zip(sums) {
                *output = sum;
            }
        }
    }

    /// Fills the outputs, and puts zero where they would be negative.
    pub(crate) fn apply_positive(&self, inputs: &[f32], outputs: &mut [f32]) {
        self.apply(inputs, outputs);
        for output in outputs {
            *output = output.max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_right_for_any_size() {
        for (inputs, outputs) in [(1, 1), (3, 9), (24, 16), (7, 33)] {
            let weights: Vec<f32> = (0..inputs * outputs).map(|at| at as f32 * 0.5 - 3.0).collect();
            let biases: Vec<f32> = (0..outputs).map(|at| at as f32).collect();
            let given: Vec<f32> = (0..inputs).map(|at| 1.0 - at as f32).collect();
            let mut found = vec![f32::NAN; outputs];
            Dense::new(inputs, &weights, &biases).apply(&given, &mut found);
            for (output, found) in found.iter().enumerate() {
                let row = &weights[output * inputs..][..inputs];
                let wanted = biases[output] + row.iter().zip(&given).map(|(weight, it)| weight * it).sum::<f32>();
                assert!((found - wanted).abs() < 1e-3, "{inputs}x{outputs}: {found} {wanted}");
            }
        }
    }
}
