//! The orders that were given, by what and why: few kinds, so that the list stays short.

use neurogc_policy::{Decision, Order};
use neurogc_wire::status;
use neurogc_wire::trace::OrderKind;

/// Kinds of orders, in the order in which they first came.
#[derive(Debug, Default)]
pub(crate) struct OrderLog {
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    order: Order,
    count: u64,
    last_ns: u64,
}

impl OrderLog {
    /// Counts an order. `at_ns` counts from the installation of the agent.
    pub(crate) fn add(&mut self, order: Order, at_ns: u64) {
        let same = |kind: &&mut Kind| (what(kind.order), kind.order.reason) == (what(order), order.reason);
        match self.kinds.iter_mut().find(same) {
            Some(kind) => {
                kind.count += 1;
                kind.last_ns = at_ns;
            }
            None => self.kinds.push(Kind { order, count: 1, last_ns: at_ns }),
        }
    }

    /// The kinds, as the status report has them.
    pub(crate) fn report(&self) -> Vec<status::Orders> {
        let report = |kind: &Kind| status::Orders {
            what: what(kind.order).to_owned(),
            reason: kind.order.reason.to_owned(),
            guard: kind.order.forced,
            count: kind.count,
            last_s: kind.last_ns as f64 / 1e9,
        };
        self.kinds.iter().map(report).collect()
    }
}

/// What is ordered, if anything is.
pub(crate) fn kind(order: Order) -> Option<OrderKind> {
    match order.decision {
        Decision::Wait => None,
        Decision::Young => Some(OrderKind::Young),
        Decision::Middle => Some(OrderKind::Middle),
        Decision::Full => Some(OrderKind::Full),
        Decision::Freeze => Some(OrderKind::Freeze),
        Decision::Snapshot { .. } => Some(OrderKind::Snapshot),
        Decision::Reap { .. } => Some(OrderKind::Reap),
        Decision::Throttle { .. } => Some(OrderKind::Throttle),
        Decision::Trim => Some(OrderKind::Trim),
    }
}

/// An order in a word.
pub(crate) fn what(order: Order) -> &'static str {
    kind(order).map_or("", OrderKind::name)
}

/// Whether an order is worth a line in the trace. Collections of young objects are there anyway, each by itself.
pub(crate) fn is_notable(order: Order) -> bool {
    order.forced
        || !matches!(order.decision, Decision::Wait | Decision::Young | Decision::Middle | Decision::Throttle { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_orders_are_counted_together() {
        let mut orders = OrderLog::default();
        let young = Order::because(Decision::Young, "young objects have gathered");
        for at in [1, 2, 3] {
            orders.add(young, at * 1_000_000_000);
        }
        orders.add(Order::forced(Decision::Full, "memory is near its ceiling"), 4);
        let report = orders.report();
        assert_eq!((report.len(), report[0].count, report[0].last_s, report[1].guard), (2, 3, 3.0, true));
    }
}
