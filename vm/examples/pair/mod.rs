//! A platform of two CPUs in user space, which really run at once.
//!
//! A CPU is a number, a lock, an MMU in software, and an idle thread. Any number of host threads are threads
//! of a CPU. To run on it, in the words of the contract, is to hold its lock: from `preempt_off` to
//! `preempt_on`, with interrupts off, and during one access of a program.
//!
//! ```text
//!   thread of CPU 1    sleeps, computes, or is none              holds the lock
//!   interrupted        the idle thread takes the lock, answers   it answers, in `relax` or at the end
//! ```
//!
//! An idle CPU must answer: a flush waits for each CPU that has the space loaded, also where its thread
//! sleeps. Helpers are threads like others. The lock is granted in turn, so an expedited helper waits for one
//! section of each other thread at most: the defaults of `Cpu::expedite_helper` and `end_expedite` do.

use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::{Callback, Context, Cpu, Entry, Format, Irq, Leaf, Machine, RootTable};
use interleaf::table::format::X86_64;
use interleaf::units::{
    Access, CpuId, CpuMask, Level, NodeId, PAGE_SIZE, Pfn, PfnRange, PhysAddr, VirtAddr, Vpn, VpnRange,
};
use std::alloc::{Layout, alloc_zeroed};
use std::cell::Cell;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Condvar, LazyLock, Mutex, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

const CPUS: usize = 2;
/// Frames of the machine, which begin at a multiple of 4 MiB, so that there are huge pages.
const FRAMES: u64 = 16 << 10;
/// The last ones are not the library's: the first of these are a device's.
const KEPT_BACK: u64 = 1 << 10;

thread_local! {
    static CONTEXT: Context = const { Context::new() };
    /// The CPU that the thread is one of, if any.
    static ID: Cell<Option<usize>> = const { Cell::new(None) };
    /// How often the thread has taken the lock of its CPU.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static INTERRUPTS_OFF: Cell<bool> = const { Cell::new(false) };
}

/// What a CPU's threads share.
struct CpuState {
    /// The CPU's lock, granted in turn: the next ticket, and the one that holds it.
    tickets: AtomicU32,
    serving: AtomicU32,
    is_interrupted: AtomicBool,
    /// Where the idle thread waits for an interrupt.
    idle: (Mutex<()>, Condvar),
    mmu: Mutex<Mmu>,
}

/// A root, and what was translated through it since the last flush. Upper levels are not cached.
struct Mmu {
    root: Option<Pfn>,
    cached: Vec<(VpnRange, Leaf)>,
}

static STATES: [CpuState; CPUS] = [const {
    CpuState {
        tickets: AtomicU32::new(0),
        serving: AtomicU32::new(0),
        is_interrupted: AtomicBool::new(false),
        idle: (Mutex::new(()), Condvar::new()),
        mmu: Mutex::new(Mmu { root: None, cached: Vec::new() }),
    }
}; CPUS];

/// Where all threads sleep.
static SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// One of the two CPUs.
pub enum Core {}

impl Core {
    fn state() -> &'static CpuState {
        &STATES[ID.get().expect("this thread is one of no CPU")]
    }

    /// Takes the CPU's lock, or notes that it is taken once more.
    fn hold() {
        let depth = DEPTH.get();
        if depth == 0 {
            let state = Self::state();
            let ticket = state.tickets.fetch_add(1, Relaxed);
            while state.serving.load(Acquire) != ticket {
                thread::yield_now();
            }
        }
        DEPTH.set(depth.checked_add(1).expect("preemption is turned off too often"));
    }

    /// Ends one `hold`, and takes the interrupt that has come meanwhile.
    fn let_go() {
        if DEPTH.replace(DEPTH.get() - 1) == 1 {
            Self::state().serving.fetch_add(1, Release);
        }
        Self::take_interrupt();
    }

    fn take_interrupt() {
        let state = Self::state();
        if INTERRUPTS_OFF.get() || !state.is_interrupted.load(Relaxed) {
            return;
        }
        let irq = Self::interrupts_off();
        // The handler's lock is held while it runs, so that one that was removed runs no more.
        let handler = machine().handler.read().unwrap();
        if state.is_interrupted.swap(false, AcqRel)
            && let Some(Callback { call, data }) = *handler
        {
            // SAFETY: it is set, so it may be called with its data.
            unsafe { call(machine(), data) };
        }
        drop(handler);
        // SAFETY: the state just saved; the handler has returned.
        unsafe { Self::interrupts_restore(irq) };
    }
}

