//! When neighbours become one mapping.
//!
//! Two mappings that touch are joined if all flags and the policy are equal, the backing is the same with
//! contiguous offsets, and the identities agree ([`AnonId::agrees`]). Each decision looks at one new or
//! changed piece and its two neighbours:
//!
//! ```text
//!     prev   piece   next          joined with
//!    AAAAAA [BBBBB] CCCCCC         none
//!    AAAAAAAAAAAAAA CCCCCC         left
//!    AAAAAA CCCCCCCCCCCCCC         right: next begins earlier
//!    AAAAAAAAAAAAAAAAAAAAA         both, if prev and next agree with each other too; otherwise left
//! ```
//!
//! The last line is the subtle one: a piece without an identity agrees with identity 1 on its left and with
//! identity 2 on its right, yet the three cannot be one mapping. It is joined with the left one.
//!
//! Merging is tried only where a call makes or changes a mapping. munmap, faults and a first private copy
//! merge nothing: neighbours that become alike later stay two.

use crate::vma::{AnonId, VmaAttributes, VmaFlags};

/// A new mapping in a hole, joined with the neighbours that it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The resulting mapping: the new one and the absorbed neighbours.
    pub attributes: VmaAttributes,
    /// Whether it replaces the mapping before the hole.
    pub absorbs_prev: bool,
    /// Whether it replaces the mapping after the hole.
    pub absorbs_next: bool,
}

/// Which neighbours a piece is joined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides {
    /// The previous mapping, if it is joined.
    pub left: Option<VmaAttributes>,
    /// The next mapping, if it is joined.
    pub right: Option<VmaAttributes>,
}

impl Sides {
    /// Which of the two the piece is joined with.
    pub fn of(prev: Option<VmaAttributes>, piece: &VmaAttributes, next: Option<VmaAttributes>) -> Self {
        let left = prev.filter(|prev| joins(prev, piece));
        let mut right = next.filter(|next| joins(piece, next));
        if let (Some(prev), Some(next)) = (left, right)
            && !agree_across(prev.anon, next.anon)
        {
            right = None;
        }
        Self { left, right }
    }

    /// The piece and the joined neighbours as one mapping.
    pub fn join(&self, piece: &VmaAttributes) -> VmaAttributes {
        let mut whole = *piece;
        if let Some(next) = self.right {
            whole.range.end = next.range.end;
            whole.anon = whole.anon.or(next.anon);
        }
        if let Some(prev) = self.left {
            whole = VmaAttributes { range: whole.range, anon: prev.anon.or(whole.anon), ..prev };
            whole.range.start = prev.range.start;
        }
        whole
    }
}

/// Whether the outer two of three may lie in one mapping: one has no identity, or both have the same.
const fn agree_across(prev: AnonId, next: AnonId) -> bool {
    prev.is_none() || next.is_none() || prev.bits() == next.bits()
}

/// Whether `left` and `right` touch, have contiguous offsets in the same backing, and have the same policy.
fn runs_on(left: &VmaAttributes, right: &VmaAttributes) -> bool {
    left.range.end == right.range.start
        && left.backing == right.backing
        && left.offset_at(left.range.end) == right.offset
        && left.policy == right.policy
}

/// Whether `left` and `right` may be one mapping.
pub fn joins(left: &VmaAttributes, right: &VmaAttributes) -> bool {
    let same_flags = (left.flags == right.flags) ^ mutant!("merge.flags-inverted");
    // As in Linux, PFN mappings, and those of the hugetlb pool, stay as they were made.
    let is_special = left.backing.is_special();
    runs_on(left, right) && same_flags && left.anon.agrees(right.anon) && !is_special
}

/// Joins a new mapping in a hole with its neighbours. `prev` and `next` are the nearest mappings; they need
/// not touch it.
///
/// brk passes no `next`: the heap grows only at its end.
pub fn merge(prev: Option<VmaAttributes>, new: VmaAttributes, next: Option<VmaAttributes>) -> Merged {
    let sides = Sides::of(prev, &new, next);
    Merged {
        attributes: sides.join(&new),
        absorbs_prev: sides.left.is_some(),
        absorbs_next: sides.right.is_some(),
    }
}

/// The identity that `vma` takes at its first private copy so that it can be joined with a neighbour later:
/// the next one's, or else the previous one's. The two must be alike but for access rights, which mprotect
/// may make equal.
pub fn reusable_anon(
    prev: Option<VmaAttributes>,
    vma: &VmaAttributes,
    next: Option<VmaAttributes>,
) -> Option<AnonId> {
    let alike = |left: &VmaAttributes, right: &VmaAttributes| {
        runs_on(left, right) && (left.flags ^ right.flags) - VmaFlags::ACCESS == VmaFlags::empty()
    };
    let is_reusable = |anon: AnonId| !anon.is_none() && !anon.is_inherited();
    let from_next =
        next.filter(|next| alike(vma, next)).map(|next| next.anon).filter(|&anon| is_reusable(anon));
    from_next.or_else(|| {
        prev.filter(|prev| alike(prev, vma)).map(|prev| prev.anon).filter(|&anon| is_reusable(anon))
    })
}
