//! Which source wins, and what is said when one of them is wrong.

use std::fmt;
use std::path::{Path, PathBuf};

use neurogc_policy::suggestion;

use crate::catalogue::{CATALOGUE, HUB_TOKEN, Setting, Settings};
use crate::{ENVIRONMENT_PREFIX, env};

/// Where values may come from, weakest last. Each is a list of names and written values.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Keyword arguments of `install()`, or `--set` and the options of a command.
    pub keywords: Vec<(String, String)>,
    /// The environment, whole: other programs' variables are passed over.
    pub environment: Vec<(String, String)>,
    /// The settings file, with its path and its text.
    pub file: Option<(PathBuf, String)>,
    /// The project file, with its path and its text. The settings are in its table `tool.neurogc`.
    pub project: Option<(PathBuf, String)>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A keyword argument or a command-line option.
    Keyword,
    /// An environment variable.
    Environment,
    /// The settings file or the project file.
    File(PathBuf),
    /// No source names it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword => to.write_str("keyword"),
            Self::Environment => to.write_str("environment"),
            Self::File(path) => write!(to, "{}", path.display()),
            Self::Default => to.write_str("default"),
        }
    }
}

/// The settings in force and where each came from.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The values.
    pub settings: Settings,
    /// The origin of each setting, in the order of the catalogue.
    pub origins: Vec<(&'static str, Origin)>,
    /// What holds because the project file says so: `neurogc run` passes it on, because agents do not read that file.
    pub from_project: Vec<(String, String)>,
    /// What is wrong in the environment and in the file, in words. It is passed over: a typo there must not keep a service
    /// from starting.
    pub complaints: Vec<String>,
}

/// A setting that cannot be taken over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// There is none of that name.
    #[error("there is no setting {name:?}{}.{suggestion} `neurogc doctor` lists them all", whence(origin))]
    Unknown {
        /// What was written.
        name: String,
        /// By whom.
        origin: Origin,
        /// Near misses, as a sentence.
        suggestion: String,
    },
    /// Its value is wrong.
    #[error("setting {name} = {value:?}{}: {reason}", whence(origin))]
    Value {
        /// The setting.
        name: &'static str,
        /// What was written.
        value: String,
        /// By whom.
        origin: Origin,
        /// What would be right.
        reason: String,
    },
    /// The file is no TOML, or not a flat one.
    #[error("{}: {reason}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Where a wrong setting came from. Who has just written it himself need not be told.
fn whence(origin: &Origin) -> String {
    if *origin == Origin::Keyword { String::new() } else { format!(" (from {origin})") }
}

/// Puts the sources together. Only a wrong keyword is an error.
pub fn resolve(sources: &Sources) -> Result<Effective, SettingsError> {
    let mut effective = Effective {
        settings: Settings::default(),
        origins: CATALOGUE.iter().map(|setting| (setting.name, Origin::Default)).collect(),
        from_project: Vec::new(),
        complaints: Vec::new(),
    };
    let in_project = sources.project.iter().map(|(path, text)| (path, project_values(path, text)));
    let in_file = sources.file.iter().map(|(path, text)| (path, file_values(path, text)));
    for (path, values) in in_project.chain(in_file) {
        match values {
            Ok(values) => values.into_iter().for_each(|value| {
                effective.try_take(value.map(|(name, value)| (name, value, Origin::File(path.clone()))))
            }),
            Err(error) => effective.complaints.push(error.to_string()),
        }
    }
    for (variable, value) in &sources.environment {
        if let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX)
            && !env::ALL.contains(&variable.as_str())
            && !is_service_link(variable)
        {
            effective.try_take(Ok((name.to_ascii_lowercase(), value.clone(), Origin::Environment)));
        }
    }
    for (name, value) in &sources.keywords {
        effective.take(name, value, Origin::Keyword)?;
    }
    if let Some((path, text)) = &sources.project {
        let here = Origin::File(path.clone());
        let holds = |name: &str| effective.origins.iter().any(|(known, origin)| *known == name && *origin == here);
        let written = project_values(path, text).unwrap_or_default().into_iter().flatten();
        effective.from_project = written.filter(|(name, _)| holds(name)).collect();
    }
    Ok(effective)
}

