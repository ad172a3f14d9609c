//! A loaded model: windows of features in, forecasts out.

use crate::error::ModelError;
use crate::families::Family;
use crate::forecast::{Head, OUTPUT_NAMES, OUTPUTS};
use crate::inputs::WINDOW;
use crate::metadata::Metadata;
use crate::sequence::{ModelRequirements, Sequence};

/// A model that predicts, with all the memory that it will ever need.
#[derive(Debug)]
pub struct Model {
    network: Sequence,
    head: Head,
}

impl Model {
    /// Loads the bytes of a file that `neurogc train` wrote.
    ///
    /// # Errors
    ///
    /// When anything about them is not as it should be. What is loaded can predict.
    pub fn load(bytes: &[u8]) -> Result<Self, ModelError> {
        let network = Sequence::load(bytes, ModelRequirements { window: WINDOW, outputs: &OUTPUT_NAMES })?;
        Ok(Self { head: network.family().head(), network })
    }

    /// What the file says about itself.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.network.metadata()
    }

    /// Which family it belongs to.
    #[must_use]
    pub fn family(&self) -> Family {
        self.network.family()
    }

    /// Predicts from the last `WINDOW` rows of features, oldest first, into the order of `OUTPUT_NAMES`. Values that are
    /// missing or no numbers count as their means, and every number of the forecast is finite.
    pub fn predict(&mut self, window: &[f32], forecast: &mut [f32; OUTPUTS]) {
        self.network.run(window, forecast);
        self.head.finish(forecast);
    }
}
