//! How long do faults of another thread wait while their space is collapsed?
//!
//! One CPU collapses region after region, of each of which half the pages are there. Another writes to pages
//! that are not: of another mapping (`thp.collapse_latency`), or of the region that is being collapsed
//! (`thp.collapse_latency_inside`), these with pauses, since a collapse gives up where more than a few pages
//! come meanwhile. The figure is the 99.9th percentile of a run. The yardstick is the same, with a pause in
//! the place of each collapse.

use super::{Bar, Benchmark, Figure, Options, paired, pinned_threads};
use crate::error::Failure;
use crate::machine::host::{Host, TaskSpace, with_switch_notifier};
use crate::machine::soft::Flavour;
use crate::measure::timed_machine::{self, TimedMachine};
use hdrhistogram::Histogram;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path, Place};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, PageSize, VirtAddr};
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "thp.beside",
    question: "How long do faults of another thread wait while their space is collapsed?",
    figures: &["thp.collapse_latency", "thp.collapse_latency_inside"],
    run,
};

const PAGE: u64 = PAGE_SIZE as u64;
const HUGE_BYTES: u64 = PageSize::Huge.bytes();
/// Where the regions are, and the mapping beside them.
const BASE: VirtAddr = VirtAddr(1 << 40);
const BESIDE: VirtAddr = VirtAddr(2 << 40);
/// Pages of that mapping: more than there are faults during one run.
const FAULTED: u64 = 1 << 15;
/// About what a collapse takes.
const PAUSE: Duration = Duration::from_micros(250);
/// Between two faults in one region: far fewer come than a collapse copies again.
const BETWEEN: Duration = Duration::from_micros(20);

/// Which pages the faults are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Elsewhere,
    Inside,
}

/// What the first CPU does with each region.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Collapse,
    Pause,
}

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let regions = options.size(64, 3);
    let machine = timed_machine::machine(options, (2 * regions + 4) * 512 + 2 * FAULTED + 4096)?;
    let cpus = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .map_err(Failure::of)?;
    let beside = MapRequest { place: Place::Fixed(BESIDE), ..MapRequest::anonymous(FAULTED * PAGE) };
    space.map(&beside).map_err(Failure::of)?;
    drop(entered);
    let scene = Scene { space: &space, regions };
    let figure = |name, pages| {
        let ours = || scene.play(cpus, Work::Collapse, pages);
        let theirs = || scene.play(cpus, Work::Pause, pages);
        paired(options, name, "us", ours, "without a collapse", theirs).with_bar(Bar::AtMost(2.0))
    };
    let figures = vec![
        figure("thp.collapse_latency", Pages::Elsewhere),
        figure("thp.collapse_latency_inside", Pages::Inside),
    ];
    let _entered = machine.enter(CpuId(0));
    drop(space);
    Ok(figures)
}

struct Scene<'s, 'v> {
    space: &'s AddressSpace<'v, TimedMachine>,
    regions: u64,
}

impl Scene<'_, '_> {
    fn write(&self, addr: VirtAddr) {
        self.space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
    }

    /// The microseconds that all but one in a thousand faults stay below.
    fn play(&self, cpus: &[usize], work: Work, pages: Pages) -> f64 {
        let waits = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds in order");
        let waits = Mutex::new(waits);
        // The number of the region that is worked on, from 1 on.
        let (current, done) = (&AtomicU64::new(0), &AtomicBool::new(false));
        pinned_threads::together(cpus, |index| {
            let _entered = self.space.vm().machine().enter(CpuId(index as u32));
            let running = TaskSpace::new(self.space);
            with_switch_notifier(&running, || {
                if index == 0 {
                    self.work(work, current, done);
                }
                if index + 1 == cpus.len() {
                    while current.load(Acquire) == 0 {
                        Host::boundary();
                        spin_loop();
                    }
                    let mut waits = waits.lock().expect("no thread panics");
                    self.fault_until(done, current, pages, &mut waits);
                }
            });
        });
        let _entered = self.space.vm().machine().enter(CpuId(0));
        self.space.unmap(BASE, self.regions * HUGE_BYTES).expect("it is mapped");
        let waits = waits.into_inner().expect("no thread panics");
        waits.value_at_quantile(0.999).max(1) as f64 / 1000.0
    }

    /// Maps the regions with every second page, and works on one after the other.
    fn work(&self, work: Work, current: &AtomicU64, done: &AtomicBool) {
        let len_bytes = self.regions * HUGE_BYTES;
        let request = MapRequest { place: Place::Fixed(BASE), ..MapRequest::anonymous(len_bytes) };
        self.space.map(&request).expect("nothing else is there");
        (0..len_bytes).step_by(2 * PAGE as usize).for_each(|at| self.write(VirtAddr(BASE.0 + at)));
        self.space.advise(BESIDE, FAULTED * PAGE, Advice::DontNeed).expect("it is mapped");
        for region in 0..self.regions {
            current.store(region + 1, Release);
            match work {
                // Refused where too many pages came meanwhile: its faults count all the same.
                Work::Collapse => {
                    let _refused = self.space.collapse(VirtAddr(BASE.0 + region * HUGE_BYTES), HUGE_BYTES);
                }
                Work::Pause => spin(PAUSE),
            }
            Host::boundary();
        }
        done.store(true, Release);
    }

    /// Write faults on pages that are not there, at least one, until `done`.
    fn fault_until(&self, done: &AtomicBool, current: &AtomicU64, pages: Pages, waits: &mut Histogram<u64>) {
        for page in 0..FAULTED {
            let region = current.load(Acquire) - 1;
            let inside = BASE.0 + region * HUGE_BYTES + (2 * page + 1) % PageSize::Huge.pages() * PAGE;
            let addr = if pages == Pages::Inside { inside } else { BESIDE.0 + page * PAGE };
            let start = Instant::now();
            self.write(VirtAddr(addr));
            waits.saturating_record(start.elapsed().as_nanos() as u64);
            Host::boundary();
            if pages == Pages::Inside {
                spin(BETWEEN);
            }
            if done.load(Acquire) {
                return;
            }
        }
        // All pages are written: nothing more to time.
        while !done.load(Acquire) {
            Host::boundary();
            spin_loop();
        }
    }
}

/// Does nothing for a while, but answers flushes.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        Host::boundary();
        spin_loop();
    }
}
