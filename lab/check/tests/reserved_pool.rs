//! Memory of reserved huge pages: what each call answers, and what the pool has after it, on the host's Linux
//! and in the library.

#[path = "reserved_pool/sequences.rs"]
mod sequences;

use interleaf::frame::HugetlbCounts;
use interleaf::space::{AddressSpace, Fault, FaultError, Layout, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PageSize, VirtAddr};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::os::child::{Child, HugePages, Step};
use interleaf_lab::os::{lacking, touch};
use interleaf_linux_abi::Errno;
use sequences::sequence;
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

/// A step of a sequence: of the first process, or of another one; or of the test, which sizes the pool.
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
    assert_eq!(vm.resize_hugetlb(PageSize::Huge, POOL).free, POOL);
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
                vm.resize_hugetlb(PageSize::Huge, pages);
                0
            }
        };
        vm.memory().check().expect("all frames and the pool add up");
        let HugetlbCounts { total, free, reserved, surplus, .. } =
            vm.memory().hugetlb().counts(PageSize::Huge);
        answers.push((answer, [total, free, reserved, surplus]));
    }
    answers
}

/// One access; the process that has set the page aside takes it back from children.
fn access(
    spaces: &[Option<Space<'_>>],
    space: &Space<'_>,
    fault: Fault,
) -> core::result::Result<(), FaultError> {
    let known = |id| spaces.iter().flatten().find(|space| space.id() == id);
    loop {
        match space.fault(fault) {
            Ok(_) => return Ok(()),
            Err(FaultError::HugetlbEmpty)
                if space.unmap_hugetlb_sharers(fault.addr, known).expect("all spaces are known") => {}
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
            let words = [hint, len, prot.into(), flags.into(), u64::MAX, 0];
            number(interleaf_linux_abi::mmap(space, words).map(|addr| addr.0))
        }
        Step::Unmap { addr, len } => number(interleaf_linux_abi::munmap(space, addr, len).map(|()| 0)),
        Step::Protect { addr, len, prot } => {
            number(interleaf_linux_abi::mprotect(space, addr, len, prot.into()).map(|()| 0))
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
