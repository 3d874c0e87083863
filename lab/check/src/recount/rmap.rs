//! Each frame of anonymous memory leads to all entries that map it, and to no other.

use super::system::{QuiescentSystem, require};
use super::walk::{Seen, Walked, nr_counted};
use interleaf::frame::{FrameMeta, Kind};
use interleaf::machine::{Entry, Format};
use interleaf::space::{RmapFound, SpaceId};
use interleaf::units::{Pfn, Vpn};
use interleaf_lab::machine::soft::Flavour;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// An entry: the space and the page.
type Place = (SpaceId, Vpn);

/// The reverse map finds the entries of each frame that a walk of all tables finds, and no others, in its
/// last walk; as many as the frame's mapcount says. There is a node for each space.
pub(super) fn check<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    walked: &Walked,
) -> Result<(), String> {
    for (pfn, due) in entries(system, walked) {
        check_frame(system, pfn, &due)?;
    }
    let (nodes, spaces) = (system.vm.nr_anon_nodes(), system.spaces.len());
    require(nodes >= spaces as u64, || format!("{nodes} nodes of {spaces} spaces"))
}

fn check_frame<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    pfn: Pfn,
    due: &BTreeSet<Place>,
) -> Result<(), String> {
    let memory = system.vm.memory();
    let frame = memory.try_get(pfn).ok_or_else(|| format!("{pfn:?} is mapped, and gets no reference"))?;
    let (mut found, mut walk) = (Vec::new(), None);
    let known = |id| system.spaces.iter().copied().find(|space| space.id() == id);
    let answer = system.vm.rmap_walk(&frame, known, |entry| {
        // What a walk has found before it began anew is found again: a mapping may have moved twice.
        if walk.replace(entry.walk()) != Some(entry.walk()) {
            found.clear();
        }
        found.push((entry.space().id(), entry.page()));
        ControlFlow::Continue(())
    });
    let is_all = answer == Ok(RmapFound::All(due.len() as u32));
    let is_same = found.len() == due.len() && found.iter().all(|place| due.contains(place));
    require(is_all && is_same, || {
        let key = memory.meta(pfn).and_then(FrameMeta::anon_key);
        format!("{due:?} map {pfn:?}, of the key {key:?}; the reverse map says {answer:?}, {found:?}")
    })
}

/// The pages, base and huge, that map each frame of anonymous memory, or the folio that it leads.
fn entries<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    walked: &Walked,
) -> BTreeMap<Pfn, BTreeSet<Place>> {
    let mut all: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (space, nr) in system.spaces.iter().zip(0..) {
        for seen in walked.space(nr) {
            if let Seen::Entry { page, level, entry: Entry::Leaf(leaf) } = seen
                && leaf.owned()
                && system.vm.memory().meta(leaf.pfn).is_some_and(|meta| meta.state().kind() == Kind::User)
            {
                for frame in 0..nr_counted(system.vm.memory(), leaf, level) {
                    all.entry(leaf.pfn.add(frame)).or_default().insert((space.id(), page.add(frame)));
                }
            }
        }
    }
    all
}
