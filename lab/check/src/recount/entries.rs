//! What stands in the tables is what the mappings allow, and nothing more.

use super::system::{QuiescentSystem, require};
use super::walk::{Seen, Walked};
use interleaf::frame::{FrameState, Kind};
use interleaf::machine::{Entry, Format, Leaf, Machine};
use interleaf::object::SharedHugetlbCounts;
use interleaf::space::AddressSpace;
use interleaf::table::{Poison, SlotMarker};
use interleaf::units::{Level, Order, PageSize, Pfn, Rights, Vpn, VpnRange};
use interleaf::vma::{HugetlbBacking, VmaAttributes};
use interleaf_lab::machine::soft::Flavour;
use std::collections::BTreeMap;

/// Every table is attached and covers a page of a mapping; every leaf lies in a mapping, allows no more than
/// it does, and never to write the zero page; nothing is left half done.
pub(super) fn check<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    walked: &Walked,
) -> Result<(), String> {
    system.spaces.iter().zip(0..).try_for_each(|(space, nr)| check_space(space, walked.space(nr)))?;
    [PageSize::Huge, PageSize::Giant].into_iter().try_for_each(|size| check_reserves(system, walked, size))
}

/// The hugetlb pool has set aside as many pages of a size as entries and objects say, and what objects have
/// are as many records as they count.
fn check_reserves<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    walked: &Walked,
    size: PageSize,
) -> Result<(), String> {
    let reserved = SlotMarker::HugetlbReserved.entry();
    let of_size = |seen: &Seen| match *seen {
        Seen::Entry { level, entry, .. } => level == size.level() && entry == reserved,
        Seen::Table { .. } => false,
    };
    let entries = walked.all().filter(of_size).count() as u64;
    let (counts, objects) = (system.vm.memory().hugetlb().counts(size), objects(system, size));
    require(counts.reserved == entries + objects.reserved, || {
        format!("{entries} entries of {size:?} are reserved pages, and {objects:?} are: {counts:?}")
    })?;
    let span = system.vm.memory().span();
    let states =
        (span.start.0..span.end.0).filter_map(|pfn| Some(system.vm.memory().meta(Pfn(pfn))?.state()));
    let is_objects = |state: &FrameState| {
        state.kind() == Kind::Object && state.order() == size.order() && state.is_hugetlb()
    };
    let records = states.filter(is_objects).count() as u64;
    require(records == objects.filled, || format!("{records} folios of {size:?} are those of {objects:?}"))
}

/// What all objects of shared memory that are mapped have of the pool of a size.
fn objects<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    size: PageSize,
) -> SharedHugetlbCounts {
    let mut backings = BTreeMap::new();
    for space in system.spaces {
        space.inspect().each_vma(|vma| {
            if let Some(HugetlbBacking { size: its, object: Some(object), .. }) = vma.hugetlb()
                && its == size
            {
                backings.insert(object, vma.backing.get());
            }
        });
    }
    let mut all = SharedHugetlbCounts::default();
    for counts in backings.into_values().filter_map(|backing| system.vm.shared_hugetlb(backing)) {
        all.filled += counts.filled;
        all.reserved += counts.reserved;
    }
    all
}

fn check_space<M: Machine>(
    space: &AddressSpace<'_, M>,
    entries: impl Iterator<Item = Seen>,
) -> Result<(), String> {
    let mut mappings = Vec::new();
    space.inspect().each_vma(|vma| mappings.push(*vma));
    for seen in entries {
        let found = match seen {
            Seen::Table { pfn, covers, .. } => check_table(space, &mappings, pfn, covers),
            Seen::Entry { page, level, entry } => check_entry(space, &mappings, (page, level), entry),
        };
        found.map_err(|wrong| format!("{space:?}: {wrong}"))?;
    }
    Ok(())
}

fn check_table<M: Machine>(
    space: &AddressSpace<'_, M>,
    mappings: &[VmaAttributes],
    pfn: Pfn,
    covers: VpnRange,
) -> Result<(), String> {
    let state = space.vm().memory().meta(pfn).map(|meta| meta.state());
    let attached = state.is_some_and(|state| state.kind() == Kind::Table && state.is_attached());
    require(attached, || format!("the table {pfn:?} is in the tree, its record says {state:?}"))?;
    let used = mappings.iter().any(|vma| !vma.range.intersect(covers).is_empty());
    require(used, || format!("the table {pfn:?} covers {covers:?}, where nothing is mapped"))
}

