//! What was measured, for people and programs.

use super::{Geometry, HostRow, LibraryRow, Misses, ZeroPage};
use crate::measure::init::report::size;
use crate::os::host_info::HostInfo;
use crate::show::bars;
use crate::show::table::{self, grouped, number};
use serde::Serialize;

/// What `interleaf zero` gives. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine it ran on.
    pub setting: HostInfo,
    /// Bytes that are compared, half with half.
    pub memory_bytes: u64,
    /// Bytes that are read once.
    pub touched_bytes: u64,
    /// Rounds on the host, of which the fastest counts.
    pub rounds: usize,
    /// The model's caches.
    pub geometry: Geometry,
    /// Real times.
    pub host: Vec<HostRow>,
    /// Misses of a warm round, by the model.
    pub model: Vec<ModelRow>,
    /// Programs on our address space.
    pub library: Vec<LibraryRow>,
}

/// The misses of one pattern with one kind of zero page.
#[derive(Clone, Debug, Serialize)]
pub struct ModelRow {
    /// What is behind the addresses.
    pub zero_page: ZeroPage,
    /// How it is read.
    pub pattern: &'static str,
    /// What a warm round misses.
    #[serde(flatten)]
    pub misses: Misses,
}

/// What the seed's author measured on four sockets of Westmere-EX.
const SEED: &str =
    "  The seed, 8 GB on four sockets of Westmere-EX: 100 rounds of memcmp took 32.4 s with the huge page and
  30.4 s with the shared table; 1 000 rounds of a byte per page 3.5 s of task clock with the huge page (it
  ends before the other figure). 200 MB read: resident 200 MB before, 400 kB after; ft.A of NPB 2.5 times the
  memory without.
";

const WORDS: &str = "  Resident is counted as Linux counts it: zero pages are not. Memory of its own is
  compared up to 1 GiB. The model is one core with caches of its own: entries that a TLB miss reads go through
  them, instructions and other programs do not.
";

impl Report {
    /// As text, with the machine.
    pub fn text(&self) -> String {
        let Geometry { l1, llc, line, tlb, tlb_ways } = self.geometry;
        format!(
            "{}\n\nReal times on this host, the fastest of {} rounds\n{}\n\
             Misses of a warm round over {}, for 1 000 accesses: a model of {} and {} ways, {} and {} ways,\n\
             lines of {line} bytes, a TLB of {} small and {} huge pages and {tlb_ways} ways\n{}\n{}\n\
             Programs on our address space: {} read once, {} compared\n{}\n{}{SEED}{WORDS}",
            self.setting.line(),
            self.rounds,
            self.host_table(),
            size(self.memory_bytes),
            size(l1.bytes),
            l1.ways,
            size(llc.bytes),
            llc.ways,
            tlb[0],
            tlb[1],
            self.model_table(),
            self.chart(),
            size(self.touched_bytes),
            size(self.memory_bytes),
            self.library_table(),
            self.memory_chart(),
        )
    }

    fn host_table(&self) -> String {
        let header =
            ["zeros", "range", "memcmp, ns/page", "byte per page, ns", "faults", "tables", "resident"];
        let bytes = |value: Option<u64>| value.map_or_else(String::new, kib);
        let rows = self.host.iter().map(|row| {
            vec![
                row.name.to_string(),
                size(row.bytes),
                number(row.compare_ns_per_page),
                number(row.touch_ns_per_page),
                grouped(row.faults as i64),
                bytes(row.table_bytes),
                bytes(row.resident_bytes),
            ]
        });
        table::of(&header, rows)
    }

    fn model_table(&self) -> String {
        let header = ["zero page", "pattern", "TLB", "first level", "last level"];
        let rows = self.model.iter().map(|row| {
            let per_mille = |misses: u64| number(misses as f64 * 1000.0 / row.misses.accesses as f64);
            let Misses { tlb, l1, llc, .. } = row.misses;
            vec![
                row.zero_page.name().to_string(),
                row.pattern.to_string(),
                per_mille(tlb),
                per_mille(l1),
                per_mille(llc),
            ]
        });
        table::of(&header, rows)
    }

    /// What a warm round misses, by the model: first-level cache and TLB together.
    fn chart(&self) -> String {
        let entry = |row: &ModelRow| {
            let missed = (row.misses.tlb + row.misses.l1) as f64 * 1000.0 / row.misses.accesses as f64;
            (format!("  {}, {}", row.zero_page.name(), row.pattern), missed)
        };
        let entries: Vec<_> = self.model.iter().map(entry).collect();
        bars::of(&entries, "misses of TLB and first level", 30)
    }

    fn library_table(&self) -> String {
        let header = ["program", "zero page", "ms", "faults", "frames", "tables", "resident"];
        let rows = self.library.iter().map(|row| {
            vec![
                row.program.to_string(),
                row.zero_page.name().to_string(),
                number(row.ms),
                grouped(row.faults as i64),
                grouped(row.frames as i64),
                kib(row.table_bytes),
                kib(row.resident_bytes),
            ]
        });
        table::of(&header, rows)
    }

    /// Frames of each program.
    fn memory_chart(&self) -> String {
        let entry = |row: &LibraryRow| {
            let mib = (row.frames * 4) as f64 / 1024.0;
            (format!("  {}, {}", row.program, row.zero_page.name()), mib)
        };
        let entries: Vec<_> = self.library.iter().map(entry).collect();
        bars::of(&entries, "MiB of frames", 30)
    }
}

/// Bytes as KiB, or as MiB from 10 on.
fn kib(bytes: u64) -> String {
    match bytes >> 10 {
        kib if kib >= 10 << 10 => format!("{} MiB", grouped((bytes >> 20) as i64)),
        kib => format!("{} KiB", grouped(kib as i64)),
    }
}
