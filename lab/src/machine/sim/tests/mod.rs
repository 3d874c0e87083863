//! The machine of virtual time: clocks by the profile, the same in every run, with wait loops left out or
//! not.

use super::*;
use crate::machine::soft::Flavour;
use interleaf::machine::{Cpu, Machine as _};
use interleaf::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use interleaf::sync::{RwLock, SpinLock, wait_until};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, Order, Pfn};
use std::cell::Cell;

type Machine = NodeMachine<X86_64>;

/// A word that shares its line with no other.
#[repr(align(128))]
struct Alone<T>(T);

fn costs() -> Costs {
    Profile::built_in("cascade-lake").unwrap().costs
}

/// Runs a program on each of `cpus` CPUs; `make` builds what they share.
fn run_on<T: 'static>(
    setting: Setting,
    cpus: u32,
    make: impl FnOnce() -> T + Send + 'static,
    program: impl Fn(&T, u32) + Send + 'static,
) -> Result<Report, Verdict> {
    run(setting, move |stage| {
        let machine = Machine::new(stage.setting(), cpus, 64).unwrap();
        let shared = Alone(make());
        let program = |_| Box::new(|| measured(|| program(&shared.0, Sim::id().0))) as Program<'_>;
        stage.run(&machine, (0..cpus).map(program).collect())
    })
}

fn count(setting: Setting, cpus: u32, times: u32) -> Report {
    let add = move |word: &AtomicU64<Sim>, _| {
        (0..times).for_each(|_| {
            word.fetch_add(1, AcqRel);
        });
    };
    run_on(setting, cpus, || AtomicU64::<Sim>::new(0), add).unwrap()
}

#[test]
fn one_cpu_pays_for_its_own_work_alone() {
    let Costs { gap, update, memory, .. } = costs();
    let report = count(Setting::new(costs()), 1, 100);
    assert_eq!(report.ended, [100 * gap + 99 * update + memory]);
    assert!(report.waits.is_empty());
}

