//! The names of policies, as written on a command line.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

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

/// How every policy of this version is written.
pub const WRITTEN: [&str; 9] =
    ["auto", "observe", "cpython", "threshold:G0,G1,G2", "freeze", "every:N", "gap", "classic[:T]", "neural[:FILE]"];

/// At how many percent of urgency the original collects, where nobody says otherwise.
const USUALLY_URGENT: u8 = 70;

impl Name {
    /// Whether it changes anything, instead of only watching.
    #[must_use]
    pub fn acts(&self) -> bool {
        !matches!(self, Self::Observe | Self::Cpython)
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
        match self {
            Self::Auto => to.write_str("auto"),
            Self::Observe => to.write_str("observe"),
            Self::Cpython => to.write_str("cpython"),
            Self::Threshold([young, middle, full]) => write!(to, "threshold:{young},{middle},{full}"),
            Self::Freeze => to.write_str("freeze"),
            Self::Every(count) => write!(to, "every:{count}"),
            Self::Gap => to.write_str("gap"),
            Self::Classic(USUALLY_URGENT) => to.write_str("classic"),
            Self::Classic(percent) => write!(to, "classic:{}", f64::from(*percent) / 100.0),
            Self::Neural(None) => to.write_str("neural"),
            Self::Neural(Some(file)) => write!(to, "neural:{file}"),
        }
    }
}

/// A name that is no policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nobody knows it.
    #[error("there is no policy {given:?}.{suggestion} Policies: {}", WRITTEN.join(" "))]
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

/// Whether what is written names a file. Whoever asks from elsewhere must not have a process open files.
#[must_use]
pub fn names_a_file(written: &str) -> bool {
    written.starts_with("neural:")
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(given: &str) -> Result<Self, NameError> {
        let (kind, numbers) = given.split_once(':').map_or((given, None), |(kind, numbers)| (kind, Some(numbers)));
        let wrong = |wanted| NameError::Numbers { given: given.to_owned(), wanted };
        match (kind, numbers) {
            ("auto", None) => Ok(Self::Auto),
            ("observe", None) => Ok(Self::Observe),
            ("cpython", None) => Ok(Self::Cpython),
            ("freeze", None) => Ok(Self::Freeze),
            ("gap", None) => Ok(Self::Gap),
            ("classic", None) => Ok(Self::Classic(USUALLY_URGENT)),
            ("classic", Some(share)) => percent(share)
                .map(Self::Classic)
                .ok_or_else(|| wrong("classic, or classic:T with a threshold from 0 to 1, for instance classic:0.55")),
            ("neural", None) => Ok(Self::Neural(None)),
            ("neural", Some(file)) if !file.is_empty() => Ok(Self::Neural(Some(file.into()))),
            ("neural", _) => Err(wrong("neural, or neural:FILE with a file that neurogc train wrote")),
            ("threshold", numbers) => numbers
                .and_then(|numbers| three(numbers).map(Self::Threshold))
                .ok_or_else(|| wrong("threshold:G0,G1,G2 with three numbers, for instance threshold:10000,10,10")),
            ("every", numbers) => numbers
                .and_then(|number| number.parse().ok().filter(|&count| count > 0).map(Self::Every))
                .ok_or_else(|| wrong("every:N with a number above zero, for instance every:100")),
            _ => {
                let known = WRITTEN.iter().map(|written| written.split([':', '[']).next().unwrap_or(written));
                Err(NameError::Unknown { given: given.to_owned(), suggestion: suggestion(kind, known) })
            }
        }
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
