//! Frames and tables owned as values: each has one owner, which frees it by being dropped.
//!
//! | file | holds |
//! |---|---|
//! | `single` | [`Frame`], [`ZeroedFrame`]: one frame, put to no use yet |
//! | `folio` | [`Folio`]: a run of frames |
//! | `mapped_folio` | [`ZeroedFolio`], [`MappedFolio`]: a folio for a huge entry, and what the entry holds |
//! | `object_folio` | [`FolioFrames`]: a folio that is memory of an object, and its split |
//! | `partial_folio` | [`PartialFolio`]: a folio that is being filled |
//! | `page_fill` | [`PageFill`]: a frame that an embedder fills with a page of an object |
//! | `frame_ref` | [`FrameRef`], [`MappedFrame`], [`PinnedFrame`]: counted references to user memory |
//! | `table_frame` | [`TableFrame`], [`DetachedTable`]: a table not linked yet, and one that was detached |
//! | `page_marks` | [`PageMarks`]: what is to be done with a page |
//! | `page_node` | [`RootSlot`], [`PageSlot`]: slots of page indexes, which own frames and nodes |
//! | `shared_leaf` | what a gather keeps of a leaf whose frames others may map too |
//! | `unhooked` | [`Unhooked`]: a cleared translation; [`GatherBatch`]: what waits for a flush |
//! | `flushed` | [`Flushed`]: the proof of it; [`IfShared`]: what becomes of frames that others may map too |
//! | `unhooked_lists` | [`UnhookedLists`]: what several workers have unhooked |
//!
//! A value is a reference to its [`Memory`](super::Memory) and a frame number. Numbers alone own nothing:
//!
//! ```compile_fail,E0382
//! # use interleaf::{frame::*, machine::*};
//! fn free_twice<M: Machine>(frame: Frame<'_, M>) {
//!     drop(frame);
//!     drop(frame);
//! }
//! ```
//!
//! `into_pfn` gives ownership up and leaks the frame, and the `unsafe` `from_pfn` takes it back.

mod flushed;
mod folio;
mod frame_ref;
mod mapped;
mod object_folio;
mod page_fill;
mod page_marks;
mod page_node;
mod partial_folio;
mod parts;
mod shared_leaf;
mod table_frame;
mod unhooked;
mod unhooked_lists;

pub(crate) use flushed::{Flushed, IfShared};
pub use folio::{Base, Contents, Dirty, Folio, FolioSize, Frame, Zeroed, ZeroedFolio, ZeroedFrame};
pub(crate) use frame_ref::UserFrame;
pub use frame_ref::{FrameRef, PinnedFrame};
pub use mapped::{Mapped, MappedFolio, MappedFrame};
pub(crate) use object_folio::FolioFrames;
pub use page_fill::PageFill;
pub(crate) use page_marks::PageMarks;
pub(crate) use page_node::{PageNode, PageSlot, RootSlot, SlotContent, TakenSlot, height_of_order};
pub(crate) use partial_folio::PartialFolio;
pub(crate) use parts::FolioParts;
pub use table_frame::{DetachedTable, TableFrame};
pub use unhooked::Unhooked;
pub(crate) use unhooked::{GatherBatch, UnhookedFrames, note_dirty};
pub(crate) use unhooked_lists::UnhookedLists;
