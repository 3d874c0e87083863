//! Exact counts of the seeded and of the recording machine that `interleaf bench` holds bars against.

use crate::conflicts::{Operation, Scene, Where};
use crate::fairness;
use interleaf::space::Path;
use interleaf_lab::error::Failure;
use interleaf_lab::measure::bench::Options;
use serde::Serialize;

/// A count, under the name of its figure. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The name of the figure.
    pub name: &'static str,
    /// The count.
    pub value: f64,
    /// What it is the sum of, each with its name.
    pub parts: Vec<(String, f64)>,
}

impl Count {
    fn new(name: &'static str, value: f64) -> Self {
        Self { name, value, parts: Vec::new() }
    }
}

/// What can be counted: a name, and the function that counts.
type Counted = (&'static str, fn(&Options) -> Result<Vec<Count>, Failure>);

/// Everything that can be counted.
pub const COUNTED: &[Counted] = &[("fair.waits", waits), ("spaces.shared", shared_lines)];

/// The longest waits for the reader-writer lock, in grants to the other side, under many schedules.
fn waits(options: &Options) -> Result<Vec<Count>, Failure> {
    let (_, longest) = fairness::longest_waits(0..options.size(1000, 50))
        .map_err(|report| Failure::check(report.to_string()))?;
    Ok(vec![
        Count::new("fair.reader_wait", longest.writers_before_reader.into()),
        Count::new("fair.writer_wait", longest.phases_before_writer.into()),
    ])
}

/// Writes, by both CPUs, to lines that both write, for each mmap and munmap of a page in two spaces; by the
/// names of the lines.
fn shared_lines(options: &Options) -> Result<Vec<Count>, Failure> {
    let each = options.size(10_000, 100);
    let (first, second) = (Operation::MapUnmap, Operation::MapUnmap);
    let fights = Scene { first, second, place: Where::TwoSpaces }.fight(Path::Speculative, each);
    let a_pair = |writes: u64| writes as f64 / (2 * each) as f64;
    let parts: Vec<(String, f64)> =
        fights.written_by_both().map(|(name, fight)| (name.to_owned(), a_pair(fight.writes))).collect();
    let value = parts.iter().map(|(_, writes)| writes).sum();
    Ok(vec![Count { name: "spaces.lines", value, parts }])
}
