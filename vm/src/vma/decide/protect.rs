//! What mprotect does to one mapping and its neighbours.
//!
//! Changing access rights also changes whether the pages count as promised memory. Memory that becomes
//! writable is promised from then on. The promise can be taken back when it becomes unwritable, but only
//! while no private copy was ever made: afterwards their number is not known.

use crate::units::VpnRange;
use crate::vma::{Change, VmaAttributes, VmaFlags, change};

/// What a change of rights does to the count of promised pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Nothing.
    Same,
    /// So many pages more are promised; this may be refused (ENOMEM), and then nothing changes.
    More(u64),
    /// So many pages fewer are promised.
    Less(u64),
}

/// A change of access rights, decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// What goes and what comes.
    pub change: Change,
    /// What it does to the count of promised pages.
    pub charge: Charge,
}

/// Gives the pages `range` of `vma` the access rights `access`. `None` where these may not be given here
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

/// The flags that `vma` gets when `asked` differs from what it has.
fn accounted(vma: &VmaAttributes, asked: VmaFlags) -> VmaFlags {
    const KEEPS: VmaFlags =
        VmaFlags::ACCOUNT.union(VmaFlags::WRITE).union(VmaFlags::SHARED).union(VmaFlags::NORESERVE);
    if asked == vma.flags {
        asked
    } else if asked.contains(VmaFlags::WRITE) {
        if vma.flags.intersects(KEEPS) { asked } else { asked | VmaFlags::ACCOUNT }
    } else if vma.is_private_anonymous() && vma.anon.is_none() {
        asked - VmaFlags::ACCOUNT
    } else {
        asked
    }
}
