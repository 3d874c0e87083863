//! Stores to a file that is written back are followed.

use super::system::{QuiescentSystem, require};
use super::walk::{Seen, Walked};
use interleaf::frame::Kind;
use interleaf::machine::{Entry, Format, Leaf};
use interleaf::space::AddressSpace;
use interleaf::units::{Rights, Vpn};
use interleaf_lab::machine::soft::{Flavour, SoftMachine};

/// Every entry that maps a page of a file, and lets stores through, is that of a page which is to be written
/// back.
pub(super) fn check<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    walked: &Walked,
) -> Result<(), String> {
    for (space, nr) in system.spaces.iter().zip(0..) {
        for seen in walked.space(nr) {
            if let Seen::Entry { page, entry: Entry::Leaf(leaf), .. } = seen
                && leaf.rights.contains(Rights::WRITE)
            {
                check_leaf(space, page, leaf)?;
            }
        }
    }
    Ok(())
}

fn check_leaf<C: Flavour, F: Format>(
    space: &AddressSpace<'_, SoftMachine<C, F>>,
    at: Vpn,
    leaf: Leaf,
) -> Result<(), String> {
    let kind = space.vm().memory().meta(leaf.pfn).map(|meta| meta.state().kind());
    let shown = if kind == Some(Kind::Object) { space.object_at(at.addr()) } else { None };
    let Some((file, page)) = shown.filter(|(file, _)| file.is_written_back()) else { return Ok(()) };
    require(file.is_dirty(page), || {
        format!("page {page} of a file is clean, and {leaf:?} at {at:?} lets stores through")
    })
}
