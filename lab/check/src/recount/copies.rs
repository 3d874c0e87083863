//! What copies translations page by page holds none that has changed: every flush tells all pages of what it
//! is about.
//!
//! At each recount the machine copies some of what the tables say, and at the next one finds the copies that
//! no flush has named since as they were, and the tables allowing no less.

use super::system::{QuiescentSystem, require};
use super::walk::{Seen, Walked};
use interleaf::machine::{Entry, Format, Leaf};
use interleaf::units::{Level, Pfn, Vpn};
use interleaf_lab::machine::soft::{Copied, Flavour};

/// Leaves of a space that are copied, at most.
const MOST: usize = 200;

pub(super) fn check<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    walked: &Walked,
) -> Result<(), String> {
    let (copies, zero) = (system.machine.copies(), system.vm.memory().zero_frame());
    for (space, nr) in system.spaces.iter().zip(0..) {
        let leaves: Vec<_> = walked.space(nr).filter_map(leaf_of).collect();
        for (page, (pfn, rights)) in copies.of(space.id().0) {
            let now = translation(&leaves, page, zero);
            let is_right = now.is_some_and(|now| now.0 == pfn && now.1.contains(rights));
            require(is_right, || {
                format!("{page:?} of {space:?} was {pfn:?}, {rights:?} and is {now:?}, which no flush told")
            })?;
        }
        let step = leaves.len() / MOST + 1;
        let parts = leaves.iter().step_by(step).flat_map(|&(page, level, _)| parts_of(page, level));
        copies.keep(space.id().0, parts.filter_map(|page| Some((page, translation(&leaves, page, zero)?))));
    }
    Ok(())
}

/// A leaf that allows something, in the order of pages.
type Shown = (Vpn, Level, Leaf);

fn leaf_of(seen: Seen) -> Option<Shown> {
    match seen {
        Seen::Entry { page, level, entry: Entry::Leaf(leaf) } if !leaf.rights.is_empty() => {
            Some((page, level, leaf))
        }
        _ => None,
    }
}

/// Pages of a leaf: of a huge one the first two and the last.
fn parts_of(page: Vpn, level: Level) -> impl Iterator<Item = Vpn> {
    let last = level.entry_pages() - 1;
    let inside = if level == Level::Pte { [Some(0), None, None] } else { [Some(0), Some(1), Some(last)] };
    inside.into_iter().flatten().map(move |part| page.add(part))
}

/// What the tables say of a page. Of a leaf by table that is the zero page.
fn translation(leaves: &[Shown], page: Vpn, zero: Pfn) -> Option<Copied> {
    let before = leaves.partition_point(|(first, ..)| *first <= page);
    let &(first, level, leaf) = leaves.get(before.checked_sub(1)?)?;
    let inside = page.0 - first.0;
    let pfn = if leaf.by_table() { zero } else { leaf.pfn.add(inside) };
    (inside < level.entry_pages()).then_some((pfn, leaf.rights))
}
