//! A machine of ordinary memory for unit tests.

use super::barrier::barrier;
use super::copies::Copies;
use super::interrupt_lines::{InterruptLines, Program};
use super::mmu::Mmu;
use super::record_window::{self, RecordWindows};
use super::zeroed_memory::ZeroedMemory;
use super::{TestCpu, TestFormat, cpu};
use crate::machine::{Callback, Cpu, FlushRange, Format, Leaf, Machine, RootTable, TablePage};
#[cfg(loom)]
use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::*;
use crate::units::{
    Access, CpuId, CpuMask, NodeId, Order, PAGE_SIZE, Pfn, PfnRange, PhysAddr, Vpn, VpnRange,
};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::alloc::Layout;
use std::boxed::Box;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

/// Frames before the arena, so that frame 0 and the frames around it are foreign.
const FIRST: Pfn = Pfn(1 << 16);

/// An arena that stands for physical memory, and an [`Mmu`] for each CPU, which only
/// [`translate`](Self::translate) fills. The first frame is aligned to the largest block, like memory that
/// starts at a round address.
pub struct TestMachine<F: Format = TestFormat> {
    arena: ZeroedMemory,
    lines: Arc<InterruptLines>,
    /// Frames that were claimed.
    claims: Mutex<Vec<PfnRange>>,
    /// The helpers' handler.
    program: Mutex<Option<Program>>,
    /// CPUs on each node.
    pub cpus_per_node: AtomicU32,
    /// The CPUs of the first word whose helpers refuse to work.
    pub refused_helpers: AtomicU64,
    /// By CPU.
    mmus: Vec<Mmu>,
    /// Stands for the bytes of all frames that are stored and copied: loom knows no plain memory, and tries
    /// no other order of steps that it takes to be independent.
    #[cfg(loom)]
    pub(super) contents: AtomicUsize<TestCpu>,
    /// Its record windows.
    pub(super) record_windows: RecordWindows,
    /// Whether it has record windows.
    pub has_record_windows: AtomicBool,
    /// Hears the library's events, if set, on the CPU that reports them.
    pub listener: Mutex<Option<Listener>>,
    /// Translations that were copied from tables.
    pub(super) copies: Copies,
    /// Calls of `flush_range`.
    pub range_flushes: AtomicU64,
    /// Calls of `flush_all`, `load_root` included.
    pub full_flushes: AtomicU64,
    _format: PhantomData<fn() -> F>,
}

// SAFETY: the arena is memory that belongs to the machine until it is dropped; the library says which frame
// is used by which thread.
unsafe impl<F: Format> Sync for TestMachine<F> {}
// SAFETY: as above.
unsafe impl<F: Format> Send for TestMachine<F> {}

/// Hears an event: the CPU, the event's name and value.
pub type Listener = Box<dyn Fn(CpuId, &'static str, u64) + Send>;

impl TestMachine {
    /// A machine with one CPU and `nr_frames` zeroed frames.
    pub fn new(nr_frames: u64) -> Self {
        Self::with_cpus(nr_frames, 1)
    }

    /// A machine with `nr_cpus` CPUs and `nr_frames` zeroed frames.
    pub fn with_cpus(nr_frames: u64, nr_cpus: u32) -> Self {
        Self::of_format(nr_frames, nr_cpus)
    }

    /// The same, of static life: for tests whose threads outlive the scope that made it. Never freed.
    pub fn leaked(nr_frames: u64, nr_cpus: u32) -> &'static Self {
        Box::leak(Box::new(Self::with_cpus(nr_frames, nr_cpus)))
    }
}

impl<F: Format> TestMachine<F> {
    /// As [`TestMachine::with_cpus`], with tables of any format.
    pub fn of_format(nr_frames: u64, nr_cpus: u32) -> Self {
        let layout = Layout::from_size_align(nr_frames as usize * PAGE_SIZE, Order::MAX.bytes()).unwrap();
        let arena = ZeroedMemory::new(layout);
        forget(arena.start(), layout.size());
        Self {
            arena,
            lines: Arc::new(InterruptLines::new(nr_cpus)),
            claims: Mutex::new(Vec::new()),
            program: Mutex::new(None),
            cpus_per_node: AtomicU32::new(u32::MAX),
            refused_helpers: AtomicU64::new(0),
            mmus: (0..nr_cpus).map(|_| Mmu::new()).collect(),
            #[cfg(loom)]
            contents: AtomicUsize::new(0),
            record_windows: RecordWindows::default(),
            has_record_windows: AtomicBool::new(true),
            listener: Mutex::new(None),
            copies: Copies::default(),
            range_flushes: AtomicU64::new(0),
            full_flushes: AtomicU64::new(0),
            _format: PhantomData,
        }
    }

    /// All frames of the arena.
    pub fn frames(&self) -> PfnRange {
        PfnRange::new(FIRST, FIRST.add((self.arena.len_bytes() / PAGE_SIZE) as u64))
    }

