//! Walkers read the tables of a space, sometimes mark an entry, and neither fault nor edit.
//!
//! | file | entry points | context |
//! |---|---|---|
//! | `accessed` | [`scan_accessed`](Walker::scan_accessed) | a read section |
//! | | [`scan_accessed_and_flush`](Walker::scan_accessed_and_flush) | neither that nor a lock |
//! | `address` | [`translate_access`](Walker::translate_access) | a read section |
//! | | [`translate_in_handler`](Walker::translate_in_handler) | any handler |
//! | | [`find_frame_in_handler`](Walker::find_frame_in_handler) | any handler |
//! | `call_chain` | [`read_word_in_handler`](Walker::read_word_in_handler) | the same, of its CPU |
//! | | [`call_chain`](Walker::call_chain) | the same |
//!
//! None takes a lock, none waits for another CPU, but for the flush, and none is waited for, but by what
//! frees tables. docs/design/walkers.md says what each may assume, and what it finds may be.

mod accessed;
mod address;
mod call_chain;

pub use call_chain::{CallChain, FrameRecord};

use super::AddressSpace;
use super::edit::entries::Entries;
use crate::machine::Machine;
use crate::units::{Vpn, VpnRange};
use core::fmt;

/// The walkers of a space. Borrows the space's entries, and knows nothing of its mappings. Made by
/// [`AddressSpace::walker`].
pub struct Walker<'s, 'v, M: Machine> {
    entries: &'s Entries<'v, M>,
    /// The end of what may be mapped.
    user_end: Vpn,
}

impl<M: Machine> Clone for Walker<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Walker<'_, '_, M> {}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// The calls that read the space's tables and take no lock; each says where it may be called. This one
    /// may be called anywhere.
    #[inline]
    pub fn walker(&self) -> Walker<'_, 'v, M> {
        Walker { entries: &self.entries, user_end: self.mappings.layout.areas.user.end }
    }
}

impl<M: Machine> Walker<'_, '_, M> {
    /// The part of the range that may hold mappings.
    fn user_part(self, range: VpnRange) -> VpnRange {
        let end = range.end.min(self.user_end);
        VpnRange { start: range.start.min(end), end }
    }

    /// Whether the page may be mapped.
    fn may_map(self, page: Vpn) -> bool {
        page < self.user_end
    }
}

impl<M: Machine> fmt::Debug for Walker<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "walkers of space {}", self.entries.tlb.id())
    }
}
