//! The names of policies, as written on a command line.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::catalogue::{POLICIES, PolicyEntry, written};
use crate::near::suggestion;

/// A policy by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Name {
    /// The best that this process supports.
    #[default]
    Auto,
    /// Measure only, change nothing.
    Observe,
    /// CPython's own defaults, measured.
    Cpython,
    /// CPython's own collector with these thresholds.
    Threshold([u32; 3]),
    /// Freeze everything after start-up.
    Freeze,
    /// A full collection after each so many requests, and no automatic ones.
    Every(u32),
    /// Collections in gaps, by rules.
    Gap,
    /// The original's way: everything, when a network finds it urgent, at so many percent of urgency.
    Classic(u8),
    /// What costs least, by what a model expects: the one that comes with this version, or that of a file.
    Neural(Option<Arc<str>>),
}

/// The default percentage of urgency at which the original collects.
const USUALLY_URGENT: u8 = 70;

impl Name {
    /// Whether it changes anything, instead of only watching.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.entry().acts
    }

    /// What the list of policies says about it.
    #[must_use]
    pub fn entry(&self) -> &'static PolicyEntry {
        let name = match self {
            Self::Auto => "auto",
            Self::Observe => "observe",
            Self::Cpython => "cpython",
            Self::Threshold(_) => "threshold",
            Self::Freeze => "freeze",
            Self::Every(_) => "every",
            Self::Gap => "gap",
            Self::Classic(_) => "classic",
            Self::Neural(_) => "neural",
        };
        // A test of the list finds every name in it.
        POLICIES.iter().find(|entry| entry.name == name).unwrap_or(&POLICIES[0])
    }

    /// The policy that really runs: `auto` is the best one for a process whose collector is understood, or is not.
    #[must_use]
    pub fn resolve(self, understood: bool) -> Self {
        match self {
            Self::Auto if understood => Self::Gap,
            Self::Auto => Self::Observe,
            named => named,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.entry().name;
        match self {
            Self::Threshold([young, middle, full]) => write!(to, "{name}:{young},{middle},{full}"),
            Self::Every(count) => write!(to, "{name}:{count}"),
            Self::Classic(percent) if *percent != USUALLY_URGENT => {
                write!(to, "{name}:{}", f64::from(*percent) / 100.0)
            }
            Self::Neural(Some(file)) => write!(to, "{name}:{file}"),
            _ => to.write_str(name),
        }
    }
}

/// A name that is no policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No policy has this name.
    #[error("there is no policy {given:?}.{suggestion} Policies: {}", written(" "))]
    Unknown {
        /// What was written.
        given: String,
        /// Near misses, as a sentence.
        suggestion: String,
    },
    /// Its numbers are wrong.
    #[error("policy {given:?} is not complete: write {wanted}")]
    Numbers {
        /// What was written.
        given: String,
        /// How it would be right.
        wanted: &'static str,
    },
}

/// Whether what is written names a file. A client outside must not make a process open files.
#[must_use]
pub fn names_a_file(written: &str) -> bool {
    written.starts_with("neural:")
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(given: &str) -> Result<Self, NameError> {
        let (kind, parameter) = given.split_once(':').map_or((given, None), |(kind, rest)| (kind, Some(rest)));
        let unknown = || {
            let known = POLICIES.iter().map(|entry| entry.name);
            NameError::Unknown { given: given.to_owned(), suggestion: suggestion(kind, known) }
        };
        let entry = POLICIES.iter().find(|entry| entry.name == kind).ok_or_else(unknown)?;
        let read = match (kind, parameter) {
            ("classic", None) => Some(Self::Classic(USUALLY_URGENT)),
            ("classic", Some(share)) => percent(share).map(Self::Classic),
            ("neural", None) => Some(Self::Neural(None)),
            ("neural", Some(file)) => (!file.is_empty()).then(|| Self::Neural(Some(file.into()))),
            ("threshold", numbers) => numbers.and_then(three).map(Self::Threshold),
            ("every", number) => number.and_then(|it| it.parse().ok()).filter(|&count| count > 0).map(Self::Every),
            (_, Some(_)) => return Err(unknown()),
            ("auto", None) => Some(Self::Auto),
            ("observe", None) => Some(Self::Observe),
            ("cpython", None) => Some(Self::Cpython),
            ("freeze", None) => Some(Self::Freeze),
            ("gap", None) => Some(Self::Gap),
            _ => None,
        };
        read.ok_or_else(|| NameError::Numbers { given: given.to_owned(), wanted: entry.wanted })
    }
}

/// A share in whole percents.
fn percent(share: &str) -> Option<u8> {
    let percent = share.trim().parse::<f64>().ok()? * 100.0;
    ((0.0..=100.0).contains(&percent) && (percent - percent.round()).abs() < 1e-9).then(|| percent.round() as u8)
}

fn three(numbers: &str) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = numbers.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(given: &str) -> String {
        given.parse::<Name>().map_or_else(|error| error.to_string(), |name| format!("{name} is a policy"))
    }

    #[test]
    fn every_name_reads_back() {
        for name in [
            Name::Auto,
            Name::Observe,
            Name::Cpython,
            Name::Threshold([700, 10, 10]),
            Name::Freeze,
            Name::Every(100),
            Name::Gap,
            Name::Classic(70),
            Name::Classic(7),
            Name::Classic(100),
            Name::Neural(None),
            Name::Neural(Some("/models/a:b.safetensors".into())),
        ] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
    }

    #[test]
    fn a_wrong_name_gets_a_suggestion() {
        assert_eq!(
            error("obsrve"),
            "there is no policy \"obsrve\". Did you mean observe? \
             Policies: auto observe cpython threshold:G0,G1,G2 freeze every:N gap classic[:T] neural[:FILE]"
        );
    }

    #[test]
    fn wrong_numbers_say_what_would_be_right() {
        for given in [
            "threshold",
            "threshold:1,2",
            "threshold:1,2,x",
            "every",
            "every:0",
            "every:-1",
            "neural:",
            "classic:2",
            "classic:0.555",
        ] {
            assert!(error(given).contains("is not complete"), "{given}");
        }
        assert!(error("gap:5").contains("there is no policy"));
    }

    #[test]
    fn classic_has_the_threshold_of_the_original() {
        assert_eq!("classic:0.7".parse(), Ok(Name::Classic(70)));
        assert_eq!(Name::Classic(55).to_string(), "classic:0.55");
        assert_eq!(Name::Classic(70).to_string(), "classic");
        assert!(error("clasic").contains("Did you mean classic?"));
    }
}
