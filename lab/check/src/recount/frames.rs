//! Every frame is in one state, and its counts are what can be counted.

use super::system::{QuiescentSystem, require};
use super::walk::{Seen, Walked, nr_counted};
use interleaf::frame::{FrameMeta, Kind};
use interleaf::machine::{Cpu, Entry, Format};
use interleaf::units::{Level, PAGE_SIZE, Pfn, Rights};
use interleaf_lab::machine::soft::Flavour;
use std::collections::{BTreeMap, BTreeSet};

/// What the tables of all spaces map.
struct Shown {
    /// Number of entries that map each frame.
    entries: BTreeMap<Pfn, u32>,
    /// Frames of tables, roots among them.
    tables: BTreeSet<Pfn>,
}

/// The frames' own recount; every user frame is mapped by as many entries as its counts say and by at least
/// one; every table belongs to a space (or, where there are objects, to one).
pub(super) fn check<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    walked: &Walked,
) -> Result<(), String> {
    let memory = system.vm.memory();
    memory.check().map_err(|wrong| wrong.to_string())?;
    let (shown, objects) = (shown(system, walked), system.vm.has_objects());
    let (span, mut zeros) = (memory.span(), 0);
    for pfn in (span.start.0..span.end.0).map(Pfn) {
        let Some(meta) = memory.meta(pfn) else { continue };
        let entries = shown.entries.get(&pfn).copied().unwrap_or(0);
        match meta.state().kind() {
            Kind::User => check_counts(pfn, meta, entries, 0)?,
            // The object's index holds one reference.
            Kind::Object => check_counts(pfn, meta, entries, 1)?,
            Kind::Table if meta.state().is_attached() => {
                let known = objects || shown.tables.contains(&pfn);
                require(known, || format!("the table {pfn:?} is in no space"))?;
            }
            Kind::Table if memory.zero_pages().is_table(pfn) => {
                require(entries == 0, || format!("{entries} entries own the table of zeros {pfn:?}"))?;
                require(shows_zeros(system, pfn), || format!("{pfn:?}, a table of zeros, was written"))?;
            }
            Kind::Zero => {
                let frames = meta.state().order().frames();
                let is_unwritten = (0..frames).all(|frame| is_zero(system, pfn.add(frame)));
                require(is_unwritten, || format!("{pfn:?}, a zero page, was written"))?;
                zeros += frames;
            }
            kind => require(entries == 0, || format!("{entries} entries show {pfn:?}, which is {kind:?}"))?,
        }
    }
    let due = 1 + memory.zero_pages().huge_frames();
    require(zeros == due, || format!("{zeros} frames are zero pages, {due} are known"))
}

fn is_zero<C: Flavour, F: Format>(system: &QuiescentSystem<'_, '_, C, F>, pfn: Pfn) -> bool {
    let mut bytes = [1; PAGE_SIZE];
    system.machine.read(pfn, 0, &mut bytes);
    bytes == [0; PAGE_SIZE]
}

/// Whether all entries of a table show the zero page, never to write, and are marked as accessed.
fn shows_zeros<C: Flavour, F: Format>(system: &QuiescentSystem<'_, '_, C, F>, table: Pfn) -> bool {
    let mut bytes = [0; PAGE_SIZE];
    system.machine.read(table, 0, &mut bytes);
    let zero = system.vm.memory().zero_frame();
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
    words.all(|word| match F::decode(word, Level::Pte) {
        Entry::Leaf(leaf) => {
            leaf.pfn == zero && leaf.accessed && !leaf.owned() && !leaf.rights.contains(Rights::WRITE)
        }
        _ => false,
    })
}

fn check_counts<C: Cpu>(pfn: Pfn, meta: &FrameMeta<C>, entries: u32, others: u32) -> Result<(), String> {
    let counts = (meta.mapcount(), meta.state().refcount());
    // All entries hold one reference together.
    let joint = u32::from(entries > 0);
    require(counts == (entries, joint + others), || {
        format!("{entries} entries show {pfn:?}, its mapcount and refcount are {counts:?}")
    })?;
    let exclusive = meta.state().is_exclusive();
    require(!exclusive || entries == 1, || format!("{entries} entries show {pfn:?}, which is exclusive"))?;
    require(entries + others > 0, || format!("no entry maps the user frame {pfn:?}"))
}

fn shown<C: Flavour, F: Format>(system: &QuiescentSystem<'_, '_, C, F>, walked: &Walked) -> Shown {
    let roots = system.spaces.iter().map(|space| space.root()).collect();
    let mut shown = Shown { entries: BTreeMap::new(), tables: roots };
    for seen in walked.all() {
        match seen {
            Seen::Table { pfn, .. } => {
                shown.tables.insert(pfn);
            }
            // PFN-mapped frames are not counted.
            Seen::Entry { entry: Entry::Leaf(leaf), .. } if !leaf.owned() => {}
            Seen::Entry { entry: Entry::Leaf(leaf), level, .. } => {
                for frame in 0..nr_counted(system.vm.memory(), leaf, level) {
                    *shown.entries.entry(leaf.pfn.add(frame)).or_insert(0) += 1;
                }
            }
            Seen::Entry { .. } => {}
        }
    }
    shown
}
