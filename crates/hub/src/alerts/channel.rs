//! Where alerts go: a webhook, Slack, a command or the log.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::notice::AlertNotice;
use crate::post::{PostAddress, SendFailure, post};

/// How long one attempt may take, where the file does not say.
const PATIENCE: Duration = Duration::from_secs(10);

/// A channel.
#[derive(Clone, Debug)]
pub(crate) enum AlertChannel {
    Log,
    Web { to: PostAddress, slack: bool, patience: Duration },
    Command { program: String, arguments: Vec<String>, patience: Duration },
}

fn patience(timeout_ms: Option<u64>) -> Duration {
    timeout_ms.map_or(PATIENCE, Duration::from_millis)
}

impl AlertChannel {
    pub(super) fn web(
        to: PostAddress,
        slack: bool,
        headers: &[(String, String)],
        timeout_ms: Option<u64>,
    ) -> Result<Self, String> {
        let to = headers.iter().try_fold(to, |to, (name, value)| to.with(name, value))?;
        Ok(Self::Web { to, slack, patience: patience(timeout_ms) })
    }

    pub(super) fn command(program: String, arguments: Vec<String>, timeout_ms: Option<u64>) -> Self {
        Self::Command { program, arguments, patience: patience(timeout_ms) }
    }

    /// What it is, without secrets: the address of a webhook and the arguments of a command may be some.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Log => "the log of the hub".to_owned(),
            Self::Web { to, slack: true, .. } => format!("Slack at {to}"),
            Self::Web { to, .. } => format!("webhook at {to}"),
            Self::Command { program, .. } => format!("command {program}"),
        }
    }

    /// One attempt.
    pub(super) async fn send(&self, notice: &AlertNotice) -> Result<(), SendFailure> {
        let late = |patience: &Duration| SendFailure::Passing(format!("it took longer than {} s", patience.as_secs()));
        match self {
            Self::Log => {
                eprintln!("neurogc: alert: {}", notice.line());
                Ok(())
            }
            Self::Web { to, slack, patience } => {
                let message = if *slack { notice.slack() } else { notice.json() };
                timeout(*patience, post(to, message)).await.unwrap_or_else(|_| Err(late(patience)))
            }
            Self::Command { program, arguments, patience } => {
                run(program, arguments, notice.json(), *patience).await.unwrap_or_else(|| Err(late(patience)))
            }
        }
    }
}

/// Runs a command, with the message on its stdin. `None` where it was killed because it took too long.
async fn run(
    program: &str,
    arguments: &[String],
    message: String,
    patience: Duration,
) -> Option<Result<(), SendFailure>> {
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What it starts is killed with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return Some(Err(SendFailure::Final(format!("it cannot be started: {error}")))),
    };
    let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let talk = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read may end first: its exit status says whether it did its work.
            let _ = stdin.write_all(message.as_bytes()).await;
        }
        child.wait().await
    };
    let Ok(ended) = timeout(patience, talk).await else {
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait().await;
        return None;
    };
    Some(match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(SendFailure::Passing(format!("it ended with {status}"))),
        Err(error) => Err(SendFailure::Passing(error.to_string())),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Instant;

    use super::*;

    async fn shell(script: &str) -> Result<(), SendFailure> {
        let words = vec!["-c".to_owned(), script.to_owned()];
        AlertChannel::command("/bin/sh".to_owned(), words, Some(1000)).send(&AlertNotice::test(7)).await
    }

    #[tokio::test]
    async fn a_command_gets_the_alert_and_is_killed_when_it_takes_long() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("came");
        assert_eq!(shell(&format!("cat > {}", file.display())).await, Ok(()));
        let came: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(came["event"], "test");
        assert!(matches!(shell("exit 3").await, Err(SendFailure::Passing(why)) if why.contains('3')));
        let began = Instant::now();
        let late = shell(&format!("sleep 60 & echo $! > {}; wait", file.display())).await;
        assert!(matches!(&late, Err(SendFailure::Passing(why)) if why.contains("longer than 1 s")), "{late:?}");
        assert!(began.elapsed() < Duration::from_secs(20));
        // So is what it had started.
        let pid = std::fs::read_to_string(&file).unwrap().trim().to_owned();
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_over = || state().is_empty() || state().contains(") Z ");
        while !is_over() {
            assert!(began.elapsed() < Duration::from_secs(20), "{}", state());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let none = AlertChannel::command("/no/such/program".to_owned(), Vec::new(), None);
        assert!(matches!(none.send(&AlertNotice::test(7)).await, Err(SendFailure::Final(_))));
    }
}