impl Effective {
    /// Takes a value over, or says what is wrong with it and goes on.
    fn try_take(&mut self, value: Result<(String, String, Origin), SettingsError>) {
        if let Err(error) = value.and_then(|(name, value, origin)| self.take(&name, &value, origin)) {
            self.complaints.push(error.to_string());
        }
    }

    fn take(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), SettingsError> {
        let index = CATALOGUE.iter().position(|setting| setting.name == name);
        let Some(index) = index else {
            let suggestion = suggestion(name, CATALOGUE.iter().map(|setting| setting.name));
            return Err(SettingsError::Unknown { name: name.to_owned(), origin, suggestion });
        };
        let Setting { name, kind, apply, .. } = &CATALOGUE[index];
        kind.check(value).and_then(|()| apply(&mut self.settings, value)).map_err(|reason| SettingsError::Value {
            name,
            value: if *name == HUB_TOKEN { "(hidden)" } else { value }.to_owned(),
            origin: origin.clone(),
            reason,
        })?;
        self.origins[index].1 = origin;
        Ok(())
    }
}

/// Whether Kubernetes has made this variable. A pod has some for every service of its namespace, by the service's name:
/// `NEUROGC_HUB_SERVICE_HOST` where there is one called `neurogc-hub`.
fn is_service_link(variable: &str) -> bool {
    let ends = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"].iter().any(|end| variable.ends_with(end));
    ends || variable.contains("_SERVICE_PORT_") || variable.contains("_PORT_")
}

/// A name and its value, or what is wrong with it.
type Written = Result<(String, String), SettingsError>;

fn file_values(path: &Path, text: &str) -> Result<Vec<Written>, SettingsError> {
    let wrong = |reason: String| SettingsError::File { path: path.to_owned(), reason };
    let table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    Ok(values_of(path, table))
}

/// The values of the table `tool.neurogc`. Most project files have none, and are not parsed.
fn project_values(path: &Path, text: &str) -> Result<Vec<Written>, SettingsError> {
    if !text.contains("neurogc") {
        return Ok(Vec::new());
    }
    let wrong = |reason: String| SettingsError::File { path: path.to_owned(), reason };
    let mut whole: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let own = whole.get_mut("tool").and_then(|tool| tool.as_table_mut()?.remove("neurogc"));
    match own {
        Some(toml::Value::Table(table)) => Ok(values_of(path, table)),
        Some(_) => Err(wrong("tool.neurogc must be a table".to_owned())),
        None => Ok(Vec::new()),
    }
}

