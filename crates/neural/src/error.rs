//! Why a model file is refused.

/// A model file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Larger than any model of ours.
    #[error("the model file has {bytes} bytes and at most {most} are allowed: is it a model of neurogc?")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What is allowed.
        most: usize,
    },
    /// Not the format, or damaged.
    #[error("the model file cannot be read ({reason}): it is damaged, or no safetensors file")]
    Unreadable {
        /// What the reader said.
        reason: String,
    },
    /// A safetensors file that `neurogc train` did not write.
    #[error("the model file does not say what it is: only files written by `neurogc train` can be used")]
    NoMetadata,
    /// The description in the header makes no sense.
    #[error("the description in the model file is wrong: {reason}; train the model again")]
    BadMetadata {
        /// What is wrong.
        reason: String,
    },
    /// Written by a version that does it otherwise.
    #[error(
        "the model file has format {found} and this version reads {wanted}: train the model again with this version"
    )]
    OtherFormat {
        /// Which it has.
        found: u32,
        /// Which can be read.
        wanted: u32,
    },
    /// A kind of model that is not known here.
    #[error("the model file holds a {name:?}, which this version does not know: it knows {known}")]
    UnknownFamily {
        /// What it calls itself.
        name: String,
        /// What there is.
        known: String,
    },
    /// A part is not there.
    #[error("the model file lacks {tensor}: it is damaged; train the model again")]
    Missing {
        /// Which part.
        tensor: String,
    },
    /// A part has the wrong size or type.
    #[error("{tensor} in the model file has shape {found}, and {wanted} is needed; train the model again")]
    WrongShape {
        /// Which part.
        tensor: String,
        /// How it is.
        found: String,
        /// How it should be.
        wanted: String,
    },
    /// A part with numbers that would spoil every forecast.
    #[error("{tensor} in the model file holds a number out of range: training went wrong; train the model again")]
    OutOfRange {
        /// Which part.
        tensor: String,
    },
    /// A part that nothing uses.
    #[error("{tensor} in the model file belongs to no part of a {family}: the file was put together wrongly")]
    Unexpected {
        /// Which part.
        tensor: String,
        /// What kind of model it is.
        family: String,
    },
}
