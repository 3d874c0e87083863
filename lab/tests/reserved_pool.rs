//! Memory of reserved huge pages: what each call answers, and what the pool has after it, on the host's Linux
//! and in the library.

use interleaf::frame::PoolCounts;
use interleaf::space::{AddressSpace, Fault, FaultError, Layout, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PageSize, VirtAddr};
use interleaf_lab::check::library::boot_map;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::os::child::{Child, HugePages, Step};
use interleaf_lab::os::{lacking, touch};
use interleaf_linux_abi::{Errno, MapFlags, Prot};
use std::fs::{read_to_string, write};
use std::io::Result;

const HUGE: u64 = 2 << 20;
const PAGE: u64 = 4096;
/// Where the sequences map, and what they may change.
const BASE: u64 = 0x2000_0000_0000;
const WINDOW: u64 = 64 * HUGE;
/// Huge pages of the pool.
const POOL: u64 = 4;
const NR: &str = "/proc/sys/vm/nr_hugepages";

/// A step of a sequence: of the first process, or of another one; or of who has them, and sizes the pool.
#[derive(Clone, Copy, Debug)]
enum Do {
    Step(Step),
    In(usize, Step),
    /// The first process forks another one, by number.
    Fork(usize, usize),
    End(usize),
    Resize(u64),
}

/// What a step answered, and what the pool has afterwards: total, free, reserved, surplus.
type Answer = (i64, [u64; 4]);

fn map(page: u64, pages: u64, more: MapFlags) -> Do {
    map_at(BASE + page * HUGE, pages * HUGE, MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::FIXED | more)
}

fn map_at(hint: u64, len: u64, flags: MapFlags) -> Do {
    let prot = (Prot::READ | Prot::WRITE).bits();
    Do::Step(Step::Map { hint, len, prot, flags: (flags | MapFlags::ANONYMOUS).bits() })
}

fn unmap(addr: u64, len: u64) -> Do {
    Do::Step(Step::Unmap { addr: BASE + addr, len })
}

fn protect(addr: u64, len: u64, prot: Prot) -> Do {
    Do::Step(Step::Protect { addr: BASE + addr, len, prot: prot.bits() })
}

fn advise(addr: u64, len: u64, advice: i32) -> Do {
    Do::Step(Step::Advise { addr: BASE + addr, len, advice })
}

fn load(page: u64) -> Do {
    Do::Step(Step::Read { addr: BASE + page * HUGE })
}

fn store(page: u64) -> Do {
    Do::Step(Step::Write { addr: BASE + page * HUGE, value: 7 })
}

/// A step of another process.
fn by(process: usize, one: Do) -> Do {
    match one {
        Do::Step(step) => Do::In(process, step),
        other => panic!("{other:?} is no step of a process"),
    }
}

/// Private memory that processes share by fork: who gets a copy, who writes in place, who loses a page.
fn fork_sequence() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        // A fork takes no page of the pool; the first store does, and the last owner writes in place.
        map(0, 2, none),
        store(0),
        store(1),
        Do::Fork(0, 1),
        by(1, load(0)),
        by(1, store(0)),
        store(0),
        store(1),
        by(1, load(1)),
        by(1, store(1)),
        load(0),
        Do::End(1),
        unmap(0, 2 * HUGE),
        // What is set aside and not touched is the parent's; a child has what is available.
        map(0, 3, none),
        store(0),
        Do::Fork(0, 1),
        by(1, load(1)),
        by(1, store(2)),
        by(1, store(0)),
        store(1),
        load(2),
        Do::End(1),
        unmap(0, 3 * HUGE),
        // A full pool: the child's store is a bus error, the parent's takes the page from all children.
        map(0, 3, none),
        store(0),
        store(1),
        store(2),
        map(8, 1, none),
        Do::Fork(0, 1),
        by(1, store(0)),
        by(1, load(0)),
        store(0),
        by(1, load(0)),
        by(1, store(0)),
        load(0),
        by(1, load(1)),
        by(1, store(1)),
        Do::Fork(1, 2),
        by(2, load(1)),
        by(2, load(0)),
        by(2, store(2)),
        store(1),
        by(1, load(1)),
        by(2, load(1)),
        by(2, store(1)),
        by(2, load(2)),
        // What the parent gives up, one child may copy, and the other writes in place.
        unmap(8 * HUGE, HUGE),
        unmap(2 * HUGE, HUGE),
        by(1, store(2)),
        by(2, store(2)),
        by(1, unmap(0, 3 * HUGE)),
        Do::End(2),
        by(1, map(0, 2, none)),
        by(1, store(0)),
        Do::End(1),
        unmap(0, 2 * HUGE),
        // Without a reserve the parent is as its children.
        map(0, 2, MapFlags::NORESERVE),
        store(0),
        map(8, 3, none),
        Do::Fork(0, 1),
        store(0),
        by(1, store(0)),
        load(0),
        by(1, load(0)),
        by(1, unmap(0, HUGE)),
        store(0),
        Do::End(1),
        // A child's own memory has a reserve, and its children none.
        unmap(0, 2 * HUGE),
        unmap(8 * HUGE, 3 * HUGE),
        Do::Fork(0, 1),
        by(1, map(4, 2, none)),
        by(1, store(4)),
        by(1, store(5)),
        map(8, 2, none),
        Do::Fork(1, 2),
        by(2, store(4)),
        by(1, store(4)),
        by(2, load(4)),
        by(2, load(5)),
        by(1, protect(5 * HUGE, HUGE, Prot::READ)),
        by(1, store(5)),
        by(1, protect(5 * HUGE, HUGE, Prot::READ | Prot::WRITE)),
        Do::End(2),
        by(1, store(5)),
        by(1, advise(4 * HUGE, 2 * HUGE, libc::MADV_DONTNEED)),
        by(1, load(4)),
        Do::End(1),
        unmap(8 * HUGE, 2 * HUGE),
    ]
}

