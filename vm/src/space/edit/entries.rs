//! The entries of a space: the tables, the CPUs that may have cached what they say, and how far a fork has
//! come. All that an edit of entries needs of a space, and nothing of its mappings.

use crate::frame::{FrameRef, Priority, TableFrame};
use crate::machine::{Entry, FlushRange, Format, Leaf, Machine};
use crate::space::fork_cursor::ForkCursor;
use crate::space::{Counter, Error, SpaceId, Vm};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{CacheAligned, PreemptOff, ReadGuard};
use crate::table::{EntryRef, LockedTable, PageTable, walk};
use crate::tlb::SpaceTlb;
use crate::units::{Level, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags};

/// The entries of a space.
pub(in crate::space) struct Entries<'v, M: Machine> {
    pub vm: &'v Vm<'v, M>,
    /// The tree.
    pub table: PageTable<'v, M>,
    /// Generations and running CPUs.
    pub tlb: SpaceTlb<M::Cpu>,
    /// How far a fork has come. On a line of its own: a fork stores it at each table, write faults read it.
    pub fork: CacheAligned<ForkCursor<M::Cpu>>,
    /// Whether a leaf may be huge, or become so by a fault: PFN-mapped frames were mapped, a mapping may have
    /// huge pages, or is of the hugetlb pool. Written, once, under a [`RangeGuard`](super::RangeGuard),
    /// before that can be; read under a guard of any kind.
    has_huge_leaves: AtomicU64<M::Cpu>,
    /// Whether own memory was moved, here or in the space that this one was forked from: then pages may lie
    /// elsewhere than their frames' records say. Set once, before the first entry moves; a reader that misses
    /// an entry under its table's lock sees it.
    has_moved: AtomicU64<M::Cpu>,
}

impl<'v, M: Machine> Entries<'v, M> {
    /// None yet, below the root of `table`, of the space of that number.
    pub fn new(vm: &'v Vm<'v, M>, table: PageTable<'v, M>, space: u64, may_have_huge_leaves: bool) -> Self {
        Self {
            vm,
            table,
            tlb: SpaceTlb::new(space),
            fork: CacheAligned(ForkCursor::new(vm.mthp)),
            has_huge_leaves: AtomicU64::new(may_have_huge_leaves as u64),
            has_moved: AtomicU64::new(0),
        }
    }

    /// The number of the space.
    #[inline(always)]
    pub fn id(&self) -> SpaceId {
        SpaceId(self.tlb.id())
    }

    /// Whether a leaf may be huge, or become so by a fault. Exact for writers.
    #[inline(always)]
    pub fn may_have_huge_leaves(&self) -> bool {
        self.has_huge_leaves.load(Relaxed) != 0
    }

    /// Says that a leaf may be huge from now on. The caller is a writer, which has published nothing yet that
    /// lets faults install huge leaves.
    pub fn note_huge_leaves(&self) {
        if !self.may_have_huge_leaves() {
            self.has_huge_leaves.store(1, Relaxed);
        }
    }

    /// Whether own memory was moved: pages may lie elsewhere than where they were first mapped. Relaxed: set
    /// before entries move under the locks of their tables.
    pub fn has_moved(&self) -> bool {
        self.has_moved.load(Relaxed) != 0
    }

    /// Notes that. The caller is a writer, or alone knows the space.
    pub fn note_moved(&self) {
        self.has_moved.store(1, Relaxed);
    }

    /// Says that a mapping of private memory may have huge pages from now on, as its flags say, if the policy
    /// allows that. The caller is a writer, and has not published it yet.
    pub fn note_huge_pages(&self) {
        if self.vm.huge_policy.is_ever() && !mutant!("thp.advice-not-noted") {
            self.note_huge_leaves();
        }
    }

    /// As [`note_huge_pages`](Self::note_huge_pages), of a mapping of shared memory.
    pub fn note_shared_huge_pages(&self) {
        if self.vm.shared_huge.is_ever() && !mutant!("shared-thp.not-noted") {
            self.note_huge_leaves();
        }
    }

    /// As [`note_huge_pages`](Self::note_huge_pages), of a mapping of whatever kind.
    pub fn note_leaves_of(&self, vma: &VmaAttributes) {
        if vma.flags.contains(VmaFlags::HUGE_PAGE) {
            self.note_huge_pages();
        }
        if !vma.is_anonymous() {
            self.note_shared_huge_pages();
        }
        if vma.hugetlb().is_some() || vma.pfn_mapping().is_some() {
            self.note_huge_leaves();
        }
    }

    /// An empty table.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn alloc_table(&self) -> Result<TableFrame<'v, M>, Error> {
        let vm = self.vm;
        vm.retry_after_trim(|| vm.memory.alloc_table(Priority::Normal)).ok_or(Error::NoMemory)
    }

    /// The entry of the page, if that is a huge leaf.
    pub fn huge_entry<'r, 's>(
        &'s self,
        page: Vpn,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Option<EntryRef<'r, 's, M>> {
        let found = walk(&self.table, page, Level::Pte, reading);
        let is_leaf = matches!(found.entry(), Entry::Leaf(_));
        (found.table.level() != Level::Pte && is_leaf).then_some(found)
    }

    /// The leaf of a page, and a reference to its frame.
    pub fn get_leaf(&self, page: Vpn) -> Option<(Leaf, FrameRef<'v, M>)> {
        let reading = self.vm.rcu.read();
        let found = walk(&self.table, page, Level::Pte, &reading);
        let table = found.table.lock()?;
        let leaf = table.owned_leaf(found.slot)?;
        Some((leaf, self.vm.memory.try_get(leaf.pfn)?))
    }

    /// Makes every CPU that runs the space forget the pages of an entry, for a fault that replaces what it
    /// maps. The entry is a marker until this returns, and its table stays locked.
    pub fn flush_entry(&self, _table: &LockedTable<'_, M>, flush: FlushRange) {
        self.vm.count(Counter::TlbFlush);
        self.vm.shootdown.flush(self.vm.machine, &self.tlb, flush);
    }

    /// Makes this CPU's TLB ask the tables again for a page whose entry allows an access that was refused.
    /// (Linux: `flush_tlb_fix_spurious_fault`.)
    #[inline(always)]
    pub fn fix_spurious_fault(&self, page: Vpn, _preempt_off: &impl PreemptOff<M::Cpu>) {
        if M::Format::REMEMBERS_REFUSALS && !mutant!("fault.refusal-remembered") {
            self.vm.machine.flush_range(VpnRange::new(page, page.add(1)));
        }
    }

    /// Whether the flush of an edit may not have ended whose mappings the caller has just met under the
    /// space's lock. An edit that counts no more has ended since.
    pub fn is_edit_pending(&self) -> bool {
        !mutant!("fault.refused-before-flush") && self.tlb.is_flush_pending()
    }
}
