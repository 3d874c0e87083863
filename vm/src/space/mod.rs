//! Floor 6: the address space.
//!
//! | file | what |
//! |---|---|
//! | `ops` | the calls, one file each, with Linux's behaviour and errors |
//! | `edit` | how a writer replaces mappings and clears entries |
//! | [`fault`](mod@fault) | page faults, from the trap to the store of the entry |
//! | `inspect` | what checkers and observers may look at |
//! | `activate` | a CPU loads a space and unloads it |
//! | `linux` | the calls with Linux's numbers |
//! | `vm` | what all spaces of a machine share |
//! | `counters` `error` `layout` | counters, errors, the layout of a space |
//!
//! # Locks
//!
//! A space has one sleeping lock. Writers hold it alone, locked faults and MADV_DONTNEED share it,
//! speculative faults do not touch it. docs/design/locking.md has the table, docs/design/fault.md the story
//! of a fault.

#![forbid(unsafe_code)]

mod activate;
mod counters;
mod edit;
mod error;
mod fault;
mod inspect;
mod layout;
pub mod linux;
mod ops;
mod vm;

pub use activate::ActiveSpace;
pub use counters::{Counter, Counters, Totals};
pub use error::Error;
pub use fault::{Fallback, Fault, FaultError, Outcome, Path};
pub use layout::Layout;
pub use ops::{Advice, MapRequest, Place, Sharing};
pub use vm::Vm;

use crate::machine::Machine;
use crate::object::Object;
use crate::sync::atomic::AtomicU64;
use crate::sync::{CacheAligned, RwLock, RwWriteGuard, lockdep};
use crate::table::PageTable;
use crate::tlb::SpaceTlb;
use crate::units::{Pfn, VirtAddr, Vpn, VpnRange};
use crate::vma::{BackingId, Vma, VmaAttributes, VmaFlags, VmaTree};
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
