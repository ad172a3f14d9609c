//! A loaded model: windows of features in, forecasts out.

use std::fmt;

use crate::error::LoadError;
use crate::families::{Family, Network, Sizes};
use crate::file::Contents;
use crate::forecast::{Head, OUTPUT_NAMES, OUTPUTS};
use crate::inputs::{Scaling, WINDOW};
use crate::metadata::Metadata;

/// A model that predicts, with all the memory that it will ever need.
pub struct Model {
    metadata: Metadata,
    family: Family,
    head: Head,
    scaling: Scaling,
    prepared: Vec<f32>,
    network: Box<dyn Network>,
}

impl Model {
    /// Loads the bytes of a file that `neurogc train` wrote.
    ///
    /// # Errors
    ///
    /// When anything about them is not as it should be. What is loaded can predict.
    pub fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        let contents = Contents::read(bytes)?;
        let metadata = contents.metadata().clone();
        let family: Family = metadata.model.parse()?;
        if metadata.window != WINDOW || metadata.outputs != OUTPUT_NAMES {
            let (window, outputs) = (metadata.window, metadata.outputs.join(", "));
            let reason = format!("it predicts {outputs} from {window} rows; this version does otherwise");
            return Err(LoadError::BadMetadata { reason });
        }
        let sizes = Sizes { steps: WINDOW, features: metadata.features.len(), outputs: OUTPUTS };
        let network = family.load(&contents, sizes)?;
        contents.nothing_left()?;
        let prepared = vec![0.0; sizes.steps * sizes.features];
        Ok(Self { scaling: Scaling::of(&metadata), head: family.head(), metadata, family, prepared, network })
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

    /// Predicts from the last `WINDOW` rows of features, oldest first, into the order of `OUTPUT_NAMES`. Values that are
    /// missing or no numbers count as their means, and every number of the forecast is finite.
    pub fn predict(&mut self, window: &[f32], forecast: &mut [f32; OUTPUTS]) {
        if window.len() != self.prepared.len() {
            self.prepared.fill(0.0);
        }
        self.scaling.apply(window, &mut self.prepared);
        self.network.run(&self.prepared, forecast);
        self.head.finish(forecast);
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Model").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}
