//! The machine of the lab: CPUs that host threads enter, real memory, software TLBs.

use super::MachineConfig;
use super::arena::Arena;
use super::bus::{BoundHandler, Bus, INTERRUPT};
use super::claims::Claims;
use super::copies::Copies;
use super::current::{self, CpuBinding};
use super::device;
use super::entered::Entered;
use super::flavour::Flavour;
use super::helpers::Helpers;
use super::mmu::{Borrow, Mmu};
use super::record_window;
use super::shared::{Owner, Shared};
use super::stream;
use super::tlb::{Tlb, Violation};
use crate::os::membarrier::Membarrier;
use interleaf::machine::{AccessKind, Callback, FlushRange, Format, Machine, RootTable, TablePage};
use interleaf::units::{CpuId, CpuMask, CpuWords, NodeId, Order, Pfn, PfnRange, PhysAddr, VpnRange};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A machine with CPUs of flavour `C` whose tables have format `F`.
///
/// The value may be moved, also where a handler's registration was leaked: its parts lie in allocations of
/// their own, and a handler is called with a value of its own that shares them.
pub struct SoftMachine<C: Flavour, F: Format> {
    /// Dropped first. `None` in the values that handlers are called with.
    _owner: Option<Owner>,
    arena: Arena,
    pub(super) bus: Arc<Bus>,
    pub(super) cpus: Arc<[Mmu]>,
    membarrier: Membarrier,
    shared: Arc<Shared>,
    _types: PhantomData<fn() -> (C, F)>,
}

impl<C: Flavour, F: Format> SoftMachine<C, F> {
    /// Builds the machine; no thread runs on it yet.
    ///
    /// # Errors
    /// What the host says: no memory, no membarrier.
    pub fn new(config: &MachineConfig) -> io::Result<Self> {
        if !(1..=C::CpuWords::MAX_CPUS).contains(&config.nr_cpus) {
            return Err(io::Error::other(format!("a machine has 1 to {} CPUs", C::CpuWords::MAX_CPUS)));
        }
        let bus = Arc::new(Bus::new(config.nr_cpus));
        let shared = Arc::new(Shared {
            nodes: AtomicU32::new(1),
            cpus_of_node: AtomicU32::new(0),
            has_record_windows: AtomicBool::new(true),
            helpers: Helpers::new(),
            claims: Claims::default(),
            violations: Mutex::new(Vec::new()),
            copies: Copies::default(),
            listener: OnceLock::new(),
        });
        Ok(Self {
            _owner: Some(Owner { bus: bus.clone(), shared: shared.clone() }),
            arena: Arena::new(&config.regions, config.fill)?,
            bus,
            cpus: (0..config.nr_cpus).map(|_| Mmu::new()).collect(),
            membarrier: Membarrier::register()?,
            shared,
            _types: PhantomData,
        })
    }

    /// The same machine with its CPUs on `nodes` nodes: each is on the node of its number modulo `nodes`.
    #[must_use]
    pub fn with_nodes(self, nodes: u32) -> Self {
        self.shared.nodes.store(nodes.max(1), Relaxed);
        self
    }

    /// The same machine with its CPUs on nodes of `cpus_of_node`, one node after the other.
    #[must_use]
    pub fn with_cpus_of_node(self, cpus_of_node: u32) -> Self {
        self.shared.cpus_of_node.store(cpus_of_node, Relaxed);
        self
    }

    /// The same machine without record windows.
    #[must_use]
    pub fn without_record_windows(self) -> Self {
        self.shared.has_record_windows.store(false, Relaxed);
        self
    }

