//! The reader-writer lock is phase-fair, whatever the schedule: the lock itself asserts, in builds with debug
//! assertions, how often the other side was granted the lock between a request and its own grant.

use interleaf::machine::{Cpu as _, Machine as _};
use interleaf::sync::RwLock;
use interleaf::sync::atomic::{AtomicU32, Ordering::Relaxed};
use interleaf::table::format::X86_64;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};

type Machine = SoftMachine<Baton, X86_64>;

const WRITER: u32 = 1 << 16;

/// Four CPUs take the lock again and again; the seed decides how, and which writers become readers.
fn readers_and_writers(schedule: &Schedule) {
    let machine = Machine::new(&MachineConfig::small(4, 16)).expect("a machine");
    let (lock, inside) = (RwLock::<Baton, 2>::new(), AtomicU32::<Baton>::new(0));
    let seed = schedule.seed();
    let program = || -> Program<'_> {
        Box::new(|| {
            let cpu = Baton::id().0;
            for round in 0..8 {
                match (seed >> (round % 5)) as u32 + round * (cpu + 1) {
                    n if n % 4 == 0 => {
                        let writer = lock.write();
                        assert_eq!(inside.fetch_add(WRITER, Relaxed), 0, "a writer is alone");
                        inside.fetch_sub(WRITER - 1, Relaxed);
                        let _reader = writer.downgrade();
                        assert!(inside.fetch_sub(1, Relaxed) < WRITER, "no writer is beside a reader");
                    }
                    n if n % 2 == 0 => {
                        let _writer = lock.write();
                        assert_eq!(inside.fetch_add(WRITER, Relaxed), 0, "a writer is alone");
                        inside.fetch_sub(WRITER, Relaxed);
                    }
                    _ => {
                        let _reader = lock.read();
                        assert!(inside.fetch_add(1, Relaxed) < WRITER, "no writer is beside a reader");
                        inside.fetch_sub(1, Relaxed);
                    }
                }
            }
        })
    };
    schedule.run(&machine, (0..machine.nr_cpus()).map(|_| program()).collect());
    assert_eq!(inside.load(Relaxed), 0);
    assert!(lock.try_read().is_some(), "the lock is free");
}

#[test]
fn a_reader_waits_for_one_writer_and_a_writer_for_one_phase_of_readers_for_each_ahead() {
    let summary =
        explore(0..1000, Options::default(), readers_and_writers).unwrap_or_else(|report| panic!("{report}"));
    assert!(summary.seeds == 1000 && summary.switches > 10_000, "{summary:?}");
}
