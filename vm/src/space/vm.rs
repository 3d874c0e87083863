//! The state that all spaces of a machine share: frames, deferred frees, shootdown, counters.

use super::counters::{Counter, Counters, Totals};
use super::options::VmOptions;
use crate::anon::AnonNodes;
use crate::frame::{
    BootError, BootMap, BootMemory, HugetlbCounts, HugetlbReservation, IndexAllocator, IndexPools,
    IndexReserve, Memory,
};
use crate::machine::Machine;
use crate::object::{LeavingViews, Object, Objects, PagerKey, SharedHugetlbCounts, ViewPlace};
use crate::sync::{CpuNumbers, GarbageLimits, GarbageStats, HandlerSection, Rcu, ReadGuard, Registration};
use crate::table::{LeafClass, SlotRun};
use crate::tlb::{Shootdown, ShootdownStats};
use crate::units::{NodeMask, Order, PageSize};
use crate::vma::{Backing, HugePolicy, MthpPolicies, ObjectId, SharedHugePolicy, Vma, ZeroPagePolicy};
use crate::work::WorkerPool;
use core::fmt;
use core::ops::Range;

/// Memory reserved for an edit of several mappings.
pub(super) type Reserve<'a, 'm, M> = IndexReserve<'a, 'm, Vma<<M as Machine>::Cpu>, M>;

/// Number of refills of a reserve before it is left short.
const TOP_UPS: u32 = 64;

/// The virtual-memory system of one machine, which has no other at the same time. Spaces borrow it.
pub struct Vm<'m, M: Machine> {
    pub(super) machine: &'m M,
    pub(super) memory: Memory<'m, M>,
    pub(super) rcu: Rcu<'m, M::Cpu>,
    pub(super) shootdown: Registration<'m, M, Shootdown<'static, M::Cpu>>,
    pub(super) mappings: IndexPools<'m, Vma<M::Cpu>, M>,
    pub(super) objects: Objects<'m, M>,
    /// The trees of spaces.
    pub(super) anon: AnonNodes<'m, M>,
    pub(super) counters: Counters<'m, M::Cpu>,
    /// Helpers for large ranges.
    pub(super) workers: Option<&'m WorkerPool<'m, M>>,
    /// When private memory gets huge pages.
    pub(super) huge_policy: HugePolicy,
    /// When shared memory gets them.
    pub(super) shared_huge: SharedHugePolicy,
    /// When private memory gets mTHP folios.
    pub(super) mthp: MthpPolicies,
    /// What loads find where a huge page is allowed.
    pub(super) zero_page: ZeroPagePolicy,
    /// Pages that a load of an object's page may map at once.
    pub(super) fault_around: u64,
    /// Numbers of spaces, of objects, and of the identities of private copies.
    pub(super) numbers: CpuNumbers<'m, M::Cpu>,
}

impl<'m, M: Machine> Vm<'m, M> {
    /// Takes over the memory that `map` describes, and registers the handler of shootdown interrupts. The
    /// system has the [default options](VmOptions::default).
    ///
    /// # Errors
    /// As [`BootMap::claim`], and as [`start`](Self::start).
    pub fn new(machine: &'m M, map: BootMap) -> Result<Self, BootError> {
        Self::start(map.claim(machine)?, VmOptions::default())
    }

    /// As [`new`](Self::new), of memory that is claimed already, and with these options.
    ///
    /// # Errors
    /// Where there is no memory, or too little for the system's own records;
    /// [`BootError::HandlerTaken`] where the machine has a system, of whatever memory. It stays claimed.
    pub fn start(mut memory: BootMemory<'m, M>, options: VmOptions<'m, M>) -> Result<Self, BootError> {
        let machine = memory.machine();
        let nr_cpus = machine.nr_cpus();
        let mut allocator = memory.early_allocator();
        let counters = Counters::carve(&mut allocator, nr_cpus).ok_or(BootError::TooSmall)?;
        let numbers = CpuNumbers::carve(&mut allocator, nr_cpus).ok_or(BootError::TooSmall)?;
        let shootdown = Registration::register(machine, &mut allocator)?;
        let memory = Memory::start(memory, options.records)?;
        let rcu = Rcu::carve_with(&mut memory.boot_allocator(), nr_cpus, memory.garbage_limits())
            .ok_or(BootError::TooSmall)?;
        let mappings = IndexPools::new(&memory, &rcu).ok_or(BootError::TooSmall)?;
        let objects = Objects::new(&memory, &rcu, options.pager).ok_or(BootError::TooSmall)?;
        let anon = AnonNodes::new(&memory, &rcu).ok_or(BootError::TooSmall)?;
        Ok(Self {
            machine,
            memory,
            rcu,
            shootdown,
            mappings,
            objects,
            anon,
            counters,
            workers: options.workers,
            huge_policy: options.huge_pages,
            shared_huge: options.shared_huge_pages,
            mthp: options.mthp,
            zero_page: options.zero_page,
            fault_around: options.fault_around_pages(),
            numbers,
        })
    }

