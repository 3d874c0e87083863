//! The nodes of the trees of spaces, by number.

use super::tree::LockedTree;
use crate::frame::{AnonNodeId, Memory, Registry};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::sync::{CacheAligned, Rcu, ReadGuard, SpinLock, lockdep};
use crate::units::SpaceId;
use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

/// A space in the tree of all that forks made of one space, or what is left of one that has ended.
///
/// The root's lock guards the links of all nodes of the tree, and what each holds: they are relaxed. That a
/// node is in its registry is seen by every CPU that finds it there.
pub(crate) struct AnonNode<C: Cpu> {
    /// What the node holds, as [`Occupant`] says.
    occupant: AtomicU64<C>,
    /// The right to change the tree; of nodes that are no roots it is not used.
    pub(super) lock: SpinLock<(), C, { lockdep::ANON_TREE.0 }>,
    /// Never changes. The root outlives all other nodes of its tree.
    pub root: AnonNodeId,
    pub(super) parent: Link<C>,
    /// The first of the children, in the order in which they were linked.
    pub(super) first_child: Link<C>,
    /// The next child of the parent.
    pub(super) next: Link<C>,
    /// The child before it; of the first one the last, so that children are appended.
    pub(super) prev: Link<C>,
}

/// The number of a node, or 0 for none.
pub(super) struct Link<C: Cpu>(AtomicU32<C>);

/// What a node holds.
///
/// | word | |
/// |---|---|
/// | 0 | [`Ended`](Occupant::Ended), named |
/// | 1 to 2^64 - 3 | [`Space`](Occupant::Space): its number |
/// | 2^64 - 2 | [`Ended`](Occupant::Ended), not named |
/// | 2^64 - 1 | [`Removed`](Occupant::Removed) |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupant {
    /// A space that lives.
    Space(SpaceId),
    /// A space that has ended. *Named*: frames that it mapped first name the node.
    Ended {
        /// Else they name an ancestor.
        is_named: bool,
    },
    /// The node is in no tree any more.
    Removed,
}

const ENDED_UNNAMED: u64 = u64::MAX - 1;
const REMOVED: u64 = u64::MAX;

impl Occupant {
    fn encode(self) -> u64 {
        match self {
            Occupant::Space(id) => id.0,
            Occupant::Ended { is_named: true } => 0,
            Occupant::Ended { is_named: false } => ENDED_UNNAMED,
            Occupant::Removed => REMOVED,
        }
    }

    fn decode(word: u64) -> Self {
        match word {
            0 => Occupant::Ended { is_named: true },
            ENDED_UNNAMED => Occupant::Ended { is_named: false },
            REMOVED => Occupant::Removed,
            id => Occupant::Space(SpaceId(id)),
        }
    }
}

impl<C: Cpu> Link<C> {
    fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(super) fn get(&self) -> Option<AnonNodeId> {
        NonZeroU32::new(self.0.load(Relaxed)).map(AnonNodeId)
    }

    pub(super) fn set(&self, to: Option<AnonNodeId>) {
        self.0.store(to.map_or(0, |id| id.0.get()), Relaxed);
    }
}

impl<C: Cpu> AnonNode<C> {
    fn new(space: SpaceId, root: AnonNodeId) -> Self {
        let [parent, first_child, next, prev] = [(); 4].map(|()| Link::none());
        let occupant = AtomicU64::new(Occupant::Space(space).encode());
        Self { occupant, lock: SpinLock::new(()), root, parent, first_child, next, prev }
    }

    pub(super) fn occupant(&self) -> Occupant {
        Occupant::decode(self.occupant.load(Relaxed))
    }

    pub(super) fn set_occupant(&self, occupant: Occupant) {
        self.occupant.store(occupant.encode(), Relaxed);
    }
}

/// All nodes of a system. A node takes 64 bytes of a slab pool.
pub(crate) struct AnonNodes<'m, M: Machine> {
    registry: Registry<'m, AnonNode<M::Cpu>, M>,
    numbers: CacheAligned<Numbers<M::Cpu>>,
}

/// Relaxed, both: counts, which order nothing.
struct Numbers<C: Cpu> {
    /// The number that was given last.
    last: AtomicU32<C>,
    /// Nodes that are there.
    nodes: AtomicU64<C>,
}

impl<'m, M: Machine> AnonNodes<'m, M> {
    /// No nodes. `None` where memory does not suffice.
    pub fn new(memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>) -> Option<Self> {
        const { assert!(cfg!(loom) || Registry::<AnonNode<M::Cpu>, M>::ENTRY_BYTES == 64, "a cache line") };
        let numbers = CacheAligned(Numbers { last: AtomicU32::new(0), nodes: AtomicU64::new(0) });
        Some(Self { registry: Registry::new(memory, rcu)?, numbers })
    }

    /// Makes a node for a space, below no other yet: in the tree of that root, or as the root of a new one.
    /// `None` where there is no memory.
    pub fn create(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<'_, M::Cpu>,
        space: SpaceId,
        root: Option<AnonNodeId>,
    ) -> Option<AnonNodeId> {
        let id = self.number(rcu);
        let node = AnonNode::new(space, root.unwrap_or(id));
        self.registry.insert(memory, key(id), node).ok()?;
        self.numbers.nodes.fetch_add(1, Relaxed);
        Some(id)
    }

    /// A number that no node has. They repeat after 2^32 nodes: one that is in use still is left out, and one
    /// that is about to be used would have to be given twice during one call.
    fn number(&self, rcu: &Rcu<'_, M::Cpu>) -> AnonNodeId {
        loop {
            let number = self.numbers.last.fetch_add(1, Relaxed).wrapping_add(1);
            let Some(id) = NonZeroU32::new(number).map(AnonNodeId) else { continue };
            if self.get(id, &rcu.read()).is_none() || mutant!("rmap.number-given-twice") {
                return id;
            }
        }
    }

    /// The node of that number, for the life of a read section.
    pub fn get<'r>(
        &'r self,
        id: AnonNodeId,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Option<&'r AnonNode<M::Cpu>> {
        self.registry.get(key(id), reading)
    }

    /// Locks the tree that the node is in. `None` where it is in none any more.
    pub fn lock<'r>(
        &'r self,
        id: AnonNodeId,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Option<LockedTree<'r, 'm, M>> {
        let node = self.get(id, reading)?;
        let held = self.get(node.root, reading)?.lock.lock();
        (node.occupant() != Occupant::Removed).then(|| LockedTree::new(self, reading, held))
    }

    /// Frees a node that was taken out of its tree, after a grace period. May wait for readers.
    pub fn free(&self, memory: &Memory<'m, M>, rcu: &Rcu<'_, M::Cpu>, id: AnonNodeId) {
        let freed = self.registry.remove(memory, rcu, key(id));
        debug_assert!(freed, "a node is freed twice");
        self.numbers.nodes.fetch_sub(1, Relaxed);
    }

    /// Number of nodes; stale at once.
    pub fn len_racy(&self) -> u64 {
        self.numbers.nodes.load(Relaxed)
    }
}

fn key(id: AnonNodeId) -> NonZeroU64 {
    id.0.into()
}

impl<M: Machine> fmt::Debug for AnonNodes<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes of spaces, {:?}", self.len_racy(), self.registry)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/node.rs"]
mod tests;
