//! Splitting a mapping, cutting a hole into it, and changing the attributes of a part of it.

use super::merge::Sides;
use crate::units::{Vpn, VpnRange};
use crate::vma::{Policy, VmaAttributes, VmaFlags};

/// The parts of the mapping below `at` and from `at` on. Both keep the identity. `at` lies inside the
/// mapping, not at an end.
pub fn split(attributes: &VmaAttributes, at: Vpn) -> (VmaAttributes, VmaAttributes) {
    debug_assert!(attributes.range.contains(at) && at != attributes.range.start);
    let (start, end) = (attributes.range.start, attributes.range.end);
    (attributes.over(VpnRange::new(start, at)), attributes.over(VpnRange::new(at, end)))
}

/// The remainders of a mapping below and above `hole`.
pub fn cut(attributes: &VmaAttributes, hole: VpnRange) -> [Option<VmaAttributes>; 2] {
    let left = VpnRange::new(attributes.range.start, attributes.range.end.min(hole.start));
    let right = VpnRange::new(attributes.range.start.max(hole.end), attributes.range.end);
    [left, right].map(|range| (!range.is_empty()).then(|| attributes.over(range)))
}

/// The result of a change to part of one mapping: the mappings removed, and those added in their place. The
/// added ones, in ascending order, cover exactly the pages of the removed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whether the previous mapping is removed.
    pub removes_prev: bool,
    /// Whether the mapping itself is removed; false only if nothing changes.
    pub removes_vma: bool,
    /// Whether the next mapping is removed.
    pub removes_next: bool,
    /// The mappings added; the first [`nr_puts`](Self::nr_puts) are `Some`.
    pub puts: [Option<VmaAttributes>; 3],
    /// Index in [`puts`](Self::puts) of the mapping that holds the changed pages.
    pub changed: usize,
}

impl Change {
    /// No change.
    pub const NOTHING: Self =
        Self { removes_prev: false, removes_vma: false, removes_next: false, puts: [None; 3], changed: 0 };

    /// The mappings added, in ascending order.
    pub fn puts(&self) -> impl Iterator<Item = VmaAttributes> + '_ {
        self.puts.iter().copied().flatten()
    }
    /// Number of mappings added.
    pub fn nr_puts(&self) -> usize {
        self.puts().count()
    }
    /// Number of mappings removed.
    pub fn nr_removes(&self) -> usize {
        [self.removes_prev, self.removes_vma, self.removes_next]
            .iter()
            .filter(|&&is_removed| is_removed)
            .count()
    }
    /// The pages of `vma`, the mapping that was asked for, that change; none if nothing does.
    pub fn part_of(&self, vma: &VmaAttributes) -> VpnRange {
        self.changed().map_or(VpnRange::default(), |changed| changed.range.intersect(vma.range))
    }
    /// The mapping that holds the changed pages afterwards; `None` if nothing changes.
    pub fn changed(&self) -> Option<VmaAttributes> {
        self.puts[self.changed]
    }
}

/// Gives the pages `range` of `vma` the attributes `flags`.
///
/// ```text
///     prev   vma     next      range      becomes
///    PPPPPP VVVVVVV NNNNNN    ..[...]..   split into three: no neighbour is joined
///    PPPPPP VVVVVVV NNNNNN    [....]...   PPPPPPPPPPP VVV NNNNNN    the boundary moves
///    PPPPPP VVVVVVV NNNNNN    ...[....]   PPPPPP VVV NNNNNNNNNNN
///    PPPPPP VVVVVVV NNNNNN    [.......]   joined as a new mapping in a hole is
/// ```
///
/// If the pages have these attributes already, nothing changes, and no neighbour is joined.
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

/// Gives the pages `range` of `vma` the attributes of `changed`, which differs from it in flags or policy
/// only.
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
