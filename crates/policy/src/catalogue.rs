//! The list of policies: what each is called, what it takes, and what it does. Everything else that names policies
//! follows from it.

/// What stands behind the colon of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// Nothing.
    None,
    /// A whole number above zero.
    Count,
    /// Three whole numbers.
    Thresholds,
    /// A number from 0 to 1 with at most two decimals. It may be left out.
    Share,
    /// The path of a file. It may be left out.
    File,
}

impl Parameter {
    /// The name of this kind in generated files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Count => "count",
            Self::Thresholds => "thresholds",
            Self::Share => "share",
            Self::File => "file",
        }
    }
}

/// One policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// Its name.
    pub name: &'static str,
    /// What stands behind its colon.
    pub parameter: Parameter,
    /// How it is written, with what may be left out in brackets.
    pub written: &'static str,
    /// One that works.
    pub example: &'static str,
    /// What is said about a parameter that is wrong.
    pub wanted: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// More about it, for docs/policies.md.
    pub note: &'static str,
    /// Whether it changes anything, instead of only watching.
    pub acts: bool,
    /// Whether it collects from snapshots where it can.
    pub snapshots: bool,
}

const fn plain(name: &'static str, help: &'static str) -> PolicyEntry {
    PolicyEntry {
        name,
        parameter: Parameter::None,
        written: name,
        example: name,
        wanted: "",
        help,
        note: "",
        acts: true,
        snapshots: false,
    }
}

/// All policies.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        snapshots: true,
        note: "It is shown as `auto (gap)` or `auto (observe)`.",
        ..plain("auto", "the best that this process supports: gap, or observe where the interpreter is not understood")
    },
    PolicyEntry { acts: false, ..plain("observe", "measures, changes nothing") },
    PolicyEntry { acts: false, ..plain("cpython", "the same, under the name of the baseline") },
    PolicyEntry {
        parameter: Parameter::Thresholds,
        written: "threshold:G0,G1,G2",
        example: "threshold:50000,10,10",
        wanted: "threshold:G0,G1,G2 with three numbers, for instance threshold:10000,10,10",
        ..plain("threshold", "CPython's own collector with these thresholds")
    },
    plain("freeze", "one full collection and gc.freeze() in the first gap after start-up"),
    PolicyEntry {
        parameter: Parameter::Count,
        written: "every:N",
        example: "every:100",
        wanted: "every:N with a number above zero, for instance every:100",
        note: "CPython's own threshold is raised to 100,000 objects, or to as many as the pacer has room for; it is \
               never zero.",
        ..plain("every", "a full collection after each N requests")
    },
    PolicyEntry { snapshots: true, note: "See below.", ..plain("gap", "collections in gaps, by rules") },
    PolicyEntry {
        parameter: Parameter::Share,
        written: "classic[:T]",
        example: "classic",
        wanted: "classic, or classic:T with a threshold from 0 to 1, for instance classic:0.55",
        note: "As the first NeuroGC did, [below](#classic-the-first-neurogc).",
        ..plain("classic", "a full collection whenever a network finds it urgent")
    },
    PolicyEntry {
        parameter: Parameter::File,
        written: "neural[:FILE]",
        example: "neural",
        wanted: "neural, or neural:FILE with a file that neurogc train wrote",
        note: "The model that comes with NeuroGC, or yours ([learning.md](learning.md)).",
        snapshots: true,
        ..plain("neural", "what costs least, by what a model expects")
    },
];

/// How every policy is written, with this between them.
#[must_use]
pub fn written(between: &str) -> String {
    POLICIES.iter().map(|entry| entry.written).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    #[test]
    fn every_example_is_a_policy_of_its_name() {
        for entry in POLICIES {
            let parsed: Result<Name, _> = entry.example.parse();
            assert_eq!(parsed.as_ref().map(|name| name.entry().name), Ok(entry.name));
            assert!(entry.written.starts_with(entry.name) && !entry.help.is_empty());
            assert_eq!(entry.wanted.is_empty(), entry.parameter == Parameter::None);
        }
    }
}
