//! A machine that breaks one rule, and a harness that gives up waiting for it early.

use super::Tiny;
use super::conformance::{config, frames};
use crate::machine::host::Host;
use crate::machine::soft::*;
use crate::os::affinity;
use interleaf::machine::conformance::{self, Harness, Report, Rule};
use interleaf::machine::{Callback, Context, Cpu, Irq, Machine, Rank, RootTable, TablePage};
use interleaf::sync::RawSpinLock;
use interleaf::units::*;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, PoisonError};

/// Which rule the broken machine breaks, as its number; [`NONE`] keeps them all.
pub(super) static BREAKS: AtomicU64 = AtomicU64::new(NONE);
pub(super) const NONE: u64 = u64::MAX;
/// One broken machine at a time.
pub(super) static ONE: Mutex<()> = Mutex::new(());

/// The CPUs whose thread is in `sleep`.
static ASLEEP: AtomicU64 = AtomicU64::new(0);

fn breaks(rule: Rule) -> bool {
    BREAKS.load(Relaxed) == rule as u64
}

/// A CPU that breaks a rule.
pub(super) struct Bad<C>(PhantomData<C>);

// SAFETY: as `C`, but for the one rule that it breaks: in the suite, where nothing relies on it.
unsafe impl<C: Flavour> Cpu for Bad<C> {
    type CpuWords = C::CpuWords;

    const OBSERVED: bool = C::OBSERVED;
    const SEVERAL_MACHINES: bool = C::SEVERAL_MACHINES;

    #[track_caller]
    fn access(addr: usize, len: usize, kind: interleaf::machine::AccessKind) {
        C::access(addr, len, kind);
    }
    fn id() -> CpuId {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        match C::id() {
            CpuId(id) if breaks(Rule::IdBelowCount) => CpuId(id + 2),
            CpuId(id) if breaks(Rule::IdStays) => CpuId((id + CALLS.fetch_add(1, Relaxed)) % 2),
            id => id,
        }
    }
    fn machine() -> NonZeroU32 {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let call = if breaks(Rule::MachineStays) { CALLS.fetch_add(1, Relaxed) % 2 } else { 0 };
        C::machine().saturating_add(call)
    }
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        if breaks(Rule::ContextOfThread) { f(&Context::new()) } else { C::with_context(f) }
    }
    fn relax() {
        if breaks(Rule::RelaxHandles) || breaks(Rule::InterruptReaches) {
            std::thread::yield_now();
        } else {
            C::relax();
        }
    }
    fn sleep(word: &AtomicU32, expected: u32) {
        let me = 1 << C::id().0;
        ASLEEP.fetch_or(me, SeqCst);
        C::sleep(word, if breaks(Rule::SleepLooks) { word.load(SeqCst) } else { expected });
        ASLEEP.fetch_and(!me, SeqCst);
    }
    fn wake(word: &AtomicU32, count: u32) {
        if !breaks(Rule::WakeReaches) {
            C::wake(word, count);
        }
    }
    fn interrupts_off() -> Irq {
        match C::interrupts_off() {
            Irq(_) if breaks(Rule::InterruptsNest) => Irq(0),
            state if breaks(Rule::OffDefers) => {
                // SAFETY: the one just turned off.
                unsafe { C::interrupts_restore(state) };
                state
            }
            state => state,
        }
    }
    unsafe fn interrupts_restore(state: Irq) {
        if !breaks(Rule::OffDefers) {
            // SAFETY: the caller's promise is the same.
            unsafe { C::interrupts_restore(state) };
        }
    }
    fn preempt_off() {
        C::preempt_off();
    }
    unsafe fn preempt_on() {
        // SAFETY: the caller's promise is the same.
        unsafe { C::preempt_on() };
    }
    fn now_ns() -> u64 {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        if breaks(Rule::ClockForward) { 1000 - CALLS.fetch_add(1, Relaxed) % 1000 } else { C::now_ns() }
    }
}