    /// A root in this machine's memory, which nothing but its software MMU follows.
    pub fn root_table(&self, pfn: Pfn) -> RootTable {
        assert!(self.frames().contains(pfn), "{pfn:?} is no memory");
        // SAFETY: the MMU is a function that reads words of the arena, of any contents, and nothing else.
        unsafe { RootTable::new(pfn) }
    }

    /// Makes all memory claimable again. What was made of it borrowed the machine, and so is gone, but for
    /// handlers, which are removed.
    pub fn unclaim_memory(&mut self) {
        self.lines.set_handler(None);
        self.set_program(None);
        self.claims.get_mut().unwrap().clear();
        self.record_windows = RecordWindows::default();
    }

    /// Makes this thread CPU `id` of this machine: it handles interrupts in
    /// [`Cpu::relax`](crate::machine::Cpu::relax).
    pub fn run_as(&self, id: u32) {
        cpu::attach(id, self.lines.clone());
    }

    /// Runs the helpers' handler on this thread, until it returns. Returns at once if there is none.
    pub fn run_helper(&self) {
        let program = self.program.lock().unwrap().clone();
        if let Some(program) = program {
            program();
        }
    }

    /// Sets what helpers run, or removes it and waits for them. False where another one is set.
    fn set_program(&self, program: Option<Program>) -> bool {
        let mut slot = self.program.lock().unwrap();
        if slot.is_some() && program.is_some() {
            return false;
        }
        let before = core::mem::replace(&mut *slot, program);
        drop(slot);
        if let Some(before) = before {
            // A helper that runs it holds a reference. In a model all have been stopped, and are joined
            // before anything is freed.
            while cfg!(not(loom)) && Arc::strong_count(&before) > 1 {
                TestCpu::relax();
            }
        }
        true
    }

    /// A closure that calls `callback` with this machine.
    fn caller(&self, callback: Callback<Self>) -> Program {
        let machine = (&raw const *self).expose_provenance();
        Arc::new(move || {
            let machine = core::ptr::with_exposed_provenance::<Self>(machine);
            // SAFETY: the machine removes the handler before it is dropped, and does not move while one is
            // set.
            let machine = unsafe { &*machine };
            // SAFETY: the caller that set the callback guarantees that it may be called with its data on any
            // CPU.
            unsafe { (callback.call)(machine, callback.data) };
        })
    }

    /// The translation of an access by this CPU's MMU: from its cache, else by walking the tables of the
    /// loaded root. `None` is a page fault.
    pub fn translate(&self, page: Vpn, access: Access) -> Option<Leaf> {
        self.own_mmu()?.translate(self, page, access)
    }

    /// Whether the CPU has an interrupt to handle.
    pub fn is_interrupted(&self, cpu: u32) -> bool {
        self.lines.is_pending(cpu)
    }

    /// Whether the CPU has a translation of the page cached.
    pub fn has_cached(&self, cpu: u32, page: Vpn) -> bool {
        self.cached(cpu, page).is_some()
    }

    /// The translation of the page that the CPU has cached.
    pub fn cached(&self, cpu: u32, page: Vpn) -> Option<Leaf> {
        self.mmus[cpu as usize].cached(page)
    }

    /// The frame behind an address of a record window.
    pub fn frame_behind(&self, at: NonNull<u8>) -> Option<Pfn> {
        self.record_windows.frame_behind(at)
    }

    /// Bytes of the arena.
    pub(super) fn bytes_in_all(&self) -> usize {
        self.arena.len_bytes()
    }

    fn own_mmu(&self) -> Option<&Mmu> {
        self.mmus.get(TestCpu::id().index())
    }
}

impl<F: Format> Drop for TestMachine<F> {
    fn drop(&mut self) {
        self.lines.set_handler(None);
    }
}

// SAFETY: 1: the window is the arena, at one place until the machine is dropped; both directions are one
// addition. 2: `table` is the window. 3: a flush drops what the MMU has cached of the range, and a walk reads
// with acquire. 4: `interrupt` sets a flag that the CPU finds in its next wait loop, asleep too; a CPU that
// no thread runs finds it when one does. 5: see `barrier`. 6: the bounds are asserted. 7: a helper that runs
// the handler holds a reference to it, and is waited for. 8: the arena is for the library; claims are kept,
// and looked at under one lock. 9: the MMU walks from the root that it tells. 10: a record window is an
// allocation of its own, zero where nothing is mapped, freed when the machine is dropped or had exclusively.
unsafe impl<F: Format> Machine for TestMachine<F> {
    type Cpu = TestCpu;
    type Format = F;

