//! Several CPUs: a platform on which two really run at once (`pair`), and what a system with several CPUs
//! does from its start to its end. Each function is a part that a kernel writes, too.
//!
//! ```text
//! cargo run --package interleaf --example cpus
//! ```

mod pair;

use interleaf::frame::RecordInit;
use interleaf::machine::conformance::{self, FRAMES, Harness, Rule, Verdict};
use interleaf::machine::{CacheType, Cpu, Machine};
use interleaf::space::{
    AddressSpace, Counter, Error, Fault, FaultError, Layout, MapBacking, MapRequest, MemlockLimit, Path,
    Sharing, Vm, VmOptions,
};
use interleaf::table::PfnMapFrames;
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PageSize, Pfn, PfnRange, Rights, VirtAddr};
use interleaf::vma::{HugePolicy, VmaFlags};
use interleaf::work::{Chunk, Job, WorkerPool};
use pair::{Core, TwoCpus, run_on};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use std::thread;

type Space<'v> = AddressSpace<'v, TwoCpus>;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn main() {
    let machine = pair::machine();
    run_on(0, || {
        the_platform_keeps_the_rules(machine);
        a_system_with_helpers(machine);
    });
}

/// The suite first, as a kernel would at boot, in frames that are in no use. A missing barrier shows by
/// chance: on a host that runs one CPU after the other the suite says that the two never overlapped.
fn the_platform_keeps_the_rules(machine: &TwoCpus) {
    let end = machine.kept_back().end;
    let frames = PfnRange::new(Pfn(end.0 - FRAMES), end);
    // SAFETY: nothing else uses the machine yet.
    let report = unsafe { conformance::run(machine, &Threads, frames) };
    println!("{report}");
    assert!(report.holds());
    let untested: Vec<_> = report.iter().filter(|(_, verdict)| *verdict == Verdict::Untested).collect();
    assert_eq!(untested, [(Rule::RecordWindow, Verdict::Untested)]);
}

/// From the claim of memory to the last frame. Helpers come first, as all memory may be initialised by them,
/// and go last: the system borrows the pool.
fn a_system_with_helpers(machine: &'static TwoCpus) {
    let mut memory = machine.boot_map().claim(machine).expect("it is free");
    let workers = WorkerPool::spawn(machine, &mut memory.early_allocator()).expect("memory for the pool");
    let options = VmOptions {
        records: RecordInit::Deferred,
        workers: Some(&workers),
        huge_pages: HugePolicy::Madvise,
        ..VmOptions::default()
    };
    let vm = Vm::start(memory, options).expect("60 MiB are enough");
    vm.memory()
        .deferred()
        .initialise(&workers, machine.nr_cpus(), &|| false, &|_| ())
        .expect("it is not stopped");
    jobs(&workers);
    large_ranges(&vm);
    // Before a CPU goes offline. The other helpers go on, until the pool is dropped, which stops and awaits
    // them.
    workers.dismiss(CpuId(1));
    assert!(!workers.has_helper_racy(CpuId(1)));
    two_cpus_in_one_space(machine, &vm);
    shared_memory(machine, &vm);
    pins(machine, &vm);
    huge_pages(machine, &vm);
    frames_of_a_device(machine, &vm);
    vm.trim();
    println!("{:?}", vm.memory().check().expect("frames add up"));
}

/// A job of the embedder's own: the caller works, and helpers where their CPUs have time.
fn jobs(workers: &WorkerPool<'_, TwoCpus>) {
    let slots: Vec<AtomicU64> = (0..1 << 14).map(|_| AtomicU64::new(0)).collect();
    let square = |chunk: &Chunk<'_>| {
        chunk.range().for_each(|slot| slots[slot as usize].store(slot * slot, Relaxed));
        Ok::<(), ()>(())
    };
    let spent = workers.run(&Job::new(0..slots.len() as u64, square).min_chunk(64)).expect("nothing fails");
    assert!((0..).zip(&slots).all(|(slot, square)| square.load(Relaxed) == slot * slot));
    println!("a job of {} slots, with {} helpers", slots.len(), spent.helpers);
}

/// Calls on large ranges use the pool by themselves.
fn large_ranges(vm: &Vm<'_, TwoCpus>) {
    let space = new_space(vm);
    let populated = MapRequest { populate: true, ..MapRequest::anonymous(16 * MIB) };
    let base = space.map(&populated).expect("there is memory");
    assert_eq!(space.inspect().resident().base_pages, 16 * MIB / (4 * KIB));
    space.unmap(base, 16 * MIB).expect("it is mapped");
}

