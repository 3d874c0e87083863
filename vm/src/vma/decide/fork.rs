//! What a fork gives the child of a mapping.

use crate::vma::{AnonId, VmaAttributes, VmaFlags};

/// The child's mapping; `None` where it has none. `fresh` numbers a new identity: copies of the child's
/// belong to an identity of its own, so that its mappings are not joined over those of an ancestor.
pub fn inherit(vma: &VmaAttributes, fresh: impl FnOnce() -> u64) -> Option<VmaAttributes> {
    if vma.flags.contains(VmaFlags::DONT_FORK) {
        return None;
    }
    let is_empty = vma.flags.contains(VmaFlags::WIPE_ON_FORK) || vma.anon.is_none();
    let anon = if is_empty { AnonId::NONE } else { AnonId::inherited(fresh()) };
    // Locks on memory are not inherited, as in Linux.
    let (flags, backing) = (vma.flags - VmaFlags::LOCKED, vma.backing.get().inherited().into());
    Some(VmaAttributes { flags, backing, anon, ..*vma })
}
