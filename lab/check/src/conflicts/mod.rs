//! For which lines two operations contend (the conflict test), and what one fault costs in shared lines.
//!
//! Two CPUs work in turns on one machine while the recorder counts what each touches, by field. A line that
//! one of them writes and the other touches is a *conflict*: on a large machine it would move between caches.
//! Every conflict has a name, from what lies there (`Names`), so that a list of them can be checked in:
//! `lab/check/tests/counted/conflicts.txt`, which only ever gets shorter.

mod cost;
pub mod matrix;
mod scenarios;
mod scenes;
mod turns;

pub use cost::{Cost, of_faults};
pub use scenarios::{Pair, fight};
pub use scenes::{Operation, Scene, Where};

use interleaf_lab::machine::watch::{Conflict, Labels, Names};
use std::collections::BTreeMap;
use std::fmt;

/// The lines with one name for which two operations contend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fight {
    /// How many lines.
    pub lines: u64,
    /// Writes of both to them.
    pub writes: u64,
}

/// The lines for which two operations contend, by name and by whether both write.
#[derive(Clone, Debug, Default)]
pub struct Fights {
    /// Conflicts by their names in the checked-in list.
    pub by_name: BTreeMap<String, Fight>,
    /// The same, line by line, with the places in the source.
    pub in_full: String,
}

impl Fights {
    fn of(conflicts: &[Conflict], names: &Names, labels: &Labels) -> Self {
        let mut fights = Self::default();
        for conflict in conflicts {
            let fight = fights.by_name.entry(called(conflict, names)).or_default();
            fight.lines += 1;
            fight.writes += writes(conflict);
            // One of each kind is enough for people.
            if fight.lines == 1 {
                fights.in_full += &conflict.show(labels).to_string();
            }
        }
        fights
    }

    /// The lines that both write, by name.
    pub fn written_by_both(&self) -> impl Iterator<Item = (&str, &Fight)> {
        self.by_name.iter().filter_map(|(name, fight)| Some((name.strip_prefix(BOTH_WRITE)?, fight)))
    }
}

const BOTH_WRITE: &str = "both write: ";

/// `both write: NAME` or `one writes: NAME`.
fn called(conflict: &Conflict, names: &Names) -> String {
    let how = if conflict.both_write { BOTH_WRITE } else { "one writes: " };
    format!("{how}{}", written(conflict, names).join(" + "))
}

/// What is written on the line, each name once.
fn written(conflict: &Conflict, names: &Names) -> Vec<String> {
    let uses = conflict.first.iter().chain(&conflict.second);
    let mut fields: Vec<_> =
        uses.filter(|used| used.kind.writes()).map(|used| names.of(used.addr, used.place)).collect();
    fields.sort();
    fields.dedup();
    fields
}

fn writes(conflict: &Conflict) -> u64 {
    let uses = conflict.first.iter().chain(&conflict.second);
    uses.filter(|used| used.kind.writes()).map(|used| used.count).sum()
}

impl fmt::Display for Fights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, fight) in &self.by_name {
            writeln!(f, "  {:>6} lines  {:>8} writes  {name}", fight.lines, fight.writes)?;
        }
        Ok(())
    }
}
