//! Walkers: who reads the tables of a space, and sometimes marks an entry, and neither faults nor edits.
//!
//! | file | entry point | context |
//! |---|---|---|
//! | `accessed` | [`AddressSpace::scan_accessed`] | a read section |
//! | `accessed` | [`AddressSpace::scan_accessed_and_flush`] | no lock, no read section: it waits for a flush |
//! | `address` | [`AddressSpace::translate_access`] | a read section |
//! | `address` | [`AddressSpace::translate_in_handler`], [`AddressSpace::find_frame_in_handler`] | any handler |
//! | `call_chain` | [`AddressSpace::read_word_in_handler`], [`AddressSpace::call_chain`] | any handler of a CPU that runs the space |
//!
//! None takes a lock, none waits for another CPU, but for the flush, and none is waited for, but by what frees
//! tables. docs/design/walkers.md says what each may assume, and what it finds may be.

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
