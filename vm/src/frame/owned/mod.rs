//! Frames and tables just removed from a page table: a TLB may still hold the translation, so they are not
//! free yet.
//!
//! | file | holds |
//! |---|---|
//! | `unhooked` | [`Unhooked`]: one cleared translation, which must be flushed and then freed |
//! | `gather_batch` | [`GatherBatch`]: frames and tables that wait for one flush |

mod gather_batch;
mod unhooked;

pub use gather_batch::GatherBatch;
pub use unhooked::Unhooked;