// SAFETY: 1, 8: a thread stays one of its CPU, of the only machine. 2: the lock; its release and acquisition
// order what was done before and after. A handler runs with the lock held too. 3: thread-local. 4: `relax`
// takes the interrupt. 5: `sleep` looks at the word under the lock that `wake` takes. 7: `take_interrupt`
// looks at the flag of the thread, and other threads of the CPU are kept out by the lock. `preempt_on` and
// `interrupts_restore` are unsafe, so each `let_go` has its `hold`.
unsafe impl Cpu for Core {
    type CpuWords = [u64; 1];
    const SEVERAL_MACHINES: bool = false;

    fn id() -> CpuId {
        CpuId(ID.get().expect("this thread is one of no CPU") as u32)
    }
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
    fn relax() {
        Self::take_interrupt();
        thread::yield_now();
    }
    fn sleep(word: &AtomicU32, expected: u32) {
        let guard = SLEEPERS.0.lock().unwrap();
        if word.load(SeqCst) == expected {
            drop(SLEEPERS.1.wait(guard).unwrap());
        }
    }
    fn wake(_: &AtomicU32, _: u32) {
        let _guard = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }
    fn interrupts_off() -> Irq {
        let was_off = INTERRUPTS_OFF.get();
        if !was_off {
            Self::hold();
            INTERRUPTS_OFF.set(true);
        }
        Irq(usize::from(was_off))
    }
    unsafe fn interrupts_restore(state: Irq) {
        if state.0 == 0 {
            INTERRUPTS_OFF.set(false);
            Self::let_go();
        }
    }
    fn preempt_off() {
        Self::hold();
    }
    unsafe fn preempt_on() {
        Self::let_go();
    }
    fn now_ns() -> u64 {
        START.elapsed().as_nanos() as u64
    }
}

/// The machine: a physical address is one of the host's.
pub struct TwoCpus {
    ram: PfnRange,
    claimed: Mutex<Vec<PfnRange>>,
    handler: RwLock<Option<Callback<Self>>>,
    helpers: Mutex<Vec<JoinHandle<()>>>,
}

/// The one machine, which never goes.
pub fn machine() -> &'static TwoCpus {
    static MACHINE: LazyLock<TwoCpus> = LazyLock::new(|| {
        let layout = Layout::from_size_align(FRAMES as usize * PAGE_SIZE, 4 << 20).expect("a layout");
        // SAFETY: the layout has a size.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("there is memory");
        let first = PhysAddr(at.as_ptr().expose_provenance() as u64).pfn();
        (0..CPUS).for_each(|cpu| drop(thread::spawn(move || run_on(cpu, answer_interrupts))));
        let ram = PfnRange::new(first, first.add(FRAMES));
        TwoCpus { ram, claimed: Mutex::default(), handler: RwLock::default(), helpers: Mutex::default() }
    });
    &MACHINE
}

/// Runs `program` on this thread, as one of the CPU's.
pub fn run_on(cpu: usize, program: impl FnOnce()) {
    assert!(cpu < CPUS && ID.replace(Some(cpu)).is_none(), "a thread is one of one CPU");
    program();
    ID.set(None);
}

/// The thread that answers a CPU's interrupts while no other thread of it does.
fn answer_interrupts() {
    let CpuState { idle: (lock, interrupted), is_interrupted, .. } = Core::state();
    loop {
        drop(interrupted.wait_while(lock.lock().unwrap(), |()| !is_interrupted.load(Relaxed)).unwrap());
        Core::take_interrupt();
    }
}

impl TwoCpus {
    /// The memory that firmware would report.
    pub fn boot_map(&self) -> BootMap {
        let kind = RegionKind::Usable(Init::Zeroed);
        let len_bytes = (FRAMES - KEPT_BACK) * PAGE_SIZE as u64;
        let region = Region { start: self.ram.start.addr(), len_bytes, kind, node: NodeId(0) };
        BootMap::new(&[region]).expect("one sound region")
    }

    /// Frames that are in no use of the library's.
    pub fn kept_back(&self) -> PfnRange {
        PfnRange::new(Pfn(self.ram.end.0 - KEPT_BACK), self.ram.end)
    }

    /// One access of a program on this CPU: no interrupt comes between the translation and the use. `None` is
    /// a page fault.
    pub fn access<R>(&self, at: VirtAddr, access: Access, with: impl FnOnce(NonNull<u8>) -> R) -> Option<R> {
        Core::hold();
        let offset = at.0 % PAGE_SIZE as u64;
        let frame = self.translate(at.vpn(), access);
        let result = frame.map(|pfn| with(self.window(PhysAddr(pfn.addr().0 + offset))));
        Core::let_go();
        result
    }

