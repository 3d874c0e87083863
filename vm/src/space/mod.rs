//! Floor 6: the address space.
//!
//! | file | what |
//! |---|---|
//! | `ops` | the calls, one file each, with Linux's behaviour and errors |
//! | `edit` | how a writer replaces mappings and clears entries |
//! | `fault` | what comes in and goes out of a page fault; `body` is the one body, `proof` why its mapping may be trusted, `plan` the decision about an entry, `landing` the installation, `carried` what an attempt leaves to the next, `last_fault` what a fault leaves to the CPU's next |
//! | `inspect` | what checkers and observers may look at |
//! | `activate` | a CPU loads a space and unloads it |
//! | `linux` | the calls with Linux's numbers |
//! | `vm` | what all spaces of a machine share |
//! | `counters` `error` `layout` | names of what is counted, of what goes wrong, of what is where |
//!
//! # Locks
//!
//! A space has one sleeping lock. Writers hold it alone, locked faults and MADV_DONTNEED share it,
//! speculative faults do not touch it. docs/design/locking.md has the table, docs/design/fault.md the story
//! of a fault.

#![forbid(unsafe_code)]

mod activate;
mod body;
mod carried;
mod counters;
mod edit;
mod error;
mod fault;
mod inspect;
mod landing;
mod last_fault;
mod layout;
pub mod linux;
#[cfg(all(test, loom))]
mod loom_tests;
mod ops;
mod plan;
mod proof;
mod vm;

pub use activate::ActiveSpace;
pub use counters::{Counter, Counters, Totals};
pub use error::{Error, FaultError};
pub use fault::{Fallback, Fault, Outcome, Path};
pub use layout::Layout;
pub use ops::{Advice, MapRequest, Place, Sharing};
pub use vm::Vm;

use crate::machine::Machine;
use crate::object::Object;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{CacheAligned, ReadGuard, RwLock, RwWriteGuard, lockdep};
use crate::table::PageTable;
use crate::tlb::SpaceTlb;
use crate::units::{Pfn, VirtAddr, Vpn, VpnRange};
use crate::vma::{AnonId, BackingId, Vma, VmaAttributes, VmaFlags, VmaTree, reusable_anon};
use core::fmt;

/// The space's lock, held to write.
type WriteGuard<'a, M> = RwWriteGuard<'a, <M as Machine>::Cpu, { lockdep::SPACE.0 }>;

