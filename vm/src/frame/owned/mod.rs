//! What was just removed from a page table: still in some CPU's TLB perhaps, so not free yet.
//!
//! | file | holds |
//! |---|---|
//! | `unhooked` | [`Unhooked`]: one cleared translation, which must be flushed and then freed |
//! | `gather_batch` | [`GatherBatch`]: all that waits for one flush, without allocating |

mod gather_batch;
mod unhooked;

pub use gather_batch::GatherBatch;
pub use unhooked::Unhooked;
