//! What clones cost: where the program stands still for one for longer than for the plain collection that it saves, as with
//! much memory in small pages and few objects, the heap is collected plainly.

use std::time::Duration;

use super::Pacer;

/// After so many plain collections clones are measured anew: memory may lie in other pages by then.
const AGAIN: u32 = 16;

/// How long the last two clones took, and plain collections since then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClonePauses {
    last: [Duration; 2],
    plain: u32,
}

impl ClonePauses {
    pub(super) fn cloned(&mut self, pause: Duration) {
        self.last = [pause, self.last[0]];
        self.plain = 0;
    }

    pub(super) fn collected_plainly(&mut self) {
        self.plain += 1;
        if self.plain >= AGAIN {
            *self = Self::default();
        }
    }

    /// What a clone takes at least. One alone may have waited for a processor.
    fn usual(&self) -> Duration {
        self.last[0].min(self.last[1])
    }
}

impl Pacer {
    /// What a plain collection of everything would take.
    pub(super) fn plain_pause(&self) -> Duration {
        Duration::from_secs_f64(self.objects.now() * self.plain_cost)
    }

    /// Whether the clone of a snapshot takes longer than a plain collection of everything.
    pub(super) fn is_plain_shorter(&self) -> bool {
        self.clones.usual() > self.plain_pause()
    }
}
