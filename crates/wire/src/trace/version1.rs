//! The two records of version 1 that later versions write in another way: collections without their order, and orders as text.
//!
//! Their tags are used by nothing else, so that a block can be read without knowing the version of its file: blocks also
//! travel to hubs, and lie in their stores, without a file's header.

use super::record::{place_of, take_byte, take_text};
use super::{OrderKind, Record};
use crate::stop::StopKind;
use crate::varint;

/// The tag of a collection.
pub(super) const COLLECTION: u8 = 3;
/// The tag of an order.
pub(super) const ORDER: u8 = 9;

/// Reads a collection after its time.
pub(super) fn collection(from: &mut &[u8], at: u64) -> Option<Record> {
    let byte = take_byte(from)?;
    Some(Record::Collection {
        at,
        kind: StopKind::from_number(byte & 0xf)?,
        place: place_of(byte >> 4)?,
        pause: varint::take(from)?,
        collected: varint::take(from)?,
        uncollectable: varint::take(from)?,
        order: None,
    })
}

/// Reads an order after its time. Its text was `what: reason`, and for a change of policy `policy: before → after`.
pub(super) fn order(from: &mut &[u8], at: u64) -> Option<Record> {
    let guard = take_byte(from)? != 0;
    let text = take_text(from)?;
    let (what, reason) = text.split_once(": ").unwrap_or((&text, ""));
    if what == "policy" {
        let (before, after) = reason.split_once(" → ")?;
        return Some(Record::Policy { at, before: before.to_owned(), after: after.to_owned() });
    }
    let what = OrderKind::ALL.into_iter().find(|kind| kind.name() == what)?;
    Some(Record::Order { at, id: 0, guard, what, reason: reason.to_owned() })
}
