//! Frame records: the kind and state of each physical frame, and its counts of references, mappings and pins.
//!
//! | file | holds |
//! |---|---|
//! | `kind` | [`Kind`]: what a frame is used for |
//! | `state` | [`FrameState`]: kind, order, flags and refcount in one word; its transitions |
//! | `meta` | [`FrameMeta`]: the record, and the only code that reads or writes one |
//! | `mappings` | the count of the entries of a base frame |
//! | `anon_key` | [`AnonKey`]: the page that mapped a frame of anonymous memory first |
//! | `folio` | the records of a folio that huge entries map |
//! | `shared_folio` | the count of the huge entries of one folio, up to its split |
//! | `table` | [`FrameTable`]: all records, by frame number |
//! | `extent` | [`RecordExtent`]: records in one piece of memory, and on which node that is |
//! | `words` | [`Words`]: a table frame as 512 shared words |

mod anon_key;
mod extent;
mod folio;
mod kind;
mod mappings;
mod meta;
mod retired;
mod shared_folio;
mod state;
mod table;
mod words;

pub use anon_key::{AnonKey, AnonNodeId};
pub use extent::RecordExtent;
pub(in crate::frame) use extent::{RECORD_BYTES, RECORDS_IN_PAGE};
pub use kind::Kind;
pub use meta::FrameMeta;
pub(in crate::frame) use meta::Links;
pub(crate) use meta::{NotMappedAgain, SLOTS_PER_PART};
pub(in crate::frame) use shared_folio::{FolioLeaves, LeafDropped};
pub use state::FrameState;
pub(in crate::frame) use state::buddy_of;
pub(in crate::frame) use table::FrameTable;
pub(crate) use words::Words;
