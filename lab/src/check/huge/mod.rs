//! Transparent huge pages: random calls on an arena of several huge pages against the obvious model, and
//! pairs of operations on the seeded machine.
//!
//! | file | holds |
//! |---|---|
//! | `sequence` | random calls; answers, contents and residency against the model |
//! | `residency` | which pages are there, as the obvious rules of huge pages say |
//! | `pairs` | two CPUs at once on huge pages |
//! | `pool_pairs` | two CPUs at once on memory of the reserved pool |

mod pairs;
mod pool_pairs;
mod residency;
mod sequence;

pub use pairs::{HugeOperation, all_collapses, all_huge, run_huge_cuts, run_huge_pair};
pub use pool_pairs::{PoolOperation, all_pool, run_pool_pair};
pub use sequence::{SequenceCounts, run_sequence};

use super::calls::PAGE;

/// Pages of a huge page.
const HUGE: u64 = 512;
/// Bytes of a huge page.
const HUGE_BYTES: u64 = HUGE * PAGE;
