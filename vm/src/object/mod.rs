//! Floor 5: memory that several mappings map, and the index that says which frame holds which page of it.
//!
//! | file | holds |
//! |---|---|
//! | `shared` | shared anonymous memory, the one kind of object today |
//! | `page_index` | page of the object to frame |
//!
//! Today there is one kind: shared anonymous memory, an `Object` that is created with its mapping and dies
//! when no page of it is mapped any more. Files of an embedder would be a trait with the same three
//! questions: which frame holds this page, is it available without sleeping, does it still belong to the
//! object.
//!
//! # The frame of a page (protocol P12)
//!
//! A fault asks the index without a lock, prepares, and asks again under the lock of the table it installs
//! into: a frame that has left the object in between is not installed. A frame is taken out of an object
//! before it is unmapped.
//!
//! # Lifetime of an object
//!
//! An object counts the pages of it that mappings cover, not the mappings: splitting and joining change
//! nothing, unmapping subtracts. At zero it is dead: it accepts no more frames and frees its own; its index
//! is freed after a grace period.

#![forbid(unsafe_code)]

mod page_index;
mod shared;

// Not public: an object is found by its number, which stands in the attributes of mappings; anybody can make
// such a number, but only the address space hands it on, and it keeps those of its own objects only.
pub(crate) use shared::{FillError, Object};