fn map_shared(page: u64, pages: u64, more: MapFlags) -> Do {
    map_at(BASE + page * HUGE, pages * HUGE, MapFlags::SHARED | MapFlags::HUGETLB | MapFlags::FIXED | more)
}

/// Shared memory: an object has the pages, and keeps them until nothing of it is mapped.
fn shared_sequence() -> Vec<Do> {
    let none = MapFlags::empty();
    let mut steps = vec![
        map_shared(0, 3, none),
        store(1),
        load(2),
        // Nothing cuts a huge page.
        unmap(PAGE, HUGE),
        protect(0, PAGE, Prot::READ),
        protect(HUGE, HUGE, Prot::READ),
        store(1),
        load(1),
        protect(HUGE, HUGE, Prot::READ | Prot::WRITE),
        store(1),
        // Only entries are dropped.
        advise(0, 3 * HUGE, libc::MADV_DONTNEED),
        load(1),
        load(2),
    ];
    let advice = [
        libc::MADV_FREE,
        libc::MADV_DONTFORK,
        libc::MADV_DOFORK,
        libc::MADV_HUGEPAGE,
        libc::MADV_WIPEONFORK,
        libc::MADV_COLD,
        libc::MADV_POPULATE_READ,
    ];
    steps.extend(advice.map(|advice| advise(0, HUGE, advice)));
    steps.extend([
        // More than there is; beside private memory; what is mapped last has all of the object.
        map_shared(8, 2, none),
        map(8, 1, none),
        unmap(0, 2 * HUGE),
        store(8),
        unmap(2 * HUGE, HUGE),
        unmap(8 * HUGE, HUGE),
        // What is set aside stays with the object, whatever part of it is mapped.
        map_shared(0, 4, none),
        unmap(HUGE, 3 * HUGE),
        map(8, 1, none),
        store(0),
        unmap(0, HUGE),
        // Over itself, and over private memory. There is enough for both: until the new memory is mapped,
        // Linux counts what the old object has.
        map_shared(0, 2, none),
        store(0),
        map_shared(0, 2, none),
        store(1),
        map(1, 1, none),
        map_shared(1, 1, none),
        unmap(0, 4 * HUGE),
        // Without a reserve.
        map_shared(0, 5, MapFlags::NORESERVE),
        store(0),
        store(1),
        map(8, 1, none),
        store(2),
        store(3),
        load(4),
        advise(4 * HUGE, HUGE, libc::MADV_POPULATE_WRITE),
        advise(0, HUGE, libc::MADV_DONTNEED),
        load(4),
        load(0),
        store(8),
        unmap(0, 5 * HUGE),
        unmap(8 * HUGE, HUGE),
        // A pool that gets smaller.
        map_shared(0, 3, none),
        store(1),
        Do::Resize(1),
        unmap(0, 2 * HUGE),
        unmap(2 * HUGE, HUGE),
        Do::Resize(POOL),
    ]);
    steps
}

