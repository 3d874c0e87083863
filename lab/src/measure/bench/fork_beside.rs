//! How long do faults of another thread wait while their space is forked?
//!
//! One CPU forks a space with 1 GiB of written memory (64 MiB where the host lacks memory). Another writes to
//! fresh pages of a mapping that the fork sweeps last, until the fork has returned. `fork.fault_p999` and
//! `fork.fault_longest` are of faults ahead of the fork's cursor, which nothing keeps waiting but the host;
//! `fork.fault_behind` is the longest of those behind it, which wait for the end of the fork, by name: 0.001
//! where there were none. `fork.beside_ms` is what that fork took.

use super::fork::{fewer_pairs, full_pages};
use super::{Bar, Benchmark, Figure, Options, alone, pinned_threads};
use crate::error::Failure;
use crate::machine::host::{Host, TaskSpace, with_switch_notifier};
use crate::machine::soft::Flavour;
use crate::measure::timed_machine::{self, TimedMachine};
use hdrhistogram::Histogram;
use interleaf::space::{AddressSpace, Advice, Fallback, Fault, Layout, MapRequest, Outcome, Path, Place};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use std::cell::RefCell;
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "fork.beside",
    question: "How long do faults of another thread wait while their space is forked?",
    figures: &["fork.fault_p999", "fork.fault_longest", "fork.fault_behind", "fork.beside_ms"],
    run,
};

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages in which the faults are: more than there are faults during one fork.
const FAULTED: u64 = 1 << 15;

type Space<'v> = AddressSpace<'v, TimedMachine>;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pages = options.size(full_pages(), 2 << 8);
    let options = &fewer_pairs(options, pages);
    let machine = timed_machine::machine(options, pages + pages / 64 + 2 * FAULTED + 4096)?;
    let cpus = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space =
        Space::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).map_err(Failure::of)?;
    let at = |place, pages| MapRequest { place, ..MapRequest::anonymous(pages * PAGE) };
    let faulted = space.map(&at(Place::Hint(VirtAddr(0)), FAULTED)).map_err(Failure::of)?;
    // Below it, with a hole between.
    let below = VirtAddr(faulted.0 - (pages + 512) * PAGE);
    let base = space.map(&at(Place::FixedNoReplace(below), pages)).map_err(Failure::of)?;
    drop(entered);
    let scene = Scene { space: &space, base, pages, faulted };
    let seen = RefCell::new(Vec::new());
    let p999 = alone(options, "fork.fault_p999", "us", || {
        let waits = scene.play(cpus);
        seen.borrow_mut().push(waits);
        waits.p999_us
    });
    // Of the same runs, in their order.
    let seen = seen.take();
    let of = |name, unit, value: fn(&Waits) -> f64| {
        let mut values = seen.iter().map(value).cycle();
        alone(options, name, unit, || values.next().unwrap_or_default())
    };
    let figures = vec![
        p999.with_bar(Bar::AtMost(20.0)),
        of("fork.fault_longest", "us", |waits| waits.longest_us),
        of("fork.fault_behind", "us", |waits| waits.behind_us),
        of("fork.beside_ms", "ms", |waits| waits.fork_ms),
    ];
    let _entered = machine.enter(CpuId(0));
    drop(space);
    Ok(figures)
}

/// What faults waited for beside one fork.
#[derive(Clone, Copy)]
struct Waits {
    p999_us: f64,
    longest_us: f64,
    behind_us: f64,
    fork_ms: f64,
}

struct Scene<'s, 'v> {
    space: &'s Space<'v>,
    base: VirtAddr,
    pages: u64,
    faulted: VirtAddr,
}

/// Nanoseconds of faults ahead of the cursor, and of those behind it.
struct Faults {
    ahead: Histogram<u64>,
    behind: Histogram<u64>,
}

impl Scene<'_, '_> {
    fn write(&self, addr: VirtAddr) -> Outcome {
        self.space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable")
    }

    /// Forks on the first CPU, with faults on the last.
    fn play(&self, cpus: &[usize]) -> Waits {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds in order");
        let faults = Mutex::new(Faults { ahead: histogram(), behind: histogram() });
        let (ready, done) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let took = Mutex::new(0.0);
        let fork = || {
            for page in 0..self.pages {
                self.write(VirtAddr(self.base.0 + page * PAGE));
            }
            self.space.advise(self.faulted, FAULTED * PAGE, Advice::DontNeed).expect("it is mapped");
            ready.store(true, Release);
            let start = Instant::now();
            let child = self.space.fork().expect("there is memory for the child's tables");
            *took.lock().expect("no thread panics") = start.elapsed().as_secs_f64() * 1e3;
            done.store(true, Release);
            drop(child);
        };
        let fault = || {
            while !ready.load(Acquire) {
                Host::boundary();
                spin_loop();
            }
            self.fault_until(done, &mut faults.lock().expect("no thread panics"));
        };
        pinned_threads::together(cpus, |index| {
            let _entered = self.space.vm().machine().enter(CpuId(index as u32));
            let running = TaskSpace::new(self.space);
            with_switch_notifier(&running, || {
                if index == 0 {
                    fork();
                }
                if index + 1 == cpus.len() {
                    fault();
                }
            });
        });
        let faults = faults.into_inner().expect("no thread panics");
        Waits {
            p999_us: us(faults.ahead.value_at_quantile(0.999)),
            longest_us: us(faults.ahead.max()),
            behind_us: us(faults.behind.max()),
            fork_ms: took.into_inner().expect("no thread panics"),
        }
    }

    /// Write faults on fresh pages until `done`, at least one.
    fn fault_until(&self, done: &AtomicBool, waits: &mut Faults) {
        for page in 0..FAULTED {
            let start = Instant::now();
            let outcome = self.write(VirtAddr(self.faulted.0 + page * PAGE));
            let took = start.elapsed().as_nanos() as u64;
            let is_behind = outcome == Outcome::FellBack(Fallback::Forking);
            let side = if is_behind { &mut waits.behind } else { &mut waits.ahead };
            side.saturating_record(took);
            Host::boundary();
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

/// Microseconds; a nanosecond where there was nothing to time.
fn us(nanoseconds: u64) -> f64 {
    nanoseconds.max(1) as f64 / 1000.0
}
