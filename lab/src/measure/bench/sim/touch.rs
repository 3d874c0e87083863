//! The workload `page_fault1` of `interleaf predict`, on CPUs of the host: each writes to pages of one
//! mapping; only the writing is timed.

use crate::error::Failure;
use crate::machine::host::Host;
use crate::machine::soft::Signal;
use crate::measure::Options;
use crate::measure::bench::pinned_threads::together;
use crate::measure::garbage::MeasuredVm;
use crate::measure::timed_machine::{self, TimedMachine};
use crate::median::Median;
use interleaf::machine::Cpu;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages of a table.
const TABLE: u64 = 512;
/// Pages that a CPU touches in a round: fewer than its cache of frames holds.
const PAGES: u64 = 64;
/// Frames of a machine.
const FRAMES: u64 = 8192;

/// Where the CPUs touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    /// Each in a table of its own.
    Own,
    /// Side by side in one.
    Shared,
}

/// Nanoseconds of a fault of two CPUs in one space: the median of all rounds.
pub(super) fn in_one_space(options: &Options, path: Path, tables: Tables) -> Result<f64, Failure> {
    let apart = if tables == Tables::Own { TABLE } else { PAGES };
    let machine = timed_machine::machine(options, FRAMES)?;
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let (space, start) = space(&vm, path)?;
    drop(entered);
    let rounds = Rounds::new(options, 2);
    together(&options.cpus[..2], |index| {
        let own = VirtAddr(start.0 + index as u64 * apart * PAGE);
        rounds.touch(&machine, &space, CpuId(index as u32), own);
    });
    let _entered = machine.enter(CpuId(0));
    drop(space);
    Ok(rounds.median())
}

/// The same of so many CPUs that share nothing: each has a machine of its own.
pub(super) fn on_own_machines(options: &Options, cpus: usize) -> Result<f64, Failure> {
    let machines: Result<Vec<_>, _> = (0..cpus).map(|_| timed_machine::machine(options, FRAMES)).collect();
    let machines = machines?;
    let rounds = Rounds::new(options, cpus);
    together(&options.cpus[..cpus], |index| {
        let machine = &machines[index];
        let entered = machine.enter(CpuId(0));
        let vm = timed_machine::vm(machine).expect("as on the other machine");
        let (space, start) = space(&vm, Path::Speculative).expect("as on the other machine");
        drop(entered);
        rounds.touch(machine, &space, CpuId(0), start);
        let _entered = machine.enter(CpuId(0));
        drop(space);
    });
    Ok(rounds.median())
}

type Space<'v> = AddressSpace<'v, TimedMachine>;

/// A space with a mapping of both CPUs' tables; and where the first begins.
fn space<'v>(vm: &'v MeasuredVm<'_>, path: Path) -> Result<(Space<'v>, VirtAddr), Failure> {
    let layout = Layout::linux::<X86_64>().overcommit();
    let space = AddressSpace::new(vm, layout, path).map_err(Failure::of)?;
    let start = space.map(&MapRequest::anonymous(3 * TABLE * PAGE)).map_err(Failure::of)?;
    Ok((space, VirtAddr(start.0.next_multiple_of(TABLE * PAGE))))
}

/// Rounds that all members begin together.
struct Rounds {
    count: usize,
    members: usize,
    arrived: AtomicUsize,
    times: Mutex<Vec<f64>>,
}

impl Rounds {
    fn new(options: &Options, members: usize) -> Self {
        let (arrived, times) = (AtomicUsize::new(0), Mutex::default());
        Self { count: options.size(400, 3), members, arrived, times }
    }

    /// Waits until all members are here, and handles interrupts meanwhile.
    fn meet(&self) {
        // AcqRel and Acquire: what the members did before they came happens before what each does next.
        let round = self.arrived.fetch_add(1, AcqRel) / self.members;
        while self.arrived.load(Acquire) / self.members == round {
            Host::relax();
        }
    }

    /// Touches the pages from `start` on, gives them up, and again; the first round is not measured.
    fn touch(&self, machine: &TimedMachine, space: &Space<'_>, cpu: CpuId, start: VirtAddr) {
        let _entered = machine.enter(cpu);
        let faults =
            |addr, access: Access| space.fault(Fault { addr, access }).map(drop).map_err(|_| Signal::Segv);
        let mut times = Vec::new();
        for _ in 0..=self.count {
            let running = space.activate(None);
            self.meet();
            let began = Instant::now();
            for page in 0..PAGES {
                machine.write_u64(VirtAddr(start.0 + page * PAGE), page, &faults).expect("it is mapped");
            }
            times.push(began.elapsed().as_nanos() as f64 / PAGES as f64);
            self.meet();
            // Frames are given back where no CPU runs the space: no flush disturbs what is measured.
            drop(running);
            self.meet();
            space.advise(start, PAGES * PAGE, Advice::DontNeed).expect("it is mapped");
        }
        // The other may yet flush.
        self.meet();
        self.times.lock().unwrap_or_else(PoisonError::into_inner).extend(&times[1..]);
    }

    /// Nanoseconds of a fault.
    fn median(self) -> f64 {
        Median::of(&self.times.into_inner().unwrap_or_else(PoisonError::into_inner)).middle
    }
}
