//! Leaves that a TLB may hold as one are what that says.

use super::system::{QuiescentSystem, require};
use super::walk::{Seen, each_entry};
use interleaf::machine::{CONTIGUOUS_LEAVES, Entry, Format, Leaf, Machine};
use interleaf::space::AddressSpace;
use interleaf::table::walk;
use interleaf::units::{Level, Vpn};
use interleaf_lab::machine::soft::Flavour;
use std::collections::BTreeMap;

/// Of each group of contiguous leaves all have the bit, or none; they own frames that follow each other, from
/// an aligned one on, and allow the same.
pub(super) fn check<C: Flavour, F: Format>(system: &QuiescentSystem<'_, '_, C, F>) -> Result<(), String> {
    if F::CONTIGUOUS == 0 {
        return Ok(());
    }
    system.spaces.iter().try_for_each(|space| check_space(space))
}

fn check_space<M: Machine>(space: &AddressSpace<'_, M>) -> Result<(), String> {
    let mut groups: BTreeMap<u64, Vec<Leaf>> = BTreeMap::new();
    let reading = space.vm().read();
    each_entry(space, |seen| {
        if let Seen::Entry { page, level: Level::Pte, entry: Entry::Leaf(leaf) } = seen {
            let word = walk(space.page_table(), page, Level::Pte, &reading).word;
            if M::Format::is_contiguous(word) {
                groups.entry(page.0 / CONTIGUOUS_LEAVES as u64).or_default().push(leaf);
            }
        }
    });
    groups.into_iter().try_for_each(|(nr, leaves)| {
        let page = Vpn(nr * CONTIGUOUS_LEAVES as u64);
        require(is_group(&leaves), || format!("the contiguous leaves from {page:?} on: {leaves:?}"))
    })
}

fn is_group(leaves: &[Leaf]) -> bool {
    let first = leaves[0];
    let continues = |(nr, leaf): (u64, &Leaf)| {
        leaf.pfn == first.pfn.add(nr)
            && (leaf.rights, leaf.cache) == (first.rights, first.cache)
            && leaf.owned()
    };
    leaves.len() == CONTIGUOUS_LEAVES
        && first.pfn.0.is_multiple_of(CONTIGUOUS_LEAVES as u64)
        && (0..).zip(leaves).all(continues)
}
