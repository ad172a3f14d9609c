//! What can be ordered.

/// A kind of order. The numbers stand in traces and must not change; a new kind goes to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderKind {
    /// Collect the youngest generation.
    Young = 0,
    /// Collect the two younger generations.
    Middle = 1,
    /// Collect everything.
    Full = 2,
    /// Collect everything once, and take what is left out of the collector's sight.
    Freeze = 3,
    /// Take a snapshot.
    Snapshot = 4,
    /// Free a slice of what a snapshot found.
    Reap = 5,
    /// Slow the threads that allocate down, because the heap has outgrown its goal.
    Throttle = 6,
    /// Give free memory of the C library back to the system.
    Trim = 7,
}

impl OrderKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] =
        [Self::Young, Self::Middle, Self::Full, Self::Freeze, Self::Snapshot, Self::Reap, Self::Throttle, Self::Trim];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Young => "young",
            Self::Middle => "middle",
            Self::Full => "full",
            Self::Freeze => "freeze",
            Self::Snapshot => "snapshot",
            Self::Reap => "reap",
            Self::Throttle => "throttle",
            Self::Trim => "trim",
        }
    }

    /// Its number in a trace.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The kind that has this number in a trace.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_belong_to_one_kind_each() {
        for (number, kind) in (0..).zip(OrderKind::ALL) {
            assert_eq!((kind.number(), OrderKind::from_number(number)), (number, Some(kind)));
        }
        let names = ["young", "middle", "full", "freeze", "snapshot", "reap", "throttle", "trim"];
        assert_eq!((OrderKind::ALL.map(OrderKind::name), OrderKind::from_number(8)), (names, None));
    }
}
