//! Floor 5: memory that several mappings map, and the index that says which frame holds which page of it.
//!
//! | file | holds |
//! |---|---|
//! | `shared` | shared anonymous memory, the one kind of object today |
//! | `page_index` | page of the object to frame |
//!
//! Today there is one kind: shared anonymous memory, an [`Object`] that is born with its mapping and dies
//! with the last page of it that is mapped anywhere. Files of an embedder come as a trait with the same three
//! questions (which frame holds this page, may it be had without sleeping, does it still belong here).
//!
//! # Which frame (protocol P12)
//!
//! A fault asks the index without a lock, prepares, and asks again under the lock of the table it installs
//! into: a frame that has left the object in between is not installed. A frame is taken out of an object
//! before it is unmapped.
//!
//! # What keeps an object
//!
//! An object counts the pages of it that mappings cover, not the mappings: splitting and joining change
//! nothing, unmapping subtracts. At zero it is dead: it takes no more frames, gives its own back, and its
//! index waits for the readers.

#![forbid(unsafe_code)]

mod page_index;
mod shared;

pub use shared::{FillError, Object};
