//! Who is compared: CPython by itself, what people do by hand, both limits, and NeuroGC's policies.

use neurogc_policy::{Name, suggestion};
use neurogc_settings::Sources;

/// CPython left alone: what everything is compared with.
pub(crate) const DEFAULT: &str = "default";
/// The collector disabled: no policy can have a lower latency.
pub(crate) const OFF: &str = "off";
/// A collection after each request: no policy can hold less memory.
pub(crate) const EACH: &str = "each";

/// The contenders that are not policies of ours.
const PLAIN: [&str; 5] = [DEFAULT, OFF, EACH, "thread:S", "freeze+threshold:G0,G1,G2"];

/// One way to run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    /// As it is written on the command line.
    pub(crate) name: String,
    /// What the script itself does to the collector.
    pub(crate) collector: String,
    /// The policy of ours that it runs under; none for a program without NeuroGC.
    pub(crate) policy: Option<Name>,
    /// Other settings of the agent.
    pub(crate) settings: Vec<(String, String)>,
}

impl Contender {
    /// Reads a name, and settings of the agent behind it: `auto@allocations=off@huge_arenas=false`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split('@');
        let contender = Self::parse_name(parts.next().unwrap_or_default())?;
        let settings = parts
            .map(|part| match part.split_once('=') {
                Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
                None => Err(format!("{part:?} is no setting: write {}@KEY=VALUE", contender.name)),
            })
            .collect::<Result<Vec<_>, _>>()?;
        if contender.policy.is_none() && !settings.is_empty() {
            return Err(format!("{} runs without NeuroGC, so it has no settings", contender.name));
        }
        let sources = Sources { keywords: settings.clone(), ..Sources::default() };
        neurogc_settings::resolve(&sources).map_err(|error| error.to_string())?;
        Ok(Self { name: text.to_owned(), settings, ..contender })
    }

    fn parse_name(text: &str) -> Result<Self, String> {
        let settings = Vec::new();
        let plain = |collector: &str| {
            Ok(Self { name: text.to_owned(), collector: collector.to_owned(), policy: None, settings: Vec::new() })
        };
        match text.split_once(':') {
            None if text == DEFAULT => return plain(""),
            None if [OFF, EACH].contains(&text) => return plain(text),
            Some(("thread", seconds)) => {
                return match seconds.parse::<f64>() {
                    Ok(seconds) if seconds > 0.0 && seconds.is_finite() => plain(text),
                    _ => Err(format!("{text:?} is not complete: write thread:S with seconds, for instance thread:30")),
                };
            }
            Some(("freeze+threshold", numbers)) => {
                let given: Vec<_> = numbers.split(',').map(str::parse::<u32>).collect();
                return if given.len() == 3 && given.iter().all(Result::is_ok) {
                    plain(text)
                } else {
                    Err(format!("{text:?} is not complete: write freeze+threshold:G0,G1,G2 with three numbers"))
                };
            }
            _ => {}
        }
        match text.parse::<Name>() {
            Ok(policy) => Ok(Self { name: text.to_owned(), collector: String::new(), policy: Some(policy), settings }),
            Err(error) => {
                let kind = text.split(':').next().unwrap_or(text);
                let known = PLAIN.iter().map(|plain| plain.split(':').next().unwrap_or(plain));
                Err(format!("{error}, and without NeuroGC: {}.{}", PLAIN.join(" "), suggestion(kind, known)))
            }
        }
    }

    /// Reads a list with commas. The commas inside a contender's own numbers belong to it.
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut names: Vec<String> = Vec::new();
        for piece in text.split(',') {
            match names.last_mut() {
                Some(last) if piece.starts_with(|first: char| first.is_ascii_digit()) => {
                    last.push(',');
                    last.push_str(piece);
                }
                _ => names.push(piece.trim().to_owned()),
            }
        }
        let found = names.iter().map(|name| Self::parse(name)).collect::<Result<Vec<_>, _>>()?;
        let twice = found.iter().enumerate().find(|(at, it)| found[..*at].contains(it));
        match twice {
            Some((_, contender)) => Err(format!("{} is there twice", contender.name)),
            None => Ok(found),
        }
    }

    /// What to call it in a table.
    pub(crate) fn title(&self) -> String {
        match self.name.as_str() {
            DEFAULT => "CPython default".to_owned(),
            OFF => "collector off (latency floor)".to_owned(),
            EACH => "collect after each request, one client (memory floor)".to_owned(),
            name => match name.strip_prefix("thread:") {
                Some(seconds) => format!("thread that collects every {seconds} s"),
                None if self.policy.is_some() => format!("neurogc `{name}`"),
                None => format!("`{name}`"),
            },
        }
    }

    /// Whether the policy that an agent reports is the one that was asked for.
    pub(crate) fn is_in_force(&self, reported: Option<&str>) -> bool {
        match (&self.policy, reported) {
            (None, None) => true,
            (Some(Name::Auto), Some(_)) => true,
            (Some(policy), Some(reported)) => {
                let asked = policy.to_string();
                asked.split(':').next() == reported.split(':').next()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_numbers_with_their_contender() {
        let list = Contender::parse_list(
            "default,off,threshold:50000,500,1000,freeze+threshold:50000,10,10,thread:30,every:100,classic,gap",
        );
        let names: Vec<_> = list.unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(
            names,
            [
                "default",
                "off",
                "threshold:50000,500,1000",
                "freeze+threshold:50000,10,10",
                "thread:30",
                "every:100",
                "classic",
                "gap"
            ]
        );
    }

    #[test]
    fn wrong_names_say_what_would_be_right() {
        for (text, expect) in [
            ("defualt", "Did you mean default?"),
            ("thread:soon", "thread:30"),
            ("freeze+threshold:1", "three numbers"),
            ("off,off", "twice"),
            ("auto@allocations", "auto@KEY=VALUE"),
            ("auto@alocations=off", "allocations"),
            ("off@allocations=off", "without NeuroGC"),
            ("classic:7", "classic:0.55"),
        ] {
            let error = Contender::parse_list(text).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn the_policy_in_force_is_checked() {
        let gap = Contender::parse("gap").unwrap();
        assert!(gap.is_in_force(Some("gap")) && !gap.is_in_force(Some("observe")) && !gap.is_in_force(None));
        assert!(Contender::parse("auto").unwrap().is_in_force(Some("gap")));
        assert!(Contender::parse("threshold:1,2,3").unwrap().is_in_force(Some("threshold:1,2,3")));
        let plain = Contender::parse("default").unwrap();
        assert!(plain.is_in_force(None) && !plain.is_in_force(Some("observe")));
    }
}
