//! All boots that were asked for, for people and programs.

use super::boot::Boot;
use super::{Holes, MemoryMap};
use crate::os::host_info::HostInfo;
use crate::show::table::{self, grouped, number};
use interleaf::frame::RecordExtent;
use serde::Serialize;

/// What `interleaf init` gives. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine it ran on.
    pub setting: HostInfo,
    /// Bytes of the memory whose table was booted.
    pub memory_bytes: u64,
    /// Nodes.
    pub nodes: u32,
    /// The seed of the holes, if there are any.
    pub holes: Option<u64>,
    /// Usable regions.
    pub regions: usize,
    /// Bytes of a frame record.
    pub record_bytes: usize,
    /// One for each number of threads; 0 is everything before the first allocation.
    pub rows: Vec<Row>,
}

/// Boots with one number of threads.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Threads; 0: no job, everything is written before the first allocation.
    pub threads: usize,
    /// Part of the CPUs of a node, in percent.
    pub node_percent: f64,
    /// Until the first allocation, ms, the mean of all runs.
    pub first_ms: f64,
    /// Its standard deviation.
    pub first_stdev: f64,
    /// Until all records are written, ms, the mean of all runs.
    pub all_ms: f64,
    /// Its standard deviation.
    pub all_stdev: f64,
    /// CPU time for each GiB of memory, ms.
    pub cpu_ms_per_gib: f64,
    /// Bytes of records written for each GiB of memory before the first allocation.
    pub first_bytes_per_gib: f64,
    /// And until all are written.
    pub bytes_per_gib: f64,
    /// Records written per second, GB.
    pub gb_per_second: f64,
    /// Node by node, in the last run.
    pub by_node: Vec<Node>,
    /// Runs.
    pub runs: usize,
}

/// One node in one run.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// Its number.
    pub node: u32,
    /// Frames that it waited for.
    pub frames: u64,
    /// How long its job took, ms.
    pub ms: f64,
    /// Bytes of records that lie on it.
    pub records_on_node: u64,
    /// Bytes of records of its frames that lie on other nodes.
    pub records_elsewhere: u64,
}

const MS: f64 = 1e6;

impl Row {
    /// Sums up the boots with `threads` threads on a machine of `cpus` CPUs and `map.nodes` nodes.
    pub fn of(threads: usize, cpus: usize, map: &MemoryMap, boots: &[Boot]) -> Row {
        let gib = map.frames as f64 * 4096.0 / (1u64 << 30) as f64;
        let (first_ms, first_stdev) = mean(boots, |boot| boot.first_ns / MS);
        let (all_ms, all_stdev) = mean(boots, |boot| boot.all_ns() / MS);
        let bytes = |boot: &Boot| (boot.first_bytes + boot.rest_bytes) as f64;
        let extents = boots.last().map(|boot| boot.records.as_slice()).unwrap_or_default();
        let node = |done: &interleaf::frame::NodeInitReport| Node {
            node: done.node.0,
            frames: done.frames,
            ms: done.took_ns as f64 / MS,
            records_on_node: sum(extents, |extent| extent.memory_node == done.node),
            records_elsewhere: sum(extents, |extent| extent.node == done.node && !extent.is_near()),
        };
        Row {
            threads,
            node_percent: 100.0 * threads as f64 / cpus as f64,
            first_ms,
            first_stdev,
            all_ms,
            all_stdev,
            cpu_ms_per_gib: mean(boots, |boot| boot.cpu_ns / MS).0 / gib,
            first_bytes_per_gib: mean(boots, |boot| boot.first_bytes as f64).0 / gib,
            bytes_per_gib: mean(boots, bytes).0 / gib,
            gb_per_second: mean(boots, |boot| bytes(boot) / boot.all_ns()).0,
            by_node: boots.last().map(|boot| boot.nodes.iter().map(node).collect()).unwrap_or_default(),
            runs: boots.len(),
        }
    }
}