    fn translate(&self, page: Vpn, access: Access) -> Option<Pfn> {
        let mut mmu = Core::state().mmu.lock().unwrap();
        // A translation that refuses the access goes: the tables may allow it by now.
        let allows = |leaf: &Leaf| leaf.rights.contains(access.needs());
        mmu.cached.retain(|(pages, leaf)| !pages.contains(page) || allows(leaf));
        let known = mmu.cached.iter().position(|(pages, _)| pages.contains(page));
        if known.is_none() {
            let found = self.walk(mmu.root?, page).filter(|(_, leaf)| allows(leaf))?;
            mmu.cached.push(found);
        }
        let (pages, leaf) = mmu.cached[known.unwrap_or(mmu.cached.len() - 1)];
        Some(leaf.pfn.add(page.0 - pages.start.0))
    }

    /// The leaf that maps the page, as the tables say.
    fn walk(&self, root: Pfn, page: Vpn) -> Option<(VpnRange, Leaf)> {
        let (mut table, mut level) = (root, X86_64::ROOT);
        loop {
            // SAFETY: a table of the library's or the suite's, whose words all others access atomically too.
            let word = unsafe { AtomicU64::from_ptr(self.table(table).words[level.index(page)].get()) };
            match X86_64::decode(word.load(Acquire), level) {
                Entry::Table(below) if level != Level::Pte => (table, level) = (below, level.below()?),
                Entry::Leaf(leaf) => {
                    let start = Vpn(page.0 & !(level.entry_pages() - 1));
                    return Some((VpnRange::new(start, start.add(level.entry_pages())), leaf));
                }
                _ => return None,
            }
        }
    }
}

// SAFETY: 1, 2: the window is the identity, on memory that is never freed. 3: what an MMU has cached goes,
// and each walk reads the tables. 4: the idle thread, if no other. 5: the host's `membarrier`. 7: the one
// machine lives for good; a handler is removed under a lock that its calls hold, helpers are joined. 8:
// frames of the arena, each once. The defaults keep the others.
unsafe impl Machine for TwoCpus {
    type Cpu = Core;
    type Format = X86_64;

    fn nr_cpus(&self) -> u32 {
        CPUS as u32
    }
    fn window(&self, at: PhysAddr) -> NonNull<u8> {
        NonNull::new(with_exposed_provenance_mut(at.0 as usize)).expect("frame 0 is no memory")
    }
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr {
        PhysAddr(at.addr().get() as u64)
    }
    fn claim_memory(&self, frames: &[PfnRange]) -> bool {
        let mut claimed = self.claimed.lock().unwrap();
        let is_free = |it: &PfnRange| self.ram.covers(*it) && !claimed.iter().any(|one| one.overlaps(*it));
        let are_free = frames.iter().all(is_free);
        claimed.extend(frames.iter().filter(|_| are_free));
        are_free
    }
    fn load_root(&self, root: Option<RootTable>) {
        let mut mmu = Core::state().mmu.lock().unwrap();
        *mmu = Mmu { root: root.map(RootTable::pfn), cached: Vec::new() };
    }
    fn flush_range(&self, range: VpnRange) {
        Core::state().mmu.lock().unwrap().cached.retain(|(pages, _)| !pages.overlaps(range));
    }
    unsafe fn set_interrupt_handler(&self, handler: Option<Callback<Self>>) -> bool {
        let mut slot = self.handler.write().unwrap();
        let is_taken = handler.is_some() && slot.is_some();
        if !is_taken {
            *slot = handler;
        }
        !is_taken
    }
    fn interrupt(&self, targets: &CpuMask) {
        for state in targets.iter().map(|cpu| &STATES[cpu.index()]) {
            state.is_interrupted.swap(true, AcqRel);
            let _lock = state.idle.0.lock().unwrap();
            state.idle.1.notify_one();
        }
    }
    fn barrier_all(&self) {
        membarrier();
    }
    unsafe fn set_helper_handler(&self, handler: Option<Callback<Self>>) -> bool {
        let mut helpers = self.helpers.lock().unwrap();
        if handler.is_some() && !helpers.is_empty() {
            return false;
        }
        helpers.drain(..).for_each(|helper| helper.join().unwrap());
        let Some(Callback { call, data }) = handler else { return true };
        // SAFETY: by the caller's promise, until it is removed.
        let help = move || unsafe { call(machine(), data) };
        helpers.extend((0..CPUS).map(|cpu| thread::spawn(move || run_on(cpu, help))));
        true
    }
}

/// A full fence on every CPU of the host that runs a thread of this process: Linux's `membarrier`, on x86-64.
fn membarrier() {
    let call = |command: usize| {
        let mut result = 324usize;
        // SAFETY: the call touches no memory of the process; the kernel changes rcx and r11.
        unsafe {
            std::arch::asm!("syscall", inout("rax") result, in("rdi") command, in("rsi") 0, in("rdx") 0,
                out("rcx") _, out("r11") _)
        };
        result == 0
    };
    // 16 registers the process for 8.
    assert!(call(8) || call(16) && call(8), "no membarrier here");
}
