//! A space's place in its tree.

use crate::frame::{AnonKey, AnonNodeId};
use crate::machine::Machine;
use crate::space::{SpaceId, Vm};
use crate::units::Vpn;
use core::ops::ControlFlow;

/// The node of a space that lives. Dropped after the space's last entry is gone.
pub(in crate::space) struct SpaceNode<'v, M: Machine> {
    vm: &'v Vm<'v, M>,
    /// The node that anon keys of the space name: its own, or that of an ancestor.
    names: AnonNodeId,
    id: AnonNodeId,
    /// The node outlives this.
    is_leaked: bool,
}

impl<'v, M: Machine> SpaceNode<'v, M> {
    /// The node of a new space: a child of the node of the space that it is forked from, or the root of a
    /// tree. `None` where there is no memory.
    pub fn new(vm: &'v Vm<'v, M>, space: SpaceId, parent: Option<&Self>) -> Option<Self> {
        let Some(parent) = parent else {
            let id = vm.retry_after_trim(|| vm.anon.create(&vm.memory, &vm.rcu, space, None))?;
            return Some(Self { vm, names: id, id, is_leaked: false });
        };
        let root = vm.anon.get(parent.id, &vm.rcu.read())?.root;
        let id = vm.retry_after_trim(|| vm.anon.create(&vm.memory, &vm.rcu, space, Some(root)))?;
        let names = parent.named_below().unwrap_or(id);
        let reading = vm.rcu.read();
        if let Some(tree) = vm.anon.lock(parent.id, &reading) {
            tree.link(parent.id, id);
        }
        Some(Self { vm, names, id, is_leaked: false })
    }

    /// The node that frames of a child are to name, if not the child's own: that of a space above it which
    /// has ended, which frames name, and below which there is one child. It stays such as long as there is a
    /// space below it: nothing is linked to it any more.
    ///
    /// Sound would be any ancestor, because what may map a frame of the child is below it.
    fn named_below(&self) -> Option<AnonNodeId> {
        let Self { vm, names, id, .. } = *self;
        if mutant!("rmap.ended-node-left") {
            return None;
        }
        if names != id {
            return Some(names);
        }
        let mut place = id;
        loop {
            let reading = vm.rcu.read();
            match vm.anon.lock(place, &reading)?.ended_above(place) {
                ControlFlow::Break(found) => return found,
                ControlFlow::Continue(reached) => place = reached,
            }
        }
    }

    /// The anon key of a frame that a page of the space maps first.
    #[inline(always)]
    pub fn anon_key(&self, page: Vpn) -> AnonKey {
        AnonKey { node: self.names, page }
    }

    /// Keeps the node for good: entries of the space stay.
    pub fn leak(&mut self) {
        self.is_leaked = true;
    }
}

impl<M: Machine> Drop for SpaceNode<'_, M> {
    /// Ends the node, and frees those that the tree does not need any more. May wait for readers.
    fn drop(&mut self) {
        let Self { vm, names, id, is_leaked } = *self;
        if is_leaked {
            return;
        }
        {
            let reading = vm.rcu.read();
            if let Some(tree) = vm.anon.lock(id, &reading) {
                tree.end(id, names == id);
            }
        }
        let mut next = Some(id);
        // One node at a time: they may be many, and none is freed under the lock.
        while let Some(id) = next {
            let removed = {
                let reading = vm.rcu.read();
                vm.anon.lock(id, &reading).and_then(|tree| tree.remove(id))
            };
            let Some(above) = removed else { return };
            vm.anon.free(&vm.memory, &vm.rcu, id);
            next = above;
        }
    }
}
