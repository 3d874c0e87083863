//! How a writer edits a space: it locks a range, replaces records, then edits entries.
//!
//! | file | what |
//! |---|---|
//! | `guard` | locks of ranges, and what their holders may touch |
//! | `limits` | how many mappings and pages a writer may add |
//! | `lookup` | mappings are read |
//! | `replace` | mappings are replaced by others at one instant |
//! | `zap` | entries are edited, flushed and freed; empty tables are freed |

mod guard;
mod limits;
mod lookup;
mod replace;
#[cfg(all(test, not(loom)))]
mod tests;
mod zap;

pub use guard::{Held, RangeGuard, RangeReadGuard};
pub use replace::VmaEdit;
