//! Walkers: who reads the tables of a space, and sometimes marks an entry, and neither faults nor edits.
//!
//! | file | entry points | context |
//! |---|---|---|
//! | `accessed` | [`scan_accessed`](AddressSpace::scan_accessed) | a read section |
//! | | [`scan_accessed_and_flush`](AddressSpace::scan_accessed_and_flush) | neither that nor a lock |
//! | `address` | [`translate_access`](AddressSpace::translate_access) | a read section |
//! | | [`translate_in_handler`](AddressSpace::translate_in_handler) | any handler |
//! | | [`find_frame_in_handler`](AddressSpace::find_frame_in_handler) | any handler |
//! | `call_chain` | [`read_word_in_handler`](AddressSpace::read_word_in_handler) | the same, of its CPU |
//! | | [`call_chain`](AddressSpace::call_chain) | the same |
//!
//! None takes a lock, none waits for another CPU, but for the flush, and none is waited for, but by what
//! frees tables. docs/design/walkers.md says what each may assume, and what it finds may be.

mod accessed;
mod address;
mod call_chain;

pub use call_chain::{CallChain, FrameRecord};

use super::AddressSpace;
use crate::machine::Machine;
use crate::units::{Vpn, VpnRange};

impl<M: Machine> AddressSpace<'_, M> {
    /// The part of the range that may hold mappings.
    fn user_part(&self, range: VpnRange) -> VpnRange {
        let end = range.end.min(self.layout.areas.user.end);
        VpnRange { start: range.start.min(end), end }
    }

    /// Whether the page may be mapped.
    fn may_map(&self, page: Vpn) -> bool {
        page < self.layout.areas.user.end
    }
}