/// Zeroes so many pages, does so many loads of a line of its own, and then what `end` does.
fn after_zeroing(
    costs: Costs,
    pages: u64,
    loads: u64,
    end: impl Fn(&AtomicU64<Sim>) + Send + 'static,
) -> Report {
    run(Setting::new(costs), move |stage| {
        let machine = Machine::new(stage.setting(), 1, 64).unwrap();
        let (word, machine) = (Alone(AtomicU64::<Sim>::new(0)), &machine);
        let program = || {
            word.0.load(Relaxed);
            measured(|| {
                for page in 0..pages {
                    // SAFETY: no library has been given the machine's frames.
                    unsafe { machine.soft().zero(Pfn(256 + page), Order::BASE) };
                }
                (0..loads).for_each(|_| assert_eq!(word.0.load(Relaxed), 0));
                end(&word.0);
            })
        };
        stage.run(machine, vec![Box::new(program) as Program<'_>])
    })
    .unwrap()
}

/// Of a page that takes 320 ns for its stores 80 are left when the CPU goes on.
fn draining() -> Costs {
    Costs { zero_cold: 320_000, page_bandwidth: 0, store_buffer: 16, gap: 1_000, ..costs() }
}

#[test]
fn a_read_modify_write_and_a_fence_wait_until_the_stores_of_a_page_have_drained() {
    let Costs { gap, update, fence: full, .. } = draining();
    let took =
        |pages, loads, end: fn(&AtomicU64<Sim>)| after_zeroing(draining(), pages, loads, end).measured[0];
    let nothing: fn(&AtomicU64<Sim>) = |_| ();
    let add: fn(&AtomicU64<Sim>) = |word| _ = word.fetch_add(1, Relaxed);
    assert_eq!(took(1, 0, nothing), gap + 240_000, "the rest drains while the CPU goes on");
    assert_eq!(took(1, 50, nothing), 51 * gap + 240_000, "loads do not wait");
    assert_eq!(took(1, 0, |word| word.store(1, Relaxed)), 2 * gap + 240_000, "nor stores");
    // The gap of the addition passes while the stores drain; each load takes as much off the wait.
    for loads in [0, 10, 50] {
        assert_eq!(took(1, loads, add), gap + 320_000 + update, "{loads} loads before");
    }
    assert_eq!(took(1, 90, add), 92 * gap + 240_000 + update, "they have drained");
    assert_eq!(took(1, 0, |_| fence::<Sim>(SeqCst)), gap + 320_000 + full);
    assert_eq!(took(3, 0, add), gap + 3 * 320_000 + update, "the pages drain one after the other");
    assert_eq!(took(3, 0, nothing), gap + 3 * 320_000 - 80_000);
}

#[test]
fn waits_for_stores_are_noted_by_the_place_that_waits() {
    let report = after_zeroing(draining(), 1, 10, |word| _ = word.fetch_add(1, Relaxed));
    let [wait] = report.waits[..] else { panic!("{:?}", report.waits) };
    assert!(wait.place.file().ends_with("sim/tests/mod.rs"), "{wait:?}");
    let left = 80_000 - 11 * draining().gap;
    assert_eq!((wait.drained, wait.total(), wait.moves), (left, left, 0));
}

#[test]
fn a_counter_that_all_write_is_handed_on_at_the_cost_of_its_way() {
    let Costs { cluster, remote, .. } = costs();
    let near = count(Setting::new(costs()), 2, 1000);
    let each = *near.ended.iter().max().unwrap() / 2000;
    // The addition that asked for it, and those until the next request comes.
    let additions = 4;
    let way = cluster / additions;
    assert!((way * 97 / 100..=way * 103 / 100).contains(&each), "{each} ps for each update");
    let spread = Setting { placement: Placement::Spread, ..Setting::new(costs()) };
    let far = count(spread, 2, 1000);
    let each = *far.ended.iter().max().unwrap() / 2000;
    let way = remote / 8;
    assert!((way * 95 / 100..=way * 105 / 100).contains(&each), "{each} ps for each update");
    let [wait] = near.waits[..] else { panic!("{:?}", near.waits) };
    assert!(wait.place.file().ends_with("sim/tests/mod.rs") && wait.moves > 490, "{wait:?}");
}

#[test]
fn the_same_setting_gives_the_same_run_and_another_seed_another() {
    let with = |seed| locked_counts(Setting { seed, ..Setting::new(costs()) }, 5);
    let (first, again, other) = (with(1), with(1), with(2));
    assert_eq!((first.fingerprint, &first.ended), (again.fingerprint, &again.ended));
    assert_eq!(totals(&first), totals(&again));
    assert_ne!(first.ended, other.ended);
}

/// Each CPU counts under a spin lock, and under the space's kind of lock.
fn locked_counts(setting: Setting, cpus: u32) -> Report {
    struct Shared {
        spin: Alone<SpinLock<u64, Sim, 3>>,
        lock: Alone<RwLock<Sim, 2>>,
        count: Alone<AtomicU64<Sim>>,
    }
    let make = || Shared {
        spin: Alone(SpinLock::new(0)),
        lock: Alone(RwLock::new()),
        count: Alone(AtomicU64::new(0)),
    };
    let program = |shared: &Shared, cpu: u32| {
        for round in 0..30 {
            Sim::boundary();
            *shared.spin.0.lock() += 1;
            if (round + cpu).is_multiple_of(3) {
                let _writer = shared.lock.0.write();
                shared.count.0.add_own(1);
            } else {
                let _reader = shared.lock.0.read();
                let before = shared.count.0.load(Relaxed);
                assert_eq!(shared.count.0.load(Relaxed), before);
            }
        }
    };
    run_on(setting, cpus, make, program).unwrap()
}

#[test]
fn clocks_are_the_same_with_wait_loops_left_out() {
    for seed in 0..20 {
        let exact = Setting { seed, slack: 0, ..Setting::new(costs()) };
        let cpus = 2 + seed as u32 % 7;
        let left_out = locked_counts(exact, cpus);
        let run = locked_counts(Setting { parking: Parking::Off, ..exact }, cpus);
        assert_eq!(left_out.ended, run.ended, "seed {seed}, {cpus} CPUs");
        assert_eq!((left_out.accesses, left_out.rounds), (run.accesses, run.rounds), "seed {seed}");
        assert_eq!((left_out.transfers, left_out.sleeps), (run.transfers, run.sleeps), "seed {seed}");
        assert_eq!(totals(&left_out), totals(&run), "seed {seed}");
    }
}

fn totals(report: &Report) -> Vec<(u32, Ps)> {
    report.waits.iter().map(|wait| (wait.place.line(), wait.total())).collect()
}

#[test]
fn slack_changes_a_run_by_less_than_one_percent() {
    let rate = |slack| {
        let run = |seed| locked_counts(Setting { slack, seed, ..Setting::new(costs()) }, 6);
        (0..20).map(|seed| *run(seed).ended.iter().max().unwrap()).sum::<Ps>() as f64
    };
    let ratio = rate(Setting::SLACK) / rate(0);
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

#[test]
fn a_wait_that_never_ends_is_told_with_its_cpu() {
    let wait = |word: &AtomicU32<Sim>, _| wait_until::<Sim>(|| word.load(Acquire) == 1);
    let verdict = run_on(Setting::new(costs()), 2, || AtomicU32::<Sim>::new(0), wait).unwrap_err();
    let Verdict::Deadlock(waiters) = verdict else { panic!("{verdict}") };
    assert_eq!(waiters.iter().map(|(cpu, _)| cpu.0).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_panic_on_a_cpu_is_told_with_its_cpu() {
    let fail = |_: &(), cpu| assert_ne!(cpu, 2, "on purpose");
    let verdict = run_on(Setting::new(costs()), 3, || (), fail).unwrap_err();
    assert!(matches!(&verdict, Verdict::Failed { cpu: Some(cpu), .. } if cpu.0 == 2), "{verdict}");
}

#[test]
fn a_sleeper_goes_on_when_it_is_woken_and_takes_that_long() {
    let Costs { sleep, wake_latency, wake, .. } = costs();
    let program = |word: &AtomicU32<Sim>, cpu| {
        if cpu == 0 {
            while word.load(Acquire) == 0 {
                word.sleep_while(0);
            }
        } else {
            (0..1000).for_each(|_| Sim::relax());
            word.store(1, Release);
            word.wake(1);
        }
    };
    let report = run_on(Setting::new(costs()), 2, || AtomicU32::<Sim>::new(0), program).unwrap();
    assert_eq!(report.sleeps, 1);
    let [sleeper, waker] = report.ended[..] else { panic!() };
    assert!(waker > sleep + wake && sleeper > waker + wake_latency - wake, "{:?}", report.ended);
    assert!(report.waits.iter().any(|wait| wait.slept > 1000 * 45_000 / 2), "{:?}", report.waits);
}

#[test]
fn cpus_that_meet_go_on_together() {
    let program = |latest: &Cell<Ps>, cpu| {
        (0..cpu * 10).for_each(|_| Sim::relax());
        latest.set(latest.get().max(now_ps()));
        meet();
        assert_eq!(now_ps(), latest.get());
    };
    run_on(Setting::new(costs()), 9, || Cell::new(0), program).unwrap();
    assert_eq!(now_ps(), 0, "outside of a run there is no clock");
}

#[test]
fn a_cpu_that_computes_takes_that_long() {
    let program = |_: &(), cpu| pass(1_000_000 * u64::from(cpu + 1));
    let report = run_on(Setting::new(costs()), 3, || (), program).unwrap();
    assert_eq!(report.ended, [1_000_000, 2_000_000, 3_000_000]);
}

#[test]
fn as_many_cpus_run_as_the_library_knows_on_as_many_nodes() {
    let setting = Setting::new(costs());
    let program = |words: &Vec<Alone<AtomicU64<Sim>>>, cpu| {
        words[cpu as usize].0.store(1, Relaxed);
        meet();
        assert_eq!(words[(cpu as usize + 1) % 4096].0.load(Relaxed), 1);
    };
    let words = || (0..4096).map(|_| Alone(AtomicU64::new(0))).collect::<Vec<_>>();
    let report = run_on(setting, 4096, words, program).unwrap();
    assert_eq!((report.ended.len(), report.accesses), (4096, 8192));
    // 171 sockets of 24 CPUs, three of which are one node to the library.
    let machine = Machine::new(&setting, 4096, 4096).unwrap();
    assert_eq!(machine.soft().node_of(CpuId(4095)).0, 56);
    assert_eq!(machine.boot_map().regions().len(), 57);
}
