//! The conclusion of a replay, which its report begins with: what of the run Linux spent on memory, what faults
//! waited for the mapping calls of other threads, and what the same faults and calls take here. Each number is
//! said with its ground.
//!
//! | ground | numbers |
//! |---|---|
//! | measured from the recording's timestamps | how long threads lived; calls and forks, from entry to return |
//! | estimated from them | faults, of which a trace has no end: the shortest tenth of the times from a fault to the next event of its thread, times the faults |
//! | bounds from them | faults, by the time to the next event; waits, by that and by how long calls were under way without a break |
//! | measured now | replays |
//!
//! A trace recorded without privilege has times of the tracer's stops, so it says nothing of Linux's.

mod here;
mod recorded;

pub use here::Here;
pub use recorded::Recorded;

use super::Replay;
use crate::show::table::{grouped, number};
use crate::show::width;
use crate::trace::Extent;
use serde::Serialize;

/// What a replay comes to. The field names are the JSON's and stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conclusion {
    /// Linux's times; none where the trace has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<Recorded>,
    /// What the replayed faults and calls take here.
    pub here: Vec<Here>,
    /// Events that are replayed, of all, in percent.
    pub replayed_percent: f64,
    /// Whether the recorded machine could have huge pages.
    pub recorded_with_huge_pages: bool,
    /// What the trace does not tell, or could not be measured: one line each.
    pub lacks: Vec<String>,
    /// Whether this build checks itself, so that its times are not those of a release.
    pub checked_build: bool,
}

/// Most columns of a line of the paragraph.
const COLUMNS: usize = 110;

impl Conclusion {
    /// Replays what was recorded in each way, and concludes.
    pub fn of(replay: Replay) -> Conclusion {
        let partial = replay.header.extent == Extent::Partial;
        let replayed: usize =
            replay.families.iter().flat_map(|f| &f.lives).map(|life| life.events.len()).sum();
        let replayed_percent = percent(replay.recorded, replayed as u64);
        let recorded_with_huge_pages = replay.huge.recorded != interleaf::vma::HugePolicy::Never;
        let linux = (!partial).then_some(replay.linux);
        let (here, lacks) = here::all(replay);
        let checked_build = cfg!(debug_assertions);
        Conclusion { linux, here, replayed_percent, recorded_with_huge_pages, lacks, checked_build }
    }

    /// The paragraph.
    pub fn text(&self) -> String {
        let mut sentences = match &self.linux {
            Some(linux) => vec![linux.share_text(self.recorded_with_huge_pages), linux.waits_text()],
            None => vec![NOTHING_OF_LINUX.to_string()],
        };
        sentences.extend(self.here_text());
        sentences.extend(self.lacks.iter().map(|line| format!("{}.", capital(line))));
        let most = width::of_stdout().map_or(COLUMNS, |columns| columns.min(COLUMNS));
        format!("\n{}\n", width::wrapped(&format!("{}\n", sentences.join(" ")), most))
    }

    fn here_text(&self) -> Option<String> {
        let first = self.here.first()?;
        let of = |here: &Here| {
            let with = if here.huge == "never" {
                "without huge pages"
            } else {
                "with huge pages wherever Linux could"
            };
            format!("{} locked and {} speculative {with}", us(here.locked_us), us(here.speculative_us))
        };
        let ways: Vec<String> = self.here.iter().map(of).collect();
        let times = match first.replays {
            1 => "one replay each",
            _ => "the median of three replays each",
        };
        let mut text = format!("Here {} take {} (measured: {times}", self.what(), ways.join(", and "));
        text += ", one thread on one CPU, so no fault waits; with the zeroing and copying of frames, and without \
                 a processor's entry to and return from a fault; memory stands in for files";
        if self.checked_build {
            text += "; this build checks itself, so a release takes less";
        }
        if self.recorded_with_huge_pages {
            text +=
                "; a page of a huge page that Linux had took no fault of its own, so it is not touched here";
        }
        Some(text + ").")
    }

    fn what(&self) -> String {
        match self.replayed_percent {
            all if all >= 100.0 => "the same faults and calls".to_string(),
            part => format!("the {} % of these that are replayed", number((part * 100.0).floor() / 100.0)),
        }
    }
}

const NOTHING_OF_LINUX: &str = "What Linux spent on memory, and what faults waited for, the trace does not tell: \
     it was recorded without privilege, so its times are those of a tracer's stops, and faults in kernel mode are \
     not in it.";

impl Recorded {
    fn share_text(&self, huge: bool) -> String {
        let share = |ns: u64| share(self.lived_ns, ns);
        let threads = match self.threads {
            1 => "its thread lived".to_string(),
            threads => format!("its {} threads lived, waiting included", grouped(threads as i64)),
        };
        let mut parts = vec![format!("{} in {}", share(self.calls_ns), counted(self.calls, "memory call"))];
        if self.forks > 0 {
            parts.push(format!("{} in {}", share(self.forks_ns), counted(self.forks, "fork")));
        }
        let mut text = format!(
            "Linux spent about {} of the run on memory, of the {} that {threads}: {} (measured from entry to \
             return, recording included)",
            share(self.memory_ns()),
            ns(self.lived_ns),
            parts.join(" and "),
        );
        if self.faults == 0 {
            return text + "; there was no page fault.";
        }
        text += &format!(
            ", and about {} in {} (estimated at {} each, as a trace has no end of a fault: a tenth of their \
             threads went on sooner than that; {} if all the time until they went on counts",
            share(self.faults_estimated_ns),
            counted(self.faults, "page fault"),
            ns(self.fault_tenth_ns),
            share(self.faults_most_ns),
        );
        if huge {
            text += "; a fault that got a huge page took longer";
        }
        text + ")."
    }

    fn waits_text(&self) -> String {
        if self.beside_calls == 0 {
            return "No fault began while another thread of its process was in a call that changes mappings \
                    (measured), so none waited for one."
                .to_string();
        }
        format!(
            "{} ({}) began while another thread of the process was in a call that changes mappings (measured); \
             what they waited for it is not in a trace, but was at most {} together; half of them went on within \
             {}, half of the others within {}.",
            counted(self.beside_calls, "fault"),
            share(self.faults, self.beside_calls),
            ns(self.waited_most_ns),
            ns(self.beside_half_ns),
            ns(self.others_half_ns),
        )
    }
}

fn percent(whole: u64, part: u64) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

fn share(whole: u64, part: u64) -> String {
    match percent(whole, part) {
        0.0 => "nothing".to_string(),
        little if little < 0.1 => "less than 0.1 %".to_string(),
        some => format!("{some:.1} %"),
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(count as i64))
}

fn ns(ns: u64) -> String {
    us(ns as f64 / 1000.0)
}

fn us(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", number(us / 1e6)),
        us if us >= 1000.0 => format!("{} ms", number(us / 1000.0)),
        us => format!("{} us", number(us)),
    }
}

fn capital(line: &str) -> String {
    let mut letters = line.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
#[path = "tests/text.rs"]
mod tests;
