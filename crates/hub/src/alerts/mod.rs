//! Alerts: rules in a file, what they found, and messages about it.
//!
//! `file` reads the rules. `measure` and `observe` say which conditions hold, `state` says what is told of them; these three
//! have no clock, no files and no network. `engine` runs them in a thread of its own, and `outbox` sends what they say, so
//! that neither a slow webhook nor a look-up of a name holds the hub up.

mod channel;
mod engine;
mod file;
mod measure;
mod notice;
mod observe;
mod outbox;
mod report;
mod rule;
mod state;
mod words;

use std::path::Path;

pub(crate) use engine::AlertEngine;
pub use file::AlertFileError;
pub(crate) use file::read;
#[cfg(test)]
pub(crate) use report::{AlertDetails, AlertProcess, AlertReport};
pub(crate) use report::{AlertState, AlertsReport, ChannelReport};

/// Checks a file with rules, and says in lines what is in it.
pub fn check(path: &Path) -> Result<Vec<String>, AlertFileError> {
    let file = file::read(path)?;
    let channels = file.channels.iter().map(|(name, channel)| format!("channel {name}: {}", channel.shown()));
    Ok(channels.chain(file.rules.iter().map(|rule| format!("rule {}", rule.shown()))).collect())
}

/// How the test of a channel went.
#[derive(Clone, Debug)]
pub struct ChannelTest {
    /// The name of the channel.
    pub channel: String,
    /// Why the alert did not arrive, if it did not.
    pub failure: Option<String>,
}

/// Sends a test alert to every channel of a file, and says of each whether it arrived.
pub fn test(path: &Path) -> Result<Vec<ChannelTest>, AlertFileError> {
    let file = file::read(path)?;
    let failed = |error: std::io::Error| AlertFileError::whole(path, format!("cannot begin: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let notice = notice::AlertNotice::test(crate::clock::unix_ms());
    let outcome = runtime.block_on(async {
        let mut outcome = Vec::new();
        for (name, channel) in &file.channels {
            let failure = channel.send(&notice).await.err().map(|failure| failure.to_string());
            outcome.push(ChannelTest { channel: name.clone(), failure });
        }
        outcome
    });
    // A look-up of a name that takes long is not waited for.
    runtime.shutdown_background();
    Ok(outcome)
}
