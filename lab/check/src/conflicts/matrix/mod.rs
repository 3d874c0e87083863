//! The conflict matrix: every pair of memory operations that commute, in random states, at every distance.
//!
//! ```text
//!   seed ─► state: mappings, rights, touched pages, tables      model: first, second = second, first?
//!                      │                                              │ answers, maps, pages alike
//!                      ▼                                              ▼
//!           recorder: CPU 0 does the one, CPU 1 the other   ─► lines that one writes and the other touches
//!                                                                     │
//!                       free: none        shared: named by field and site, with the reason
//! ```
//!
//! Where the order of two operations is visible in no result, an implementation need not order them: none
//! of their lines has to move between CPUs (the commutativity rule of Clements and others, SOSP 2013). A line
//! that moves all the same is a limit of this implementation, and has a reason in [`FIELDS`].
//!
//! What is paid once for many operations is left out: each CPU has frames in its cache and objects in its
//! stacks, and has edited the space before. `docs/results/conflicts.md` counts that part.
//!
//! The fields of each pair and distance are pinned in `lab/check/tests/counted/matrix.txt`.

mod cell;
mod chart;
mod fields;
mod operation;
mod pinned;
mod report;
mod state;

pub use cell::{Cell, Shared};
pub use chart::svg;
pub use fields::{FIELDS, Field, NEIGHBOURS};
pub use operation::{Distance, Operation};
pub use report::{Listed, Report};

use interleaf_lab::os::on_all_cpus;
use std::convert::Infallible;

/// Plays the cells of `wanted` pairs, on all CPUs of the host, each in so many states; `done` is called with
/// the name of each before it begins.
///
/// # Panics
/// As [`Cell::play`].
#[must_use]
pub fn play(
    wanted: impl Fn([Operation; 2]) -> bool,
    states: u64,
    seed: u64,
    begun: impl Fn(&str) + Sync,
) -> Vec<Cell> {
    let pairs = Operation::pairs().filter(|&pair| wanted(pair));
    let cells = pairs.flat_map(|pair| Distance::ALL.map(move |distance| (pair, distance)));
    let play = |(pair, distance): ([Operation; 2], Distance)| -> Result<Cell, Infallible> {
        begun(&format!("{} beside {}, {distance}", pair[0], pair[1]));
        Ok(Cell::play(pair, distance, states, seed))
    };
    match on_all_cpus(cells.collect(), play) {
        Ok(cells) => cells,
        Err(never) => match never {},
    }
}
