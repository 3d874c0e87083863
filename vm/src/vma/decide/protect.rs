//! What mprotect does to one mapping and its neighbours.
//!
//! A change of access rights may also change the commit charge. Pages that become writable are charged.
//! Pages that become read-only are uncharged only if the mapping has no private copy: afterwards the number
//! of copies is not known.

use crate::units::VpnRange;
use crate::vma::{Change, VmaAttributes, VmaFlags, change};

/// How a change of rights changes the number of committed pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Not at all.
    Same,
    /// It grows by this number of pages. The commit may be refused (ENOMEM); then nothing changes.
    More(u64),
    /// It falls by this number of pages.
    Less(u64),
}

/// A change of access rights, decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The mappings removed and added.
    pub change: Change,
    /// The change of the number of committed pages.
    pub charge: Charge,
}

/// Gives the pages `range` of `vma` the access rights `access`. `None` if the mapping may not have them
/// (EACCES).
pub fn protect(
    prev: Option<VmaAttributes>,
    vma: &VmaAttributes,
    next: Option<VmaAttributes>,
    range: VpnRange,
    access: VmaFlags,
) -> Option<Protection> {
    let asked = vma.flags.with_access(access)?;
    let flags = accounted(vma, asked);
    let nr_pages = range.intersect(vma.range).len();
    let charge = match (vma.flags.contains(VmaFlags::ACCOUNT), flags.contains(VmaFlags::ACCOUNT)) {
        (false, true) => Charge::More(nr_pages),
        (true, false) => Charge::Less(nr_pages),
        _ => Charge::Same,
    };
    Some(Protection { change: change(prev, vma, next, range, flags), charge })
}

/// The flags `asked`, with ACCOUNT set or cleared as Linux does.
fn accounted(vma: &VmaAttributes, asked: VmaFlags) -> VmaFlags {
    const KEEPS: VmaFlags =
        VmaFlags::ACCOUNT.union(VmaFlags::WRITE).union(VmaFlags::SHARED).union(VmaFlags::NORESERVE);
    if asked == vma.flags {
        asked
    } else if asked.contains(VmaFlags::WRITE) {
        // The hugetlb pool has an account of its own.
        if vma.flags.intersects(KEEPS) || vma.hugetlb().is_some() { asked } else { asked | VmaFlags::ACCOUNT }
    } else if vma.is_anonymous() && vma.anon.is_none() {
        asked - VmaFlags::ACCOUNT
    } else {
        asked
    }
}
