//! What CPUs waited for, by what lies on the line and by the place in the source.

use interleaf_lab::machine::sim::{Ps, Report, Wait};
use interleaf_lab::machine::watch::{Names, site};
use serde::Serialize;
use std::collections::BTreeMap;

/// Waits of all CPUs for lines of one name, from one place in the source. The field names are the JSON's and
/// stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedWait {
    /// What lies on the line.
    pub field: String,
    /// The place in the source that wanted it: file and line.
    pub site: String,
    /// Different lines of that name.
    pub lines: u64,
    /// Share of the time of all measured CPUs, from 0 to 1.
    pub share: f64,
    /// Of it, lines on their way.
    pub share_moving: f64,
    /// Queues for lines.
    pub share_queued: f64,
    /// Wait loops.
    pub share_spun: f64,
    /// Sleep.
    pub share_slept: f64,
    /// Read-modify-writes and fences that waited for stores of their own CPU.
    pub share_drained: f64,
}

impl NamedWait {
    /// What most of the time was spent on.
    pub fn mostly(&self) -> &'static str {
        let kinds = [
            ("moving", self.share_moving),
            ("queued", self.share_queued),
            ("spun", self.share_spun),
            ("slept", self.share_slept),
            ("drained", self.share_drained),
        ];
        kinds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |(name, _)| name)
    }
}

/// What a queue for a node's memory is called.
pub const BANDWIDTH: &str = "the memory bandwidth of a node";

/// What the stores of a page are called that have not drained.
pub const OWN_STORES: &str = "stores of the CPU's own that drain";

/// Names the waits of a run; the longest first.
pub fn named(report: &Report, names: &Names) -> Vec<NamedWait> {
    let mut by_name: BTreeMap<(String, String), Sum> = BTreeMap::new();
    for wait in &report.waits {
        let field = if wait.drained > 0 { OWN_STORES.into() } else { names.of(wait.addr, wait.place) };
        by_name.entry((field, site(wait.place))).or_default().add(wait);
    }
    if report.bandwidth_queued > 0 {
        let sum =
            Sum { lines: report.measured.len() as u64, queued: report.bandwidth_queued, ..Sum::default() };
        by_name.insert((BANDWIDTH.into(), "pages zeroed and copied".into()), sum);
    }
    let all = report.measured.iter().sum::<Ps>().max(1) as f64;
    let mut waits: Vec<_> = by_name.into_iter().map(|(name, sum)| sum.named(name, all)).collect();
    waits.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.field.cmp(&b.field)));
    waits
}

#[derive(Default)]
struct Sum {
    lines: u64,
    moving: Ps,
    queued: Ps,
    spun: Ps,
    slept: Ps,
    drained: Ps,
}

impl Sum {
    fn add(&mut self, wait: &Wait) {
        self.lines += 1;
        self.moving += wait.moving;
        self.queued += wait.queued;
        self.spun += wait.spun;
        self.slept += wait.slept;
        self.drained += wait.drained;
    }

    fn named(self, (field, site): (String, String), all: f64) -> NamedWait {
        let share = |time: Ps| time as f64 / all;
        NamedWait {
            field,
            site,
            lines: self.lines,
            share: share(self.moving + self.queued + self.spun + self.slept + self.drained),
            share_moving: share(self.moving),
            share_queued: share(self.queued),
            share_spun: share(self.spun),
            share_slept: share(self.slept),
            share_drained: share(self.drained),
        }
    }
}
