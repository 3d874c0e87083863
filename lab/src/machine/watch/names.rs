//! What lies at an address: parts of the system by what the library says of itself, frames by their kind,
//! records by field.

use super::{Field, Labels, Place};
use crate::machine::soft::{Flavour, SoftMachine};
use interleaf::frame::Kind;
use interleaf::machine::{Format, Machine};
use interleaf::space::{AddressSpace, Vm};
use interleaf::units::{PAGE_SIZE, Pfn};
use std::ops::Range;

/// Names of addresses that do not change from run to run.
pub struct Names {
    parts: Vec<(Range<usize>, &'static str)>,
    /// Where records lie that follow each other, and the first frame of each such run.
    records: Vec<(Range<usize>, Pfn)>,
    first: Pfn,
    /// Addresses of the window, and what the frames there are, from `first`.
    window: Range<usize>,
    kinds: Vec<Option<Kind>>,
}

const RECORD: usize = 32;
const FIELDS: [(usize, &str); 4] = [(0, "state"), (8, "mapcount"), (12, "word"), (16, "link")];

impl Names {
    /// The names that hold at this moment.
    pub fn of_now<C: Flavour, F: Format>(
        machine: &SoftMachine<C, F>,
        vm: &Vm<'_, SoftMachine<C, F>>,
        spaces: &[&AddressSpace<'_, SoftMachine<C, F>>],
    ) -> Self {
        let mut parts = Vec::new();
        // Smaller parts lie in larger ones and are reported later.
        vm.each_part(|name, range| parts.push((range, name)));
        spaces.iter().for_each(|space| space.inspect().each_part(|name, range| parts.push((range, name))));
        let (memory, span) = (vm.memory(), vm.memory().span());
        let frames = || (span.start.0..span.end.0).map(Pfn);
        let record = |pfn| Some((pfn, (&raw const *memory.meta(pfn)?).addr()));
        let mut records: Vec<(Range<usize>, Pfn)> = Vec::new();
        for (pfn, at) in frames().filter_map(record) {
            match records.last_mut() {
                Some((run, _)) if run.end == at => run.end += RECORD,
                _ => records.push((at..at + RECORD, pfn)),
            }
        }
        let window = machine.window(span.start.addr()).addr().get();
        Self {
            parts,
            records,
            first: span.start,
            window: window..window + span.len() as usize * PAGE_SIZE,
            kinds: frames().map(|pfn| memory.meta(pfn).map(|meta| meta.state().kind())).collect(),
        }
    }

    /// The name of what was touched at an address, from a place in the source.
    pub fn of(&self, addr: usize, place: Place) -> String {
        if let Some((_, name)) = self.parts.iter().rev().find(|(range, _)| range.contains(&addr)) {
            return (*name).into();
        }
        if let Some((run, first)) = self.records.iter().find(|(run, _)| run.contains(&addr)) {
            let (record, within) = ((addr - run.start) / RECORD, (addr - run.start) % RECORD);
            return match self.kind(*first, record) {
                Some(Kind::Table) if (8..12).contains(&within) => "the lock of a table".into(),
                _ => "the record of a frame".into(),
            };
        }
        if self.window.contains(&addr) {
            let frame = (addr - self.window.start) / PAGE_SIZE;
            return match self.kind(self.first, frame) {
                Some(Kind::Reserved) | None => format!("boot memory, of {}", module(place)),
                kind => format!("the contents of a {}", kind_name(kind)),
            };
        }
        format!("elsewhere, of {}", module(place))
    }

    /// What the frame is that lies so many after `from`.
    fn kind(&self, from: Pfn, after: usize) -> Option<Kind> {
        self.kinds.get((from.0 - self.first.0) as usize + after).copied().flatten()
    }

    /// Labels for reports that show every line.
    pub fn labels(&self) -> Labels {
        let mut labels = Labels::new();
        labels.add_array(self.window.clone(), PAGE_SIZE, self.first.0, "frame", &[]);
        let fields = FIELDS.map(|(offset, name)| Field { offset, name });
        for (run, first) in &self.records {
            labels.add_array(run.clone(), RECORD, first.0, "record", &fields);
        }
        self.parts.iter().for_each(|(range, name)| labels.add(range.clone(), *name));
        labels
    }
}

/// What a frame of this kind is called.
const fn kind_name(kind: Option<Kind>) -> &'static str {
    match kind {
        None | Some(Kind::Reserved) => "reserved frame",
        Some(Kind::Free) => "free block",
        Some(Kind::Cached) => "cached frame",
        Some(Kind::Taken) => "taken frame",
        Some(Kind::Table) => "table",
        Some(Kind::Slab) => "slab of nodes or mappings",
        Some(Kind::User | Kind::Object) => "user frame",
        Some(Kind::Zero) => "zero page",
    }
}

/// The file of the library that touched it.
fn module(place: Place) -> &'static str {
    let file = place.file();
    file.rsplit_once("src/").map_or(file, |(_, file)| file)
}
