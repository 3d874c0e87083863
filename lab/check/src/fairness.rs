//! Is the reader-writer lock phase-fair, whatever the schedule? The lock counts, for those that wait, the
//! grants to the other side between a request and its own grant.

use interleaf::machine::{Cpu as _, Machine as _};
use interleaf::sync::atomic::{AtomicU32, Ordering::Relaxed};
use interleaf::sync::{LongestWaits, RwLock};
use interleaf::table::format::X86_64;
use interleaf_lab::machine::baton::{Baton, Options, Program, Report, Schedule, Summary, explore};
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

const WRITER: u32 = 1 << 16;

/// Has four CPUs take a lock again and again under the schedule of each seed, and returns the longest waits
/// of all seeds.
///
/// # Errors
/// The report of the first seed under which the lock is wrong.
pub fn longest_waits(seeds: Range<u64>) -> Result<(Summary, LongestWaits), Box<Report>> {
    let longest = Arc::new(Mutex::new(LongestWaits::default()));
    let of_all = longest.clone();
    let summary = explore(seeds, Options::default(), move |schedule| {
        let waits = readers_and_writers(schedule);
        let mut longest = longest.lock().unwrap_or_else(PoisonError::into_inner);
        *longest = LongestWaits {
            writers_before_reader: longest.writers_before_reader.max(waits.writers_before_reader),
            phases_before_writer: longest.phases_before_writer.max(waits.phases_before_writer),
            writers_past_writer: longest.writers_past_writer.max(waits.writers_past_writer),
        };
    })?;
    let longest = *of_all.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((summary, longest))
}

/// Four CPUs take the lock again and again; the seed decides how, and which writers become readers.
fn readers_and_writers(schedule: &Schedule) -> LongestWaits {
    type Machine = SoftMachine<Baton, X86_64>;
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
    // The lock's own lock wants a CPU.
    let _cpu = machine.enter(interleaf::units::CpuId(0));
    lock.longest_waits()
}
