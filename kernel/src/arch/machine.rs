//! The platform: the library's `Machine` on real page tables.

use super::apic::Vector;
use super::cpu::PreemptOff;
use super::events::Events;
use super::percpu::{self, MAX_CPUS};
use super::space::{self, DIRECT_BYTES};
use super::{Core, Once, apic, helpers, registers, spaces};
use core::arch::asm;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*, fence};
use interleaf::frame::BootMap;
use interleaf::machine::{Callback, Cpu, Machine, RootTable, TablePage};
use interleaf::sync::wait_until;
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, CpuMask, Order, Pfn, PfnRange, PhysAddr, VpnRange};

/// This machine. There is one.
#[derive(Debug)]
pub struct Metal {
    /// CPUs that the machine has; set first of all.
    nr_cpus: AtomicU32,
    /// CPUs that have started. The releasing increment pairs with the acquiring load in `online`.
    online: AtomicU32,
    /// The handler's function, null for none, and its data. The function is written last and read first.
    handler: AtomicPtr<()>,
    handler_data: AtomicUsize,
    /// The handler is being exchanged.
    exchanging: AtomicBool,
    /// Memory for the library.
    free: Once<BootMap>,
    /// The library has it.
    is_claimed: AtomicBool,
    /// What the library reported last.
    events: Events,
}

/// The machine.
pub static MACHINE: Metal = Metal {
    nr_cpus: AtomicU32::new(1),
    online: AtomicU32::new(1),
    handler: AtomicPtr::new(ptr::null_mut()),
    handler_data: AtomicUsize::new(0),
    exchanging: AtomicBool::new(false),
    free: Once::new(),
    is_claimed: AtomicBool::new(false),
    events: Events::new(),
};

impl Metal {
    /// Says how many CPUs there are. At boot, once.
    pub fn set_nr_cpus(&self, nr: u32) {
        assert!((1..=MAX_CPUS as u32).contains(&nr), "{nr} CPUs: this kernel runs 1 to {MAX_CPUS}");
        self.nr_cpus.store(nr, Relaxed);
    }

    /// Says what memory the library may have.
    ///
    /// # Panics
    /// The second time.
    ///
    /// # Safety
    /// The usable regions are RAM that the window covers and that nothing else uses, now or later.
    pub(super) unsafe fn offer_memory(&self, map: BootMap) {
        self.free.set(map);
    }

    /// What the library reported last.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// CPUs that have started.
    pub fn online(&self) -> u32 {
        self.online.load(Acquire)
    }

    /// Counts this CPU as started.
    pub fn has_started(&self) {
        self.online.fetch_add(1, AcqRel);
    }

    /// Runs the handler: another CPU has asked for it.
    ///
    /// # Panics
    /// With interrupts on, or where this CPU says that it idles: `barrier_all` would pass it by.
    pub(super) fn call_handler(&self) {
        let is_awaited = registers::flags() & registers::INTERRUPTS_ON == 0;
        assert!(is_awaited && percpu::this().quiescence().is_some(), "a handler beside barriers");
        let call = self.handler.load(Acquire);
        if !call.is_null() {
            // SAFETY: only functions of this type are stored.
            let call: unsafe fn(&Metal, usize) = unsafe { core::mem::transmute(call) };
            let depth = percpu::preempt_depth();
            // SAFETY: `set_interrupt_handler` keeps the two together: the data was stored before the
            // function, and another function is not stored before a barrier that this CPU, as was just
            // checked, takes part in, and not before interrupts are on again: after this call.
            unsafe { call(self, self.handler_data.load(Relaxed)) };
            assert_eq!(percpu::preempt_depth(), depth, "a handler of interrupts has left preemption off");
        }
    }

    /// The handler that is installed, to be restored later. It does not change meanwhile.
    pub fn interrupt_handler(&self) -> Option<Callback<Self>> {
        let call = self.handler.load(Acquire);
        // SAFETY: only functions of this type are stored.
        let call = (!call.is_null())
            .then(|| unsafe { core::mem::transmute::<*mut (), unsafe fn(&Metal, usize)>(call) });
        call.map(|call| Callback { call, data: self.handler_data.load(Relaxed) })
    }

    fn others(&self) -> impl Iterator<Item = CpuId> {
        let me = Core::id();
        (0..self.online()).map(CpuId).filter(move |&cpu| cpu != me)
    }
}

/// Zeroes so many words.
///
/// # Safety
/// They lie in the window, in RAM, and are the caller's.
unsafe fn zero_words(from: NonNull<u8>, words: usize) {
    // SAFETY: the window shows RAM, and the words are the caller's.
    unsafe {
        asm!("rep stosq", inout("rcx") words => _, inout("rdi") from.as_ptr() => _, in("rax") 0u64,
             options(nostack, preserves_flags));
    }
}

// SAFETY: by the contract's numbers. 1 and 2: the window is the direct map, one addition either way, and RAM
// is mapped there for good, before the library is given any. 3: `invlpg` drops the page's translations and
// all upper levels, loading CR3 drops everything, as no entry is global; both order earlier stores before
// later walks. 4: interrupts between CPUs, taken as soon as interrupts are on. 5: see `barrier_all`. 6: the
// lengths are those asked for. 7: see `helpers`. 8: only memory that was offered, by the contract of
// `offer_memory`, and once. 9: CR3. 10: there is no record window.
unsafe impl Machine for Metal {
    type Cpu = Core;
    type Format = X86_64;

