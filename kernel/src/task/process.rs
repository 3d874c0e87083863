//! The program in ring 3: loaded, started and ended; its exit code and the frames that it leaves behind.

use crate::arch::apic::{self, Vector};
use crate::arch::spaces::{self, OwnedSpace};
use crate::arch::thread::{self, MAX_THREADS, Thread};
use crate::arch::trap::Frame;
use crate::arch::{Core, MACHINE, percpu, user};
use crate::memory::{self, tables};
use crate::task::sched;
use core::sync::atomic::{AtomicU32, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::space::{AddressSpace, Counter, Layout, MapRequest, Path, Place, Sharing};
use interleaf::table::format::X86_64;
use interleaf::tlb::ShootdownStats;
use interleaf::units::{CpuId, PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_kernel::core::elf::{Program, Segment};
use interleaf_kernel::core::options::Options;
use interleaf_kernel::core::stack::StackImage;

/// Exit codes of programs that never ran, that leaked, and that a signal ended: 128 + its number, modulo 64
/// as any.
const CANNOT_RUN: u8 = 0x3f;
const LEAKED: u8 = 0x3e;

/// Bytes of the first thread's stack.
const STACK_BYTES: u64 = 8 << 20;
/// Set in [`Process::ending`] beside the code.
const ENDING: u32 = 0x100;

/// The program. There is one at a time.
pub struct Process {
    /// 0, or the code that the program ends with. Set once, by the first that ends it.
    ending: AtomicU32,
    /// Threads that live. The boot thread sleeps on it.
    alive: AtomicU32,
    /// Which threads are the program's, one flag each.
    members: [AtomicU32; MAX_THREADS],
}

/// The program.
pub static PROCESS: Process = Process {
    ending: AtomicU32::new(0),
    alive: AtomicU32::new(0),
    members: [const { AtomicU32::new(0) }; MAX_THREADS],
};

impl Process {
    /// Whether the program ends.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Acquire) != 0
    }

    /// Counts one more thread, before it starts.
    pub fn add_thread(&self, thread: &Thread) {
        self.alive.fetch_add(1, AcqRel);
        self.members[thread.index()].store(1, Release);
    }

    /// Ends the program: every thread leaves as soon as it notices, asleep, running or on its way to ring 3.
    pub fn end(&self, code: u32) {
        if self.ending.compare_exchange(0, ENDING | code & 0xff, AcqRel, Acquire).is_err() {
            return;
        }
        for thread in Thread::all().iter().filter(|thread| self.members[thread.index()].load(Acquire) == 1) {
            thread.exit_pending.store(1, Release);
            sched::wake_thread(thread);
        }
        let others = (0..MACHINE.nr_cpus()).map(CpuId).filter(|&cpu| cpu != Core::id());
        others.for_each(|cpu| apic::send(percpu::of(cpu).apic_id(), Vector::RESCHED));
    }

    /// Ends the running thread; the last one wakes the thread that waits for the program.
    pub fn leave(&self) -> ! {
        let thread = percpu::thread();
        let clear = VirtAddr(thread.clear_tid.load(Relaxed));
        if clear.0 != 0 && user::write(clear, &[0; 4]).is_ok() {
            sched::wake(clear.0 as usize, 1);
        }
        self.members[thread.index()].store(0, Release);
        thread.exit_pending.store(0, Relaxed);
        spaces::leave_space(|| {
            self.alive.fetch_sub(1, AcqRel);
            Core::wake(&self.alive, 1);
        })
    }

    /// Waits for the last thread; the program's code.
    fn wait(&self) -> u8 {
        loop {
            let alive = self.alive.load(Acquire);
            if alive == 0 {
                return self.ending.load(Acquire) as u8;
            }
            Core::sleep(&self.alive, alive);
        }
    }
}

/// A thread of the program is about to go back to ring 3, or not.
pub fn before_return_to_user(_: &mut Frame) {
    if PROCESS.is_ending() {
        PROCESS.leave();
    }
}

/// The program raised an exception that is no page fault.
pub fn exception(frame: &mut Frame) {
    let signal = match frame.vector() {
        0 | 16 | 19 => 8,
        1 | 3 => 5,
        6 => 4,
        17 => 7,
        _ => 11,
    };
    kill(signal, frame, "an exception");
}

/// A signal ends the program.
pub fn kill(signal: u32, frame: &Frame, what: &str) -> ! {
    crate::println!("the program ends by signal {signal}: {what}\n{frame}");
    PROCESS.end(128 + signal);
    PROCESS.leave()
}

/// Runs a program and returns its exit code.
pub fn run(file: &[u8], options: &Options<'_>) -> u8 {
    let vm = memory::vm();
    let parsed = Program::parse(file, VirtAddr(user::USER_END));
    let Ok(program) = parsed.inspect_err(|why| crate::println!("the program cannot run: {why}")) else {
        return CANNOT_RUN;
    };
    let path = if options.locked { Path::Locked } else { Path::Speculative };
    let end = VirtAddr(program.end().0.next_multiple_of(PAGE_SIZE as u64));
    let layout = Layout { heap_start: end, ..Layout::linux::<X86_64>() };
    let before = frames_in_use();
    let Ok(space) = AddressSpace::new(vm, layout, path) else { return CANNOT_RUN };
    let code = spaces::with_owned(space, |space| run_in(space, &program, options));
    if is_conserved(before) { code } else { LEAKED }
}

/// Runs a program in its space, and waits for its end.
fn run_in(space: &OwnedSpace, program: &Program<'_>, options: &Options<'_>) -> u8 {
    let vm = memory::vm();
    let (before, flushes) = (vm.shootdown_stats(), vm.totals().get(Counter::TlbFlush));
    let loaded = spaces::in_space(space, || load(space, program, options));
    let Some(code) = loaded.and_then(|frame| run_thread(space, &frame)) else { return CANNOT_RUN };
    let flushes = vm.totals().get(Counter::TlbFlush) - flushes;
    let ShootdownStats { sent, lazy_entered, lazy_left, .. } = vm.shootdown_stats().since(&before);
    crate::println!(
        "the program ended with {code}; CPUs were interrupted {sent} times in {flushes} flushes; \
         {lazy_entered} times one kept the root and ran something else, {lazy_left} times it left when asked"
    );
    code
}

/// Runs a thread of the program, which begins in ring 3 with these registers, and waits for the last one's
/// end; the program's code. `None` where there is no thread.
pub fn run_thread(space: &OwnedSpace, frame: &Frame) -> Option<u8> {
    let thread = sched::alloc_thread()?;
    PROCESS.add_thread(thread);
    thread.prepare_user_thread(frame, space, 0);
    sched::start(thread, u64::MAX);
    Some(PROCESS.wait())
}

/// Loads the program into its space, in which this thread runs. `None` if that fails, after a line with the
/// reason.
fn load(space: &OwnedSpace, program: &Program<'_>, options: &Options<'_>) -> Option<Frame> {
    let refuse = |why: &str| crate::println!("the program cannot be loaded: {why}");
    for segment in program.segments() {
        if let Err(why) = place(space, &segment) {
            refuse(why);
            return None;
        }
    }
    let top = VirtAddr(user::USER_END - 16 * PAGE_SIZE as u64);
    let writable = VmaFlags::READ | VmaFlags::WRITE;
    let mapped = map_fixed(space, VirtAddr(top.0 - STACK_BYTES), STACK_BYTES, writable);
    let Ok(image) = StackImage::new(program, options.argv(), top) else {
        refuse("its arguments do not fit");
        return None;
    };
    if mapped.is_err() || user::write(image.start_addr(), image.bytes()).is_err() {
        refuse("there is no memory for its stack");
        return None;
    }
    Some(Frame::at_start(program.entry, image.start_addr()))
}

/// Maps a segment, fills it, and gives it its rights. Segments that share a page: the later one's rights hold
/// for that page.
fn place(space: &OwnedSpace, segment: &Segment<'_>) -> Result<(), &'static str> {
    let page = PAGE_SIZE as u64;
    let start = VirtAddr(segment.at.0 & !(page - 1));
    let len = (segment.at.0 + segment.len_bytes).next_multiple_of(page) - start.0;
    map_fixed(space, start, len, VmaFlags::READ | VmaFlags::WRITE)
        .map_err(|_| "a segment cannot be mapped")?;
    user::write(segment.at, segment.bytes).map_err(|_| "there is no memory for a segment")?;
    let mut rights = VmaFlags::READ;
    rights.set(VmaFlags::WRITE, segment.flags & 2 != 0);
    rights.set(VmaFlags::EXECUTE, segment.flags & 1 != 0);
    space.protect(start, len, rights).map_err(|_| "a segment's rights cannot be set")
}

fn map_fixed(
    space: &OwnedSpace,
    at: VirtAddr,
    len_bytes: u64,
    flags: VmaFlags,
) -> Result<(), interleaf::space::Error> {
    let place = Place::FixedNoReplace(at);
    let request = MapRequest { place, flags, sharing: Sharing::Private, ..MapRequest::anonymous(len_bytes) };
    space.map(&request).map(drop)
}

/// Frames in use by others than the kernel itself, after the caches of all CPUs were drained.
pub fn frames_in_use() -> u64 {
    let vm = memory::vm();
    let trim: &(dyn Fn() + Sync) = &|| vm.trim();
    let everywhere = [trim; percpu::MAX_CPUS];
    // Twice: an object freed by one CPU may hold the last reference to one in another CPU's cache.
    for _ in 0..2 {
        thread::run_all(&everywhere[..MACHINE.nr_cpus() as usize], true);
    }
    vm.memory().stats().allocated() - tables::taken_since_boot()
}

/// Recounts all frames, and compares those in use with `before`.
pub fn is_conserved(before: u64) -> bool {
    let after = frames_in_use();
    let census = memory::vm().memory().check();
    let conserved = census.is_ok() && after == before;
    if !conserved {
        crate::println!("frames are lost: {before} were handed out before, {after} now; {census:?}");
    }
    conserved
}
