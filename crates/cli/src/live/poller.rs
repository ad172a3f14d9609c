//! A thread that asks agents once a second, so that a silent one never holds the keyboard up.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use neurogc_wire::status::Status;

use crate::agents::Rendezvous;
use crate::process;

/// Time between two questions.
const EVERY: Duration = Duration::from_secs(1);
/// How long an agent may take.
const PATIENCE: Duration = Duration::from_millis(900);

/// What was found.
#[derive(Debug)]
pub(crate) enum PollResult {
    Processes(Vec<Status>),
    Report(Box<Status>),
    /// The process is gone.
    Ended(u32),
    /// It is there and gives no report, for this reason.
    Trouble(u32, String),
}

/// The thread's two ends: what to watch goes in, news come out.
#[derive(Debug)]
pub(crate) struct Poller {
    watch: Sender<Option<u32>>,
    news: Receiver<PollResult>,
}

impl Poller {
    /// Starts to ask for one process, or for all.
    pub(crate) fn start(rendezvous: Rendezvous, watched: Option<u32>) -> Self {
        let (watch, orders) = mpsc::channel();
        let (to, news) = mpsc::channel();
        thread::spawn(move || poll(&rendezvous, watched, &orders, &to));
        Self { watch, news }
    }

    /// Asks for something else from now on.
    pub(crate) fn watch(&self, watched: Option<u32>) {
        // The thread ends only when this end is dropped.
        let _ = self.watch.send(watched);
    }

    /// News, if there are any.
    pub(crate) fn news(&self) -> Option<PollResult> {
        self.news.try_recv().ok()
    }
}

fn poll(rendezvous: &Rendezvous, mut watched: Option<u32>, orders: &Receiver<Option<u32>>, to: &Sender<PollResult>) {
    let mut next = Instant::now();
    loop {
        match orders.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(other) => watched = other,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        next = Instant::now() + EVERY;
        let news = match watched {
            None => PollResult::Processes(rendezvous.ask_all(PATIENCE).0),
            Some(pid) => match rendezvous.ask(pid, PATIENCE) {
                Ok(status) => PollResult::Report(Box::new(status)),
                Err(_) if process::look_up(pid).is_none() => PollResult::Ended(pid),
                Err(trouble) => PollResult::Trouble(pid, trouble),
            },
        };
        if to.send(news).is_err() {
            return;
        }
    }
}
