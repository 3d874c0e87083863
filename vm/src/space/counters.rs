//! Counters, declared once. Names are Linux's (`/proc/vmstat`) where Linux has one, and those of the
//! speculative page fault series (`pagefault:spf_*`) where it has one.
//!
//! Each CPU counts on its own lines, with a load and a store; a total is a sum that may be stale.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{Carve, PerCpu, PreemptOff};
use crate::table::{CountedLeaf, LeafClass};
use crate::units::Order;
use crate::vma::MthpPolicies;
use core::fmt;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A counted event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        #[non_exhaustive]
        pub enum Counter {
            $($(#[$doc])* $variant,)*
        }

        impl Counter {
            /// All counters, in the order of declaration.
            pub const ALL: &[Counter] = &[$(Counter::$variant),*];

            /// The counter's name in tables and in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Counter::$variant => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Page faults, however they ended.
    PgFault = "pgfault",
    /// Page faults whose page a pager had to fill.
    PgMajFault = "pgmajfault",
    /// Entries of pages that a load of another page of the object has mapped.
    FaultAroundMapped = "fault_around_mapped",
    /// Page faults that ended with a signal.
    PgFaultError = "pgfault_error",
    /// Page faults resolved speculatively.
    SpeculativePgFault = "speculative_pgfault",
    /// Speculation gave up: the mapping was replaced or is busy.
    SpfVmaChanged = "spf_vma_changed",
    /// Speculation gave up: no mapping there (only the locked path may report that).
    SpfVmaMissing = "spf_vma_missing",
    /// Speculation gave up: the kind of mapping is not handled speculatively.
    SpfVmaNotSupported = "spf_vma_notsup",
    /// Speculation gave up: the mapping does not allow the access (only the locked path may report that).
    SpfVmaAccess = "spf_vma_access",
    /// Speculation gave up: a table on the way was detached.
    SpfPmdChanged = "spf_pmd_changed",
    /// Speculation gave up: another CPU is changing the entry, or changed it meanwhile.
    SpfEntryBusy = "spf_entry_busy",
    /// Speculation gave up: a sweep has not flushed the page yet.
    SpfEntryPending = "spf_entry_pending",
    /// Speculation gave up: no frame without waiting.
    SpfNoMemory = "spf_no_memory",
    /// Speculation gave up: the page waits for the end of a fork.
    SpfForking = "spf_forking",
    /// Speculation gave up: a frame has to be copied, and none was prepared for that.
    SpfCowUnprepared = "spf_cow_unprepared",
    /// Speculation gave up: it needs a folio, a huge page or a page of an object that was not prepared.
    SpfUnprepared = "spf_unprepared",
    /// Speculation gave up: a store to a huge page that others have too, which is split for that.
    SpfHugeShared = "spf_huge_shared",
    /// Speculation gave up: the hugetlb pool has no huge page (only the locked path may report that).
    SpfHugetlbEmpty = "spf_hugetlb_empty",
    /// Speculation gave up: the object has no such page (only the locked path may report that).
    SpfBeyond = "spf_beyond",
    /// Page faults resolved with the mapping's record held.
    VmaLockSuccess = "vma_lock_success",
    /// The mapping's record could not be held: the space's lock was taken.
    VmaLockAbort = "vma_lock_abort",
    /// Huge pages installed by faults.
    ThpFaultAlloc = "thp_fault_alloc",
    /// Faults that got a base page because no block for a huge page was free.
    ThpFaultFallback = "thp_fault_fallback",
    /// Folios of huge pages split into frames.
    ThpSplitPage = "thp_split_page",
    /// Huge entries split into tables.
    ThpSplitPmd = "thp_split_pmd",
    /// Huge leaves of private memory, one for each space that maps the folio: a number that rises and
    /// falls, on one CPU below zero.
    NrAnonTransparentHugepages = "nr_anon_transparent_hugepages",
    /// Huge pages allocated by faults for shared memory.
    ThpFileAlloc = "thp_file_alloc",
    /// Faults for which no block was free for a huge page of shared memory: they got a base page.
    ThpFileFallback = "thp_file_fallback",
    /// Huge leaves of shared memory installed by faults.
    ThpFileMapped = "thp_file_mapped",
    /// Huge leaves of shared memory, but those of the hugetlb pool: a number that rises and falls, on one
    /// CPU below zero.
    NrShmemPmdMapped = "nr_shmem_pmdmapped",
    /// Huge pages allocated for a collapse.
    ThpCollapseAlloc = "thp_collapse_alloc",
    /// Collapses for which no block was free.
    ThpCollapseAllocFailed = "thp_collapse_alloc_failed",
    /// Huge zero pages allocated.
    ThpZeroPageAlloc = "thp_zero_page_alloc",
    /// Faults for which no huge zero page could be allocated: they got a small one.
    ThpZeroPageAllocFailed = "thp_zero_page_alloc_failed",
    /// Frames copied because a shared one was written.
    CowCopied = "cow_copied",
    /// Frames that were shared, and written without a copy because no other entry maps them any more.
    PgReuse = "pgreuse",
    /// Entries installed that map the zero page.
    ZeroPageMapped = "zero_page_mapped",
    /// Zero page entries replaced by frames of their own.
    ZeroPageReplaced = "zero_page_replaced",
    /// Table pages linked.
    TableAlloc = "nr_page_table_alloc",
    /// Table pages detached.
    TableFree = "nr_page_table_free",
    /// Flushes that edits of a space asked for, on any CPU.
    TlbFlush = "nr_tlb_flush",
    /// Pages pinned.
    FollPinAcquired = "nr_foll_pin_acquired",
    /// Pages unpinned.
    FollPinReleased = "nr_foll_pin_released",
    /// Folios of 16 KiB installed by faults.
    AnonFaultAlloc16kB = "anon_fault_alloc_16kB",
    /// Folios of 32 KiB installed by faults.
    AnonFaultAlloc32kB = "anon_fault_alloc_32kB",
    /// Folios of 64 KiB installed by faults.
    AnonFaultAlloc64kB = "anon_fault_alloc_64kB",
    /// Folios of 128 KiB installed by faults.
    AnonFaultAlloc128kB = "anon_fault_alloc_128kB",
    /// Folios of 256 KiB installed by faults.
    AnonFaultAlloc256kB = "anon_fault_alloc_256kB",
    /// Folios of 512 KiB installed by faults.
    AnonFaultAlloc512kB = "anon_fault_alloc_512kB",
    /// Folios of 1 MiB installed by faults.
    AnonFaultAlloc1024kB = "anon_fault_alloc_1024kB",
    /// Faults for which no block of 16 KiB was free: the next smaller size was tried.
    AnonFaultFallback16kB = "anon_fault_fallback_16kB",
    /// Faults for which no block of 32 KiB was free: the next smaller size was tried.
    AnonFaultFallback32kB = "anon_fault_fallback_32kB",
    /// Faults for which no block of 64 KiB was free: the next smaller size was tried.
    AnonFaultFallback64kB = "anon_fault_fallback_64kB",
    /// Faults for which no block of 128 KiB was free: the next smaller size was tried.
    AnonFaultFallback128kB = "anon_fault_fallback_128kB",
    /// Faults for which no block of 256 KiB was free: the next smaller size was tried.
    AnonFaultFallback256kB = "anon_fault_fallback_256kB",
    /// Faults for which no block of 512 KiB was free: the next smaller size was tried.
    AnonFaultFallback512kB = "anon_fault_fallback_512kB",
    /// Faults for which no block of 1 MiB was free: the next smaller size was tried.
    AnonFaultFallback1024kB = "anon_fault_fallback_1024kB",
}

impl Counter {
    /// Of the smallest mTHP size, and upwards: folios installed by faults, and those that were not free.
    const OF_SIZES: [[Counter; 2]; 7] = [
        [Counter::AnonFaultAlloc16kB, Counter::AnonFaultFallback16kB],
        [Counter::AnonFaultAlloc32kB, Counter::AnonFaultFallback32kB],
        [Counter::AnonFaultAlloc64kB, Counter::AnonFaultFallback64kB],
        [Counter::AnonFaultAlloc128kB, Counter::AnonFaultFallback128kB],
        [Counter::AnonFaultAlloc256kB, Counter::AnonFaultFallback256kB],
        [Counter::AnonFaultAlloc512kB, Counter::AnonFaultFallback512kB],
        [Counter::AnonFaultAlloc1024kB, Counter::AnonFaultFallback1024kB],
    ];

    /// The counter of folios of this order that faults have installed; `None` where it is no mTHP order.
    pub const fn anon_fault_alloc(order: Order) -> Option<Counter> {
        match MthpPolicies::index(order) {
            Some(size) => Some(Self::OF_SIZES[size][0]),
            None => None,
        }
    }

    /// The counter that rises and falls with the leaves of this class that map folios of this order, if one
    /// does.
    pub(super) const fn of_leaves(class: LeafClass, order: Order) -> Option<Counter> {
        match class.counted(order) {
            Some(CountedLeaf::AnonHuge) => Some(Counter::NrAnonTransparentHugepages),
            Some(CountedLeaf::ObjectHuge) => Some(Counter::NrShmemPmdMapped),
            None => None,
        }
    }

    /// The counter of folios of this order that faults have wanted and not got; `None` as for
    /// [`anon_fault_alloc`](Self::anon_fault_alloc).
    pub const fn anon_fault_fallback(order: Order) -> Option<Counter> {
        match MthpPolicies::index(order) {
            Some(size) => Some(Self::OF_SIZES[size][1]),
            None => None,
        }
    }
}

const NR: usize = Counter::ALL.len();
/// Words of a CPU: a power of two, so that every fault finds its CPU's lines by a shift.
const PLACES: usize = NR.next_power_of_two();

/// The counters of all CPUs.
pub struct Counters<'m, C: Cpu> {
    cpus: PerCpu<'m, [AtomicU64<C>; PLACES], C>,
}

/// Totals of all counters at about one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals([u64; NR]);

impl<'m, C: Cpu> Counters<'m, C> {
    /// Counters at zero. `None` where memory does not suffice.
    pub fn carve(from: &mut impl Carve<'m>, nr_cpus: u32) -> Option<Self> {
        Some(Self { cpus: PerCpu::carve(from, nr_cpus, |_| [const { AtomicU64::new(0) }; PLACES])? })
    }

    /// Counts one, on this CPU's own lines.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.count_many(counter, 1);
    }

    /// Counts one of each, on this CPU's own lines.
    #[inline]
    pub fn count_each<const N: usize>(&self, counters: [Counter; N]) {
        let own = self.cpus.get_cpu();
        counters.iter().for_each(|&counter| own[counter as usize].add_own(1));
    }

    /// Counts one, on the lines of the CPU on which `pinned` keeps the thread.
    #[inline(always)]
    pub fn count_here(&self, counter: Counter, pinned: &impl PreemptOff<C>) {
        self.cpus.this_cpu(pinned)[counter as usize].add_own(1);
    }

    /// Counts `times`, on this CPU's own lines.
    #[inline]
    pub fn count_many(&self, counter: Counter, times: u64) {
        self.cpus.get_cpu()[counter as usize].add_own(times);
    }

    /// The addresses of all CPUs' counters, for observers.
    pub fn extent(&self) -> core::ops::Range<usize> {
        self.cpus.extent()
    }

    /// The sums over all CPUs.
    pub fn totals(&self) -> Totals {
        let mut sums = [0; NR];
        for (_, cpu) in self.cpus.iter() {
            sums.iter_mut()
                .zip(cpu)
                .for_each(|(sum, count): (&mut u64, _)| *sum = sum.wrapping_add(count.load(Relaxed)));
        }
        Totals(sums)
    }
}

impl Totals {
    /// The total of one counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// The counts since `earlier`.
    pub fn since(&self, earlier: &Totals) -> Totals {
        Totals(core::array::from_fn(|at| self.0[at].wrapping_sub(earlier.0[at])))
    }

    /// All counters with their totals.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> {
        Counter::ALL.iter().map(|&counter| (counter, self.get(counter)))
    }
}

impl<C: Cpu> fmt::Debug for Counters<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.totals().iter().map(|(counter, total)| (counter.name(), total))).finish()
    }
}
