//! Browsers that watch: each has a queue of fixed size, and what finds it full is skipped and counted.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::budget::{BROWSER_EACH, BROWSERS};

/// Messages that may wait for one browser: some ten seconds of a few processes.
const QUEUE: usize = 256;

/// Processes that one browser may watch closely.
pub(crate) const MOST_WATCHED: usize = 16;

/// A message, written once for all. It counts for each browser until that has taken it.
#[derive(Debug)]
pub(crate) struct Message {
    text: Arc<str>,
    /// The bytes that wait for the browser, and for all of them.
    waiting: [Arc<AtomicUsize>; 2],
}

impl std::ops::Deref for Message {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        for waiting in &self.waiting {
            waiting.fetch_sub(self.text.len(), Ordering::Relaxed);
        }
    }
}

/// All browsers.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    clients: RwLock<Vec<Arc<Client>>>,
    skipped: AtomicU64,
    waiting: Arc<AtomicUsize>,
}

/// One browser.
#[derive(Debug)]
pub(crate) struct Client {
    queue: Sender<Message>,
    watch: Mutex<Subscription>,
    skipped: AtomicU64,
    waiting: Arc<AtomicUsize>,
}

/// What a browser wants to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) processes: bool,
    pub(crate) ids: HashSet<String>,
}

impl Client {
    /// Wants something else from now on.
    pub(crate) fn watch(&self, watch: Subscription) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    /// Messages skipped since this was last asked.
    pub(crate) fn take_skipped(&self) -> u64 {
        self.skipped.swap(0, Ordering::Relaxed)
    }

    fn wants(&self, wish: impl Fn(&Subscription) -> bool) -> bool {
        wish(&self.watch.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Clients {
    /// One more. It is told nothing until it says what it wants.
    pub(crate) fn add(&self) -> (Arc<Client>, Receiver<Message>) {
        let (queue, messages) = channel(QUEUE);
        let client =
            Arc::new(Client { queue, watch: Mutex::default(), skipped: AtomicU64::new(0), waiting: Arc::default() });
        self.clients.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&client));
        (client, messages)
    }

    /// One less.
    pub(crate) fn remove(&self, client: &Arc<Client>) {
        self.clients.write().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, client));
    }

    /// Sends a message to all clients that watch a process. The message is built only if there is one.
    pub(crate) fn tell_watchers(&self, id: &str, message: impl FnOnce() -> String) {
        self.tell(|watch| watch.ids.contains(id), message);
    }

    /// Whether a browser watches the list.
    pub(crate) fn want_list(&self) -> bool {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        clients.iter().any(|client| client.wants(|watch| watch.processes))
    }

    /// Sends a message to all clients that watch the list.
    pub(crate) fn tell_list(&self, list: String) {
        self.tell(|watch| watch.processes, || list);
    }

    fn tell(&self, wish: impl Fn(&Subscription) -> bool, message: impl FnOnce() -> String) {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        let mut wanting = clients.iter().filter(|client| client.wants(&wish)).peekable();
        if wanting.peek().is_none() {
            return;
        }
        let text: Arc<str> = message().into();
        for client in wanting {
            if !self.send(client, &text) {
                client.skipped.fetch_add(1, Ordering::Relaxed);
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Puts a message into the queue of a browser, if that and the budgets have room. One that waits for nothing gets any.
    fn send(&self, client: &Client, text: &Arc<str>) -> bool {
        let (own, all) = (client.waiting.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed));
        if (own > 0 && own + text.len() > BROWSER_EACH) || (all > 0 && all + text.len() > BROWSERS) {
            return false;
        }
        let waiting = [Arc::clone(&client.waiting), Arc::clone(&self.waiting)];
        for waiting in &waiting {
            waiting.fetch_add(text.len(), Ordering::Relaxed);
        }
        client.queue.try_send(Message { text: Arc::clone(text), waiting }).is_ok()
    }

    /// Bytes that wait for browsers.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn connected(&self) -> usize {
        self.clients.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn watch(id: &str) -> Subscription {
        Subscription { processes: false, ids: HashSet::from([id.to_owned()]) }
    }

    #[test]
    fn only_watchers_are_told_and_nothing_is_written_without_them() {
        let clients = Clients::default();
        let (client, mut messages) = clients.add();
        clients.tell_watchers("a", || unreachable!("no client watches"));
        client.watch(watch("a"));
        clients.tell_watchers("b", || unreachable!("no client watches"));
        clients.tell_watchers("a", || "x".to_owned());
        assert_eq!(&*messages.try_recv().unwrap(), "x");
        clients.remove(&client);
        clients.tell_watchers("a", || unreachable!("there is no client"));
    }

    #[test]
    fn a_slow_browser_skips_and_the_others_do_not() {
        let clients = Clients::default();
        let (slow, _never_read) = clients.add();
        let (quick, mut messages) = clients.add();
        slow.watch(watch("a"));
        quick.watch(watch("a"));
        for number in 0..2 * QUEUE {
            clients.tell_watchers("a", || number.to_string());
            assert_eq!(*messages.try_recv().unwrap(), *number.to_string());
        }
        assert_eq!((slow.take_skipped(), quick.take_skipped(), slow.take_skipped()), (QUEUE as u64, 0, 0));
        assert_eq!(clients.skipped(), QUEUE as u64);
    }

    #[test]
    fn long_messages_wait_for_a_slow_browser_within_the_budget() {
        let clients = Clients::default();
        let (slow, mut messages) = clients.add();
        slow.watch(Subscription { processes: true, ids: HashSet::new() });
        assert!(clients.want_list());
        for _ in 0..QUEUE {
            clients.tell_list("x".repeat(BROWSER_EACH / 4));
        }
        assert_eq!((clients.waiting(), slow.take_skipped()), (BROWSER_EACH, QUEUE as u64 - 4));
        while messages.try_recv().is_ok() {}
        // A list that is longer than the budget reaches a browser that waits for nothing.
        clients.tell_list("x".repeat(2 * BROWSER_EACH));
        assert_eq!((clients.waiting(), slow.take_skipped()), (2 * BROWSER_EACH, 0));
        drop(messages);
        assert_eq!(clients.waiting(), 0);
    }
}
