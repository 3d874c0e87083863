//! Transparent huge pages: random calls on an arena of several huge pages, the library beside the obvious
//! model and beside the host's Linux.
//!
//! | file | holds |
//! |---|---|
//! | `generate` | random calls |
//! | `sequence` | the library against the model |
//! | `beside` | Linux against the model, and the library; what explains a difference |
//! | `host` | the host's setting, and its counters |

mod beside;
mod generate;
pub mod host;
mod sequence;

pub use beside::{Beside, BesideCounts, Kind};
pub use generate::huge_sequence;
pub use sequence::{SequenceCounts, library_setting, run_sequence};

use super::calls::PAGE;

/// Pages of a huge page.
pub(crate) const HUGE: u64 = 512;
/// Bytes of a huge page.
pub(crate) const HUGE_BYTES: u64 = HUGE * PAGE;