    /// Says that the answer of the pager about a page is another one than
    /// [`PageAnswer::NotReady`](crate::object::PageAnswer::NotReady) now: the faults that wait for it ask
    /// again. Takes no lock and waits for nothing; may be called wherever
    /// [`Cpu::wake`](crate::machine::Cpu::wake) may, as in a handler of interrupts.
    pub fn page_ready(&self, object: PagerKey, page: u64) {
        self.objects.page_ready(object, page);
    }

    /// Makes the hugetlb pool one of `pages` huge pages of a size, as far as that can be, by helpers of each
    /// node if there are any. Returns what it has then. (Linux: `nr_hugepages`.)
    pub fn resize_hugetlb(&self, size: PageSize, pages: u64) -> HugetlbCounts {
        self.memory.hugetlb().resize(size, pages, self.workers)
    }

    /// The machine that this runs on.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// The machine's frames.
    pub fn memory(&self) -> &Memory<'m, M> {
        &self.memory
    }

    /// The counts so far.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// Interrupts that CPUs sent each other to flush.
    pub fn shootdown_stats(&self) -> ShootdownStats {
        self.shootdown.stats()
    }

    /// Begins a read section: tables and mappings that are found in it stay in memory until it ends. Nothing
    /// sleeps or waits for readers meanwhile.
    pub fn read(&self) -> ReadGuard<'_, M::Cpu> {
        self.rcu.read()
    }

    /// Begins a read section in code that may have interrupted anything on its CPU: see [`HandlerSection`].
    pub fn read_in_handler(&self) -> HandlerSection<'_, M::Cpu> {
        self.rcu.read_in_handler()
    }

    /// Waits until all read sections under way have ended and frees the objects of this CPU that waited for
    /// them. (Linux: `synchronize_rcu`.) Never called in a read section.
    pub fn synchronize(&self) {
        self.rcu.wait(self.machine, &self.memory);
    }

    /// How much garbage each CPU may hold.
    pub fn garbage_limits(&self) -> GarbageLimits {
        self.memory.garbage_limits()
    }

    /// The garbage of all CPUs, its peak, and how long it has waited. A barrier on all CPUs.
    pub fn garbage_stats(&self) -> GarbageStats {
        self.rcu.stats(self.machine)
    }

    /// Frees all memory that is kept for later: garbage of all CPUs; slabs without objects, those of
    /// [`Spaces`](super::Spaces) too; cached frames; the huge zero page if no space uses it. Never called in
    /// a read section.
    pub fn trim(&self) {
        self.synchronize();
        self.try_trim();
    }

    /// Frees what all CPUs keep for later: everything that was retired before the call, on whatever CPU; free
    /// objects in stacks, and slabs that are empty then; cached frames, to the zones. A caller that lacks
    /// memory calls it before it says so.
    ///
    /// Waits for read sections under way, for a bounded time. False where one does not end, or where the
    /// caller is in one: then it has freed what could be freed. Called with no spin lock held; the caller may
    /// hold spaces' locks, as no reader waits for those. Some barriers on all CPUs.
    pub fn try_trim(&self) -> bool {
        let have_left = mutant!("vm.garbage-not-reclaimed") || self.rcu.free_all(self.machine, &self.memory);
        self.memory.zero_pages().shrink();
        self.give_caches_back();
        have_left
    }

    /// Called by a CPU that is about to wait for work, with no lock held and outside any read section: hands
    /// its garbage over to the other CPUs, and frees what is free of theirs. Does not wait. True where such
    /// garbage is left; then the platform calls again later, on any CPU. `min_age_ns`: how old the oldest
    /// must be before CPUs are interrupted for it. Four calls after it has that age, garbage of CPUs that
    /// idle is gone, if no reader stays longer.
    pub fn idle(&self, min_age_ns: u64) -> bool {
        self.rcu.idle(self.machine, min_age_ns, &self.memory)
    }

    /// Called by a CPU at each tick of a timer, with no lock held and outside any read section: frees its
    /// garbage, and that of CPUs that idle or have gone offline, that has waited for `max_age_ns`. Does not
    /// wait. A CPU that calls it every `period` keeps nothing longer than `max_age_ns` and four periods, if
    /// no reader stays longer; without it a CPU that neither retires nor idles keeps its last garbage.
    pub fn tick(&self, max_age_ns: u64) {
        self.rcu.tick(self.machine, max_age_ns, &self.memory);
    }

    /// Called by a CPU that goes offline, as its last call, with no lock held and outside any read section:
    /// all of its garbage becomes that of the others, which free it at their ticks, when they idle, or as
    /// they lack memory; all cached frames and objects go back. Some barriers on all CPUs; does not wait for
    /// readers.
    pub fn offline(&self) {
        if !mutant!("vm.offline-keeps-garbage") {
            self.rcu.orphan(&self.memory);
        }
        self.give_caches_back();
        self.memory.leave_zones();
    }

    fn give_caches_back(&self) {
        self.memory.shrink_slab_pools();
        self.memory.drain();
    }

    /// What `alloc` returns; where that is nothing, once more after [`try_trim`](Self::try_trim). Called
    /// where that may be. For values of a few words: they are moved.
    pub(super) fn retry_after_trim<R>(&self, mut alloc: impl FnMut() -> Option<R>) -> Option<R> {
        alloc().or_else(|| if self.trim_for_lack() { alloc() } else { None })
    }

    /// [`try_trim`](Self::try_trim), for a caller that lacked memory. False where the lack was planned, and
    /// so stays.
    #[cold]
    #[inline(never)]
    pub(super) fn trim_for_lack(&self) -> bool {
        let may_help = !self.memory.has_mishap_happened();
        if may_help {
            self.try_trim();
        }
        may_help
    }

    /// Reserves the memory that one replacement of mappings may need, for an edit of several that must not
    /// stop halfway.
    pub(super) fn reserve(&self) -> Option<Reserve<'_, 'm, M>> {
        self.retry_after_trim(|| IndexReserve::new(self.index_allocator()))
    }

    /// Refills a reserve after a replacement: if need be with the objects that it retired, after a grace
    /// period. Other CPUs may take those first, so this tries several times.
    pub(super) fn top_up(&self, reserve: &Reserve<'_, 'm, M>) {
        for nth in 0..TOP_UPS {
            if reserve.refill() {
                return;
            }
            self.synchronize();
            if nth > 0 {
                self.try_trim();
            }
        }
    }

    /// Makes an object of `pages` pages of zeros, with a handle.
    pub(super) fn create_object(&self, pages: u64) -> Option<ObjectId> {
        let object = ObjectId::new(self.numbers.next())?;
        self.objects.create(&self.memory, &self.rcu, object.number(), (pages, 1))?;
        Some(object)
    }

    /// Makes an object of the embedder's, with a handle.
    pub(super) fn create_paged_object(&self, key: PagerKey) -> Option<ObjectId> {
        let object = ObjectId::new(self.numbers.next())?;
        self.objects.create_paged(&self.memory, &self.rcu, object.number(), (key, 1))?;
        Some(object)
    }

    /// Makes an object of `pages` base pages, of huge pages of the hugetlb pool, with a handle; `reserve` are
    /// those set aside for it: one for each huge page, or none. They stay the caller's where there is no
    /// memory.
    pub(super) fn create_hugetlb_object(
        &self,
        (size, pages): (PageSize, u64),
        reserve: &mut Option<HugetlbReservation<'_, M>>,
    ) -> Option<ObjectId> {
        let object = ObjectId::new(self.numbers.next())?;
        self.objects.create_hugetlb(&self.memory, &self.rcu, object.number(), (size, pages, 1), reserve)?;
        Some(object)
    }

    /// What the shared memory that a mapping maps has of the hugetlb pool; stale at once. `None` where it is
    /// of other memory, or gone.
    pub fn shared_hugetlb(&self, backing: Backing) -> Option<SharedHugetlbCounts> {
        let object = backing.hugetlb()?.object?;
        Some(self.object(object, &self.rcu.read())?.hugetlb_counts())
    }

    /// The object of a mapping, for the life of a read section. `None` where no page of it is mapped any
    /// more.
    #[inline]
    pub(super) fn object<'r>(
        &'r self,
        object: ObjectId,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Option<&'r Object<M::Cpu>> {
        self.objects.get(object.number(), reading)
    }

    /// Counts one handle more of an object that is not dead.
    pub(super) fn hold_object(&self, object: ObjectId) {
        let is_alive = self.objects.try_hold(&self.rcu, object.number());
        debug_assert!(is_alive, "a mapping or a handle keeps it");
    }

    /// Counts one handle fewer of an object, which dies with the last one. May wait for readers.
    pub(super) fn release_object(&self, object: ObjectId) {
        self.objects.release(&self.memory, &self.rcu, object.number());
    }

    /// Counts pages of an object that is not dead, which a mapping is about to cover; its entries are copies
    /// of those of `source`. `None` where there is no memory.
    pub(super) fn count_mapped(
        &self,
        object: ObjectId,
        at: (ViewPlace, Range<u64>),
        source: Option<ViewPlace>,
    ) -> Option<()> {
        self.objects.map(&self.memory, &self.rcu, object.number(), at, source).then_some(())
    }

    /// Counts pages that a mapping covered as gone. May wait for readers.
    pub(super) fn count_unmapped(&self, object: ObjectId, at: ViewPlace, pages: u64) {
        self.objects.unmap(&self.memory, &self.rcu, object.number(), (at, pages));
    }

    /// Notes pages that are to be counted as gone by [`unmap_leaving`](Self::unmap_leaving).
    pub(super) fn note_leaving(
        &self,
        object: ObjectId,
        pages: (ViewPlace, u64),
        leaving: LeavingViews,
    ) -> LeavingViews {
        self.objects.leave(&self.rcu, object.number(), pages, leaving)
    }

    /// Counts as gone what was noted. May wait for readers.
    #[cold]
    #[inline(never)]
    pub(super) fn unmap_leaving(&self, leaving: LeavingViews) {
        self.objects.unmap_leaving(&self.memory, &self.rcu, leaving);
    }

    /// Memory for the indexes of spaces.
    pub(super) fn index_allocator(&self) -> IndexAllocator<'_, 'm, Vma<M::Cpu>, M> {
        self.mappings.allocator(&self.memory, &self.rcu)
    }

    /// The nodes that have memory.
    pub(super) fn populated_nodes(&self) -> NodeMask {
        let nodes = self.memory.zones().iter().map(|zone| NodeMask::of(zone.node()));
        nodes.fold(NodeMask::EMPTY, NodeMask::with)
    }

    #[inline(always)]
    pub(super) fn count(&self, counter: Counter) {
        self.counters.count(counter);
    }

    /// Counts one fewer of the leaves of this class that map folios of this order.
    pub(super) fn count_leaf_gone(&self, class: LeafClass, order: Order) {
        if let Some(counter) = Counter::of_leaves(class, order) {
            self.count_many(counter, 1u64.wrapping_neg());
        }
    }

    /// Counts the leaves of a run above the last level as gone, and gives up what was set aside for its
    /// entries. The caller clears them next, under the same lock.
    pub(super) fn leave_entries(&self, run: &mut SlotRun<'_, '_, M>) {
        let order = run.table.level().leaf_size().map_or(Order::BASE, PageSize::order);
        run.leave(|class| {
            if !mutant!("exit.huge-uncounted") {
                self.count_leaf_gone(class, order);
            }
        });
    }

    pub(super) fn count_many(&self, counter: Counter, times: u64) {
        self.counters.count_many(counter, times);
    }
}

impl<M: Machine> fmt::Debug for Vm<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vm over {:?}", self.memory)
    }
}