    /// Has `listener` hear every event that the library reports, on the thread that reports it.
    ///
    /// # Panics
    /// The second time.
    pub fn listen(&self, listener: impl Fn(&'static str, u64) + Send + Sync + 'static) {
        assert!(self.shared.listener.set(Box::new(listener)).is_ok(), "the machine has a listener");
    }

    /// The memory.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Copies of translations, which flushes name.
    pub fn copies(&self) -> &Copies {
        &self.shared.copies
    }

    /// The frames that were claimed.
    pub(super) fn claims(&self) -> &Claims {
        &self.shared.claims
    }

    /// Makes all memory claimable again, for another system. What was made of it borrowed the machine, and so
    /// is gone, but for handlers, which are removed.
    pub fn unclaim_memory(&mut self) {
        self.bus.set_interrupt_handler(None);
        self.shared.helpers.set_program::<C>(None);
        // SAFETY: what the library has made of the memory borrowed the machine, which is had exclusively, and
        // no handler is set any more.
        unsafe { self.arena.dissolve_record_windows() };
        self.shared.claims.lock().clear();
        self.shared.copies.clear();
    }

    /// What the CPUs share.
    pub fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    /// Has the calling thread run on `cpu` until the result is dropped; waits while another thread does.
    pub fn enter(&self, cpu: CpuId) -> Entered {
        Entered::on(&self.bus, cpu)
    }

    /// Starts a thread for each CPU that helps there until the machine is dropped; `at_start` is the first
    /// that it does. A helper runs on its CPU only while a program is installed.
    pub fn start_helpers(
        &self,
        cpus: impl IntoIterator<Item = CpuId>,
        at_start: impl Fn(CpuId) + Clone + Send + 'static,
    ) {
        cpus.into_iter().for_each(|cpu| self.shared.helpers.start(&self.bus, cpu, at_start.clone()));
    }

    /// Has this thread do what a helper does: run the program, until that returns. At once where none is
    /// installed.
    pub fn help(&self) {
        self.shared.helpers.help();
    }

    /// The violations that the TLBs have noticed so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.shared.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The part of the machine that belongs to the CPU of this thread.
    #[inline]
    pub(super) fn mmu(&self) -> &Mmu {
        let CpuBinding { machine, cpu } = current::binding();
        assert!(machine == self.bus.id(), "this thread does not run on this machine");
        &self.cpus[cpu.index()]
    }

    /// Calls `f` with root and TLB of this CPU.
    ///
    /// # Panics
    /// Where `f` comes back here on this CPU.
    #[inline(always)]
    pub(super) fn with_mmu<R>(&self, f: impl FnOnce(Option<Pfn>, &mut Tlb) -> R) -> R {
        let mmu = self.mmu();
        let _borrow = Borrow::of(&mmu.borrowed);
        // SAFETY: `mmu` has found that this thread runs on the CPU; a CPU runs one thread at a time, and
        // keeps it until it leaves, so no other thread has the TLB. This one has not borrowed it already,
        // which `_borrow` has checked.
        f(mmu.root.get(), unsafe { &mut *mmu.tlb.get() })
    }

    /// Calls `f` with the TLB of this CPU, as [`with_mmu`](Self::with_mmu) does.
    #[inline]
    pub(super) fn with_tlb<R>(&self, f: impl FnOnce(&mut Tlb) -> R) -> R {
        self.with_mmu(|_, tlb| f(tlb))
    }

    #[cold]
    pub(super) fn report(&self, violation: Violation) {
        self.shared.violations.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    /// Binds a handler, or a program, to this machine.
    fn bind(&self, handler: Callback<Self>) -> BoundHandler {
        let machine = Self {
            _owner: None,
            arena: self.arena.clone(),
            bus: self.bus.clone(),
            cpus: self.cpus.clone(),
            membarrier: self.membarrier,
            shared: self.shared.clone(),
            _types: PhantomData,
        };
        // SAFETY: the caller that set the callback promised that it may be called with its data, on any CPU,
        // until another is set or the machine is dropped: then this closure has been removed, and none runs.
        Arc::new(move || unsafe { (handler.call)(&machine, handler.data) })
    }
}

// SAFETY: the promises in order. 1: the window is the arena, which lives as long as the machine, addressed by
// a constant offset. 2: `table` is the window. 3: the walker is the only filler of TLBs and keeps nothing
// elsewhere; the flush methods drop ranges in every set. 4: a raised line is handled in `relax`, at user
// accesses and when interrupts come on; a vacant CPU handles them when a thread enters it, before anything
// else. 5: membarrier, or a flavour whose CPUs run one at a time. 6: each block is checked to lie in the
// arena, and the caller names frames that are its own. 7: a helper inside a program holds a reference to it,
// and is waited for. 8: the arena's regions are for the library; claims are kept under a lock, and dropped
// only by `unclaim_memory`, which has the machine exclusively and removes the handlers. 9: the walker begins
// at the root that is told. 10: a record window is a reservation of its own, to which the frames' memory is
// moved; it is given up by `unclaim_memory` only, or with the machine.
unsafe impl<C: Flavour, F: Format> Machine for SoftMachine<C, F> {
    type Cpu = C;
    type Format = F;

    fn nr_cpus(&self) -> u32 {
        self.bus.nr_cpus()
    }

    fn node_of(&self, cpu: CpuId) -> NodeId {
        match self.shared.cpus_of_node.load(Relaxed) {
            0 => NodeId(cpu.0 % self.shared.nodes.load(Relaxed)),
            cpus => NodeId(cpu.0 / cpus),
        }
    }

    /// Nodes lie in a row.
    fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        10 + 10 * from.0.abs_diff(to.0)
    }

    #[inline]
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        self.arena.window(at)
    }

