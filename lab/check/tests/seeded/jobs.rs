//! Jobs on the seeded machine: every access is a choice, and whatever the choices, each unit is done once,
//! and undone exactly where it was done.

use interleaf::machine::Cpu;
use interleaf::sync::atomic::AtomicU64;
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, CpuMask};
use interleaf::work::{Chunk, Failed, Job, PollLimit, Spent, WorkerPool};
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64 as Count, Ordering::*};

type Seeded = SoftMachine<Baton, X86_64>;
type SeededPool<'m> = WorkerPool<'m, Seeded>;

/// How often each unit was done, less how often it was undone. The host's atomics: counting is no step.
struct UnitCounts(Vec<AtomicI32>);

impl UnitCounts {
    fn new(units: u64) -> Self {
        Self((0..units).map(|_| AtomicI32::new(0)).collect())
    }
    fn add(&self, range: Range<u64>, by: i32) {
        range.for_each(|at| {
            self.0[at as usize].fetch_add(by, Relaxed);
        });
    }
    fn all_are(&self, times: i32) -> bool {
        self.0.iter().all(|unit| unit.load(Relaxed) == times)
    }
}

/// What a caller tells of that many helpers.
fn spent_on(helpers: u32) -> Spent {
    let mut spent = Spent::default();
    spent.helpers = helpers;
    spent
}

/// Plays `caller` on CPU 0 and helpers on all others of `nr_cpus`, for every seed, and says how many helpers
/// came in all.
fn with_helpers(nr_cpus: u32, seeds: Range<u64>, caller: fn(&SeededPool<'_>, u64) -> Spent) -> u64 {
    static CAME: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());
    let me = caller as usize;
    let scenario = move |schedule: &Schedule| {
        let machine = Seeded::new(&MachineConfig::small(nr_cpus, 64)).unwrap();
        let mut memory = boot_map(&machine).claim(&machine).unwrap();
        let workers = WorkerPool::spawn(&machine, &mut memory.early_allocator()).unwrap();
        workers.set_poll_limit(PollLimit(2));
        let (seed, machine) = (schedule.seed(), &machine);
        let first: Program<'_> = Box::new(move || {
            // Half of the callers begin while their helpers are still on their way.
            while seed % 2 == 0 && !(1..nr_cpus).all(|cpu| workers.has_helper_racy(CpuId(cpu))) {
                Baton::relax();
            }
            let spent = caller(&workers, seed);
            CAME.lock().unwrap().push((me, spent.helpers.into()));
            // Dismisses the helpers: their programs end.
            drop(workers);
        });
        let helpers = (1..nr_cpus).map(|_| Box::new(|| machine.help()) as Program<'_>);
        schedule.run(machine, std::iter::once(first).chain(helpers).collect());
    };
    explore(seeds, Options::default(), scenario).unwrap_or_else(|report| panic!("{report}"));
    CAME.lock().unwrap().iter().filter(|(caller, _)| *caller == me).map(|(_, came)| came).sum()
}

/// A step of the machine, so that others may come between.
fn step(word: &AtomicU64<Baton>) {
    word.fetch_add(1, Relaxed);
}

#[test]
fn every_unit_is_done_once_whatever_the_seed() {
    let came = with_helpers(3, 0..600, |workers, seed| {
        let (counts, word) = (UnitCounts::new(12 + seed % 30), AtomicU64::new(0));
        let job = Job::new(0..12 + seed % 30, |chunk: &Chunk<'_>| {
            step(&word);
            counts.add(chunk.range(), 1);
            Ok::<(), ()>(())
        });
        let spent = workers.run(&job.min_chunk(1 + seed % 3).align(1 + seed / 3 % 3)).unwrap();
        assert!(counts.all_are(1), "seed {seed}");
        spent
    });
    assert!(came > 200, "{came}");
}

#[test]
fn an_error_is_undone_and_told_whatever_the_seed() {
    let came = with_helpers(3, 0..600, |workers, seed| {
        let units = 10 + seed % 20;
        let (counts, word, bad) = (UnitCounts::new(units), AtomicU64::new(0), seed % units);
        let undo = |range| counts.add(range, -1);
        let job = Job::new(0..units, |chunk: &Chunk<'_>| {
            for at in chunk.range() {
                step(&word);
                if at == bad {
                    return Err(at);
                }
                counts.add(at..at + 1, 1);
                chunk.done_to(at + 1);
            }
            Ok(())
        });
        assert_eq!(workers.run(&job.undo(&undo)), Err(Failed::Error(bad)));
        assert!(counts.all_are(0), "seed {seed}");
        spent_on(1)
    });
    assert_eq!(came, 600);
}