fn values_of(path: &Path, table: toml::Table) -> Vec<Written> {
    let wrong = |reason: String| SettingsError::File { path: path.to_owned(), reason };
    let values = table.into_iter().map(|(name, value)| match value {
        toml::Value::String(text) => Ok((name, text)),
        toml::Value::Integer(number) => Ok((name, number.to_string())),
        toml::Value::Float(number) => Ok((name, number.to_string())),
        toml::Value::Boolean(yes) => Ok((name, yes.to_string())),
        _ => Err(wrong(format!("setting {name} must be a text, a number or true/false"))),
    });
    values.collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn check(keywords: &[(&str, &str)], environment: &[(&str, &str)], file: &str) -> Result<Effective, String> {
        let file = (!file.is_empty()).then(|| (PathBuf::from("neurogc.toml"), file.to_owned()));
        resolve(&Sources { keywords: pairs(keywords), environment: pairs(environment), file, project: None })
            .map_err(|error| error.to_string())
    }

    fn origin(effective: &Effective, name: &str) -> Origin {
        effective.origins.iter().find(|(known, _)| *known == name).unwrap().1.clone()
    }

    #[test]
    fn keyword_beats_environment_beats_file_beats_default() {
        let file = "policy = \"cpython\"\nstall_ms = 7.5\nsample_ms = 200";
        let environment = [("NEUROGC_STALL_MS", "8"), ("NEUROGC_SAMPLE_MS", "300"), ("PATH", "/bin")];
        let effective = check(&[("sample_ms", "400")], &environment, file).unwrap();
        assert_eq!(effective.settings.policy, neurogc_policy::Name::Cpython);
        assert_eq!(effective.settings.stall.as_micros(), 8000);
        assert_eq!(effective.settings.sample.as_millis(), 400);
        assert_eq!(origin(&effective, "policy"), Origin::File("neurogc.toml".into()));
        assert_eq!(origin(&effective, "stall_ms"), Origin::Environment);
        assert_eq!(origin(&effective, "sample_ms"), Origin::Keyword);
        assert_eq!(origin(&effective, "trace"), Origin::Default);
    }

    #[test]
    fn the_project_file_is_weaker_than_all_but_the_default() {
        let project = "[project]\nname = \"x\"\n\n[tool.neurogc]\npolicy = \"observe\"\nstall_ms = 7\nstal = 1\n";
        let sources = Sources {
            keywords: Vec::new(),
            environment: Vec::new(),
            file: Some(("neurogc.toml".into(), "stall_ms = 9".to_owned())),
            project: Some(("pyproject.toml".into(), project.to_owned())),
        };
        let effective = resolve(&sources).unwrap();
        assert_eq!(origin(&effective, "policy"), Origin::File("pyproject.toml".into()));
        assert_eq!(origin(&effective, "stall_ms"), Origin::File("neurogc.toml".into()));
        assert_eq!(effective.from_project, pairs(&[("policy", "observe")]));
        assert!(effective.complaints[0].contains("\"stal\" (from pyproject.toml)"), "{:?}", effective.complaints);
    }

    #[test]
    fn a_project_file_of_others_says_nothing() {
        for project in ["[tool.black]\nline-length = 100", "dependencies = [\"neurogc\"]", "not toml"] {
            let project = Some(("pyproject.toml".into(), project.to_owned()));
            let effective = resolve(&Sources { project, ..Sources::default() }).unwrap();
            assert_eq!((effective.complaints, effective.from_project), (Vec::<String>::new(), Vec::new()));
        }
    }

    #[test]
    fn an_unknown_setting_names_its_near_misses() {
        let error = check(&[("stal_ms", "1")], &[], "").unwrap_err();
        assert!(error.contains("there is no setting \"stal_ms\". Did you mean stall_ms"), "{error}");
    }

    #[test]
    fn a_mistake_outside_of_the_keywords_is_told_and_passed_over() {
        let environment = [("NEUROGC_POLICI", "observe"), ("NEUROGC_STALL_MS", "soon"), ("NEUROGC_SAMPLE_MS", "300")];
        let effective = check(&[], &environment, "adapters = [1]\nsnapshots = false\nstal_ms = 3").unwrap();
        let [file, unknown, policy, stall] = &effective.complaints[..] else { panic!("{:?}", effective.complaints) };
        assert_eq!(file, "neurogc.toml: setting adapters must be a text, a number or true/false");
        assert!(unknown.contains("\"stal_ms\" (from neurogc.toml). Did you mean stall_ms"), "{unknown}");
        assert!(policy.contains("\"polici\" (from environment). Did you mean policy?"), "{policy}");
        assert_eq!(stall, "setting stall_ms = \"soon\" (from environment): it must be a number from 1 to 60000");
        let settings = effective.settings;
        assert_eq!((settings.sample.as_millis(), settings.stall.as_millis(), settings.snapshots), (300, 5, false));
        assert!(check(&[], &[], "no toml").unwrap().complaints[0].starts_with("neurogc.toml: "));
    }

    #[test]
    fn a_bad_value_says_what_would_be_right() {
        let error = check(&[("stall_ms", "soon")], &[], "").unwrap_err();
        assert_eq!(error, "setting stall_ms = \"soon\": it must be a number from 1 to 60000");
    }

    #[test]
    fn variables_that_kubernetes_makes_for_a_hub_are_no_settings() {
        let made = [
            ("NEUROGC_HUB_SERVICE_HOST", "10.0.0.1"),
            ("NEUROGC_HUB_SERVICE_PORT_HTTP", "7077"),
            ("NEUROGC_HUB_PORT", "tcp://10.0.0.1:7077"),
            ("NEUROGC_HUB_PORT_7077_TCP_ADDR", "10.0.0.1"),
        ];
        assert_eq!(check(&[], &made, "").unwrap().complaints, Vec::<String>::new());
        assert!(CATALOGUE.iter().all(|setting| !is_service_link(&setting.name.to_ascii_uppercase())));
    }

    #[test]
    fn variables_of_the_machinery_are_no_settings() {
        let environment: Vec<_> = env::ALL.iter().map(|name| (*name, "x")).collect();
        check(&[], &environment, "").unwrap();
    }
}