fn sequence() -> Vec<Do> {
    let none = MapFlags::empty();
    let base = MapFlags::PRIVATE | MapFlags::FIXED;
    let sized = |log2: u32| MapFlags::from_bits_retain(log2 << MapFlags::HUGE_SHIFT);
    let huge = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::FIXED;
    let mut steps = shared_sequence();
    steps.extend(fork_sequence());
    steps.extend([
        map(0, 3, none),
        map(8, 2, none),
        store(1),
        load(2),
        // Nothing cuts a huge page.
        unmap(0, HUGE - PAGE),
        unmap(PAGE, HUGE),
        unmap(2 * HUGE + PAGE, HUGE),
        protect(0, PAGE, Prot::READ),
        protect(0, PAGE, Prot::READ | Prot::WRITE),
        advise(0, PAGE, libc::MADV_DONTFORK),
        map_at(BASE + PAGE, PAGE, base),
    ]);
    let advice = [
        libc::MADV_DONTNEED,
        libc::MADV_FREE,
        libc::MADV_DONTFORK,
        libc::MADV_DOFORK,
        libc::MADV_HUGEPAGE,
        libc::MADV_NOHUGEPAGE,
        libc::MADV_WIPEONFORK,
        libc::MADV_DONTDUMP,
        libc::MADV_DODUMP,
        libc::MADV_WILLNEED,
        libc::MADV_COLD,
        libc::MADV_POPULATE_WRITE,
    ];
    steps.extend(advice.map(|advice| advise(0, HUGE, advice)));
    steps.extend([
        // What is dropped is set aside again; the end is rounded down.
        advise(PAGE, HUGE, libc::MADV_DONTNEED),
        advise(HUGE, PAGE, libc::MADV_DONTNEED),
        advise(0, 3 * HUGE - PAGE, libc::MADV_DONTNEED),
        load(1),
        protect(HUGE, HUGE, Prot::READ),
        store(1),
        load(1),
        unmap(0, 3 * HUGE),
        // Without a reserve.
        map(0, 5, MapFlags::NORESERVE),
        store(0),
        store(1),
        store(2),
        store(3),
        store(4),
        load(4),
        advise(4 * HUGE, HUGE, libc::MADV_POPULATE_WRITE),
        advise(0, HUGE, libc::MADV_DONTNEED),
        load(4),
        load(0),
        unmap(0, 5 * HUGE),
        // Arguments that are refused.
        map_at(BASE, 0, huge),
        map_at(BASE + PAGE, HUGE, huge),
        map_at(BASE, HUGE, huge | sized(22)),
        map_at(BASE, HUGE, huge | sized(21)),
        map_at(BASE, HUGE, MapFlags::HUGETLB | MapFlags::FIXED),
        map_at(BASE + 2 * HUGE, 1, huge),
        unmap(0, 3 * HUGE),
        // Over what the mapping there had; and over more than there is.
        map(0, 4, none),
        store(3),
        map(0, 4, none),
        map_at(BASE, 2 * HUGE, base),
        map(0, 4, none),
        map(0, 5, none),
        // A pool that gets smaller.
        map(0, 1, none),
        map(4, 3, none),
        store(4),
        Do::Resize(1),
        unmap(4 * HUGE, HUGE),
        unmap(5 * HUGE, 2 * HUGE),
        store(0),
        Do::Resize(POOL),
        unmap(0, HUGE),
    ]);
    steps
}

/// The host's pool, which becomes what it was when this is dropped.
struct HostPool {
    before: String,
}

impl HostPool {
    /// `None` where the host has a pool in use, or does not let this process size it.
    fn take() -> Option<Self> {
        let before = read_to_string(NR).ok()?;
        if before.trim() != "0" || host_counts() != [0; 4] {
            return None;
        }
        let pool = Self { before };
        (write(NR, POOL.to_string()).is_ok() && host_counts() == [POOL, POOL, 0, 0]).then_some(pool)
    }
}

impl Drop for HostPool {
    fn drop(&mut self) {
        let _as_before = write(NR, &self.before);
    }
}

fn host_counts() -> [u64; 4] {
    let info = read_to_string("/proc/meminfo").unwrap_or_default();
    ["Total", "Free", "Rsvd", "Surp"].map(|name| {
        let name = format!("HugePages_{name}:");
        let line = info.lines().find_map(|line| line.strip_prefix(&name));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    })
}

fn on_host(steps: &[Do]) -> Result<Vec<Answer>> {
    let mut child = Child::start()?;
    let heap = BASE + WINDOW..BASE + WINDOW + HUGE;
    child.prepare(&[BASE..BASE + WINDOW, heap.clone()], heap.start, &[], HugePages::Refused)?;
    let mut answers = Vec::new();
    for one in steps {
        let answer = match one {
            Do::Step(step) => child.run(0, std::slice::from_ref(step))?[0] as i64,
            Do::In(process, step) => child.run(*process, std::slice::from_ref(step))?[0] as i64,
            Do::Fork(parent, number) => child.fork(*parent, *number).map(|()| 0)?,
            Do::End(number) => child.end(*number).map(|()| 0)?,
            Do::Resize(pages) => {
                write(NR, pages.to_string())?;
                0
            }
        };
        answers.push((answer, host_counts()));
    }
    Ok(answers)
}

