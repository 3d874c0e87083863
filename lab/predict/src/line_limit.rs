//! What one line allows that all CPUs write.

use crate::linux::Way;
use crate::sample::Operations;
use crate::system::{self, Space, System, Workload};
use crate::workload::{Named, Word};
use interleaf::space::Path;
use interleaf::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interleaf_lab::error::Failure;
use interleaf_lab::machine::sim::{Ps, Setting, measured, meet, pass};
use interleaf_lab::show::table::number;
use serde::Serialize;

/// How many operations a line allows that each of them writes. The field names are the JSON's and stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LineLimit {
    /// CPUs.
    pub cpus: u32,
    /// Read-modify-writes of the line in an operation.
    pub writes_of_operation: u32,
    /// Operations per second of all CPUs.
    pub rate: f64,
}

impl LineLimit {
    /// The limit of a workload on so many CPUs, if its operations write a line that they share: what CPUs do
    /// that write one line as often, in as much time of their own, and nothing else.
    ///
    /// # Errors
    /// How a run failed.
    pub fn of(workload: &Named, setting: Setting, cpus: u32) -> Result<Option<Self>, Failure> {
        let Some(writes_of_operation) = workload.writes_of_shared_line() else { return Ok(None) };
        let alone = workload.run(setting, Path::Speculative, 1)?;
        let between = (1e12 / alone.rate / f64::from(writes_of_operation)) as Ps;
        let bare = BareLine { writes: writes_of_operation, between };
        let rate = system::run(setting, &bare, Way::Library(Path::Speculative), cpus)?.rate;
        Ok(Some(Self { cpus, writes_of_operation, rate }))
    }

    /// In words.
    pub fn text(&self, operations: &str) -> String {
        format!(
            "A line that {} CPUs write, with {} writes each, allows {} {operations}/s in all.\n",
            self.cpus,
            self.writes_of_operation,
            number(self.rate)
        )
    }
}

/// Operations of a CPU that writes the bare line.
const OPERATIONS: u64 = 100;

/// Read-modify-writes of one word by all CPUs, and work of their own between them.
#[derive(Clone, Copy, Debug)]
struct BareLine {
    /// Writes of an operation.
    writes: u32,
    /// How long the work after each takes, with the write itself.
    between: Ps,
}

impl Workload for BareLine {
    type Shared<'v> = Box<Word>;

    fn frames(&self, _: u32) -> u64 {
        0
    }

    fn prepare<'v>(&self, _: &Space<'v>, _: Path, _: u32) -> Box<Word> {
        Box::new(Word(AtomicU64::new(0)))
    }

    fn run<'v>(&self, _: &System<'_, 'v>, word: &Box<Word>) -> Operations {
        let mut done = Operations::default();
        let operation = || {
            for _ in 0..self.writes {
                // Relaxed: a count, which is not read.
                word.0.fetch_add(1, Relaxed);
                pass(self.between);
            }
        };
        operation();
        meet();
        measured(|| (0..OPERATIONS).for_each(|_| done.operation(|_| operation())));
        // The others are measured beside as many as there are.
        meet();
        done
    }
}
