//! Floor 4: physical frames: their records, allocation and freeing, and slab pools of small objects.
//!
//! ```text
//!   firmware          BootMap ── boot memory: records, caches ──┐
//!                        │ the rest                             │
//!                        ▼                                      ▼
//!                  Zone (a node), in regions                FrameTable
//!                  Buddy: free blocks, order 0..=10         FrameMeta × frames
//!                    ▲ │ batches of 32..128   ▲ │
//!                    │ ▼                      │ │ larger blocks
//!                  CpuCache × CPUs            │ │
//!                    ▲ │ one frame            │ │
//!                    │ ▼                      │ ▼
//!     Memory:  alloc_frame, drop of Frame   alloc, drop of Folio   alloc_table, SlabPool<T>
//! ```
//!
//! | here | holds |
//! |---|---|
//! | `memory` | [`Memory`]: all physical memory of a machine; the interface to the floors above |
//! | `alloc`, `free`, `request` | every path of allocation and freeing; requests |
//! | `boot` | boot map, early set-up, memory never freed, [deferred init](DeferredInit) of records |
//! | `record` | the record of a frame, its state word, the table of all records, folios |
//! | `zone` | free blocks of a node, watermarks, the order in which zones are asked |
//! | `percpu` | each CPU's cache of single frames |
//! | `slab` | slab pools |
//! | `registry`, `held` | slab objects that are reached by a number; those that are held |
//! | `parts` | zeroing and copying of large blocks, with helpers |
//! | `owned` | frames and tables as values with one owner; those that wait for a flush |
//! | `hugetlb` | [`HugetlbPool`]: huge pages that are kept back from the zones |
//! | `huge_zero`, `zero_table` | [`ZeroPages`]: the huge zero page, and its users; the table that shows one |
//! | `deferred_free` | memory that waits for readers |
//! | `check`, `stats`, `mishap` | the recount, counters, injected failures |
//!
//! The common case, one frame, is a pop or push on the CPU's own stack and one store into the frame's record:
//! no read-modify-write, no fence, no line that another CPU writes.
//!
//! Parts of [`Memory`] with state and questions of their own are views: a value that borrows the memory, and
//! has the methods of its directory ([`DeferredInit`], [`HugetlbPool`], [`ZeroPages`]).
//!
//! # One door
//!
//! Frame records are read and written by `frame::record::meta` only. A record's first word is a value with
//! pure transitions ([`FrameState`]); every other change is refused.
//!
//! # Owners are values
//!
//! What is allocated is a value with one owner ([`Frame`], [`Folio`], [`TableFrame`]), which frees it by
//! being dropped; a frame number owns nothing. Where ownership must pass through a number, it comes back
//! through an `unsafe` function that asserts, in release builds too, that the frame is there to be taken
//! back.
//!
//! # Frames in caches are free memory
//!
//! An allocation that finds the zones empty revokes the caches of all CPUs
//! ([`sync::asymmetric`](crate::sync::asymmetric)), frees their frames to the zones, where they merge, and
//! tries once more. It misses only frames that are moving at that moment: at most one batch for each other
//! CPU, between its zone and its cache.
//!
//! # Zeroed memory
//!
//! Memory comes as [`Init::Dirty`] or [`Init::Zeroed`], and a free block or cached frame remembers which. A
//! request for zeroed memory zeroes it only if needed.
//!
//! docs/design/frames.md has the details.

mod alloc;
mod boot;
mod check;
mod deferred_free;
mod free;
mod held;
mod huge_zero;
mod hugetlb;
mod index_pools;
mod index_reserve;
mod memory;
mod mishap;
mod owned;
mod parts;
mod percpu;
mod record;
mod registry;
mod request;
mod slab;
mod stats;
mod zero_table;
mod zone;

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;

pub use boot::{
    BootAllocator, BootError, BootMap, BootMemory, DeferredInit, EarlyAllocator, MAX_PHYS_BITS,
    NodeInitReport,
};
pub use boot::{RECORDS_WRITTEN, RecordInit, Region, RegionKind, SECTION_FRAMES};
pub use check::{FrameCheckError, FrameCounts};
pub(crate) use held::{HeldRegistry, Hold};
pub use huge_zero::{HugeZeroOptions, ZeroPages};
pub(crate) use huge_zero::{HugeZeroUse, NoHugeZero, Taken};
pub(crate) use hugetlb::{HugetlbCopy, HugetlbFolio, HugetlbReservation, HugetlbTake, NotTaken, OwnerUnmap};
pub use hugetlb::{HugetlbCounts, HugetlbPool};
pub use index_pools::{IndexAllocator, IndexPools};
pub use index_reserve::IndexReserve;
pub use memory::Memory;
pub use owned::{Base, Contents, DetachedTable, Dirty, Folio, FolioSize, Frame, FrameRef, Mapped};
pub(crate) use owned::{Flushed, FolioFrames, FolioParts, GatherBatch, IfShared};
pub use owned::{MappedFolio, MappedFrame, PageFill, PinnedFrame, Zeroed};
pub(crate) use owned::{PageMarks, PageNode, PageSlot, PartialFolio, RootSlot, SlotContent, TakenSlot};
pub use owned::{TableFrame, Unhooked, ZeroedFolio, ZeroedFrame};
pub(crate) use owned::{UnhookedFrames, UnhookedLists, UserFrame, height_of_order, note_dirty};
pub use percpu::{BATCH, CAPACITY};
use record::FrameTable;
pub use record::{AnonKey, AnonNodeId, FrameMeta, FrameState, Kind, RecordExtent};
pub(crate) use record::{NotMappedAgain, SLOTS_PER_PART, Words};
pub(crate) use registry::{Registry, Removed};
pub use request::{AllocRequest, FramePlacement, Priority};
pub use slab::{BoundSlabPool, SlabPool};
pub use stats::Stats;
pub use zone::{Watermark, Zone};

/// The initial contents of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Init {
    /// Anything.
    Dirty,
    /// All zero.
    Zeroed,
}
