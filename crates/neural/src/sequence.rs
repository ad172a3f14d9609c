//! A network with how its inputs are prepared: rows of named inputs in, the numbers of its last layer out.

use std::fmt;

use crate::error::ModelError;
use crate::families::{Family, Network, Sizes};
use crate::file::Contents;
use crate::inputs::Scaling;
use crate::metadata::Metadata;

/// What a model file must contain so that its user can load it.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequirements<'a> {
    /// How many rows it looks at.
    pub window: usize,
    /// What it gives, in order.
    pub outputs: &'a [&'a str],
}

/// A network of any family, for any inputs and outputs, with all the memory that it will ever need.
pub struct Sequence {
    metadata: Metadata,
    family: Family,
    scaling: Scaling,
    prepared: Vec<f32>,
    network: Box<dyn Network>,
}

impl Sequence {
    /// Loads the bytes of a model file.
    ///
    /// # Errors
    ///
    /// When anything about them is not as it should be. What is loaded can run.
    pub fn load(bytes: &[u8], wanted: ModelRequirements<'_>) -> Result<Self, ModelError> {
        let contents = Contents::read(bytes)?;
        let metadata = contents.metadata().clone();
        let family: Family = metadata.model.parse()?;
        if metadata.window != wanted.window || metadata.outputs != wanted.outputs {
            let (window, outputs) = (metadata.window, metadata.outputs.join(", "));
            let reason = format!("it predicts {outputs} from {window} rows; this version does otherwise");
            return Err(ModelError::BadMetadata { reason });
        }
        let sizes = Sizes { steps: wanted.window, features: metadata.features.len(), outputs: wanted.outputs.len() };
        let network = family.load(&contents, sizes)?;
        contents.nothing_left()?;
        let prepared = vec![0.0; sizes.steps * sizes.features];
        Ok(Self { scaling: Scaling::of(&metadata), metadata, family, prepared, network })
    }

    /// What the file says about itself.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Which family it belongs to.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// Fills the outputs from the last rows of inputs, oldest first. Values that are missing or no numbers count as their
    /// means.
    pub fn run(&mut self, window: &[f32], outputs: &mut [f32]) {
        if window.len() != self.prepared.len() {
            self.prepared.fill(0.0);
        }
        self.scaling.apply(window, &mut self.prepared);
        self.network.run(&self.prepared, outputs);
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Sequence").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}
