//! Which flights look for memory that later ones can do without: the first ones, then fewer and fewer.

/// Counts flights.
#[derive(Debug, Default)]
pub(super) struct LookPlan {
    flights: u32,
    /// The flight that looks next.
    next: u32,
}

/// Looks become rarer, down to one in so many flights.
const RAREST: u32 = 16;

impl LookPlan {
    /// Whether the next flight should look.
    pub(super) fn is_due(&self) -> bool {
        self.flights >= self.next
    }

    /// A flight has landed, and has looked, or not.
    pub(super) fn landed(&mut self, looked: bool) {
        self.flights += 1;
        if looked {
            self.next = self.flights + (self.flights - 1).min(RAREST - 1);
        }
    }

    /// So many flights go without a look.
    pub(super) fn rest(&mut self, flights: u32) {
        self.next = self.flights + flights;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer() {
        let mut plan = LookPlan::default();
        let looks = |plan: &mut LookPlan, flights: u32| {
            let look = |_: &u32| {
                let looks = plan.is_due();
                plan.landed(looks);
                looks
            };
            (0..flights).filter(look).collect::<Vec<u32>>()
        };
        assert_eq!(looks(&mut plan, 60), [0, 1, 3, 7, 15, 31, 47]);
        plan.rest(8);
        assert_eq!(looks(&mut plan, 10), [8]);
    }
}
