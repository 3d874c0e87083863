//! Floor 4: physical frames. Who has each one, where free ones come from, and small objects cut from them.
//!
//! ```text
//!   firmware          BootMap ── carved: records, caches ──┐
//!                        │ what is left                    │
//!                        ▼                                 ▼
//!                  Zone (a node)                       FrameTable
//!                  Buddy: free blocks, order 0..=10    FrameMeta × frames
//!                    ▲ │ lots of 32..128   ▲ │
//!                    │ ▼                   │ │ larger blocks
//!                  CpuCache × CPUs         │ │
//!                    ▲ │ one frame         │ │
//!                    │ ▼                   │ ▼
//!     Memory:  free_frame, alloc_frame   free, alloc     alloc_table, Pool<T>
//! ```
//!
//! [`Memory`] is what the floors above hold. The common case, one frame, is a pop or push on the CPU's own
//! stack and one store into the frame's record: no read-modify-write, no fence, no line that another CPU
//! writes.
//!
//! # One door
//!
//! Frame records are read and written by `frame::meta` alone. A record's first word is a value with pure
//! transitions ([`FrameState`]); what is not a transition does not happen: a frame freed twice, a table freed
//! while attached, or a frame that was never the library's is refused. Debug builds panic there; release
//! builds leave the frame alone and count it in [`Stats::refused`].
//!
//! # What is never out of reach
//!
//! An allocation that finds the zones empty takes over the caches of all CPUs (`biased`), gives their frames
//! to the zones, where they merge, and tries once more. Out of reach are only frames on their way at that
//! moment: at most one lot for each other CPU, between its zone and its cache.
//!
//! # Zeroed memory
//!
//! Memory comes as [`Init::Dirty`] or [`Init::Zeroed`], and a free block or cached frame remembers which. Who
//! asks for zeroed memory gets it zeroed once.
//!
//! docs/design/frames.md has the longer story.

mod alloc;
mod boot;
mod buddy;
mod cache;
mod check;
mod deferred;
mod folio;
mod index;
mod memory;
mod meta;
mod mishap;
mod nodes;
mod pool;
mod reclaim;
mod reserve;
mod slab;
mod start;
mod state;
mod stats;
mod table;
mod unhooked;
mod watermark;
mod words;
mod zone;

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;

pub use boot::{BootError, BootMap, EarlyAllocator, MAX_PHYS_BITS, Region, RegionKind};
pub use cache::{BATCH, CAPACITY};
pub use check::{FrameCheckError, FrameCounts};
pub use deferred::{NodeInitReport, SECTION_FRAMES};
pub use folio::{AllocRequest, Folio};
pub use index::{IndexPools, IndexStore};
pub use memory::Memory;
pub use meta::FrameMeta;
pub use nodes::FramePlacement;
pub use pool::Pool;
pub use reclaim::BootAllocator;
pub use reserve::IndexReserve;
pub use start::RecordInit;
pub use state::{FrameState, Kind};
pub use stats::Stats;
pub use table::FrameTable;
pub use unhooked::{GatherBatch, Unhooked};
pub use watermark::{Priority, Watermark};
pub(crate) use words::Words;
pub use zone::Zone;

/// What bytes of memory start as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Init {
    /// Anything.
    Dirty,
    /// Zero, every one.
    Zeroed,
}
