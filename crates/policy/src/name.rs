//! The names of policies, as written on a command line.

use std::fmt;
use std::str::FromStr;

use crate::near::suggestion;

/// A policy by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Name {
    /// The best that this process supports.
    #[default]
    Auto,
    /// Measure only, change nothing.
    Observe,
    /// CPython's own defaults, measured.
    Cpython,
}

/// Names that the design knows and this version does not have yet.
const LATER: [&str; 6] = ["threshold", "freeze", "every", "gap", "classic", "neural"];

impl Name {
    /// Every policy of this version.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Observe, Self::Cpython];

    /// The name as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Observe => "observe",
            Self::Cpython => "cpython",
        }
    }

    /// The policy that really runs: `auto` is resolved to the best one of this version.
    #[must_use]
    pub fn resolve(self) -> Self {
        match self {
            Self::Auto => Self::Observe,
            named => named,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

/// A name that is no policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nobody knows it.
    #[error("there is no policy {given:?}.{suggestion} Policies: auto, observe, cpython")]
    Unknown {
        /// What was written.
        given: String,
        /// Near misses, as a sentence.
        suggestion: String,
    },
    /// It is planned.
    #[error("policy {0:?} is not in this version yet. Policies: auto, observe, cpython")]
    Later(String),
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(given: &str) -> Result<Self, NameError> {
        if let Some(name) = Self::ALL.into_iter().find(|name| name.as_str() == given) {
            return Ok(name);
        }
        let kind = given.split(':').next().unwrap_or(given);
        if LATER.contains(&kind) {
            return Err(NameError::Later(given.to_owned()));
        }
        let suggestion = suggestion(given, Self::ALL.iter().map(|name| name.as_str()));
        Err(NameError::Unknown { given: given.to_owned(), suggestion })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for name in Name::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
    }

    #[test]
    fn a_wrong_name_gets_a_suggestion() {
        let error = "obsrve".parse::<Name>().map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("there is no policy \"obsrve\". Did you mean observe? Policies: auto, observe, cpython".to_owned())
        );
    }

    #[test]
    fn a_planned_name_says_so() {
        assert_eq!("every:100".parse::<Name>(), Err(NameError::Later("every:100".to_owned())));
    }
}
