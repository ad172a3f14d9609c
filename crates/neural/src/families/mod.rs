//! The families of models, one file each. To add one: a file here, an entry in `Family` and its line in `load`.

mod gru;
mod linear;
mod lstm;
mod mlp;
mod tcn;
pub(crate) mod transformer;
mod trees;

use std::fmt;
use std::str::FromStr;

use crate::error::ModelError;
use crate::file::Contents;
use crate::forecast::Head;

/// How many layers a network has at most, so that no file can make a decision slow.
const MOST_LAYERS: usize = 4;

/// What a network is given and gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Rows in a window.
    pub(crate) steps: usize,
    /// Features in a row.
    pub(crate) features: usize,
    /// Numbers that come out.
    pub(crate) outputs: usize,
}

/// Something that turns a prepared window into the numbers that a head makes a forecast of. It allocates nothing.
pub(crate) trait Network: Send {
    /// Fills the outputs from the rows of a window, of the sizes that it was loaded with.
    fn run(&mut self, window: &[f32], outputs: &mut [f32]);
}

/// A kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Weighted sums of the features: the one to beat.
    Linear,
    /// Gradient-boosted decision trees.
    Trees,
    /// A feed-forward network.
    Mlp,
    /// A recurrent network with long short-term memory.
    Lstm,
    /// A recurrent network with gated units.
    Gru,
    /// Causal convolutions over time.
    Tcn,
    /// Attention over the rows of the window.
    Transformer,
    /// Weighted sums, like `linear`, whose weights were found by what decisions cost, and not by examples.
    Rl,
}

impl Family {
    /// All that learn from examples, the simplest first.
    pub const ALL: [Self; 7] =
        [Self::Linear, Self::Trees, Self::Mlp, Self::Lstm, Self::Gru, Self::Tcn, Self::Transformer];

    /// How it is called in files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Trees => "trees",
            Self::Mlp => "mlp",
            Self::Lstm => "lstm",
            Self::Gru => "gru",
            Self::Tcn => "tcn",
            Self::Transformer => "transformer",
            Self::Rl => "rl",
        }
    }

    /// How its last numbers become a forecast. Trees are fitted to each output by itself; networks to all at once, so
    /// that they can be kept from predicting quantiles that cross.
    #[must_use]
    pub fn head(self) -> Head {
        if self == Self::Trees { Head::Plain } else { Head::Steps }
    }

    pub(crate) fn load(self, contents: &Contents<'_>, sizes: Sizes) -> Result<Box<dyn Network>, ModelError> {
        Ok(match self {
            Self::Linear | Self::Rl => Box::new(linear::Linear::load(contents, sizes)?),
            Self::Trees => Box::new(trees::Trees::load(contents, sizes)?),
            Self::Mlp => Box::new(mlp::Mlp::load(contents, sizes)?),
            Self::Lstm => Box::new(lstm::Lstm::load(contents, sizes)?),
            Self::Gru => Box::new(gru::Gru::load(contents, sizes)?),
            Self::Tcn => Box::new(tcn::Tcn::load(contents, sizes)?),
            Self::Transformer => Box::new(transformer::Transformer::load(contents, sizes)?),
        })
    }
}

impl fmt::Display for Family {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(self.name())
    }
}

impl FromStr for Family {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        let known = Self::ALL.into_iter().chain([Self::Rl]);
        known.clone().find(|family| family.name() == name).ok_or_else(|| ModelError::UnknownFamily {
            name: name.to_owned(),
            known: known.map(Self::name).collect::<Vec<_>>().join(", "),
        })
    }
}