impl<C: Flavour> Flavour for Bad<C> {
    fn boundary() {
        C::boundary();
    }
    fn raised(cpu: CpuId) {
        C::raised(cpu);
    }
}

/// A machine that breaks a rule.
struct Broken<C: Flavour> {
    inner: SoftMachine<Bad<C>, Tiny>,
    handler: Mutex<Option<Callback<Self>>>,
    program: Mutex<Option<Callback<Self>>>,
}

impl<C: Flavour> Broken<C> {
    fn new() -> Self {
        Self {
            inner: SoftMachine::new(&config()).unwrap(),
            handler: Mutex::new(None),
            program: Mutex::new(None),
        }
    }

    fn shift(rule: Rule) -> u64 {
        u64::from(breaks(rule))
    }
}

/// # Safety
/// `data` is the exposed address of a `Broken<C>` that has a handler installed.
unsafe fn relay<C: Flavour>(_: &SoftMachine<Bad<C>, Tiny>, data: usize) {
    // SAFETY: by this function's contract; the machine outlives its handler.
    let machine = unsafe { &*std::ptr::with_exposed_provenance::<Broken<C>>(data) };
    let handler = *machine.handler.lock().unwrap();
    if let Some(Callback { call, data }) = handler {
        // SAFETY: the suite's handler may be called with its data.
        unsafe { call(machine, data) };
    }
}

/// # Safety
/// As [`relay`].
unsafe fn relay_help<C: Flavour>(_: &SoftMachine<Bad<C>, Tiny>, data: usize) {
    // SAFETY: by this function's contract; the machine outlives its program.
    let machine = unsafe { &*std::ptr::with_exposed_provenance::<Broken<C>>(data) };
    let program = *machine.program.lock().unwrap();
    let lock = RawSpinLock::<C>::new();
    let _held = breaks(Rule::HelperRuns).then(|| lock.lock(Rank(3)));
    if let Some(Callback { call, data }) = program {
        // SAFETY: the suite's program may be called with its data.
        unsafe { call(machine, data) };
    }
}

// SAFETY: as the inner machine, but for the one rule that it breaks, in a way that touches no memory but the
// arena's.
unsafe impl<C: Flavour> Machine for Broken<C> {
    type Cpu = Bad<C>;
    type Format = Tiny;

