//! `mprotect`.

use super::Model;
use super::mapping::VmFlags;
use crate::calls::{Errno, PAGE, Prot};

/// `PROT_SEM`: taken and ignored.
const PROT_SEM: u64 = 8;
/// `PROT_GROWSDOWN`: to the start of a mapping that grows downwards; there are none here.
const PROT_GROWS_DOWN: u64 = 0x0100_0000;
/// `PROT_GROWSDOWN` and `PROT_GROWSUP`: only one of them, and only on a growing mapping.
const PROT_GROWS: u64 = 0x0300_0000;

impl Model {
    /// Changes rights mapping by mapping, upwards, and stops at the first hole.
    pub(super) fn mprotect(&mut self, addr: u64, len: u64, prot: u64) -> Result<u64, Errno> {
        let grows = prot & PROT_GROWS;
        if grows == PROT_GROWS || !addr.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        if len == 0 {
            return Ok(0);
        }
        let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        let end = addr.checked_add(len).ok_or(Errno::ENOMEM)?;
        if prot & !(PROT_GROWS | PROT_SEM | u64::from(VmFlags::RIGHTS.bits())) != 0 {
            return Err(Errno::EINVAL);
        }
        if grows != 0 {
            let seen = if grows == PROT_GROWS_DOWN { end } else { addr + PAGE };
            return Err(if self.mappings.is_free(&(addr..seen)) { Errno::ENOMEM } else { Errno::EINVAL });
        }
        let mut at = addr;
        let mut next = |model: &mut Self| {
            let part_end = model.mappings.at(at).ok_or(Errno::ENOMEM)?.end.min(end);
            model.protect_part(at, part_end, VmFlags::rights(Prot::from_bits_retain(prot as u32)))?;
            at = part_end;
            Ok(at < end)
        };
        let done = loop {
            match next(self) {
                Ok(true) => {}
                Ok(false) => break Ok(0),
                Err(error) => break Err(error),
            }
        };
        self.cut_for_rights(&(addr..at));
        done
    }

    /// Changes the rights of a part of one mapping, and with them whether it counts as committed.
    fn protect_part(&mut self, start: u64, end: u64, rights: VmFlags) -> Result<(), Errno> {
        let mapping = self.mappings.at(start).expect("the caller found it");
        let old = mapping.flags;
        let mut new = (old - VmFlags::RIGHTS) | rights;
        if new == old {
            return Ok(());
        }
        let never = VmFlags::ACCOUNT | VmFlags::WRITE | VmFlags::SHARED | VmFlags::NORESERVE;
        if new.contains(VmFlags::WRITE) {
            if !old.intersects(never) {
                self.commit((end - start) / PAGE)?;
                new |= VmFlags::ACCOUNT;
            }
        } else if mapping.object.is_none() && mapping.anon.is_none() {
            new -= VmFlags::ACCOUNT;
        }
        self.mappings.change_flags(start, end, new, self.most_mappings())
    }
}