    #[inline]
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        self.arena.phys_of(at)
    }

    #[inline]
    unsafe fn table(&self, pfn: Pfn) -> &TablePage {
        self.table_page(pfn)
    }

    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        self.shared.claims.claim(self.arena.regions(), frames)
    }

    unsafe fn zero(&self, pfn: Pfn, order: Order) {
        let block = self.block(pfn.addr(), order.bytes(), AccessKind::Write);
        // SAFETY: the block lies in the arena and its frames are the caller's.
        unsafe { block.write_bytes(0, order.bytes()) };
    }

    unsafe fn zero_nontemporal(&self, at: NonNull<u8>, len_bytes: usize) {
        if C::OBSERVED {
            C::access(at.addr().get(), len_bytes, AccessKind::Write);
        }
        // SAFETY: the bytes lie in the arena, or in a record window, and are the caller's, so no other code
        // reads or writes them meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len_bytes) };
        stream::zero(bytes, stream::Width::fastest());
    }

    const RECORD_WINDOW_ALIGN: usize = record_window::ALIGN;

    fn reserve_record_window(&self, len_bytes: usize) -> Option<NonNull<u8>> {
        let has_windows = self.shared.has_record_windows.load(Relaxed);
        has_windows.then(|| self.arena.reserve_record_window(len_bytes)).flatten()
    }

    /// The host has tables of its own.
    unsafe fn map_record_window(
        &self,
        at: NonNull<u8>,
        frames: PfnRange,
        _take_frame: &mut dyn FnMut() -> Option<Pfn>,
    ) -> bool {
        // SAFETY: the frames are the caller's, and it has not used that part of the window.
        unsafe { self.arena.map_record_window(at, frames) }
    }

    unsafe fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        let from = self.block(from.addr(), order.bytes(), AccessKind::Read);
        let to = self.block(to.addr(), order.bytes(), AccessKind::Write);
        // SAFETY: both blocks lie in the arena, and the frames copied to are the caller's.
        unsafe { device::copy(from, to, order.bytes()) };
    }

    unsafe fn copy_out(&self, from: PhysAddr, to: &mut [u8]) {
        let block = self.block(from, to.len(), AccessKind::Read);
        // SAFETY: the block lies in the arena.
        unsafe { device::copy_out(block, to) };
    }

    unsafe fn copy_in(&self, from: &[u8], to: PhysAddr) {
        let block = self.block(to, from.len(), AccessKind::Write);
        // SAFETY: the block lies in the arena, and no Rust object is there, as the caller says; `from` is
        // borrowed.
        unsafe { device::copy(NonNull::from(from).cast(), block, from.len()) };
    }

    fn load_root(&self, root: Option<RootTable>) {
        self.mmu().root.set(root.map(RootTable::pfn));
        self.flush_all();
    }

    fn loaded_root(&self) -> Option<Pfn> {
        self.mmu().root.get()
    }

    fn flush_range(&self, range: VpnRange) {
        self.with_tlb(|tlb| tlb.flush_range(range));
    }

    fn flush_all(&self) {
        self.with_tlb(Tlb::flush_all);
    }

    #[inline]
    fn note_flush(&self, space: u64, flush: FlushRange) {
        self.shared.copies.drop_told(space, flush);
    }

    unsafe fn set_interrupt_handler(&self, handler: Option<Callback<Self>>) -> bool {
        self.bus.set_interrupt_handler(handler.map(|handler| self.bind(handler)))
    }

    fn interrupt(&self, targets: &CpuMask) {
        for cpu in targets.iter() {
            self.bus.line(cpu).raise(INTERRUPT);
            C::raised(cpu);
        }
    }

    fn barrier_all(&self) {
        C::barrier_all(self.membarrier);
    }

    fn event(&self, name: &'static str, value: u64) {
        if let Some(listener) = self.shared.listener.get() {
            listener(name, value);
        }
    }

    unsafe fn set_helper_handler(&self, help: Option<Callback<Self>>) -> bool {
        self.shared.helpers.set_program::<C>(help.map(|help| self.bind(help)))
    }
}

impl<C: Flavour, F: Format> fmt::Debug for SoftMachine<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftMachine")
            .field("format", &F::NAME)
            .field("nr_cpus", &self.nr_cpus())
            .field("regions", &self.arena.regions())
            .finish_non_exhaustive()
    }
}
