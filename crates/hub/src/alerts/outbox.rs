//! Messages on their way: a bounded queue for each channel, at most so many a minute, and attempts that come to an end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::channel::AlertChannel;
use super::notice::AlertNotice;
use super::report::ChannelReport;
use crate::post::SendFailure;

/// Messages that may wait for one channel.
const QUEUE: usize = 128;

/// The pauses between attempts; after the last one the message is given up.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(20), Duration::from_secs(60)];

const MINUTE: Duration = Duration::from_secs(60);

/// Sends to all channels, each at its own pace.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    channels: BTreeMap<String, ChannelQueue>,
    /// Ends with the outbox.
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct ChannelQueue {
    what: String,
    queue: mpsc::Sender<Arc<AlertNotice>>,
    counts: Arc<ChannelCounts>,
}

#[derive(Debug, Default)]
struct ChannelCounts {
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Outbox {
    /// Must be called in a runtime.
    pub(super) fn new(channels: &BTreeMap<String, AlertChannel>, per_minute: u32) -> Self {
        let mut outbox = Self::default();
        for (name, channel) in channels {
            let (queue, waiting) = mpsc::channel(QUEUE);
            let counts = Arc::<ChannelCounts>::default();
            let (name, what, channel) = (name.clone(), channel.shown(), channel.clone());
            outbox.tasks.spawn(send_all(name.clone(), channel, waiting, Arc::clone(&counts), per_minute));
            outbox.channels.insert(name, ChannelQueue { what, queue, counts });
        }
        outbox
    }

    /// Has a message sent. It never waits: where the queue is full, the message is dropped and counted.
    pub(super) fn put(&self, to: &[String], notice: &Arc<AlertNotice>) {
        for channel in to.iter().filter_map(|name| self.channels.get(name)) {
            if channel.queue.try_send(Arc::clone(notice)).is_err() {
                channel.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lets the queues run empty; the task of each channel ends then.
    pub(super) async fn finish(mut self) {
        self.channels.clear();
        while self.tasks.join_next().await.is_some() {}
    }

    pub(super) fn reports(&self) -> Vec<ChannelReport> {
        let report = |(name, channel): (&String, &ChannelQueue)| {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            ChannelReport {
                name: name.clone(),
                what: channel.what.clone(),
                sent: count(&channel.counts.sent),
                failed: count(&channel.counts.failed),
                dropped: count(&channel.counts.dropped),
                waiting: channel.queue.max_capacity() - channel.queue.capacity(),
                last_error: channel.counts.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            }
        };
        self.channels.iter().map(report).collect()
    }
}

async fn send_all(
    name: String,
    channel: AlertChannel,
    mut waiting: mpsc::Receiver<Arc<AlertNotice>>,
    counts: Arc<ChannelCounts>,
    per_minute: u32,
) {
    let mut pace = Pace::new(per_minute);
    while let Some(notice) = waiting.recv().await {
        pace.wait().await;
        match attempt(|| channel.send(&notice)).await {
            Ok(()) => {
                counts.sent.fetch_add(1, Ordering::Relaxed);
            }
            Err(failure) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                let shown = channel.shown();
                eprintln!("neurogc: an alert did not reach the channel {name} ({shown}): {failure}");
                *counts.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.to_string());
            }
        }
    }
}

/// Tries until it works, until it cannot work, or until all attempts are made.
async fn attempt<F>(mut send: impl FnMut() -> F) -> Result<(), SendFailure>
where
    F: Future<Output = Result<(), SendFailure>>,
{
    for pause in PAUSES {
        match send().await {
            Err(SendFailure::Passing(_)) => sleep(pause).await,
            settled => return settled,
        }
    }
    send().await
}

/// Keeps to so many messages in any minute.
struct Pace {
    most: usize,
    sent: VecDeque<Instant>,
}

impl Pace {
    fn new(per_minute: u32) -> Self {
        Self { most: per_minute.max(1) as usize, sent: VecDeque::new() }
    }

    async fn wait(&mut self) {
        if self.sent.len() >= self.most
            && let Some(oldest) = self.sent.pop_front()
        {
            sleep_until(oldest + MINUTE).await;
        }
        self.sent.push_back(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempts_come_to_an_end() {
        let (mut made, began) = (0, Instant::now());
        let outcome = attempt(|| {
            made += 1;
            ready(Err(SendFailure::Passing("away".to_owned())))
        });
        assert_eq!(outcome.await, Err(SendFailure::Passing("away".to_owned())));
        assert_eq!((made, began.elapsed().as_secs()), (5, 86));
        made = 0;
        let outcome = attempt(|| {
            made += 1;
            ready(if made < 3 { Err(SendFailure::Passing(String::new())) } else { Ok(()) })
        });
        assert_eq!(outcome.await, Ok(()));
        assert_eq!(made, 3);
        made = 0;
        let outcome = attempt(|| {
            made += 1;
            ready(Err(SendFailure::Final("no".to_owned())))
        });
        assert_eq!(outcome.await, Err(SendFailure::Final("no".to_owned())));
        assert_eq!(made, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_messages_than_the_file_allows() {
        let (mut pace, began) = (Pace::new(3), Instant::now());
        let mut times = Vec::new();
        for _ in 0..8 {
            pace.wait().await;
            times.push(began.elapsed().as_secs());
        }
        assert_eq!(times, [0, 0, 0, 60, 60, 60, 120, 120]);
    }

    #[tokio::test]
    async fn a_full_queue_drops_and_counts() {
        // Nothing listens on the port of this address: attempts wait, and the queue fills.
        let channel = AlertChannel::web("http://127.0.0.1:9".parse().unwrap_or_else(|_| panic!()), false, &[], None);
        let channels = BTreeMap::from([("web".to_owned(), channel.unwrap_or(AlertChannel::Log))]);
        let outbox = Outbox::new(&channels, 600);
        let notice = Arc::new(AlertNotice::test(7));
        for _ in 0..QUEUE + 10 {
            outbox.put(&["web".to_owned(), "unknown".to_owned()], &notice);
        }
        let reports = outbox.reports();
        assert_eq!((reports.len(), reports[0].dropped, reports[0].waiting), (1, 10, QUEUE));
        assert_eq!(reports[0].what, "webhook at 127.0.0.1:9");
    }
}