    fn nr_cpus(&self) -> u32 {
        self.lines.nr_cpus()
    }

    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        let offset = at.0.wrapping_sub(FIRST.addr().0);
        assert!(offset < self.arena.len_bytes() as u64, "{at:?} is not in the arena");
        // SAFETY: the offset lies inside the arena.
        unsafe { self.arena.start().add(offset as usize) }
    }

    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        let offset = at.addr().get().wrapping_sub(self.arena.start().addr().get());
        assert!(offset < self.arena.len_bytes(), "{at:?} is not in the arena");
        PhysAddr(FIRST.addr().0 + offset as u64)
    }

    unsafe fn table(&self, pfn: Pfn) -> &TablePage {
        // SAFETY: the frame lies in the arena, aligned, for the life of `self`; a `TablePage` gives no access
        // by itself.
        unsafe { self.window(pfn.addr()).cast().as_ref() }
    }

    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        let mut claims = self.claims.lock().unwrap();
        let is_free =
            |range: &PfnRange| self.frames().covers(*range) && !claims.iter().any(|it| it.overlaps(*range));
        let all_free = frames.iter().all(is_free);
        if all_free {
            claims.extend_from_slice(frames);
        }
        all_free
    }

    unsafe fn zero(&self, pfn: Pfn, order: Order) {
        let at = self.bytes(pfn, 0, order.bytes());
        // SAFETY: the block lies in the arena.
        unsafe { at.write_bytes(0, order.bytes()) };
        forget(NonNull::new(at).unwrap(), order.bytes());
    }

    const RECORD_WINDOW_ALIGN: usize = record_window::ALIGN;

    fn reserve_record_window(&self, len_bytes: usize) -> Option<NonNull<u8>> {
        self.has_record_windows.load(Relaxed).then(|| self.record_windows.reserve(len_bytes))
    }

    unsafe fn map_record_window(
        &self,
        at: NonNull<u8>,
        frames: PfnRange,
        take_frame: &mut dyn FnMut() -> Option<Pfn>,
    ) -> bool {
        assert!(self.frames().covers(frames), "{frames:?} is no memory");
        // A table of the platform's.
        if take_frame().is_none() {
            return false;
        }
        self.record_windows.map(at, frames, self.window(frames.start.addr()));
        true
    }

    fn event(&self, name: &'static str, value: u64) {
        if let Some(listener) = &*self.listener.lock().unwrap() {
            listener(TestCpu::id(), name, value);
        }
    }

    /// An interrupt may come before the first byte, where interrupts are on.
    unsafe fn copy_out(&self, from: PhysAddr, to: &mut [u8]) {
        TestCpu::take_interrupt();
        self.note_contents();
        let page = Pfn(from.0 / PAGE_SIZE as u64);
        self.read(page, from.0 as usize % PAGE_SIZE, to);
    }

    unsafe fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        self.note_contents();
        let (from, to) = (self.bytes(from, 0, order.bytes()), self.bytes(to, 0, order.bytes()));
        // SAFETY: both blocks lie in the arena.
        unsafe { from.copy_to(to, order.bytes()) };
    }

    fn load_root(&self, root: Option<RootTable>) {
        if let Some(mmu) = self.own_mmu() {
            mmu.load(root.map(RootTable::pfn));
        }
        self.flush_all();
    }

    fn loaded_root(&self) -> Option<Pfn> {
        self.own_mmu()?.root()
    }

    fn flush_range(&self, range: VpnRange) {
        self.range_flushes.fetch_add(1, Relaxed);
        if let Some(mmu) = self.own_mmu() {
            mmu.flush(range);
        }
    }

    fn flush_all(&self) {
        self.full_flushes.fetch_add(1, Relaxed);
        if let Some(mmu) = self.own_mmu() {
            mmu.flush(VpnRange::new(Vpn(0), Vpn(u64::MAX)));
        }
    }

    fn note_flush(&self, space: u64, flush: FlushRange) {
        self.copies.drop_told(space, flush);
    }

    unsafe fn set_interrupt_handler(&self, handler: Option<Callback<Self>>) -> bool {
        self.lines.set_handler(handler.map(|callback| self.caller(callback)))
    }

    fn interrupt(&self, targets: &CpuMask) {
        for cpu in targets.iter() {
            self.lines.raise(cpu);
        }
        #[cfg(loom)]
        super::sleepers::wake_interrupted(targets);
    }

    fn barrier_all(&self) {
        barrier();
    }

    fn node_of(&self, cpu: CpuId) -> NodeId {
        NodeId(cpu.0 / self.cpus_per_node.load(Relaxed))
    }

    fn restrict_helpers(&self, helpers: &mut CpuMask) {
        helpers.words_mut()[0] &= !self.refused_helpers.load(Relaxed);
    }

    unsafe fn set_helper_handler(&self, handler: Option<Callback<Self>>) -> bool {
        self.set_program(handler.map(|callback| self.caller(callback)))
    }
}

impl<F: Format> fmt::Debug for TestMachine<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestMachine of {} frames, {} CPUs", self.frames().len(), self.nr_cpus())
    }
}

/// Tells loom's shadows that the memory is used anew.
fn forget(start: NonNull<u8>, bytes: usize) {
    #[cfg(loom)]
    crate::sync::forget(start.addr().get()..start.addr().get() + bytes);
    let _ = (start, bytes);
}

#[cfg(all(test, not(loom)))]
#[path = "tests/machine.rs"]
mod tests;
