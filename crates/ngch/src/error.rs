//! What can be wrong with the bytes of a dump.

/// Why bytes are not what the format says.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FormatError {
    /// The file does not begin with the magic number.
    #[error("this is not a heap dump: it does not begin with \"NGCH\"")]
    NotADump,
    /// The file is of a later version of the format.
    #[error("the heap dump has format version {0}, this program reads version 1: use a newer neurogc")]
    Newer(u16),
    /// The bytes end before the value does.
    #[error("the heap dump is cut off")]
    Cut,
    /// A checksum does not fit its bytes.
    #[error("the heap dump is damaged: a checksum does not fit")]
    Checksum,
    /// A value is outside of what the format allows.
    #[error("the heap dump is damaged: {0}")]
    Damaged(&'static str),
}