fn check_entry<M: Machine>(
    space: &AddressSpace<'_, M>,
    mappings: &[VmaAttributes],
    (page, level): (Vpn, Level),
    entry: Entry,
) -> Result<(), String> {
    let Some(vma) = mappings.iter().find(|vma| vma.range.contains(page)) else {
        return Err(format!("{entry:?} at {page:?}, where nothing is mapped"));
    };
    let marker = if let Entry::Marker(marker) = entry { SlotMarker::of(marker) } else { None };
    let is_taken = matches!(marker, Some(SlotMarker::Poisoned(Poison::HugetlbUnmapped)));
    if is_taken || marker == Some(SlotMarker::HugetlbReserved) {
        let may_be = |pool: HugetlbBacking| pool.size.level() == level && (is_taken || pool.reserves);
        return require(vma.hugetlb().is_some_and(may_be), || format!("{marker:?} at {page:?} in {vma:?}"));
    }
    let Entry::Leaf(leaf) = entry else { return Err(format!("{entry:?} was left at {page:?}")) };
    let inside = VpnRange::new(page, page.add(level.entry_pages()));
    let is_covered =
        mappings.iter().map(|vma| vma.range.intersect(inside).len()).sum::<u64>() == inside.len();
    require(is_covered, || format!("{leaf:?} at {page:?} reaches beyond the mappings"))?;
    check_leaf(space, vma, (page, level), leaf).map_err(|wrong| format!("{wrong} at {page:?} in {vma:?}"))
}

fn check_leaf<M: Machine>(
    space: &AddressSpace<'_, M>,
    vma: &VmaAttributes,
    (page, level): (Vpn, Level),
    leaf: Leaf,
) -> Result<(), String> {
    let memory = space.vm().memory();
    require(vma.rights().contains(leaf.rights), || format!("{leaf:?} allows more than its mapping"))?;
    if let Some((_, first)) = vma.pfn_mapping() {
        let due = first.add(page.0 - vma.range.start.0);
        return require(leaf.pfn == due && !leaf.owned(), || {
            format!("{leaf:?} is not the PFN-mapped frame {due:?}")
        });
    }
    if leaf.by_table() {
        let is_its = level == Level::Pmd && memory.zero_pages().is_table(leaf.pfn);
        require(is_its, || format!("{leaf:?} shows a table that is not one of zeros"))?;
    }
    if level == Level::Pmd && (leaf.by_table() || memory.zero_pages().is_huge_zero(leaf.pfn)) {
        require(vma.is_anonymous() && !leaf.owned(), || format!("the huge zero page is owned: {leaf:?}"))?;
        return require(!leaf.rights.contains(Rights::WRITE), || format!("a writable zero page: {leaf:?}"));
    }
    require(level == Level::Pte || leaf.owned(), || format!("a huge leaf that owns nothing: {leaf:?}"))?;
    if leaf.pfn == memory.zero_frame() {
        require(vma.is_anonymous(), || format!("the zero page in shared memory: {leaf:?}"))?;
        return require(!leaf.rights.contains(Rights::WRITE), || format!("a writable zero page: {leaf:?}"));
    }
    let kind = memory.meta(leaf.pfn).map(|meta| meta.state().kind());
    let shows_object = vma.is_private() && !vma.is_anonymous() && vma.hugetlb().is_none();
    let is_copy = shows_object && kind == Some(Kind::User);
    let is_own = vma.is_anonymous() || vma.private_hugetlb().is_some() || is_copy;
    let due = if is_own { Kind::User } else { Kind::Object };
    require(!shows_object || is_copy || !leaf.rights.contains(Rights::WRITE), || {
        format!("stores through {leaf:?}, in private memory, are the object's")
    })?;
    require(kind == Some(due), || format!("{leaf:?} shows a frame of kind {kind:?}"))?;
    let order = memory.meta(leaf.pfn).map(|meta| meta.state().order());
    let size = level.leaf_size().map(|size| size.order());
    let exclusive = memory.meta(leaf.pfn).is_some_and(|meta| meta.state().is_exclusive());
    // Another space may have split what this one maps by a huge leaf.
    let may_be_split = due == Kind::User || vma.hugetlb().is_none();
    let is_split = order == Some(Order::BASE) && level == Level::Pmd && may_be_split && !exclusive;
    require(order == size || is_split, || format!("{leaf:?} of {level:?} shows a folio of {order:?}"))?;
    let is_shared = is_own && !exclusive;
    require(!(is_shared && leaf.rights.contains(Rights::WRITE)), || {
        format!("a writable shared frame: {leaf:?}")
    })?;
    let untouched = (vma.is_anonymous() || is_copy) && vma.anon.is_none();
    require(!untouched, || format!("{leaf:?} is a copy in a mapping without the identity of copies"))
}
