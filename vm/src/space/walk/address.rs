//! What an address leads to, and which address leads to a frame.

use super::Walker;
use crate::machine::Machine;
use crate::sync::{HandlerSection, ReadGuard};
use crate::table::{FrameSearch, NoTranslation, NoteUse, StaleTranslation};
use crate::table::{find_frame, translate, translate_access};
use crate::units::{Access, Pfn, VirtAddr, VpnRange};

impl<M: Machine> Walker<'_, '_, M> {
    /// What an access at the address is translated to, as the MMU of a CPU that runs the space would: for an
    /// emulator of instructions. Where `note` says so, it sets the accessed and dirty bits that the access
    /// sets. (Linux: `kvm_translate_gpa`, `FNAME(walk_addr)`.)
    ///
    /// Called in a read section of the system, with any lock or none. Takes no lock and waits for no CPU. Of
    /// what CPUs share it writes the entry, where a bit is to be set that is clear. An access that needs a
    /// fault is refused: the caller raises it, and asks again.
    ///
    /// *What may be stale*: all of the result, at once. See [`StaleTranslation`].
    ///
    /// # Errors
    /// [`NoTranslation`].
    ///
    /// # Panics
    /// If the read section is one of another system.
    pub fn translate_access(
        self,
        addr: VirtAddr,
        access: Access,
        note: NoteUse,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Result<StaleTranslation, NoTranslation> {
        if !self.may_map(addr.vpn()) {
            return Err(NoTranslation::OutOfRange);
        }
        translate_access(&self.entries.table, addr.vpn(), access, note, reading)
    }

    /// What the address leads to, whatever the entry allows: for a handler of machine checks, which has an
    /// address that failed and wants the frame. (Linux on POWER: `addr_to_pfn`.)
    ///
    /// May be called anywhere, whatever was interrupted. Takes no lock, waits for no CPU, writes nothing that
    /// CPUs share.
    ///
    /// *What may be stale*: all of the result, at once. An entry that an interrupted operation of this CPU
    /// was changing is as it was before or after.
    ///
    /// # Errors
    /// [`NoTranslation`], but not that the entry does not allow something.
    ///
    /// # Panics
    /// If the section is one of another system.
    pub fn translate_in_handler(
        self,
        addr: VirtAddr,
        section: &HandlerSection<'_, M::Cpu>,
    ) -> Result<StaleTranslation, NoTranslation> {
        if !self.may_map(addr.vpn()) {
            return Err(NoTranslation::OutOfRange);
        }
        translate(&self.entries.table, addr.vpn(), section.reading())
    }

    /// Searches the range for a page that leads to the frame, whatever its entry allows: for a handler of
    /// machine checks, which has a physical address that failed and wants an address to report. Looks at
    /// `most` entries at most, from the start of the range on, and stops at the first that leads there: the
    /// result says where to go on. (Linux: `page_mapped_in_vma`, `SIGBUS` with `BUS_MCEERR_AR`.)
    ///
    /// May be called anywhere, as [`translate_in_handler`](Self::translate_in_handler).
    ///
    /// *What may be stale*: all of the result, at once. A page that is mapped behind the search is missed.
    ///
    /// # Panics
    /// If the section is one of another system.
    pub fn find_frame_in_handler(
        self,
        pfn: Pfn,
        range: VpnRange,
        most: u64,
        section: &HandlerSection<'_, M::Cpu>,
    ) -> FrameSearch {
        find_frame(&self.entries.table, pfn, self.user_part(range), most, section.reading())
    }
}
