//! What the entry of a page says.

use super::*;
use crate::machine::{Entry, Leaf};
use crate::table::walk;
use crate::units::{Level, Pfn};

/// The entry that a walk for the page ends at.
pub(in crate::space) fn entry(space: &TestSpace, page: Vpn) -> Entry {
    let reading = space.vm.rcu.read();
    walk(&space.entries.table, page, Level::Pte, &reading).entry()
}

/// The leaf that maps the page, huge or not.
pub(in crate::space) fn leaf(space: &TestSpace, page: Vpn) -> Option<Leaf> {
    match entry(space, page) {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}

/// The leaf that maps the page, and its level; no marker is left there.
pub(in crate::space) fn leaf_of(space: &TestSpace, page: Vpn) -> Option<(Leaf, Level)> {
    let reading = space.vm.rcu.read();
    let found = walk(&space.entries.table, page, Level::Pte, &reading);
    match found.entry() {
        Entry::Leaf(leaf) => Some((leaf, found.table.level())),
        Entry::Absent => None,
        other => panic!("{other:?} was left"),
    }
}

/// The frame that the leaf of the page leads to, which is the first of a huge one's.
pub(in crate::space) fn frame(space: &TestSpace, page: Vpn) -> Option<Pfn> {
    leaf(space, page).map(|leaf| leaf.pfn)
}
