//! The mappings of a space: which there are, the lock of ranges, what may be added, and where the heap ends.
//! All that a decision about mappings needs of a space, and nothing of its entries: where both meet, the
//! entries are handed in.

use super::entries::Entries;
use crate::frame::{FramePlacement, IndexAllocator};
use crate::machine::{Cpu, Machine};
use crate::space::{Error, Layout, SpaceId, Vm};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{CacheAligned, RwLock, lockdep};
use crate::units::Vpn;
use crate::vma::{AnonId, ThpDisable, Vma, VmaAttributes, VmaState, VmaTree};

/// The mappings of a space.
pub(in crate::space) struct Mappings<'v, M: Machine> {
    pub vm: &'v Vm<'v, M>,
    /// The number of the space.
    pub id: SpaceId,
    pub layout: Layout,
    /// The most pages that a request may commit: as the layout says, or the frames of `vm`.
    pub(super) max_commit_pages: u64,
    /// The index. Read under RCU or the lock, written under a [`RangeGuard`](super::RangeGuard).
    pub vmas: VmaTree<'v, M::Cpu>,
    /// The memory of its records and nodes.
    pub(super) records: IndexAllocator<'v, 'v, Vma<M::Cpu>, M>,
    /// On one line.
    pub lock: CacheAligned<SpaceLock<M::Cpu>>,
    /// A [`ThpDisable`]. Relaxed: advice to faults.
    thp_disable: AtomicU64<M::Cpu>,
    /// Where the heap ends; changed under a [`RangeGuard`](super::RangeGuard) of the page there.
    pub heap_end: CacheAligned<AtomicU64<M::Cpu>>,
}

/// The lock of a space's ranges, and what its holder owns.
pub(in crate::space) struct SpaceLock<C: Cpu> {
    /// Taken by way of guards only. See `docs/design/locking.md`.
    pub ranges: RwLock<C, { lockdep::SPACE.0 }>,
    /// The views whose pages are gone once the writer has flushed: a
    /// [`LeavingViews`](crate::object::LeavingViews). Relaxed: the holder of a
    /// [`RangeGuard`](super::RangeGuard), or of what it has become, owns it.
    pub(super) leaving: AtomicU64<C>,
}

impl<'v, M: Machine> Mappings<'v, M> {
    /// None yet, of the space of that number.
    pub fn new(vm: &'v Vm<'v, M>, id: SpaceId, layout: Layout) -> Self {
        let records = vm.index_allocator();
        Self {
            vm,
            id,
            layout,
            max_commit_pages: layout.max_commit_pages.unwrap_or_else(|| vm.memory.stats().managed),
            vmas: VmaTree::new(&records),
            records,
            lock: CacheAligned(SpaceLock { ranges: RwLock::new(), leaving: AtomicU64::new(0) }),
            thp_disable: AtomicU64::new(0),
            heap_end: CacheAligned(AtomicU64::new(layout.heap_start.0)),
        }
    }

    /// Sets which huge pages the faults of the space may map from now on.
    pub fn set_thp_disable(&self, thp_disable: ThpDisable) {
        self.thp_disable.store(thp_disable as u64, Relaxed);
    }

    /// Which huge pages the faults of the space may not map.
    pub fn thp_disable(&self) -> ThpDisable {
        ThpDisable::from_bits(self.thp_disable.load(Relaxed))
    }

    /// Adds a mapping that a fork of `parent` gives to a space which only the caller knows.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing has changed.
    pub fn adopt(
        &self,
        entries: &Entries<'v, M>,
        attributes: VmaAttributes,
        parent: SpaceId,
    ) -> Result<(), Error> {
        entries.note_leaves_of(&attributes);
        self.enter_object_from(Some(parent), &attributes)?;
        let record = [Vma::new(attributes, VmaState::Live)];
        match self.vmas.prepare(attributes.range, record, &self.records) {
            Ok(prepared) => {
                prepared.publish();
                Ok(())
            }
            Err(_) => {
                self.leave_object(&attributes);
                Err(Error::NoMemory)
            }
        }
    }

    /// Gives the mapping at `page` an identity, where the parent's got its first copy during the fork. The
    /// caller alone knows the space.
    pub fn note_copies(&self, page: Vpn) {
        let reading = self.vm.rcu.read();
        if let Some(vma) = self.vmas.find(&reading, page)
            && vma.anon().is_none()
        {
            vma.give_anon(AnonId::inherited(self.vm.numbers.next()));
        }
    }

    /// Where the policy of the page's mapping wants its frame.
    pub fn placement_of(&self, page: Vpn) -> FramePlacement {
        let reading = self.vm.rcu.read();
        let found = self.vmas.find(&reading, page).filter(|vma| !vma.policy().is_default());
        let placement =
            |vma: &Vma<M::Cpu>| vma.policy().placement(vma.frame_offset(page), self.vm.populated_nodes());
        found.map_or(FramePlacement::Local, placement)
    }
}
