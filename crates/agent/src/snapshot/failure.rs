//! Why there was no snapshot, or none that could be used.

use super::control::WalkTrouble;

/// A snapshot that was refused or came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SnapshotFailure {
    #[error("no snapshots here: {0}")]
    Unsupported(String),
    #[error("snapshots are taken of the main interpreter only")]
    OtherInterpreter,
    #[error("a snapshot is under way already")]
    UnderWay,
    #[error("a collection is running")]
    Collecting,
    #[error("there is no memory for a snapshot")]
    NoMemory,
    #[error("memory is too short for the copies that a snapshot makes")]
    ShortOfMemory,
    #[error("the snapshot was called off: its copies left too little memory")]
    OutOfRoom,
    #[error("the kernel refuses to clone the process: {}", std::io::Error::from_raw_os_error(*.0))]
    Clone(i32),
    #[error("{}", .0.words())]
    GaveUp(WalkTrouble),
    #[error("the snapshot's process was ended by signal {0}")]
    Killed(i32),
    #[error("the walk needed memory that had been left out of the snapshot")]
    Missing,
    #[error(
        "the walk needed memory that had been left out, with a part of the dump written already: the next one has it"
    )]
    CutOff,
    #[error("the snapshot's process ended without a result")]
    Vanished,
    #[error("the snapshot's process did not end in time")]
    Late,
    #[error("a full collection ran before the snapshot's garbage was freed")]
    Collected,
    #[error("the program froze or thawed its objects before the snapshot's garbage was freed")]
    Frozen,
    #[error("the snapshot was called off")]
    Cancelled,
}

impl SnapshotFailure {
    /// Whether it says nothing about how the next one will fare: the program or the pacer has ended it.
    pub(crate) fn is_no_fault(&self) -> bool {
        matches!(
            self,
            Self::UnderWay
                | Self::Collecting
                | Self::Collected
                | Self::Frozen
                | Self::Cancelled
                | Self::Missing
                | Self::CutOff
        ) || matches!(self, Self::GaveUp(WalkTrouble::Stopped | WalkTrouble::Lost))
    }

    /// Whether it will be so the next time, too.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Unsupported(_) | Self::OtherInterpreter)
    }

    /// One word for it, to count by.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Unsupported(_) => "unsupported",
            Self::OtherInterpreter => "other_interpreter",
            Self::UnderWay => "under_way",
            Self::Collecting => "collecting",
            Self::NoMemory | Self::ShortOfMemory | Self::GaveUp(WalkTrouble::NoMemory) => "no_memory",
            Self::Clone(_) => "clone",
            Self::Killed(_) => "killed",
            Self::Missing | Self::CutOff | Self::GaveUp(WalkTrouble::Lost) => "missing",
            Self::Vanished | Self::GaveUp(WalkTrouble::Orphaned) => "vanished",
            Self::Late | Self::GaveUp(WalkTrouble::Late) => "late",
            Self::Collected => "collected",
            Self::Frozen => "frozen",
            Self::GaveUp(WalkTrouble::TooMany | WalkTrouble::NoRoom | WalkTrouble::NotRead) => "dump",
            Self::Cancelled | Self::OutOfRoom | Self::GaveUp(WalkTrouble::Stopped) => "cancelled",
        }
    }
}
