//! What a model file says about itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::inputs::MOST_FEATURES;

/// The version of the file's layout.
pub const FORMAT: u32 = 1;

/// What a model is and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The version of the layout.
    pub format: u32,
    /// The family of models.
    pub model: String,
    /// How many rows it looks at.
    pub window: usize,
    /// What it is given, with units.
    pub features: Vec<String>,
    /// What it predicts, with units.
    pub outputs: Vec<String>,
    /// The mean of each feature in training.
    pub means: Vec<f32>,
    /// The scale of each feature in training.
    pub scales: Vec<f32>,
    /// What it was trained on.
    pub trained_on: TrainedOn,
    /// How well it did on what it was not trained on.
    pub metrics: BTreeMap<String, f64>,
    /// The numbers by which decisions weigh its forecasts, by name.
    #[serde(default)]
    pub weights: BTreeMap<String, f64>,
    /// When, and by which version.
    pub created: String,
}

/// The data behind a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainedOn {
    /// The traces.
    pub sources: Vec<String>,
    /// How many moments of them.
    pub samples: usize,
    /// How long they last.
    pub seconds: f64,
}

impl Metadata {
    /// Reads the description in a file's header.
    pub(crate) fn parse(text: &str) -> Result<Self, ModelError> {
        // The version first: another one may say everything else in another way.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let wrong = |error: serde_json::Error| ModelError::BadMetadata { reason: error.to_string() };
        let Version { format } = serde_json::from_str(text).map_err(wrong)?;
        if format != FORMAT {
            return Err(ModelError::OtherFormat { found: format, wanted: FORMAT });
        }
        let metadata: Self = serde_json::from_str(text).map_err(wrong)?;
        metadata.check()?;
        Ok(metadata)
    }

    /// The description as it stands in a file's header. Figures that are no numbers were not measured and are left out.
    pub(crate) fn text(&self) -> Result<String, ModelError> {
        let mut written = self.clone();
        written.metrics.retain(|_, figure| figure.is_finite());
        serde_json::to_string(&written).map_err(|error| ModelError::BadMetadata { reason: error.to_string() })
    }

    fn check(&self) -> Result<(), ModelError> {
        let wrong = |reason: String| Err(ModelError::BadMetadata { reason });
        let features = self.features.len();
        if features == 0 || features > MOST_FEATURES {
            return wrong(format!("it names {features} features, and 1 to {MOST_FEATURES} are possible"));
        }
        if self.means.len() != features || self.scales.len() != features {
            let (means, scales) = (self.means.len(), self.scales.len());
            return wrong(format!("{features} features have {means} means and {scales} scales"));
        }
        let sound = |(mean, scale): (&f32, &f32)| mean.is_finite() && scale.is_finite() && *scale > 0.0;
        if let Some(at) = self.means.iter().zip(&self.scales).position(|it| !sound(it)) {
            return wrong(format!("mean or scale of {} is no usable number", self.features[at]));
        }
        Ok(())
    }
}
