//! Floor 5: memory that several mappings map, and the index that says which frame holds which page of it.
//!
//! | file | holds |
//! |---|---|
//! | `shared` | `Object`: shared anonymous memory, of base pages or of the hugetlb pool |
//! | `objects` | `Objects`: all objects of a system, by number |
//! | `length` | where its pages end |
//! | `mapped` | what keeps an object: mappings and handles |
//! | `dirty` | which pages of an index are to be written back |
//! | `write_back` | writing pages back: batches of dirty pages |
//! | `errors` | errors of writing back, and which of them were reported: [`ErrorCursor`] |
//! | `views` | which spaces map an object, and where |
//! | `page_index` | page of an object to its frame |
//! | `seals` | [`Seals`]: what may not happen to an object any more |
//! | `pager` | [`Pager`]: the embedder's objects, and waits for their pages |
//!
//! There is shared anonymous memory: an `Object` that is created with its mapping, or by a handle
//! ([`ObjectHandle`](crate::space::ObjectHandle)), and dies when no page of it is mapped any more and no
//! handle holds it. Its pages are base pages, folios of 512 of them that faults have given it, or huge pages
//! of the hugetlb pool. And there are objects of the embedder, by a handle: what faults find missing, a
//! [`Pager`] fills, without sleeping. The frames are the object's, here; what an embedder does to have them
//! written back, or that a page goes again, comes with files.
//!
//! Private mappings show the same frames, and are never written through: see `space::fault`.
//!
//! # The frame of a page (protocol P12 of `docs/design/protocols.md`)
//!
//! A fault asks the index without a lock, prepares, and asks again under the lock of the table it installs
//! into: a frame that has left the object in between is not installed. A frame is taken out of an object
//! before it is unmapped.
//!
//! # Lifetime of an object
//!
//! An object counts the pages of it that mappings cover, not the mappings: splitting and joining change
//! nothing, unmapping subtracts, once the entries are flushed. A handle counts as one page. At zero it is
//! dead: it accepts no more frames, gives its own back, and leaves the list of objects; its record and index
//! are freed after a grace period.

#![forbid(unsafe_code)]

mod dirty;
mod errors;
mod length;
mod mapped;
mod objects;
mod page_index;
mod pager;
mod seals;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;
mod views;
mod write_back;

#[cfg(all(test, loom))]
#[path = "tests/loom_objects.rs"]
mod loom_tests;

// Not public: only the address space maps an object, finds it by the number in a mapping's attributes, and
// counts what it maps.
pub use errors::ErrorCursor;
pub(crate) use mapped::LeavingViews;
pub(crate) use objects::Objects;
pub(crate) use page_index::{FoundPage, MAX_PAGES, TakenPages, give_back};
pub(crate) use pager::PageWait;
pub use pager::{PageAnswer, PageContents, Pager, PagerKey};
pub use seals::Seals;
pub use shared::SharedHugetlbCounts;
pub(crate) use shared::{FillError, Object};
pub(crate) use views::ViewPlace;
pub(crate) use write_back::{BATCH, DirtyBatch, DirtyPage};