    fn nr_cpus(&self) -> u32 {
        self.inner.nr_cpus()
    }
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        let twisted = breaks(Rule::WindowContiguous) && at.pfn() == frames().start.add(1);
        self.inner.window(PhysAddr(at.0 ^ if twisted { 1 } else { 0 }))
    }
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr(self.inner.phys_of(at).0 + Self::shift(Rule::WindowInverse))
    }
    unsafe fn table(&self, pfn: Pfn) -> &TablePage {
        // SAFETY: the caller's promise is the same; the machine checks the frame.
        unsafe { self.inner.table(Pfn(pfn.0 ^ Self::shift(Rule::TableIsWindow))) }
    }
    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        self.inner.claim_memory(frames) || breaks(Rule::ClaimedOnce)
    }
    unsafe fn zero(&self, pfn: Pfn, order: Order) {
        let more = breaks(Rule::ZeroExact) && order == Order::BASE;
        // SAFETY: the caller's promise is the same; the frame after is the suite's too.
        unsafe { self.inner.zero(pfn, if more { Order(1) } else { order }) };
    }
    unsafe fn zero_nontemporal(&self, at: NonNull<u8>, len_bytes: usize) {
        let more = if breaks(Rule::ZeroPast) { PAGE_SIZE } else { 0 };
        // SAFETY: the caller's promise is the same; the frame after is the suite's too.
        unsafe { self.inner.zero_nontemporal(at, len_bytes + more) };
    }
    const RECORD_WINDOW_ALIGN: usize = SoftMachine::<Bad<C>, Tiny>::RECORD_WINDOW_ALIGN;
    fn reserve_record_window(&self, len_bytes: usize) -> Option<NonNull<u8>> {
        self.inner.reserve_record_window(len_bytes)
    }
    unsafe fn map_record_window(
        &self,
        at: NonNull<u8>,
        frames: PfnRange,
        take_frame: &mut dyn FnMut() -> Option<Pfn>,
    ) -> bool {
        let start = Pfn(frames.start.0 - Self::shift(Rule::RecordWindow));
        // SAFETY: the caller's promise is the same; the frame before is the suite's too.
        unsafe { self.inner.map_record_window(at, PfnRange::new(start, start.add(frames.len())), take_frame) }
    }
    unsafe fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        let less = breaks(Rule::CopyExact) && order == Order(1);
        // SAFETY: the caller's promise is the same, for no more frames.
        unsafe { self.inner.copy(from, to, if less { Order(0) } else { order }) };
    }
    fn load_root(&self, root: Option<RootTable>) {
        match root {
            None if breaks(Rule::RootNone) => (),
            Some(root) if breaks(Rule::WalksTables) => {
                // SAFETY: it is broken on purpose: the frame after a root is a table too, of the wrong tree.
                self.inner.load_root(Some(unsafe { RootTable::new(root.pfn().add(1)) }));
            }
            Some(_) if breaks(Rule::RootSwitches) && self.inner.root().is_some() => (),
            root => self.inner.load_root(root),
        }
    }
    fn loaded_root(&self) -> Option<Pfn> {
        if breaks(Rule::RootTold) { Some(frames().start) } else { self.inner.loaded_root() }
    }
    fn flush_range(&self, range: VpnRange) {
        if breaks(Rule::FlushRange) {
            return self.inner.flush_range(VpnRange::new(range.start, range.start.add(1)));
        }
        let table = self.inner.with_tlb(|tlb| tlb.table_for(range.start));
        self.inner.flush_range(range);
        if let (true, Some((level, table))) = (breaks(Rule::FlushUpper), table) {
            let above = level.above().unwrap();
            self.inner.with_tlb(|tlb| tlb.insert_table(above, range.start, table));
        }
    }
    fn flush_all(&self) {
        if !breaks(Rule::FlushAll) {
            self.inner.flush_all();
        }
    }
    unsafe fn set_interrupt_handler(&self, handler: Option<Callback<Self>>) -> bool {
        if handler.is_none() && breaks(Rule::HandlerRemoved) {
            return true;
        }
        let mut slot = self.handler.lock().unwrap();
        if handler.is_some() && slot.is_some() {
            return breaks(Rule::HandlerOwned);
        }
        *slot = handler;
        drop(slot);
        let data = (&raw const *self).expose_provenance();
        let relayed = handler.map(|_| Callback { call: relay::<C>, data });
        // SAFETY: the machine stays in its place while a handler is set, and removes it at the end of the
        // test.
        unsafe { self.inner.set_interrupt_handler(relayed) }
    }
    fn interrupt(&self, targets: &CpuMask) {
        let none = CpuMask::from_words([0]);
        if breaks(Rule::InterruptWakes) {
            let awake = targets.words()[0] & !ASLEEP.load(SeqCst);
            return self.inner.interrupt(&CpuMask::from_words([awake]));
        }
        self.inner.interrupt(if breaks(Rule::InterruptSpares) { &none } else { targets });
        if breaks(Rule::InterruptSpares) {
            self.inner.interrupt(&CpuMask::from_words([0b11]));
        }
    }
    fn barrier_all(&self) {
        if !breaks(Rule::BarrierOrders) {
            self.inner.barrier_all();
        }
    }
    unsafe fn set_helper_handler(&self, help: Option<Callback<Self>>) -> bool {
        if breaks(Rule::HelperAwaited) && (help.is_none() || self.program.lock().unwrap().is_some()) {
            // It is never removed.
            return help.is_none();
        }
        let mut slot = self.program.lock().unwrap();
        if help.is_some() && slot.is_some() {
            return breaks(Rule::HandlerOwned);
        }
        *slot = help;
        drop(slot);
        let data = (&raw const *self).expose_provenance();
        let relayed = help.map(|_| Callback { call: relay_help::<C>, data });
        // SAFETY: as above.
        unsafe { self.inner.set_helper_handler(relayed) }
    }
}