type Machine = SoftMachine<Host, X86_64>;
type Space<'v> = AddressSpace<'v, Machine>;

fn in_library(steps: &[Do], path: Path) -> Vec<Answer> {
    let machine = Machine::new(&MachineConfig::small(1, 12 * 512)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let first = AddressSpace::new(&vm, Layout::linux::<X86_64>(), path).expect("a root table");
    assert_eq!(vm.resize_huge_pool(PageSize::Huge, POOL).free, POOL);
    let mut spaces = [Some(first), None, None];
    let mut answers = Vec::new();
    for one in steps {
        let answer = match *one {
            Do::Step(step) => carry_out(&spaces, 0, step),
            Do::In(process, step) => carry_out(&spaces, process, step),
            Do::Fork(parent, number) => {
                let child = spaces[parent].as_ref().expect("a process").fork().expect("memory");
                spaces[number] = Some(child);
                0
            }
            Do::End(number) => {
                spaces[number] = None;
                0
            }
            Do::Resize(pages) => {
                vm.resize_huge_pool(PageSize::Huge, pages);
                0
            }
        };
        vm.memory().check().expect("all frames and the pool add up");
        let PoolCounts { total, free, reserved, surplus } = vm.memory().huge_pool(PageSize::Huge);
        answers.push((answer, [total, free, reserved, surplus]));
    }
    answers
}

/// One access; who has set the page aside takes it back from children.
fn access(spaces: &[Option<Space<'_>>], space: &Space<'_>, fault: Fault) -> core::result::Result<(), FaultError> {
    let known = |id| spaces.iter().flatten().find(|space| space.id() == id);
    loop {
        match space.fault(fault) {
            Ok(_) => return Ok(()),
            Err(FaultError::PoolEmpty)
                if space.take_back_pool_page(fault.addr, known).expect("all spaces are known") => {}
            Err(error) => return Err(error),
        }
    }
}

fn carry_out(spaces: &[Option<Space<'_>>], process: usize, step: Step) -> i64 {
    let space = spaces[process].as_ref().expect("a process");
    let number = |result: core::result::Result<u64, Errno>| match result {
        Ok(value) => value as i64,
        Err(errno) => -i64::from(errno.0),
    };
    let touched = |addr: u64, how, value: u64| {
        match access(spaces, space, Fault { addr: VirtAddr(addr), access: how }) {
            Ok(()) => value as i64,
            Err(FaultError::NotMapped) => (touch::REFUSED + touch::UNMAPPED) as i64,
            Err(FaultError::NotAllowed) => (touch::REFUSED + touch::RIGHTS) as i64,
            // BUS_ADRERR
            Err(_) => (touch::REFUSED + touch::BUS + 2) as i64,
        }
    };
    let byte = |addr: u64| {
        let mut byte = [0];
        space.copy_from(VirtAddr(addr), &mut byte).map_or(0, |_| u64::from(byte[0]))
    };
    match step {
        Step::Map { hint, len, prot, flags } => {
            number(interleaf_linux_abi::mmap(space, hint, len, prot, flags).map(|addr| addr.0))
        }
        Step::Unmap { addr, len } => number(interleaf_linux_abi::munmap(space, addr, len).map(|()| 0)),
        Step::Protect { addr, len, prot } => {
            number(interleaf_linux_abi::mprotect(space, addr, len, prot).map(|()| 0))
        }
        Step::Advise { addr, len, advice } => {
            number(interleaf_linux_abi::madvise(space, addr, len, advice).map(|()| 0))
        }
        Step::Read { addr } => touched(addr, Access::Read, byte(addr)),
        Step::Write { addr, value } => {
            let stored = touched(addr, Access::Write, 0);
            if stored == 0 {
                assert_eq!(space.copy_to(VirtAddr(addr), &[value]), Ok(1));
            }
            stored
        }
        other => panic!("{other:?} is in no sequence here"),
    }
}

#[test]
fn reserved_pages_are_as_on_the_hosts_linux() {
    let steps = sequence();
    let [speculative, locked] = [Path::Speculative, Path::Locked].map(|path| in_library(&steps, path));
    assert_eq!(speculative, locked);
    let Some(_pool) = HostPool::take() else {
        return lacking::note("reserved_pool", "an unused pool of huge pages that may be sized");
    };
    let host = on_host(&steps).expect("the child lives");
    for ((step, ours), theirs) in steps.iter().zip(&speculative).zip(&host) {
        assert_eq!(ours, theirs, "{step:?}: the library's answer and counts, and the host's");
    }
}
