//! The seeded machine finds what it should, and nothing else.

use super::*;
use crate::machine::soft::tests::Tiny;
use crate::machine::soft::{MachineConfig, SoftMachine};
use crate::machine::watch::Labels;
use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::{Cpu, Machine};
use interleaf::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use interleaf::sync::{Carve, Event, Handler, Registration, RwLock, SpinLock, wait_until};
use interleaf::units::{CpuId, CpuMask, NodeId, PAGE_SIZE};

type TestMachine = SoftMachine<Baton, Tiny>;

fn machine(nr_cpus: u32) -> TestMachine {
    SoftMachine::new(&MachineConfig::small(nr_cpus, 16)).unwrap()
}

/// Runs the same program on every CPU.
fn everywhere(schedule: &Schedule, machine: &TestMachine, program: &dyn Fn()) {
    let nr_cpus = machine.nr_cpus() as usize;
    schedule.run(machine, (0..nr_cpus).map(|_| Box::new(program) as Program<'_>).collect());
}

fn count_under_a_lock(schedule: &Schedule) {
    let (machine, lock) = (machine(2), SpinLock::<u64, Baton, 3>::new(0));
    everywhere(schedule, &machine, &|| (0..20).for_each(|_| *lock.lock() += 1));
    assert_eq!(*lock.lock(), 40);
}

/// A lock that looks and then takes.
fn count_under_a_broken_lock(schedule: &Schedule) {
    let (machine, word, count) = (machine(2), AtomicU32::<Baton>::new(0), AtomicU64::<Baton>::new(0));
    everywhere(schedule, &machine, &|| {
        for _ in 0..20 {
            wait_until::<Baton>(|| word.load(Acquire) == 0);
            word.store(1, Relaxed);
            count.add_own(1);
            word.store(0, Release);
        }
    });
    assert_eq!(count.load(Relaxed), 40);
}

#[test]
fn a_sound_lock_passes_every_seed_and_a_broken_one_is_caught() {
    let summary = explore(0..300, Options::default(), count_under_a_lock).unwrap();
    assert!(summary.seeds == 300 && summary.switches > 3000, "{summary:?}");
    let caught = explore(0..10, Options::default(), count_under_a_broken_lock).unwrap_err();
    assert!(matches!(&caught.verdict, Verdict::Failed { cpu: None, message } if message.contains("40")));
}

#[test]
fn a_seed_reproduces_and_seeds_differ() {
    let run = |seed| run_seed(seed, Options::default(), count_under_a_broken_lock);
    let runs: Vec<_> = (0..20).map(|seed| (run(seed), run(seed))).collect();
    for (first, again) in &runs {
        let steps =
            |report: &Report| report.last.iter().map(|step| (step.number, step.cpu)).collect::<Vec<_>>();
        assert_eq!(
            (first.fingerprint, first.steps, first.switches),
            (again.fingerprint, again.steps, again.switches)
        );
        assert_eq!((steps(first), &first.verdict), (steps(again), &again.verdict));
    }
    let mut prints: Vec<_> = runs.iter().map(|(report, _)| report.fingerprint).collect();
    prints.sort_unstable();
    prints.dedup();
    assert!(prints.len() > 15, "{} different runs of 20", prints.len());
}

#[test]
fn two_that_sleep_with_none_to_wake_them_are_a_deadlock() {
    let scenario = |schedule: &Schedule| {
        let (machine, word) = (machine(2), AtomicU32::<Baton>::new(0));
        everywhere(schedule, &machine, &|| word.sleep_while(0));
    };
    let report = run_seed(1, Options::default(), scenario);
    let Verdict::Deadlock(sleepers) = &report.verdict else { panic!("{report}") };
    assert_eq!(sleepers.iter().map(|(cpu, _)| cpu.0).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_wait_that_never_ends_is_a_livelock() {
    let scenario = |schedule: &Schedule| {
        let (machine, word) = (machine(2), AtomicU32::<Baton>::new(0));
        everywhere(schedule, &machine, &|| wait_until::<Baton>(|| word.load(Relaxed) == 1));
    };
    let report = run_seed(1, Options { limit_steps: 5000, keep: 10 }, scenario);
    assert_eq!((&report.verdict, report.last.len()), (&Verdict::Livelock, 10));
}

#[test]
fn a_panic_on_a_cpu_is_told_with_its_cpu_and_the_last_steps() {
    let scenario = |schedule: &Schedule| {
        let (machine, word) = (machine(2), AtomicU32::<Baton>::new(0));
        let first: Program<'_> = Box::new(|| wait_until::<Baton>(|| word.load(Acquire) == 7));
        let second: Program<'_> = Box::new(|| {
            word.store(7, Release);
            panic!("on purpose");
        });
        schedule.run(&machine, vec![first, second]);
        unreachable!("the scenario is over");
    };
    let report = run_seed(3, Options::default(), scenario);
    assert_eq!(report.verdict, Verdict::Failed { cpu: Some(CpuId(1)), message: "on purpose".into() });
    let text = report.show(&Labels::new()).to_string();
    assert!(text.starts_with("seed 3: failed on cpu 1: on purpose"), "{text}");
    let store = text.lines().find(|line| line.contains("store")).unwrap();
    assert!(store.contains("tests/mod.rs:") && store.find("store") > Some(40), "{text}");
}

#[test]
fn sleepers_on_an_rwlock_are_never_lost() {
    let scenario = |schedule: &Schedule| {
        let (machine, count) = (machine(3), AtomicU64::<Baton>::new(0));
        let lock = RwLock::<Baton, 2>::new();
        everywhere(schedule, &machine, &|| {
            for round in 0..6 {
                if (round + Baton::id().0) % 3 == 0 {
                    let _writer = lock.write();
                    count.add_own(1);
                } else {
                    let _reader = lock.read();
                    let before = count.load(Relaxed);
                    assert_eq!(count.load(Relaxed), before);
                }
            }
        });
        assert_eq!(count.load(Relaxed), 6);
    };
    explore(0..500, Options::default(), scenario).unwrap_or_else(|report| panic!("{report}"));
}

/// CPU 0 asks CPU 1, which sleeps or has come to its end, and waits for the answer.
#[test]
fn an_interrupt_reaches_a_cpu_that_sleeps_or_has_nothing_to_do() {
    /// Sets the bit of the CPU that answers.
    struct Mark(AtomicU32<Baton>);
    impl Handler<TestMachine> for Mark {
        type State<'x> = Mark;
        const EVENT: Event = Event::Interrupt;

        fn carve<'x>(_: &mut impl Carve<'x>, _: &TestMachine) -> Option<Mark> {
            Some(Mark(AtomicU32::new(0)))
        }
        fn shorten<'a, 's, 'l: 's>(state: &'a Mark) -> &'a Mark {
            state
        }
        fn handle(state: &Mark, _: &TestMachine) {
            state.0.fetch_or(1 << Baton::id().0, Release);
        }
    }
    let scenario = |schedule: &Schedule| {
        let (machine, bell) = (machine(3), AtomicU32::<Baton>::new(0));
        let start = machine.arena().regions()[0].start.addr();
        let kind = RegionKind::Usable(Init::Dirty);
        let region = Region { start, len_bytes: PAGE_SIZE as u64, kind, node: NodeId(0) };
        let mut memory = BootMap::new(&[region]).unwrap().claim(&machine).unwrap();
        let mark = Registration::<_, Mark>::register(&machine, &mut memory.early_allocator()).unwrap();
        let asks: Program<'_> = Box::new(|| {
            let mut targets = CpuMask::from_words([0b111]);
            targets.remove(CpuId(0));
            machine.interrupt(&targets);
            wait_until::<Baton>(|| mark.0.load(Acquire) == 6);
            bell.store(1, Release);
            bell.wake(1);
        });
        let sleeps: Program<'_> = Box::new(|| {
            while bell.load(Acquire) == 0 {
                bell.sleep_while(0);
            }
        });
        schedule.run(&machine, vec![asks, sleeps, Box::new(|| ())]);
    };
    explore(0..300, Options::default(), scenario).unwrap_or_else(|report| panic!("{report}"));
}