/// Number of polls after which the suite gives up waiting for a machine that may never answer.
pub(super) static PATIENCE: AtomicU64 = AtomicU64::new(20_000);

/// Time that the threads of broken machines ran, and time that they were ready and the host had no CPU for
/// them.
pub(super) static RAN_NS: AtomicU64 = AtomicU64::new(0);
pub(super) static WAITED_NS: AtomicU64 = AtomicU64::new(0);

/// Both times of this thread, from the host.
fn ran_and_waited_ns() -> [u64; 2] {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = told.split_whitespace().map_while(|number| number.parse().ok());
    [(); 2].map(|()| numbers.next().unwrap_or(0))
}

/// Whether both CPUs are threads on one CPU of the host.
pub(super) static ON_ONE_HOST_CPU: AtomicBool = AtomicBool::new(false);

/// Gives up earlier than [`Threads`], since waits that never end are tested here.
struct Impatient;

impl<C: Flavour> Harness<Broken<C>> for Impatient {
    fn run(&self, machine: &Broken<C>, programs: &[&(dyn Fn() + Sync)]) {
        // Each on a host CPU of its own: a violation that needs two CPUs to run at once may otherwise take
        // long on a busy host.
        let mut host_cpus = affinity::allowed().unwrap_or_default();
        if ON_ONE_HOST_CPU.load(Relaxed) {
            host_cpus = vec![host_cpus[0]; programs.len()];
        }
        let pinned: Vec<_> = programs
            .iter()
            .enumerate()
            .map(|(cpu, program)| {
                let host_cpu = host_cpus.get(cpu).copied();
                move || {
                    let _pinned = host_cpu.and_then(|host_cpu| affinity::pin(host_cpu).ok());
                    program();
                    let [ran, waited] = ran_and_waited_ns();
                    RAN_NS.fetch_add(ran, Relaxed);
                    WAITED_NS.fetch_add(waited, Relaxed);
                }
            })
            .collect();
        let programs: Vec<_> = pinned.iter().map(|program| program as &(dyn Fn() + Sync)).collect();
        Threads.run(&machine.inner, &programs);
    }
    fn run_with_helper(&self, machine: &Broken<C>, program: &(dyn Fn() + Sync)) {
        run_with_helper(self, machine, &machine.inner, program);
    }
    fn gives_frames_up(&self) -> bool {
        true
    }
    fn load(&self, machine: &Broken<C>, at: VirtAddr) -> Option<u64> {
        Threads.load(&machine.inner, at)
    }
    fn patience(&self) -> u64 {
        // Only a machine that breaks a rule can leave a CPU waiting for ever: a sound one gets enough time,
        // however busy the host is.
        let sound = breaks(Rule::BarrierOrders) || BREAKS.load(Relaxed) == NONE;
        if sound { u64::MAX } else { PATIENCE.load(Relaxed) }
    }
    fn patience_ns(&self) -> u64 {
        20_000_000_000
    }
    fn rounds_ns(&self) -> u64 {
        if breaks(Rule::BarrierOrders) { 300_000_000 } else { 3_000_000 }
    }
}

pub(super) fn run_broken(rule: Option<Rule>) -> Report {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    BREAKS.store(rule.map_or(NONE, |rule| rule as u64), Relaxed);
    let machine = Broken::<Host>::new();
    // SAFETY: nothing else uses the machine.
    let report = unsafe { conformance::run(&machine, &Impatient, frames()) };
    // SAFETY: no function is set.
    let _removed = unsafe { machine.inner.set_interrupt_handler(None) };
    // SAFETY: no function is set.
    let _removed = unsafe { machine.inner.set_helper_handler(None) };
    BREAKS.store(NONE, Relaxed);
    report
}
