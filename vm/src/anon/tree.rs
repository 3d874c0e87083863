//! A tree of spaces whose lock is held: the only one through which its links change.
//!
//! | step | does |
//! |---|---|
//! | [`ended_above`](LockedTree::ended_above) | the node that frames of a new space may name too |
//! | [`link`](LockedTree::link) | appends a node to its parent's children |
//! | [`end`](LockedTree::end) | the node's space has ended |
//! | [`remove`](LockedTree::remove) | takes a node out that the tree does not need any more |
//! | [`next`](LockedTree::next) | one step of a walk in pre-order |
//!
//! *Not needed* is the node of a space that has ended and has no children, or has one child and is not named
//! by frames: the child takes its place.

use super::node::{AnonNode, AnonNodes, Occupant};
use crate::frame::AnonNodeId;
use crate::machine::Machine;
use crate::sync::{ReadGuard, SpinGuard};
use crate::units::SpaceId;
use core::ops::ControlFlow;

/// Nodes that are looked at under one lock of the tree, at most.
pub(crate) const STEPS: usize = if cfg!(any(loom, debug_assertions)) { 4 } else { 128 };

/// A tree, locked.
pub(crate) struct LockedTree<'r, 'm, M: Machine> {
    nodes: &'r AnonNodes<'m, M>,
    reading: &'r ReadGuard<'r, M::Cpu>,
    _held: SpinGuard<'r, (), M::Cpu>,
}

/// How far a walk has come. The node may be gone by the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreePlace {
    /// The node is next.
    At(AnonNodeId),
    /// What is below the node is next.
    Below(AnonNodeId),
    /// What comes after all that is below the node is next.
    After(AnonNodeId),
}

impl TreePlace {
    pub fn node(self) -> AnonNodeId {
        let (TreePlace::At(id) | TreePlace::Below(id) | TreePlace::After(id)) = self;
        id
    }
}

impl<'r, 'm, M: Machine> LockedTree<'r, 'm, M> {
    pub(super) fn new(
        nodes: &'r AnonNodes<'m, M>,
        reading: &'r ReadGuard<'_, M::Cpu>,
        held: SpinGuard<'r, (), M::Cpu>,
    ) -> Self {
        Self { nodes, reading, _held: held }
    }

