//! The file with rules and channels, in TOML. Errors name the line, and never show it: it may hold the secret of a webhook.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use neurogc_wire::finding::{FindingKind, LIKELY};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use toml::Spanned;

use super::channel::AlertChannel;
use super::rule::{AlertCondition, AlertKind, AlertRule, NamePattern};
use super::words::read_ms;

/// What may be in a file.
const MOST_RULES: usize = 64;
const MOST_CHANNELS: usize = 16;
const LONGEST_FILE: u64 = 256 * 1024;

/// Messages to one channel in a minute, where the file does not say.
const PER_MINUTE: u32 = 20;

/// The channel that is always there.
const LOG: &str = "log";

/// What a file says.
#[derive(Clone, Debug)]
pub(crate) struct AlertFile {
    pub(super) rules: Vec<AlertRule>,
    pub(super) channels: BTreeMap<String, AlertChannel>,
    pub(super) per_minute: u32,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub struct AlertFileError {
    path: PathBuf,
    line: Option<usize>,
    message: String,
}

impl std::fmt::Display for AlertFileError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(to, ", line {line}")?;
        }
        write!(to, ": {}", self.message)
    }
}

impl AlertFileError {
    pub(super) fn whole(path: &Path, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<AlertFile, AlertFileError> {
    let whole = |message: String| AlertFileError::whole(path, message);
    let found = std::fs::metadata(path).map_err(|error| whole(format!("cannot be read: {error}")))?;
    if !found.is_file() || found.len() > LONGEST_FILE {
        return Err(whole("it must be a file of at most 256 KB".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| whole(format!("cannot be read: {error}")))?;
    parse(&text, |name| std::env::var(name).ok()).map_err(|(at, message)| {
        let line = at.map(|at| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1);
        AlertFileError { path: path.to_owned(), line, message }
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    per_minute: Option<Spanned<u32>>,
    #[serde(default)]
    channel: BTreeMap<Spanned<String>, ChannelText>,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelText {
    webhook: Option<Spanned<String>>,
    slack: Option<Spanned<String>>,
    command: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    headers: BTreeMap<Spanned<String>, String>,
    timeout: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    name: Spanned<String>,
    finding: Option<Spanned<OneOrMany>>,
    confidence: Option<Spanned<f64>>,
    growth_mb_h: Option<Spanned<f64>>,
    limit_in: Option<Spanned<String>>,
    p99_ms: Option<Spanned<f64>>,
    gone: Option<Spanned<bool>>,
    over: Option<Spanned<String>>,
    r#for: Option<Spanned<String>>,
    clear_for: Option<Spanned<String>>,
    service: Option<String>,
    host: Option<String>,
    command: Option<String>,
    to: Option<Spanned<OneOrMany>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "it must be a text or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// Where something is wrong, as a byte of the text, and what.
type Wrong = (Option<usize>, String);

fn wrong<T>(place: &Spanned<T>, message: impl Into<String>) -> Wrong {
    (Some(place.span().start), message.into())
}

/// Reads the text of a file. `variable` gives the environment variables that it names.
pub(super) fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<AlertFile, Wrong> {
    let file: FileText =
        toml::from_str(text).map_err(|error| (error.span().map(|span| span.start), error.message().to_owned()))?;
    let per_minute = match &file.per_minute {
        Some(given) if !(1..=600).contains(given.get_ref()) => {
            return Err(wrong(given, "per_minute must be between 1 and 600"));
        }
        Some(given) => *given.get_ref(),
        None => PER_MINUTE,
    };
    let mut channels = BTreeMap::from([(LOG.to_owned(), AlertChannel::Log)]);
    for (name, channel) in &file.channel {
        if !is_name(name.get_ref()) || name.get_ref() == LOG {
            return Err(wrong(name, "a channel needs a name of letters, digits, - and _, and `log` is there already"));
        }
        channels.insert(name.get_ref().clone(), read_channel(name, channel, &variable)?);
    }
    if channels.len() > MOST_CHANNELS {
        return Err((None, format!("there are more than {} channels", MOST_CHANNELS - 1)));
    }
    let mut rules: Vec<AlertRule> = Vec::new();
    for rule in &file.rule {
        let read = read_rule(rule, &channels)?;
        if rules.iter().any(|other| other.name == read.name) {
            return Err(wrong(&rule.get_ref().name, format!("there are two rules {}", read.name)));
        }
        rules.push(read);
    }
    match rules.len() {
        0 => Err((None, "there is no rule in it; a rule begins with [[rule]]".to_owned())),
        count if count > MOST_RULES => Err((None, format!("there are more than {MOST_RULES} rules"))),
        _ => Ok(AlertFile { rules, channels, per_minute }),
    }
}

/// Names stand in labels, logs and messages.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
}

fn read_channel(
    name: &Spanned<String>,
    channel: &ChannelText,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<AlertChannel, Wrong> {
    let from_environment = |given: &str| match given.strip_prefix("env:") {
        Some(name) => variable(name).ok_or_else(|| format!("the environment variable {name} is not set")),
        None => Ok(given.to_owned()),
    };
    let timeout_ms = match &channel.timeout {
        Some(given) => Some(in_range(given, 1000, 60_000, "timeout must be between 1s and 60s")?),
        None => None,
    };
    let mut headers = Vec::new();
    for (header, value) in &channel.headers {
        let value = from_environment(value).map_err(|message| wrong(header, message))?;
        headers.push((header.get_ref().clone(), value));
    }
    let web = |url: &Spanned<String>, slack| {
        let destination = from_environment(url.get_ref()).and_then(|url| url.parse());
        let destination = destination.map_err(|message: String| wrong(url, message))?;
        AlertChannel::web(destination, slack, &headers, timeout_ms).map_err(|message| wrong(url, message))
    };
    match (&channel.webhook, &channel.slack, &channel.command) {
        (Some(url), None, None) => web(url, false),
        (None, Some(url), None) => web(url, true),
        (None, None, Some(words)) => match words.get_ref().split_first() {
            Some((program, _)) if !headers.is_empty() || program.is_empty() => {
                Err(wrong(words, "a command has a program and no headers"))
            }
            Some((program, arguments)) => Ok(AlertChannel::command(program.clone(), arguments.to_vec(), timeout_ms)),
            None => Err(wrong(words, "the command is empty; write [\"program\", \"argument\"]")),
        },
        _ => Err(wrong(name, "a channel needs one of webhook, slack and command")),
    }
}

fn in_range(given: &Spanned<String>, least: u64, most: u64, message: &str) -> Result<u64, Wrong> {
    let ms = read_ms(given.get_ref()).map_err(|message| wrong(given, message))?;
    if (least..=most).contains(&ms) { Ok(ms) } else { Err(wrong(given, message)) }
}

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

fn read_rule(rule: &Spanned<RuleText>, channels: &BTreeMap<String, AlertChannel>) -> Result<AlertRule, Wrong> {
    let text = rule.get_ref();
    if !is_name(text.name.get_ref()) {
        return Err(wrong(&text.name, "a rule needs a name of at most 64 letters, digits, - and _"));
    }
    let condition = read_condition(rule)?;
    if let Some(confidence) = &text.confidence
        && !matches!(condition, AlertCondition::Finding { .. })
    {
        return Err(wrong(confidence, "confidence belongs to a rule with `finding`"));
    }
    if let Some(over) = &text.over
        && matches!(condition, AlertCondition::Finding { .. } | AlertCondition::Gone)
    {
        return Err(wrong(over, "`over` belongs to a rule with growth_mb_h, limit_in or p99_ms"));
    }
    if condition == AlertCondition::Gone && text.service.is_none() {
        return Err((
            Some(rule.span().start),
            "a rule with `gone` needs `service`: programs that end as they should would be told of, too".to_owned(),
        ));
    }
    let for_ms = match &text.r#for {
        Some(given) => in_range(given, 0, DAY, "`for` must be at most 1d")?,
        None if condition == AlertCondition::Gone => MINUTE / 2,
        None => 0,
    };
    let clear_ms = match &text.clear_for {
        Some(given) => in_range(given, 0, DAY, "clear_for must be at most 1d")?,
        // One that has come back is told of at once.
        None if condition == AlertCondition::Gone => 0,
        None => for_ms.max(2 * MINUTE),
    };
    let to = match &text.to {
        Some(given) => {
            for name in given.get_ref().all() {
                if !channels.contains_key(name) {
                    let known: Vec<_> = channels.keys().cloned().collect();
                    return Err(wrong(given, format!("there is no channel {name}, only {}", known.join(", "))));
                }
            }
            given.get_ref().all().to_vec()
        }
        None => channels.keys().cloned().collect(),
    };
    let pattern = |text: &Option<String>| text.clone().map(NamePattern);
    Ok(AlertRule {
        name: text.name.get_ref().clone(),
        condition,
        for_ms,
        clear_ms,
        service: pattern(&text.service),
        host: pattern(&text.host),
        command: pattern(&text.command),
        to,
    })
}

fn read_condition(rule: &Spanned<RuleText>) -> Result<AlertCondition, Wrong> {
    let text = rule.get_ref();
    let over = |default: u64, least: u64, most: u64, message: &str| match &text.over {
        Some(given) => in_range(given, least, most, message),
        None => Ok(default),
    };
    let growth_over = || over(30 * MINUTE, MINUTE, DAY, "`over` must be between 1m and 1d here");
    let positive = |given: &Spanned<f64>, most: f64, what: &str| {
        let number = *given.get_ref();
        if number > 0.0 && number <= most { Ok(number) } else { Err(wrong(given, format!("{what} must be above 0"))) }
    };
    match (&text.finding, &text.growth_mb_h, &text.limit_in, &text.p99_ms, &text.gone) {
        (Some(kinds), None, None, None, None) => {
            let confidence = match &text.confidence {
                Some(given) if !(0.0..=1.0).contains(given.get_ref()) => {
                    return Err(wrong(given, "confidence must be between 0 and 1"));
                }
                Some(given) => *given.get_ref(),
                None => LIKELY,
            };
            let kinds = read_kinds(kinds.get_ref().all()).map_err(|message| wrong(kinds, message))?;
            Ok(AlertCondition::Finding { kinds, confidence })
        }
        (None, Some(rate), None, None, None) => {
            Ok(AlertCondition::Growth { bytes_h: positive(rate, 1e9, "growth_mb_h")? * 1e6, over_ms: growth_over()? })
        }
        (None, None, Some(given), None, None) => Ok(AlertCondition::LimitIn {
            ms: in_range(given, MINUTE, 90 * DAY, "limit_in must be between 1m and 90d")?,
            over_ms: growth_over()?,
        }),
        (None, None, None, Some(ms), None) => Ok(AlertCondition::P99 {
            ms: positive(ms, 86_400e3, "p99_ms")?,
            over_ms: over(MINUTE, 5000, 60 * MINUTE, "`over` must be between 5s and 1h here")?,
        }),
        (None, None, None, None, Some(gone)) => {
            if *gone.get_ref() {
                Ok(AlertCondition::Gone)
            } else {
                Err(wrong(gone, "gone can only be true"))
            }
        }
        _ => Err((
            Some(rule.span().start),
            "a rule needs one of finding, growth_mb_h, limit_in, p99_ms and gone".to_owned(),
        )),
    }
}

/// Kinds by their names.
fn read_kinds(names: &[String]) -> Result<Vec<AlertKind>, String> {
    let read = |name: &String| {
        if name == "leak" {
            return Ok(AlertKind::Leak);
        }
        let named: StrDeserializer<'_, toml::de::Error> = name.as_str().into_deserializer();
        let kind =
            FindingKind::deserialize(named).map_err(|error| format!("{}, or leak for all leaks", error.message()))?;
        if kind.is_trouble() || kind == FindingKind::Degraded {
            Ok(AlertKind::Only(kind))
        } else {
            Err(format!("a finding of kind {name} says that nothing is the matter"))
        }
    };
    let kinds: Vec<_> = names.iter().map(read).collect::<Result<_, _>>()?;
    if kinds.is_empty() { Err("finding names no kind".to_owned()) } else { Ok(kinds) }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
