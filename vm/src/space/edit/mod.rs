//! How a writer edits a space: records first, entries afterwards.
//!
//! | file | what |
//! |---|---|
//! | `replace` | mappings are replaced by others at one instant |
//! | `zap` | entries are cleared, flushed and freed; empty tables are freed |

mod replace;
mod zap;

pub use replace::VmaEdit;
