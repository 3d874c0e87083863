//! Mappings are in order, and the index that holds them is a sound tree.

use super::system::{QuiescentSystem, require};
use super::walk::Walked;
use interleaf::machine::Format;
use interleaf_lab::machine::soft::Flavour;

/// The list of mappings has no flaw, holds as many as the space says, and the index adds up.
pub(super) fn check<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    _: &Walked,
) -> Result<(), String> {
    for space in system.spaces {
        let mut list = Vec::new();
        space.inspect().each_vma(|vma| list.push(*vma));
        let counted = list.len();
        interleaf::vma::check(list).map_err(|flaw| format!("{space:?}: {flaw}"))?;
        require(counted == space.inspect().nr_mappings(), || format!("{space:?} lists {counted} mappings"))?;
        let census = space.inspect().check_index().map_err(|wrong| format!("{space:?}: {wrong}"))?;
        require(census.items == counted, || format!("{space:?} has {census:?} for {counted} mappings"))?;
    }
    Ok(())
}