/// An address space: mappings, a page table, and the CPUs that run it.
pub struct AddressSpace<'v, M: Machine> {
    vm: &'v Vm<'v, M>,
    /// The entries.
    table: PageTable<'v, M>,
    path: Path,
    layout: Layout,
    /// Which mappings exist. Read under RCU or the lock, written with the lock held alone.
    vmas: VmaTree<M::Cpu>,
    /// See `docs/design/locking.md`.
    lock: CacheAligned<RwLock<M::Cpu, { lockdep::SPACE.0 }>>,
    /// Generations and running CPUs.
    tlb: SpaceTlb<M::Cpu>,
    /// Identities handed out so far. Relaxed: only uniqueness matters. On a line that no other fault reads.
    identities: CacheAligned<AtomicU64<M::Cpu>>,
    /// Where the heap ends; changed with the space's lock held alone.
    heap_end: CacheAligned<AtomicU64<M::Cpu>>,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// An empty space.
    ///
    /// # Errors
    /// [`Error::NoMemory`] where there is none for the root table or the index.
    pub fn new(vm: &'v Vm<'v, M>, layout: Layout, path: Path) -> Result<Self, Error> {
        let root = vm.memory.alloc_table(crate::frame::Priority::Normal).ok_or(Error::NoMemory)?;
        let number = vm.next_space();
        Ok(Self {
            vm,
            table: PageTable::new(&vm.memory, root),
            path,
            layout,
            vmas: VmaTree::new(),
            lock: CacheAligned(RwLock::new()),
            tlb: SpaceTlb::new(number),
            identities: CacheAligned(AtomicU64::new(0)),
            heap_end: CacheAligned(AtomicU64::new(layout.heap_start.0)),
        })
    }

    /// What this space shares with all others.
    pub fn vm(&self) -> &'v Vm<'v, M> {
        self.vm
    }

    /// Bounds and bases.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The frame of the root table.
    pub fn root(&self) -> Pfn {
        self.table.root()
    }

    /// Number of mappings; stale at once.
    pub fn nr_mappings(&self) -> usize {
        self.vmas.len()
    }

    /// Calls `tell` with each mapping, in order, as /proc/self/maps lists them. Shares the lock.
    pub fn each_vma(&self, mut tell: impl FnMut(&VmaAttributes)) {
        let _shared = self.lock.read();
        let mut rest = VpnRange::new(Vpn(0), self.layout.areas.user.end);
        while let Some(vma) = self.first_in(rest) {
            tell(&vma);
            rest = VpnRange::new(vma.range.end, rest.end);
        }
    }

    /// The mapping that holds the byte; stale at once. Takes no lock.
    pub fn vma_at(&self, addr: VirtAddr) -> Option<VmaAttributes> {
        let reading = self.vm.rcu.read();
        self.vmas.find(&reading, addr.vpn()).map(Vma::attributes)
    }

    /// Whether any page of the bytes is mapped; stale at once.
    pub fn is_any_mapped(&self, addr: VirtAddr, len_bytes: u64) -> bool {
        VpnRange::from_bytes(addr, len_bytes).is_some_and(|range| self.first_in(range).is_some())
    }

    /// The first mapping that holds a page of the range, as it says at this moment.
    fn first_in(&self, range: VpnRange) -> Option<VmaAttributes> {
        let reading = self.vm.rcu.read();
        let vma = self.vmas.at_or_after(&reading, range.start)?;
        (vma.range().start < range.end && !range.is_empty()).then(|| vma.attributes())
    }

    /// The pages of a mapping that are no longer shown are taken from its backing.
    fn release_backing(&self, backing: Option<BackingId>, pages: VpnRange) {
        if let Some(backing) = backing
            && !pages.is_empty()
        {
            Object::at(&self.vm.memory, backing.0).unmapped(pages.len(), &self.vm.rcu);
        }
    }

    /// Makes the busy mapping at `page` live. The lock is held to write.
    fn make_live(&self, page: Vpn) {
        let reading = self.vm.rcu.read();
        if let Some(vma) = self.vmas.find(&reading, page) {
            vma.make_live();
        }
    }

    /// Pages of the range that are charged to the commit limit already.
    fn committed_in(&self, range: VpnRange) -> u64 {
        let mut committed = 0;
        let mut rest = range;
        while let Some(vma) = self.first_in(rest) {
            let part = rest.intersect(vma.range);
            committed += if vma.flags.contains(VmaFlags::ACCOUNT) { part.len() } else { 0 };
            rest = VpnRange::new(part.end, range.end);
        }
        committed
    }

    /// Gives the mapping an identity for its first private copy: a neighbour's where they could be joined one
    /// day. `None` where the mapping was replaced or is being decided on. Called under the lock of the table
    /// that the copy goes into.
    #[cold]
    fn assign_anon(&self, vma: &Vma<M::Cpu>, reading: &ReadGuard<'_, M::Cpu>) -> Option<AnonId> {
        let attributes = vma.attributes();
        let before = Vpn(attributes.range.start.0.wrapping_sub(1));
        let prev = self.vmas.find(reading, before).map(Vma::attributes);
        let next = self.vmas.find(reading, attributes.range.end).map(Vma::attributes);
        let fresh = || AnonId::new(self.identities.fetch_add(1, Relaxed) + 1);
        let reused = reusable_anon(prev, &attributes, next).filter(|_| !mutant!("merge.identity-not-reused"));
        vma.give_anon(reused.unwrap_or_else(fresh))
    }

    /// The whole pages of a range that must lie in user space.
    fn user_range(&self, addr: VirtAddr, len_bytes: u64) -> Option<VpnRange> {
        let range = VpnRange::from_bytes(addr, len_bytes)?;
        (!range.is_empty() && range.end <= self.layout.areas.user.end).then_some(range)
    }

    /// Checks the commit limit for `pages` more (overcommit heuristic: a single request beyond all memory is
    /// refused).
    fn charge_commit(&self, pages: u64) -> Result<(), Error> {
        if pages > self.layout.max_commit_pages { Err(Error::NoMemory) } else { Ok(()) }
    }
}

impl<M: Machine> fmt::Debug for AddressSpace<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "space {} of {} mappings", self.tlb.id(), self.vmas.len())
    }
}
