//! The program that the machine is booted for: loaded, run as the first process, and recounted afterwards.

use crate::arch::spaces::{self, Space, SpaceHandle};
use crate::arch::trap::Frame;
use crate::arch::{MACHINE, percpu, thread, user};
use crate::memory::{self, tables};
use crate::task::process::Process;
use crate::task::signal::Action;
use crate::task::{family, khugepaged, sched};
use interleaf::machine::Machine;
use interleaf::space::{AddressSpace, Counter, Layout, MapRequest, Place, Sharing, Totals};
use interleaf::table::format::X86_64;
use interleaf::tlb::ShootdownStats;
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf::vma::{HugePolicy, VmaFlags};
use interleaf_kernel::core::options::Options;
use interleaf_kernel::core::stack::StackImage;
use interleaf_linux_abi::elf::{Program, Segment};
use interleaf_linux_abi::signal::SIGSEGV;

/// Why a program has no exit code of its own. A line on the console has said more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCode {
    /// It could not be loaded, or not be given a thread.
    NotLoaded,
    /// It has ended, and frames are lost.
    Leaked,
}

/// Bytes of the first thread's stack.
const STACK_BYTES: u64 = 8 << 20;
/// Runs a program and returns its exit code: 128 + the number of the signal where one has ended it.
///
/// # Errors
/// Where it has none.
pub fn run(file: &[u8], options: &Options<'_>) -> Result<u8, NoCode> {
    let vm = memory::vm();
    let parsed = Program::parse(file, VirtAddr(user::USER_END));
    let Ok(program) = parsed.inspect_err(|why| crate::println!("the program cannot run: {why}")) else {
        return Err(NoCode::NotLoaded);
    };
    let end = VirtAddr(program.end().0.next_multiple_of(PAGE_SIZE as u64));
    let layout = Layout { heap_start: end, ..Layout::linux::<X86_64>() };
    let before = frames_in_use();
    let space = AddressSpace::new(vm, layout, options.path).and_then(|space| memory::spaces().insert(space));
    let code = run_in(space.map_err(|_| NoCode::NotLoaded)?, &program, options);
    if is_conserved(before) { code.ok_or(NoCode::NotLoaded) } else { Err(NoCode::Leaked) }
}

/// Runs a program in its space, and waits for its end; its exit code. `None` where it cannot be started.
fn run_in(space: SpaceHandle, program: &Program<'_>, options: &Options<'_>) -> Option<u8> {
    let vm = memory::vm();
    let (before, flushes) = (vm.shootdown_stats(), vm.totals().get(Counter::TlbFlush));
    let loaded = spaces::in_space(&space, || load(&space, program, options));
    let thp_before = vm.totals();
    let FirstProcess { code, peak_pages } =
        loaded.and_then(|frame| run_first(space, &frame, Action::DEFAULT))?;
    let flushes = vm.totals().get(Counter::TlbFlush) - flushes;
    let ShootdownStats { sent, lazy_entered, lazy_left, .. } = vm.shootdown_stats().since(&before);
    crate::println!(
        "the program ended with {code}; CPUs were interrupted {sent} times in {flushes} flushes; \
         {lazy_entered} times one kept the root and ran something else, {lazy_left} times it left when asked"
    );
    tell_memory(peak_pages, &vm.totals().since(&thp_before));
    Some(code)
}

/// Prints how much memory a process of the program had at most, and what came of huge pages meanwhile.
fn tell_memory(peak_pages: u64, counted: &Totals) {
    let policy = match memory::vm().huge_policy() {
        HugePolicy::Never => "never",
        HugePolicy::Madvise => "madvise",
        HugePolicy::Always => "always",
    };
    let kib = peak_pages * PAGE_SIZE as u64 / 1024;
    crate::println!("resident at most {kib} KiB, with huge pages {policy}");
    let told = [
        Counter::ThpFaultAlloc,
        Counter::ThpFaultFallback,
        Counter::ThpZeroPageAlloc,
        Counter::ThpZeroPageAllocFailed,
        Counter::ThpCollapseAlloc,
        Counter::ThpSplitPmd,
        Counter::ThpSplitPage,
    ];
    for counter in told.into_iter().filter(|&counter| counted.get(counter) > 0) {
        crate::println!("{} {}", counter.name(), counted.get(counter));
    }
}

/// What is left of the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstProcess {
    /// Its exit code.
    pub code: u8,
    /// The most resident pages of it, and of any process that it, or one of those, has waited for.
    pub peak_pages: u64,
}

/// Runs the first process, whose first thread begins in ring 3 with these registers, and waits for its last
/// thread's end, and the end of all its descendants. `on_segfault` is what it does about SIGSEGV. `None`
/// where there is no thread.
pub fn run_first(space: SpaceHandle, frame: &Frame, on_segfault: Action) -> Option<FirstProcess> {
    let process = Process::reserve(None)?;
    process.actions().set(SIGSEGV, on_segfault);
    let Ok(thread) = sched::alloc_thread() else {
        process.cancel();
        return None;
    };
    process.set_space(space.id());
    process.start(thread);
    thread.prepare_user_thread(frame, space, 0);
    sched::start(thread, u64::MAX);
    process.wait_for_all();
    let code = process.status().code();
    family::end_all();
    Some(FirstProcess { code, peak_pages: process.peak_of_all() })
}

/// Loads the program into its space, in which this thread runs. `None` if that fails, after a line with the
/// reason.
fn load(space: &Space, program: &Program<'_>, options: &Options<'_>) -> Option<Frame> {
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

/// Maps a segment, fills it, and gives it its rights.
fn place(space: &Space, segment: &Segment<'_>) -> Result<(), &'static str> {
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
    space: &Space,
    at: VirtAddr,
    len_bytes: u64,
    flags: VmaFlags,
) -> Result<(), interleaf::space::Error> {
    let place = Place::FixedNoReplace(at);
    let request = MapRequest { place, flags, sharing: Sharing::Private, ..MapRequest::anonymous(len_bytes) };
    space.map(&request).map(drop)
}

/// Frames in use by others than the kernel itself, after the caches of all CPUs were drained. The table of
/// zeros, once it is there, stays.
pub fn frames_in_use() -> u64 {
    khugepaged::wait_until_nothing_is_held();
    let vm = memory::vm();
    let trim: &(dyn Fn() + Sync) = &|| vm.trim();
    let everywhere = [trim; percpu::MAX_CPUS];
    // Twice: an object freed by one CPU may hold the last reference to one in another CPU's cache.
    for _ in 0..2 {
        thread::run_all(&everywhere[..MACHINE.nr_cpus() as usize], true);
    }
    let kept = tables::taken_since_boot() + vm.memory().zero_pages().table_frames();
    vm.memory().stats().allocated() - kept
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