    /// A node of the tree. `None` where it was taken out.
    fn node(&self, id: AnonNodeId) -> Option<&'r AnonNode<M::Cpu>> {
        self.nodes.get(id, self.reading).filter(|node| node.occupant() != Occupant::Removed)
    }

    fn linked(&self, id: Option<AnonNodeId>) -> Option<&'r AnonNode<M::Cpu>> {
        let node = id.and_then(|id| self.nodes.get(id, self.reading));
        debug_assert!(id.is_none() || node.is_some_and(|node| node.occupant() != Occupant::Removed));
        node
    }

    /// Appends a node, just made, to the children of `parent`.
    pub fn link(&self, parent: AnonNodeId, child: AnonNodeId) {
        let (Some(above), Some(node)) = (self.node(parent), self.node(child)) else { return };
        debug_assert!(node.parent.get().is_none() && node.root == above.root, "{child:?} is in a tree");
        node.parent.set(Some(parent));
        match self.linked(above.first_child.get()) {
            None => {
                node.prev.set(Some(child));
                above.first_child.set(Some(child));
            }
            Some(first) => {
                node.prev.set(first.prev.get());
                if let Some(last) = self.linked(first.prev.get()) {
                    last.next.set(Some(child));
                }
                first.prev.set(Some(child));
            }
        }
    }

    /// The nearest node above whose space has ended, which frames name, and which has one child. `Continue`
    /// with the node that was come to, where that is as far as one lock should last.
    pub fn ended_above(&self, id: AnonNodeId) -> ControlFlow<Option<AnonNodeId>, AnonNodeId> {
        let mut place = id;
        for _ in 0..STEPS {
            let above = self.node(place).and_then(|node| node.parent.get());
            let Some(above) = above else { return ControlFlow::Break(None) };
            if self.is_ended_with_one_child(above) {
                return ControlFlow::Break(Some(above));
            }
            place = above;
        }
        ControlFlow::Continue(place)
    }

    fn is_ended_with_one_child(&self, id: AnonNodeId) -> bool {
        let Some(node) = self.node(id) else { return false };
        let only = self.linked(node.first_child.get()).is_some_and(|first| first.next.get().is_none());
        only && node.occupant() == Occupant::Ended { is_named: true }
    }

    /// Notes that the space of the node has ended, and whether frames name the node.
    pub fn end(&self, id: AnonNodeId, is_named: bool) {
        if let Some(node) = self.node(id) {
            node.set_occupant(Occupant::Ended { is_named });
        }
    }

    /// Takes the node out of the tree if that does not need it any more; it is for the caller to free.
    /// Returns then which node may not be needed either, now that this one is gone.
    pub fn remove(&self, id: AnonNodeId) -> Option<Option<AnonNodeId>> {
        let node = self.node(id)?;
        let Occupant::Ended { is_named } = node.occupant() else { return None };
        let parent = node.parent.get();
        match (node.first_child.get(), self.linked(parent)) {
            (None, above) => {
                if let Some(above) = above {
                    self.take_out(above, id, node);
                }
            }
            (Some(child), Some(above)) if !is_named || mutant!("rmap.named-node-freed") => {
                let below = self.linked(Some(child)).filter(|below| below.next.get().is_none())?;
                self.put_in_place(above, (id, node), (child, below));
                node.set_occupant(Occupant::Removed);
                return Some(None);
            }
            _ => return None,
        }
        node.set_occupant(Occupant::Removed);
        Some(parent)
    }

    /// Takes a node out of the children of `above`.
    fn take_out(&self, above: &AnonNode<M::Cpu>, id: AnonNodeId, node: &AnonNode<M::Cpu>) {
        let (next, prev) = (node.next.get(), node.prev.get());
        if above.first_child.get() == Some(id) {
            above.first_child.set(next);
        } else if let Some(before) = self.linked(prev) {
            before.next.set(next);
        }
        // The node after it has a new one before it; where it was the last one, the first knows the new last.
        if let Some(after) = self.linked(next.or(above.first_child.get())) {
            after.prev.set(prev);
        }
    }

    /// Puts the only child of a node into its place among the children of `above`.
    fn put_in_place(
        &self,
        above: &AnonNode<M::Cpu>,
        (id, node): (AnonNodeId, &AnonNode<M::Cpu>),
        (child, below): (AnonNodeId, &AnonNode<M::Cpu>),
    ) {
        let (next, prev) = (node.next.get(), node.prev.get());
        below.parent.set(node.parent.get());
        below.next.set(next);
        below.prev.set(if prev == Some(id) { Some(child) } else { prev });
        if above.first_child.get() == Some(id) {
            above.first_child.set(Some(child));
        } else if let Some(before) = self.linked(prev) {
            before.next.set(Some(child));
        }
        // Of the only child the one before it is itself, as was set above.
        if let Some(after) = self.linked(next.or(above.first_child.get())) {
            after.prev.set(Some(child));
        }
    }

    /// One step of a walk over the nodes from `top` down: the space that it comes by, if one lives there; and
    /// the place of the next step, if there is one. `Err` where the place is gone.
    pub fn next(
        &self,
        place: TreePlace,
        top: AnonNodeId,
    ) -> Result<(Option<SpaceId>, Option<TreePlace>), PlaceLost> {
        let id = place.node();
        let node = self.node(id).ok_or(PlaceLost)?;
        Ok(match place {
            TreePlace::At(_) => match node.occupant() {
                Occupant::Space(space) => (Some(space), Some(TreePlace::Below(id))),
                _ => (None, Some(TreePlace::Below(id))),
            },
            TreePlace::Below(_) => match node.first_child.get() {
                Some(child) if !mutant!("rmap.descendants-left-out") => (None, Some(TreePlace::At(child))),
                _ => (None, Some(TreePlace::After(id))),
            },
            TreePlace::After(_) if id == top => (None, None),
            TreePlace::After(_) => match node.next.get() {
                Some(next) => (None, Some(TreePlace::At(next))),
                None => (None, node.parent.get().map(TreePlace::After)),
            },
        })
    }
}

/// The node that a walk has come to was taken out of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceLost;
