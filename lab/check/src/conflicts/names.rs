//! What lies at an address: parts of the system by what the library says of itself, frames by their kind,
//! records by field.

use interleaf::frame::{FrameMeta, Kind};
use interleaf::machine::{Format, Machine};
use interleaf::space::{AddressSpace, Vm};
use interleaf::units::{PAGE_SIZE, Pfn};
use interleaf_lab::machine::soft::{Flavour, SoftMachine};
use interleaf_lab::machine::watch::{Field, Labels, Use};
use std::ops::Range;

/// Names of addresses that do not change from run to run.
pub(super) struct Names {
    parts: Vec<(Range<usize>, &'static str)>,
    records: Range<usize>,
    first: Pfn,
    /// Addresses of the window, and what the frames there are, from `first`.
    window: Range<usize>,
    kinds: Vec<Option<Kind>>,
}

const RECORD: usize = 32;
const FIELDS: [(usize, &str); 4] = [(0, "state"), (8, "mapcount"), (12, "word"), (16, "link")];

impl Names {
    /// The names that hold at this moment.
    pub(super) fn of_now<C: Flavour, F: Format>(
        machine: &SoftMachine<C, F>,
        vm: &Vm<'_, SoftMachine<C, F>>,
        spaces: &[&AddressSpace<'_, SoftMachine<C, F>>],
    ) -> Self {
        let mut parts = Vec::new();
        // Smaller parts lie in larger ones and are reported later.
        vm.each_part(|name, range| parts.push((range, name)));
        spaces.iter().for_each(|space| space.each_part(|name, range| parts.push((range, name))));
        let (memory, span) = (vm.memory(), vm.memory().span());
        for zone in memory.zones() {
            let start = (&raw const *zone).addr();
            parts.push((start..start + size_of_val(zone), "the zone's free lists and their lock"));
        }
        let frames = || (span.start.0..span.end.0).map(Pfn);
        let start = memory.meta(span.start).map_or(0, |meta: &FrameMeta<C>| (&raw const *meta).addr());
        let window = machine.window(span.start.addr()).addr().get();
        Self {
            parts,
            records: start..start + span.len() as usize * RECORD,
            first: span.start,
            window: window..window + span.len() as usize * PAGE_SIZE,
            kinds: frames().map(|pfn| memory.meta(pfn).map(|meta| meta.state().kind())).collect(),
        }
    }

    /// The name of what was touched.
    pub(super) fn of(&self, used: &Use) -> String {
        let addr = used.addr;
        if let Some((_, name)) = self.parts.iter().rev().find(|(range, _)| range.contains(&addr)) {
            return (*name).into();
        }
        if self.records.contains(&addr) {
            let (record, within) =
                ((addr - self.records.start) / RECORD, (addr - self.records.start) % RECORD);
            return match self.kinds[record] {
                Some(Kind::Table) if (12..16).contains(&within) => "the lock of a table".into(),
                _ => "the record of a frame".into(),
            };
        }
        if self.window.contains(&addr) {
            let frame = (addr - self.window.start) / PAGE_SIZE;
            return match self.kinds[frame] {
                Some(Kind::Reserved) | None => format!("boot memory, of {}", module(used)),
                _ => format!("the contents of a {}", self.kind(frame)),
            };
        }
        format!("elsewhere, of {}", module(used))
    }

    /// What the frame with this number from the first is.
    fn kind(&self, frame: usize) -> &'static str {
        match self.kinds.get(frame).copied().flatten() {
            None | Some(Kind::Reserved) => "reserved frame",
            Some(Kind::Free) => "free block",
            Some(Kind::Cached) => "cached frame",
            Some(Kind::Taken) => "taken frame",
            Some(Kind::Table) => "table",
            Some(Kind::Slab) => "slab of nodes or mappings",
            Some(Kind::User | Kind::File) => "user frame",
            Some(Kind::Zero) => "zero page",
        }
    }

    /// Labels for reports that show every line.
    pub(super) fn labels(&self) -> Labels {
        let mut labels = Labels::new();
        labels.add_array(self.window.clone(), PAGE_SIZE, self.first.0, "frame", &[]);
        let fields = FIELDS.map(|(offset, name)| Field { offset, name });
        labels.add_array(self.records.clone(), RECORD, self.first.0, "record", &fields);
        self.parts.iter().for_each(|(range, name)| labels.add(range.clone(), *name));
        labels
    }
}

/// The file of the library that touched it.
fn module(used: &Use) -> &'static str {
    let file = used.place.file();
    file.rsplit_once("src/").map_or(file, |(_, file)| file)
}