/// CPU 1 runs the program while CPU 0 unmaps its memory. When munmap has returned, no CPU uses the old
/// translation: neither one that computes all the time, nor one whose only thread sleeps, which the idle
/// thread of the platform answers for.
fn two_cpus_in_one_space(machine: &TwoCpus, vm: &Vm<'_, TwoCpus>) {
    for sleeps in [false, true] {
        let space = new_space(vm);
        let base = space.map(&MapRequest::anonymous(MIB)).expect("room");
        let (is_there, is_gone) = (AtomicBool::new(false), AtomicU32::new(0));
        let program = || {
            let _running = space.activate(None);
            store(machine, &space, base, 7).expect("it may be written");
            is_there.store(true, Release);
            while is_gone.load(Acquire) == 0 {
                match sleeps {
                    true => Core::sleep(&is_gone, 0),
                    false => drop(store(machine, &space, base, 7)),
                }
            }
            assert_eq!(load(machine, &space, base), Err(FaultError::NotMapped));
        };
        thread::scope(|scope| {
            scope.spawn(|| run_on(1, program));
            while !is_there.load(Acquire) {
                thread::yield_now();
            }
            space.unmap(base, MIB).expect("it is mapped");
            is_gone.store(1, Release);
            Core::wake(&is_gone, 1);
        });
    }
    println!("{:?}", vm.shootdown_stats());
}

/// Two spaces that map the same memory. It ends with its last mapping, once no handle keeps it.
fn shared_memory(machine: &TwoCpus, vm: &Vm<'_, TwoCpus>) {
    let (one, other) = (new_space(vm), new_space(vm));
    let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(64 * KIB) };
    let here = one.map(&request).expect("room");
    let (object, first) = one.object_at(here).expect("it is shared memory");
    let there = other.map(&request.backed_by(object.at_page(first))).expect("room");
    drop(object);
    in_space(&one, || store(machine, &one, here, 5)).expect("it may be written");
    one.unmap(here, 64 * KIB).expect("it is mapped");
    assert_eq!(in_space(&other, || load(machine, &other, there)), Ok(5));
}

/// A device that writes to a program's page: the page keeps its frame as long as it is pinned, in the parent
/// of a fork too.
fn pins(machine: &TwoCpus, vm: &Vm<'_, TwoCpus>) {
    let (space, limit) = (new_space(vm), MemlockLimit::new(2));
    let base = space.map(&MapRequest::anonymous(64 * KIB)).expect("room");
    let pinned = space.pin_pages(base, Access::Write, &limit, [None, None]).expect("two pages are the limit");
    let more = space.pin_pages(base, Access::Write, &limit, [None]);
    assert!(matches!(more, Err(Error::NoMemory)), "the limit is used up");
    let child = space.fork().expect("memory for the child");
    let frame = pinned.frames().next().expect("two pages are pinned").pfn();
    // SAFETY: a byte of a frame that stays the page's while it is pinned; others access it atomically.
    unsafe { AtomicU8::from_ptr(machine.window(frame.addr()).as_ptr()) }.store(9, Relaxed);
    assert_eq!(in_space(&space, || load(machine, &space, base)), Ok(9));
    assert_eq!(in_space(&child, || load(machine, &child, base)), Ok(0));
    drop(pinned);
    assert_eq!(limit.locked_pages(), 0);
}

/// Transparent huge pages, where the policy and the mapping want them; and huge pages that are set aside.
fn huge_pages(machine: &TwoCpus, vm: &Vm<'_, TwoCpus>) {
    let space = new_space(vm);
    let mut request = MapRequest::anonymous(4 * MIB);
    request.flags |= VmaFlags::HUGE_PAGE; // madvise(MADV_HUGEPAGE) sets it too
    let base = space.map(&request).expect("room");
    in_space(&space, || store(machine, &space, VirtAddr(base.0 + 2 * MIB), 1)).expect("it may be written");
    assert_eq!(vm.totals().get(Counter::ThpFaultAlloc), 1);

    // A machine that has just started has free blocks; later there may be fewer than asked for.
    assert_eq!(vm.resize_hugetlb(PageSize::Huge, 1).total, 1);
    let set_aside = MapRequest::anonymous(2 * MIB);
    let at = space.map(&set_aside.backed_by(MapBacking::Hugetlb(PageSize::Huge))).expect("one is free");
    assert!(space.map(&set_aside.backed_by(MapBacking::Hugetlb(PageSize::Huge))).is_err(), "there is one");
    in_space(&space, || store(machine, &space, at, 1)).expect("it is set aside, so it is there");
    drop(space);
    vm.resize_hugetlb(PageSize::Huge, 0);
}

