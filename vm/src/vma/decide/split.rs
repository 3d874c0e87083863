//! What is left of a mapping when a part of it goes, and what a change to a part makes of its neighbourhood.

use super::merge::Sides;
use crate::units::{Vpn, VpnRange};
use crate::vma::{Policy, VmaAttributes, VmaFlags};

/// The mapping below and from `at`. Both halves keep the identity. `at` lies inside, not at an end.
pub fn split(attributes: &VmaAttributes, at: Vpn) -> (VmaAttributes, VmaAttributes) {
    debug_assert!(attributes.range.contains(at) && at != attributes.range.start);
    let (start, end) = (attributes.range.start, attributes.range.end);
    (attributes.over(VpnRange::new(start, at)), attributes.over(VpnRange::new(at, end)))
}

/// What is left of a mapping below and above `hole`.
pub fn cut(attributes: &VmaAttributes, hole: VpnRange) -> [Option<VmaAttributes>; 2] {
    let left = VpnRange::new(attributes.range.start, attributes.range.end.min(hole.start));
    let right = VpnRange::new(attributes.range.start.max(hole.end), attributes.range.end);
    [left, right].map(|range| (!range.is_empty()).then(|| attributes.over(range)))
}

/// What a change to part of one mapping does: which mappings go, and which come in their place. Together the
/// new ones cover exactly the pages of those that go, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whether the mapping before goes.
    pub removes_prev: bool,
    /// Whether the mapping itself goes; false only where nothing changes at all.
    pub removes_vma: bool,
    /// Whether the mapping after goes.
    pub removes_next: bool,
    /// What comes; the first [`nr_puts`](Self::nr_puts) are there.
    pub puts: [Option<VmaAttributes>; 3],
    /// Which of [`puts`](Self::puts) holds the pages that were changed.
    pub changed: usize,
}

impl Change {
    /// Nothing goes, nothing comes.
    pub const NOTHING: Self =
        Self { removes_prev: false, removes_vma: false, removes_next: false, puts: [None; 3], changed: 0 };

    /// The mappings that come, in ascending order.
    pub fn puts(&self) -> impl Iterator<Item = VmaAttributes> + '_ {
        self.puts.iter().copied().flatten()
    }
    /// How many mappings come.
    pub fn nr_puts(&self) -> usize {
        self.puts().count()
    }
    /// How many mappings go.
    pub fn nr_removes(&self) -> usize {
        [self.removes_prev, self.removes_vma, self.removes_next].iter().filter(|&&goes| goes).count()
    }
    /// The mapping that holds the changed pages afterwards; `None` where nothing changes.
    pub fn changed(&self) -> Option<VmaAttributes> {
        self.puts[self.changed]
    }
}

/// Gives the pages `range` of `vma` the attributes `flags`.
///
/// ```text
///     prev   vma     next      range      becomes
///    PPPPPP VVVVVVV NNNNNN    ..[...]..   split into three: nothing is joined, though a piece might fit
///    PPPPPP VVVVVVV NNNNNN    [....]...   PPPPPPPPPPP VVV NNNNNN    the boundary moves
///    PPPPPP VVVVVVV NNNNNN    ...[....]   PPPPPP VVV NNNNNNNNNNN
///    PPPPPP VVVVVVV NNNNNN    [.......]   as a new mapping in a hole would
/// ```
///
/// Attributes that are there already change nothing, and nothing is joined, even where it could be.
pub fn change(
    prev: Option<VmaAttributes>,
    vma: &VmaAttributes,
    next: Option<VmaAttributes>,
    range: VpnRange,
    flags: VmaFlags,
) -> Change {
    change_to(prev, vma, next, range, &vma.with_flags(flags))
}

/// Gives the pages `range` of `vma` the memory policy `policy`, as [`change`] gives attributes.
pub fn change_policy(
    prev: Option<VmaAttributes>,
    vma: &VmaAttributes,
    next: Option<VmaAttributes>,
    range: VpnRange,
    policy: Policy,
) -> Change {
    change_to(prev, vma, next, range, &VmaAttributes { policy, ..*vma })
}

/// Gives the pages `range` of `vma` what `changed` says, which differs from it in flags or policy alone.
fn change_to(
    prev: Option<VmaAttributes>,
    vma: &VmaAttributes,
    next: Option<VmaAttributes>,
    range: VpnRange,
    changed: &VmaAttributes,
) -> Change {
    let range = range.intersect(vma.range);
    if range.is_empty() || changed == vma {
        return Change::NOTHING;
    }
    let piece = changed.over(range);
    let [before, after] = cut(vma, range);
    let sides = Sides::of(prev.filter(|_| before.is_none()), &piece, next.filter(|_| after.is_none()));
    let whole = Some(sides.join(&piece));
    let puts = match before {
        Some(_) => [before, whole, after],
        None => [whole, after, None],
    };
    Change {
        removes_prev: sides.left.is_some(),
        removes_vma: true,
        removes_next: sides.right.is_some(),
        puts,
        changed: before.is_some() as usize,
    }
}
