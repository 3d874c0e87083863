//! Transparent huge pages: random calls on an arena of several huge pages, the library beside the obvious
//! model and beside the host's Linux, and pairs of operations on the seeded machine.
//!
//! | file | holds |
//! |---|---|
//! | `generate` | random calls |
//! | `sequence` | the library against the model |
//! | `beside` | Linux against the model, and the library; what explains a difference |
//! | `host` | the host's setting, and its counters |
//! | `scene` | two CPUs at once that run one space, whatever they do |
//! | `pairs` | what they do on huge pages |
//! | `object_pairs` | what they do on huge pages of shared memory |
//! | `pool_pairs` | what they do on memory of the hugetlb pool |

mod beside;
mod generate;
pub mod host;
mod object_pairs;
mod pairs;
mod pool_pairs;
mod scene;
mod sequence;

pub use beside::{Beside, BesideCounts, Kind};
pub use generate::huge_sequence;
pub use object_pairs::{ObjectOperation, all_objects, run_object_pair};
pub use pairs::{HugeOperation, all_collapses, all_forks, all_huge, run_huge_cuts, run_huge_pair};
pub use pairs::{run_size_cuts, run_size_pair};
pub use pool_pairs::{PoolOperation, all_pool, run_pool_pair};
pub use sequence::{SequenceCounts, library_setting, run_sequence};

use super::calls::PAGE;

/// Pages of a huge page.
const HUGE: u64 = 512;
/// Bytes of a huge page.
const HUGE_BYTES: u64 = HUGE * PAGE;