/// Registers of a device: frames that are not the library's (PFN mappings). The value that vouches for them
/// has rights, which no mapping and no mprotect exceeds: `USER` among them, or no program may use them. The
/// mapping is shared, since stores go to the frames themselves.
fn frames_of_a_device(machine: &TwoCpus, vm: &Vm<'_, TwoCpus>) {
    let space = new_space(vm);
    let first = machine.kept_back().start;
    let frames = PfnRange::new(first, first.add(PageSize::Huge.pages()));
    // SAFETY: memory that the platform keeps back and no Rust code uses: programs may read it as they like.
    let pfnmap = unsafe { PfnMapFrames::new(frames, Rights::READ | Rights::USER, CacheType::WriteBack) };
    let to_write = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(2 * MIB) };
    let refused =
        space.map(&to_write.backed_by(MapBacking::Pfn { frames: &pfnmap, first, largest: PageSize::Huge }));
    assert_eq!(refused, Err(Error::Access));
    let to_read = MapRequest { flags: VmaFlags::READ, ..to_write };
    let base = space
        .map(&to_read.backed_by(MapBacking::Pfn { frames: &pfnmap, first, largest: PageSize::Huge }))
        .expect("room");
    in_space(&space, || {
        assert_eq!(load(machine, &space, base), Ok(0));
        assert_eq!(store(machine, &space, base, 1), Err(FaultError::NotAllowed));
    });
    assert_eq!(space.protect(base, 2 * MIB, VmaFlags::READ | VmaFlags::WRITE), Err(Error::Access));
}

fn new_space<'v>(vm: &'v Vm<'v, TwoCpus>) -> Space<'v> {
    AddressSpace::new(vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a root table")
}

/// Calls `f` while this CPU translates through the space.
fn in_space<R>(space: &Space<'_>, f: impl FnOnce() -> R) -> R {
    let _running = space.activate(None);
    f()
}

/// Loads a byte as a program does: the CPU translates, and faults are the space's to resolve.
fn load(machine: &TwoCpus, space: &Space<'_>, at: VirtAddr) -> Result<u8, FaultError> {
    resolved(machine, space, at, Access::Read, |byte| byte.load(Relaxed))
}

/// Stores a byte.
fn store(machine: &TwoCpus, space: &Space<'_>, at: VirtAddr, byte: u8) -> Result<(), FaultError> {
    resolved(machine, space, at, Access::Write, |there| there.store(byte, Relaxed))
}

fn resolved<R>(
    machine: &TwoCpus,
    space: &Space<'_>,
    addr: VirtAddr,
    access: Access,
    with: impl Fn(&AtomicU8) -> R,
) -> Result<R, FaultError> {
    loop {
        // SAFETY: a byte that programs access; all of them do so atomically.
        let done = machine.access(addr, access, |at| with(unsafe { AtomicU8::from_ptr(at.as_ptr()) }));
        match done {
            Some(result) => return Ok(result),
            None => space.fault(Fault { addr, access })?,
        };
    }
}

/// Programs of the conformance suite are threads of the CPUs.
struct Threads;

impl Harness<TwoCpus> for Threads {
    fn run(&self, _: &TwoCpus, programs: &[&(dyn Fn() + Sync)]) {
        thread::scope(|scope| {
            for (cpu, program) in programs.iter().enumerate() {
                scope.spawn(move || run_on(cpu, program));
            }
        });
    }
    fn run_beside_helpers(&self, _: &TwoCpus, programs: &[(CpuId, &(dyn Fn() + Sync))]) -> bool {
        thread::scope(|scope| {
            programs
                .iter()
                .for_each(|&(cpu, program)| drop(scope.spawn(move || run_on(cpu.index(), program))));
        });
        true
    }
    /// A second is enough where the host has nothing else to do.
    fn patience_ns(&self) -> u64 {
        20_000_000_000
    }
    fn load(&self, machine: &TwoCpus, at: VirtAddr) -> Option<u64> {
        // SAFETY: eight bytes of the suite's memory.
        machine.access(at, Access::Read, |at| unsafe { at.cast::<u64>().as_ptr().read_unaligned() })
    }
}

#[test]
fn runs() {
    main();
}
