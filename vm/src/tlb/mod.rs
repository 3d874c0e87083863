//! Floor 5: the translations that CPUs cache, and how they are flushed.
//!
//! | file | holds |
//! |---|---|
//! | `edited` | the pages that an edit has changed since its last flush |
//! | `gather` | collects unhooked translations, flushes once, then frees |
//! | `gather_parts` | an edit that several workers do in parts, with one flush |
//! | `full_gather` | the end of a space, which no CPU translates through any more |
//! | `shootdown` | flushes other CPUs: requests, interrupts, acknowledgements, and the switch of spaces |
//! | `lazy` | CPUs that keep a space without running it: they leave it when they are asked to flush |
//! | `mailbox` | the flush requests that wait for a CPU |
//! | `space` | a space's side: generation, mask of the CPUs that run it, pending flushes |
//!
//! # Unhook, invalidate, free
//!
//! An entry is cleared first (unhooked), then every CPU that may have cached it flushes it (invalidated), and
//! only then is its frame freed. Two types make the order inevitable: an
//! [`Unhooked`] can only be put into a [`Gather`], and only a gather that has flushed gives frames back.
//!
//! # Generations
//!
//! ```text
//!   space.generation   5 ──────────► 6 ──────────────► 7
//!                            edit A        edit B
//!   CPU 0  seen 5   ... answers A: range ... seen 6 ... answers B: range ... seen 7
//!   CPU 1  seen 5   ... busy, both posted ............. answers A+B ........ seen 7
//!   CPU 2  away     ................................... enters: reads 7, starts empty, seen 7
//! ```
//!
//! A space counts the edits that must be flushed. Each CPU notes which generation of the loaded space its
//! translations are at least as new as ([`Shootdown`]'s `seen`), and that note is the acknowledgement: the
//! flusher waits until each CPU that had the space loaded has seen the new generation or has loaded another
//! space. No acknowledgements are counted or sent back.
//!
//! A request that carries a range advances a CPU by exactly one generation; a CPU that finds a gap flushes
//! everything. A full mailbox becomes a full flush, never a lost one. Nothing is allocated.
//!
//! # Which CPUs are interrupted
//!
//! A CPU that runs the space, once for each mailbox full of requests: the poster of the first one interrupts
//! it. A CPU that only keeps the space's root (it idles, or runs a kernel thread) at most once from each time
//! that it ran the space: it answers by leaving it (`lazy`). No other CPU.
//!
//! # Orders (protocol P7 of `docs/design/protocols.md`)
//!
//! ```text
//!   enter:  set `entering` and the mask's bit;  fence;  read the generation;  load the root
//!   flush:  edit;  generation + 1;              fence;  read the mask and `entering`
//! ```
//!
//! Either the flusher sees the bit and asks the CPU, or the CPU reads the new generation, and loads the
//! edited entry after that.

#![forbid(unsafe_code)]

mod edited;
mod full_gather;
mod gather;
mod gather_parts;
mod lazy;
mod mailbox;
mod shootdown;
mod space;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use full_gather::{FullGather, FullPart};
pub use gather::Gather;
pub use shootdown::{Shootdown, ShootdownStats};
pub use space::{PendingFlush, SpaceTlb};

#[cfg(doc)]
use crate::frame::Unhooked;
#[cfg(doc)]
pub(crate) use gather_parts::GatherParts;

/// Pages beyond which a flush of a range becomes a flush of everything: dropping single translations costs
/// about as much as a refill each, so a range the size of the first-level TLB is not worth walking. Linux's
/// `tlb_single_page_flush_ceiling` has the same default.
pub const RANGE_LIMIT_PAGES: u64 = 33;
