//! Does the space's lock let no thread starve, what does that cost, and how long does a fault wait for a
//! large munmap?
//!
//! How long a request waits is counted exactly, by the lock itself, in grants to the other side between the
//! request and its own grant: under many seeded schedules, whatever the host does. Times of real threads
//! stand beside, without a bar: four threads on two CPUs wait for the host's scheduler too. The pair of a
//! reader alone is `sync.share_pair`; `fair.pair` is that of a writer.

use super::{Bar, Benchmark, Figure, Options, alone, counted, ns_per, paired, pinned_threads, yardstick};
use crate::error::Failure;
use crate::machine::host::{Host, TaskSpace, with_switch_notifier};
use crate::machine::soft::Flavour;
use crate::measure::timed_machine::{self, TimedMachine};
use hdrhistogram::Histogram;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path};
use interleaf::sync::RwLock;
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use std::cell::RefCell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

/// The lock.
pub const LOCK: Benchmark = Benchmark {
    name: "fair.lock",
    question: "What does a pair cost, and how long does the longest request for the lock wait?",
    figures: &["fair.pair", "fair.reader_longest", "fair.writer_longest"],
    run: lock,
};

/// The lock under many schedules.
pub const WAITS: Benchmark = Benchmark {
    name: "fair.waits",
    question: "For how many others does a request for the lock wait?",
    figures: &["fair.reader_wait", "fair.writer_wait"],
    run: waits,
};

/// A fault under the lock.
pub const MUNMAP: Benchmark = Benchmark {
    name: "fair.munmap",
    question: "How long does a fault that takes the space's lock wait beside a munmap of a GiB?",
    figures: &["fair.fault_beside_munmap", "fair.fault_p999"],
    run: munmap,
};

fn lock(options: &Options) -> Result<Vec<Figure>, Failure> {
    Ok(vec![
        pair(options),
        longest_wait(options, "fair.reader_longest", Side::Read),
        longest_wait(options, "fair.writer_longest", Side::Write),
    ])
}

fn waits(options: &Options) -> Result<Vec<Figure>, Failure> {
    let units = [("fair.reader_wait", "writers"), ("fair.writer_wait", "phases beyond writers ahead")];
    counted::figures(options, "fair.waits", units, Bar::AtMost(1.0))
}

fn pair(options: &Options) -> Figure {
    let _pinned = options.pin();
    let (times, lock) = (options.size(20_000, 100), RwLock::<Host, 1>::new());
    let ours = || ns_per(times, || drop(black_box(&lock).write()));
    let theirs = yardstick::locks::rwlock_write_pair(times);
    paired(options, "fair.pair", "ns", ours, "std RwLock, exclusive", theirs).with_bar(Bar::AtMost(1.1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Read,
    Write,
}

/// The longest wait of one thread of a side beside three of the other.
fn longest_wait(options: &Options, name: &'static str, side: Side) -> Figure {
    let time = options.size(Duration::from_millis(50), Duration::from_millis(2));
    let (lock, theirs) = (RwLock::<Host, 1>::new(), std::sync::RwLock::new(()));
    let take = |side: Side, granted: &mut dyn FnMut()| match side {
        Side::Read => {
            let _reader = lock.read();
            granted();
        }
        Side::Write => {
            let _writer = lock.write();
            granted();
        }
    };
    let take_theirs = |side: Side, granted: &mut dyn FnMut()| match side {
        Side::Read => {
            let _reader = theirs.read().expect("no thread panics while holding it");
            granted();
        }
        Side::Write => {
            let _writer = theirs.write().expect("no thread panics while holding it");
            granted();
        }
    };
    let ours = || one_beside_three(time, side, &take);
    let theirs = || one_beside_three(time, side, &take_theirs);
    paired(options, name, "us", ours, "std RwLock", theirs)
}

/// Microseconds. All threads hold the lock for some microseconds, and ask again at once. One that waits when
/// the time is over is granted the lock when the others have ended: a wait is never longer than `time` and
/// the host's scheduling.
fn one_beside_three(time: Duration, side: Side, take: &(impl Fn(Side, &mut dyn FnMut()) + Sync)) -> f64 {
    let other = if side == Side::Read { Side::Write } else { Side::Read };
    let stop = &AtomicBool::new(false);
    let hold = || (0..1000).for_each(|_| spin_loop());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    take(other, &mut || hold());
                }
            });
        }
        let one = scope.spawn(|| {
            // At least one request, however late the host lets this thread begin.
            let mut longest = Duration::from_nanos(1);
            loop {
                let asked = Instant::now();
                take(side, &mut || {
                    longest = longest.max(asked.elapsed());
                    hold();
                });
                if stop.load(Relaxed) {
                    return longest;
                }
            }
        });
        std::thread::sleep(time);
        stop.store(true, Relaxed);
        one.join().expect("it only waits").as_secs_f64() * 1e6
    })
}

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages in which the faults are.
const FAULTED: u64 = 4096;

