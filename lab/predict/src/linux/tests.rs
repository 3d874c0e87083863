//! The model keeps out what Linux's locks keep out, and its CPUs all come to their ends.

use super::{LinuxLock, LinuxLocks, Way, me};
use interleaf::space::Path;
use interleaf::table::format::X86_64;
use interleaf_lab::machine::sim::{NodeMachine, Profile, Program, Setting, Stage, pass, run};
use std::cell::Cell;

const CPUS: u32 = 6;
const ROUNDS: u32 = 60;
const KINDS: [LinuxLock; 3] = [LinuxLock::Mmap, LinuxLock::VmaRwsem, LinuxLock::VmaCount];

/// What is in a mapping.
#[derive(Default)]
struct Inside {
    faults: Cell<u32>,
    calls: Cell<u32>,
    done: Cell<u32>,
}

impl Inside {
    fn fault(&self, time: u64) {
        self.faults.set(self.faults.get() + 1);
        assert_eq!(self.calls.get(), 0, "a fault beside a call");
        pass(time);
        assert_eq!(self.calls.get(), 0, "a call beside a fault");
        self.faults.set(self.faults.get() - 1);
        self.done.set(self.done.get() + 1);
    }

    fn call(&self, time: u64) {
        assert_eq!(self.calls.replace(1), 0, "two calls");
        assert_eq!(self.faults.get(), 0, "a call beside a fault");
        pass(time);
        assert_eq!(self.faults.get(), 0, "a fault beside a call");
        self.calls.set(0);
        self.done.set(self.done.get() + 1);
    }
}

/// Each CPU faults and calls by turns, as its number and the seed say; `most` is the longest stay, in ps.
fn play(stage: &Stage, kind: LinuxLock, most: u64) -> u32 {
    let machine = NodeMachine::<X86_64>::new(stage.setting(), CPUS, 4096).expect("memory");
    let (locks, inside) = (LinuxLocks::new(kind, CPUS, 1), Inside::default());
    let program = |cpu: u32| -> Program<'_> {
        let (locks, inside) = (&locks, &inside);
        Box::new(move || {
            for round in 0..ROUNDS {
                let drawn = (cpu * 7919 + round * 104_729) % 1000;
                let time = most * u64::from(drawn) / 1000;
                match drawn % 5 {
                    0 => locks.call(0, || inside.call(time)),
                    1 => locks.discard(|| pass(time)),
                    _ => locks.fault(0, || inside.fault(time)),
                }
                pass(time / 3);
            }
            assert_eq!(me(), cpu as usize);
        })
    };
    stage.run(&machine, (0..CPUS).map(program).collect());
    inside.done.get()
}

fn played(kind: LinuxLock, most: u64) {
    let costs = Profile::built_in("cascade-lake").expect("it is one of the repository's").costs;
    for seed in 1..6 {
        let setting = Setting { seed, ..Setting::new(costs) };
        let done =
            run(setting, move |stage: &Stage| play(stage, kind, most)).expect("all come to their ends");
        assert!(done > CPUS * ROUNDS / 2, "{kind:?}: {done}");
    }
}

#[test]
fn no_fault_is_beside_a_call_where_stays_are_short() {
    KINDS.into_iter().for_each(|kind| played(kind, 200_000));
}

/// Writers give up spinning, and sleep.
#[test]
fn no_fault_is_beside_a_call_where_stays_are_long() {
    KINDS.into_iter().for_each(|kind| played(kind, 60_000_000));
}

/// Sleepers lose their patience, and are handed the semaphore.
#[test]
fn no_fault_is_beside_a_call_where_stays_are_very_long() {
    KINDS.into_iter().for_each(|kind| played(kind, 9_000_000_000));
}

#[test]
fn each_way_has_a_name_of_its_own() {
    let ways = KINDS.map(Way::Linux).into_iter().chain(Path::ALL.map(Way::Library));
    let names: std::collections::BTreeSet<_> = ways.map(Way::name).collect();
    assert_eq!(names.len(), KINDS.len() + Path::ALL.len());
}
