//! How long do faults of another thread wait while 64 GiB of their space are torn down?
//!
//! One CPU unmaps 64 GiB by entries of 4 KiB, which map PFN-mapped frames: 16.8 million entries in
//! 32 768 tables. Another writes to fresh pages elsewhere in the space, until the call has returned.
//! `teardown.latency` is what 999 of 1 000 of these faults did not exceed, against as many faults with
//! nothing beside them.

use super::{Bar, Benchmark, Figure, Options, paired, pinned_threads};
use crate::error::Failure;
use crate::machine::host::{Host, TaskSpace, with_switch_notifier};
use crate::machine::soft::Flavour;
use crate::measure::timed_machine::{self, TimedMachine};
use hdrhistogram::Histogram;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapBacking, MapRequest, Path, Sharing};
use interleaf::table::PfnMapFrames;
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, PageSize, VirtAddr};
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "teardown.beside",
    question: "How long do faults of another thread wait while 64 GiB of their space are torn down?",
    figures: &["teardown.latency"],
    run,
};

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages in which the faults are.
const FAULTED: u64 = 1 << 14;

type Space<'v> = AddressSpace<'v, TimedMachine>;

/// What happens beside the faults.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Teardown,
    Nothing,
}

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pages = options.size(1 << 24, 1 << 12);
    let machine = timed_machine::machine(options, pages / 500 + 2 * FAULTED + 4096)?;
    let lacks = || Failure::usage("64 GiB: more than there are frames".to_owned());
    let pfnmap = machine.frames_of_no_memory(pages).ok_or_else(lacks)?;
    let cpus = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space =
        Space::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).map_err(Failure::of)?;
    let faulted = space.map(&MapRequest::anonymous(FAULTED * PAGE)).map_err(Failure::of)?;
    drop(entered);
    let scene = Scene { space: &space, pfnmap: &pfnmap, pages, faulted };
    let figure = paired(
        options,
        "teardown.latency",
        "us",
        || scene.play(cpus, Beside::Teardown),
        "nothing beside",
        || scene.play(cpus, Beside::Nothing),
    );
    let _entered = machine.enter(CpuId(0));
    drop(space);
    Ok(vec![figure.with_bar(Bar::AtMost(2.0))])
}

struct Scene<'s, 'v> {
    space: &'s Space<'v>,
    pfnmap: &'s PfnMapFrames,
    pages: u64,
    faulted: VirtAddr,
}

impl Scene<'_, '_> {
    /// What 999 of 1 000 faults did not exceed, in microseconds.
    fn play(&self, cpus: &[usize], beside: Beside) -> f64 {
        let (ready, done) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let p999 = Mutex::new(0.0);
        pinned_threads::together(cpus, |index| {
            let _entered = self.space.vm().machine().enter(CpuId(index as u32));
            let running = TaskSpace::new(self.space);
            with_switch_notifier(&running, || {
                if index == 0 {
                    self.tear_down(beside, ready);
                    done.store(true, Release);
                }
                if index + 1 == cpus.len() {
                    *p999.lock().expect("no thread panics") = self.fault_until(ready, done);
                }
            });
        });
        p999.into_inner().expect("no thread panics")
    }

    /// Maps, and unmaps where that is asked for, once the faults may begin.
    fn tear_down(&self, beside: Beside, ready: &AtomicBool) {
        let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(self.pages * PAGE) };
        let first = self.pfnmap.frames().start;
        let map = || {
            self.space.map(&request.backed_by(MapBacking::Pfn {
                frames: self.pfnmap,
                first,
                largest: PageSize::Base,
            }))
        };
        let base = (beside == Beside::Teardown).then(|| map().expect("memory for the tables"));
        self.space.advise(self.faulted, FAULTED * PAGE, Advice::DontNeed).expect("it is mapped");
        ready.store(true, Release);
        if let Some(base) = base {
            self.space.unmap(base, self.pages * PAGE).expect("it is mapped");
        }
    }

    /// Write faults on fresh pages, half of them at least; all, or until the other is done.
    fn fault_until(&self, ready: &AtomicBool, done: &AtomicBool) -> f64 {
        let mut waits = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds in order");
        while !ready.load(Acquire) {
            Host::boundary();
            spin_loop();
        }
        for page in 0..FAULTED {
            let addr = VirtAddr(self.faulted.0 + page * PAGE);
            let start = std::time::Instant::now();
            self.space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
            waits.saturating_record(start.elapsed().as_nanos() as u64);
            Host::boundary();
            if page > FAULTED / 2 && done.load(Acquire) {
                break;
            }
        }
        waits.value_at_quantile(0.999).max(1) as f64 / 1e3
    }
}