/// Mean and standard deviation.
fn sum(extents: &[RecordExtent], which: impl Fn(&RecordExtent) -> bool) -> u64 {
    extents.iter().filter(|extent| which(extent)).map(RecordExtent::len_bytes).sum()
}

fn mean(boots: &[Boot], value: impl Fn(&Boot) -> f64) -> (f64, f64) {
    let count = boots.len().max(1) as f64;
    let mean = boots.iter().map(&value).sum::<f64>() / count;
    let spread = boots.iter().map(|boot| (value(boot) - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, spread.sqrt())
}

impl Report {
    /// As text, with the machine.
    pub fn text(&self) -> String {
        format!("{}\n\n{}", self.setting.line(), self.body())
    }

    /// The nodes of the last row, then the table.
    pub fn body(&self) -> String {
        let holes = self.holes.map_or_else(String::new, |seed| format!(", holes of seed {seed}"));
        let mut text = format!(
            "{} of memory on {} node{}, {} usable region{}{holes}; records of {} bytes\n",
            size(self.memory_bytes),
            self.nodes,
            if self.nodes == 1 { "" } else { "s" },
            self.regions,
            if self.regions == 1 { "" } else { "s" },
            self.record_bytes,
        );
        for node in self.rows.last().map(|row| row.by_node.as_slice()).unwrap_or_default() {
            let elsewhere = match node.records_elsewhere {
                0 => String::new(),
                bytes => format!(", {} of its own elsewhere", size(bytes)),
            };
            text += &format!(
                "node {} initialised, {} frames in {} ms; records on node: {}{elsewhere}\n",
                node.node,
                grouped(node.frames as i64),
                number(node.ms),
                size(node.records_on_node),
            );
        }
        text + "\n" + &self.table() + "\n" + WORDS
    }

    fn table(&self) -> String {
        let header = [
            "node% (thr)",
            "first allocation",
            "ms (stdev)",
            "all written",
            "ms (stdev)",
            "GB/s",
            "ms/GiB",
            "bytes/GiB first",
            "bytes/GiB",
        ];
        let base = self.rows.first();
        let gain = |row: &Row, ms: fn(&Row) -> f64| match base.filter(|base| base.threads != row.threads) {
            Some(base) => format!("{:.1}%", 100.0 * (1.0 - ms(row) / ms(base))),
            None => "--".to_string(),
        };
        let row = |row: &Row| {
            vec![
                format!("{:.0}% ({:>3})", row.node_percent, row.threads),
                gain(row, |row| row.first_ms),
                format!("{} ({})", number(row.first_ms), number(row.first_stdev)),
                gain(row, |row| row.all_ms),
                format!("{} ({})", number(row.all_ms), number(row.all_stdev)),
                number(row.gb_per_second),
                number(row.cpu_ms_per_gib),
                grouped(row.first_bytes_per_gib as i64),
                grouped(row.bytes_per_gib as i64),
            ]
        };
        table::of(&header, self.rows.iter().map(row))
    }

    /// Threads and the time until all records are written.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        self.rows.iter().filter(|row| row.threads > 0).map(|row| (row.threads as f64, row.all_ms)).collect()
    }

    /// The map that was booted.
    pub fn of(setting: HostInfo, map: &MemoryMap, regions: usize, rows: Vec<Row>) -> Report {
        let holes = match map.holes {
            Holes::None => None,
            Holes::Drawn(seed) => Some(seed),
        };
        Report {
            setting,
            memory_bytes: map.frames * 4096,
            nodes: map.nodes,
            holes,
            regions,
            record_bytes: size_of::<interleaf::frame::FrameMeta<crate::machine::host::Host>>(),
            rows,
        }
    }
}

const WORDS: &str = "  (0): everything is written before the first allocation. Else: what start needs, \
    and the rest by a job of so\n  many threads; each gain is against (0). All frames can be allocated \
    from the first allocation on: who needs a block\n  that the job has not come to writes it himself.\n";

/// Bytes as people say them.
pub fn size(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1, "bytes"));
    format!("{} {name}", number(bytes as f64 / unit as f64))
}