/// A job whose chunks are jobs, while a helper is dismissed.
#[test]
fn jobs_inside_jobs_end_while_a_cpu_goes_offline() {
    let came = with_helpers(4, 0..400, |workers, seed| {
        let (counts, word) = (UnitCounts::new(24), AtomicU64::new(0));
        let outer = Job::new(0..4, |chunk: &Chunk<'_>| {
            let inner = Job::new(chunk.start * 6..chunk.end * 6, |chunk: &Chunk<'_>| {
                step(&word);
                counts.add(chunk.range(), 1);
                Ok::<(), ()>(())
            });
            if chunk.worker() == 0 && chunk.start == 0 {
                workers.dismiss(CpuId(1 + (seed % 3) as u32));
            }
            workers.run(&inner).map(|_| ())
        });
        let spent = workers.run(&outer).unwrap();
        assert!(counts.all_are(1), "seed {seed}");
        assert!(Baton::with_context(|context| context.helper_ns()) >= spent.helper_ns);
        spent
    });
    assert!(came > 100, "{came}");
}

fn cpus(of: impl IntoIterator<Item = u32>) -> CpuMask<[u64; 1]> {
    let mut mask = CpuMask::new();
    of.into_iter().for_each(|cpu| mask.insert(CpuId(cpu)));
    mask
}

/// A queue whose sets of CPUs change while items are under way, and one of whose CPUs is taken offline.
#[test]
fn an_ordered_queue_finishes_in_order_whatever_the_seed_while_its_cpus_change_and_go() {
    let by_helpers = with_helpers(4, 0..500, |workers, seed| {
        while !(1..4).all(|cpu| workers.has_helper_racy(CpuId(cpu))) {
            Baton::relax();
        }
        let (word, log) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let (items, all, gone) = (7 + seed % 6, cpus(1..4), 1 + (seed / 3 % 3) as u32);
        let parallel = |item: &mut u64| {
            (0..*item % 3).for_each(|_| step(&word));
            *item += 1000;
        };
        // Nothing but the log is done under its lock, so that it is no step.
        let serial = |item: u64| {
            step(&word);
            log.lock().unwrap().push((item, Baton::id().0));
        };
        let opened = workers.ordered::<u64, _, _, _, 3>((&all, &all), parallel, serial, |queue| {
            for item in 0..items {
                if item == 1 + seed % 4 {
                    let one = 1 + (seed % 3) as u32;
                    // One that has gone leaves no set to change to.
                    let changed = queue.set_cpus(&cpus([one]), &cpus([one % 3 + 1]));
                    assert!(changed.is_ok() || item > 3);
                }
                if item == 3 + seed / 5 % 3 {
                    workers.dismiss(CpuId(gone));
                }
                if item == 5 + seed % 2 {
                    queue.flush();
                    assert_eq!(log.lock().unwrap().len() as u64, item);
                }
                queue.submit(item, CpuId(1 + (item % 3) as u32));
            }
        });
        assert_eq!(opened.map(|((), finished)| (finished.submitted, finished.lost)), Ok((items, 0)));
        let log = log.into_inner().unwrap();
        assert!(log.iter().map(|&(item, _)| item).eq(1000..1000 + items), "seed {seed}: {log:?}");
        let helpers = log.iter().filter(|&&(_, cpu)| cpu != 0).count() as u32;
        spent_on(helpers)
    });
    assert!(by_helpers > 2000, "{by_helpers}");
}

/// Helper time on the timed machine: both worked for as long as the caller waited.
#[test]
fn the_time_of_helpers_is_the_callers() {
    let machine = SoftMachine::<Host, X86_64>::new(&MachineConfig::small(2, 64)).unwrap();
    machine.start_helpers([CpuId(1)], |_| ());
    let _here = machine.enter(CpuId(0));
    let mut memory = boot_map(&machine).claim(&machine).unwrap();
    let workers = WorkerPool::spawn(&machine, &mut memory.early_allocator()).unwrap();
    while !workers.has_helper_racy(CpuId(1)) {
        std::thread::yield_now();
    }
    let (here, worked) = (Count::new(0), Count::new(0));
    let job = Job::new(0..2, |chunk: &Chunk<'_>| {
        here.fetch_add(1, SeqCst);
        let began = Host::now_ns();
        while here.load(SeqCst) < 2 {
            Host::relax();
        }
        if chunk.worker() != 0 {
            worked.store(Host::now_ns() - began, Relaxed);
        }
        Ok::<(), ()>(())
    });
    let spent = workers.run(&job).unwrap();
    assert_eq!(spent.helpers, 1);
    assert!(spent.helper_ns >= worked.load(Relaxed));
    assert_eq!(Host::with_context(|context| context.helper_ns()), spent.helper_ns);
}