fn munmap(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pages = options.size(1 << 18, 1 << 11);
    let machine = timed_machine::machine(options, pages + pages / 64 + FAULTED + 4096)?;
    let cpus = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space =
        AddressSpace::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Locked).map_err(Failure::of)?;
    let base = space.map(&MapRequest::anonymous(FAULTED * PAGE)).map_err(Failure::of)?;
    drop(entered);
    let seen = RefCell::new(Vec::new());
    let ours = || {
        let waits = faults_beside_munmap(cpus, &space, base, pages * PAGE);
        let longest = waits.longest_us;
        seen.borrow_mut().push(waits);
        longest
    };
    let theirs = || seen.borrow().last().map_or(0.0, |waits| waits.munmap_us);
    let longest = paired(options, "fair.fault_beside_munmap", "us", ours, "that munmap itself", theirs);
    // Of the same runs, in their order.
    let seen = seen.take();
    let mut p999 = seen.iter().map(|waits| waits.p999_us).cycle();
    let p999 = alone(options, "fair.fault_p999", "us", || p999.next().unwrap_or_default());
    let _entered = machine.enter(CpuId(0));
    drop(space);
    Ok(vec![longest, p999])
}

/// What faults waited for beside one munmap.
struct Waits {
    munmap_us: f64,
    longest_us: f64,
    p999_us: f64,
}

/// The first CPU maps, populates and unmaps `len_bytes`; while it unmaps, the last faults pages in, in
/// another mapping of the space, from `base` on.
fn faults_beside_munmap(
    cpus: &[usize],
    space: &AddressSpace<'_, TimedMachine>,
    base: VirtAddr,
    len_bytes: u64,
) -> Waits {
    let (ready, done) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let (took, faults) = (std::sync::Mutex::new(Duration::ZERO), std::sync::Mutex::new(histogram()));
    let unmap = || {
        let request = MapRequest { populate: true, ..MapRequest::anonymous(len_bytes) };
        let at = space.map(&request).expect("the space has room");
        ready.store(true, Release);
        let start = Instant::now();
        space.unmap(at, len_bytes).expect("it is mapped");
        *took.lock().expect("no thread panics") = start.elapsed();
        done.store(true, Release);
    };
    let fault = || {
        while !ready.load(Acquire) {
            Host::boundary();
            spin_loop();
        }
        let mut histogram = faults.lock().expect("no thread panics");
        faults_until(space, base, done, &mut histogram);
    };
    pinned_threads::together(cpus, |index| {
        let _entered = space.vm().machine().enter(CpuId(index as u32));
        let running = TaskSpace::new(space);
        with_switch_notifier(&running, || {
            if index == 0 {
                unmap();
            }
            if index + 1 == cpus.len() {
                fault();
            }
        });
    });
    let (faults, took) = (faults.into_inner(), took.into_inner());
    let faults = faults.expect("no thread panics");
    Waits {
        munmap_us: took.expect("no thread panics").as_secs_f64() * 1e6,
        longest_us: faults.max() as f64 / 1000.0,
        p999_us: faults.value_at_quantile(0.999) as f64 / 1000.0,
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds in order")
}

/// Write faults on fresh pages, each timed in nanoseconds, until `done`, at least one. The pages are given
/// back each time that all have been touched.
fn faults_until(
    space: &AddressSpace<'_, TimedMachine>,
    base: VirtAddr,
    done: &AtomicBool,
    waits: &mut Histogram<u64>,
) {
    for page in (0..FAULTED).cycle() {
        let start = Instant::now();
        let addr = VirtAddr(base.0 + page * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
        waits.saturating_record(start.elapsed().as_nanos() as u64);
        Host::boundary();
        let is_done = done.load(Acquire);
        if is_done || page + 1 == FAULTED {
            space.advise(base, FAULTED * PAGE, Advice::DontNeed).expect("it is mapped");
        }
        if is_done {
            return;
        }
    }
}
