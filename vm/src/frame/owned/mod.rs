//! Frames and tables owned as values: each has one owner, which frees it by being dropped.
//!
//! | file | holds |
//! |---|---|
//! | `single` | [`Frame`], [`ZeroedFrame`]: one frame, put to no use yet |
//! | `folio` | [`Folio`]: a block of frames |
//! | `frame_ref` | [`FrameRef`], [`MappedFrame`], [`PinnedFrame`]: counted references to user memory |
//! | `table_frame` | [`TableFrame`], [`DetachedTable`]: a table not linked yet, and one that was detached |
//! | `unhooked` | [`Unhooked`]: one cleared translation, which must be flushed and then freed |
//! | `gather_batch` | [`GatherBatch`]: frames and tables that wait for one flush |
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

mod folio;
mod frame_ref;
mod gather_batch;
mod single;
mod table_frame;
mod unhooked;

pub use folio::Folio;
pub use frame_ref::{FrameRef, MappedFrame, PinnedFrame};
pub(crate) use gather_batch::GatherBatch;
pub use single::{Frame, ZeroedFrame};
pub use table_frame::{DetachedTable, TableFrame};
pub use unhooked::Unhooked;