    #[inline]
    fn nr_cpus(&self) -> u32 {
        self.nr_cpus.load(Relaxed)
    }

    #[inline(always)]
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        debug_assert!(at.0 < DIRECT_BYTES, "{at:?} has no window");
        space::window(at)
    }

    #[inline(always)]
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr((at.as_ptr().expose_provenance() & (DIRECT_BYTES as usize - 1)) as u64)
    }

    #[inline(always)]
    unsafe fn table(&self, pfn: Pfn) -> &TablePage {
        // SAFETY: by the caller's promise a frame of RAM, seen for good, aligned.
        unsafe { self.window(pfn.addr()).cast().as_ref() }
    }

    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        let Some(free) = self.free.try_get() else { return false };
        let is_free = |range| free.usable().any(|(region, _)| region.frames().covers(range));
        frames.iter().all(|&range| is_free(range)) && !self.is_claimed.swap(true, Relaxed)
    }

    unsafe fn zero(&self, pfn: Pfn, order: Order) {
        // SAFETY: the caller's promise is the same.
        unsafe { zero_words(self.window(pfn.addr()), order.bytes() / 8) };
    }

    unsafe fn zero_nontemporal(&self, at: NonNull<u8>, len_bytes: usize) {
        // SAFETY: the caller's promise is the same.
        unsafe { zero_words(at, len_bytes / 8) };
    }

    unsafe fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        let (from, to) = (self.window(from.addr()).as_ptr(), self.window(to.addr()).as_ptr());
        // SAFETY: both blocks are memory, and the one copied to is the caller's. The compiler knows nothing
        // of what the instruction reads, so it races with no access of Rust's.
        unsafe {
            asm!("rep movsb", inout("rcx") order.bytes() => _, inout("rsi") from => _, inout("rdi") to => _,
                 options(nostack, preserves_flags));
        }
    }

    unsafe fn copy_out(&self, from: PhysAddr, to: &mut [u8]) {
        // SAFETY: the bytes are memory, as the caller says, which the window covers, and `to` is exclusive.
        // As in `copy`.
        unsafe {
            asm!("rep movsb", inout("rcx") to.len() => _, inout("rsi") self.window(from).as_ptr() => _,
                 inout("rdi") to.as_mut_ptr() => _, options(nostack, preserves_flags));
        }
    }

    unsafe fn copy_in(&self, from: &[u8], to: PhysAddr) {
        // SAFETY: as in `copy_out`, the other way round.
        unsafe {
            asm!("rep movsb", inout("rcx") from.len() => _, inout("rsi") from.as_ptr() => _,
                 inout("rdi") self.window(to).as_ptr() => _, options(nostack, preserves_flags));
        }
    }

    fn load_root(&self, root: Option<RootTable>) {
        if root.is_none() {
            spaces::root_is_gone();
        }
        // SAFETY: the contract of `RootTable::new` is that of `load`.
        unsafe { space::load(root.map(RootTable::pfn)) };
    }

    fn loaded_root(&self) -> Option<Pfn> {
        Some(registers::root())
    }

    fn flush_range(&self, range: VpnRange) {
        let pages = (range.start.0..range.end.0).map(|page| interleaf::units::Vpn(page).addr());
        pages.for_each(registers::forget);
    }

    fn flush_all(&self) {
        // SAFETY: the root that is loaded.
        unsafe { registers::set_root(registers::root()) };
    }

    fn event(&self, name: &'static str, value: u64) {
        self.events.note(name, value);
    }

    unsafe fn set_interrupt_handler(&self, handler: Option<Callback<Self>>) -> bool {
        assert!(!self.exchanging.swap(true, Acquire), "two handlers of interrupts at once");
        if handler.is_some() && !self.handler.load(Relaxed).is_null() {
            self.exchanging.store(false, Release);
            return false;
        }
        self.handler.store(ptr::null_mut(), Release);
        // After this every CPU has left the old handler.
        self.barrier_all();
        if let Some(Callback { call, data }) = handler {
            self.handler_data.store(data, Relaxed);
            self.handler.store(call as *mut (), Release);
        }
        self.exchanging.store(false, Release);
        true
    }

    unsafe fn set_helper_handler(&self, help: Option<Callback<Self>>) -> bool {
        // SAFETY: the caller's promise is the same.
        unsafe { helpers::install(help) }
    }

    fn interrupt(&self, targets: &CpuMask) {
        targets.iter().for_each(|cpu| apic::send(percpu::of(cpu).apic_id(), Vector::HANDLER));
    }

    /// Interrupts every CPU that is not idle; the handler raises the CPU's count of quiescence by a
    /// read-modify-write, and so does a switch of threads. An idle CPU makes no accesses, and executes a
    /// fence when it begins and ends to idle. The caller waits with interrupts on: two CPUs may want a
    /// barrier at once.
    fn barrier_all(&self) {
        fence(SeqCst);
        let stay = PreemptOff::new();
        let before: [Option<u64>; MAX_CPUS] =
            core::array::from_fn(|cpu| percpu::of(CpuId(cpu as u32)).quiescence());
        let busy = |cpu: &CpuId| before[cpu.index()].is_some();
        let ask = |cpu: CpuId| apic::send(percpu::of(cpu).apic_id(), Vector::BARRIER);
        self.others().filter(busy).for_each(ask);
        for cpu in self.others().filter(busy) {
            wait_until::<Core>(|| percpu::of(cpu).quiescence() != before[cpu.index()]);
        }
        drop(stay);
        fence(SeqCst);
    }
}
