//! A list of nodes, linked through themselves, in the order of insertion. For writers.

use super::IndexNode;
use crate::machine::Cpu;
use core::ptr::NonNull;

/// A list of nodes of one edit.
#[derive(Clone, Copy)]
pub(super) struct NodeList {
    first: usize,
    last: usize,
    len: usize,
}

impl NodeList {
    pub(super) const EMPTY: Self = Self { first: 0, last: 0, len: 0 };

    /// A list of one node.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    pub(super) unsafe fn of<C: Cpu, const F: usize>(node: &IndexNode<C, F>) -> Self {
        let mut list = Self::EMPTY;
        // SAFETY: the caller's promise.
        unsafe { list.push(node) };
        list
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a node at the end.
    ///
    /// # Safety
    /// The node stays in memory as long as the list and its copies are used, up to the point where an
    /// iterator passes it, and is in no other list. Nodes of one list are of one type.
    pub(super) unsafe fn push<C: Cpu, const F: usize>(&mut self, node: &IndexNode<C, F>) {
        let address = (&raw const *node).expose_provenance();
        node.set_next(0);
        if self.len == 0 {
            self.first = address;
        } else {
            let last = core::ptr::with_exposed_provenance::<IndexNode<C, F>>(self.last);
            // SAFETY: the list is used here, so its nodes are in memory, and all are of this type.
            unsafe { &*last }.set_next(address);
        }
        self.last = address;
        self.len += 1;
    }

    /// Extends this list, a part of `all` that shares its links, by the node last pushed to `all`.
    pub(super) fn extend_to_end_of(&mut self, all: &NodeList) {
        if self.len == 0 {
            self.first = all.last;
        }
        self.last = all.last;
        self.len += 1;
    }

    /// The nodes; a node may be freed or retired once the iterator has passed it.
    pub(super) fn iter<C: Cpu, const F: usize>(self) -> impl Iterator<Item = NonNull<IndexNode<C, F>>> {
        let mut next = self.first;
        (0..self.len).filter_map(move |_| {
            let node = NonNull::new(core::ptr::with_exposed_provenance_mut::<IndexNode<C, F>>(next))?;
            // SAFETY: the node was pushed to the list, and is not freed before this iterator has passed it.
            next = unsafe { node.as_ref() }.next();
            Some(node)
        })
    }

    /// Address of the only node.
    pub(super) fn only(&self) -> usize {
        debug_assert_eq!(self.len, 1);
        self.first
    }
}
