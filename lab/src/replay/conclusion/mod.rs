//! The conclusion of a replay, which its report begins with: what of the run Linux spent on memory, what
//! faults waited for the mapping calls of other threads, and what the same faults and calls take here. Each
//! number is said with its ground.
//!
//! | ground | numbers |
//! |---|---|
//! | measured from the recording's times | how long threads lived; calls and forks |
//! | estimated from them | faults, of which a trace has no end |
//! | bounds from them | faults, by the next event of their threads; waits, by the calls' ends too |
//! | measured now | replays |
//!
//! A trace recorded without privilege has times of the tracer's stops, so it says nothing of Linux's.

mod here;
mod recorded;

pub use here::Here;
pub use recorded::Recorded;

use super::{HugePages, Replay};
use crate::os::checkout::{FIGURES, PROFILE};
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
    /// Whether the trace has signs of huge pages that Linux had.
    pub has_huge_pages: bool,
    /// What the trace does not tell, or could not be measured: one line each.
    pub lacks: Vec<String>,
    /// The Cargo profile of this program.
    pub profile: &'static str,
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
        let has_huge_pages = HugePages::of(&replay.header, &replay.families).are_likely();
        let linux = (!partial).then_some(replay.linux);
        let (here, lacks) = here::all(replay);
        Conclusion { linux, here, replayed_percent, has_huge_pages, lacks, profile: PROFILE }
    }

    /// The paragraph.
    pub fn text(&self) -> String {
        let mut sentences = match &self.linux {
            Some(linux) => vec![linux.share_text(), linux.waits_text()],
            None => vec![NOTHING_OF_LINUX.to_string()],
        };
        sentences.extend(self.here_text());
        if self.has_huge_pages {
            sentences.push(OF_HUGE_PAGES.to_string());
        }
        if self.profile != FIGURES {
            sentences.push(format!(
                "This program is of profile {}: figures that are compared come from `--profile {FIGURES}`.",
                self.profile
            ));
        }
        sentences.extend(self.lacks.iter().map(|line| format!("{}.", capital(line))));
        let most = width::of_stdout().map_or(COLUMNS, |columns| columns.min(COLUMNS));
        let lines = width::wrapped(&format!("{}\n", sentences.join(" ")), most);
        format!("\n{}\n", lines.replace(HELD, " "))
    }

    fn here_text(&self) -> Option<String> {
        let first = self.here.first()?;
        let of = |here: &Here| {
            let with = if here.huge == "never" { "without huge pages" } else { "with huge pages always" };
            format!("{} speculative and {} locked {with}", us(here.speculative_us), us(here.locked_us))
        };
        let ways: Vec<String> = self.here.iter().map(of).collect();
        let times = if first.replays == 1 { "one replay" } else { "the median of three replays" };
        Some(format!(
            "Here {} take {}: measured, {times} of each on one thread, where no fault waits; zeroing and \
             copying of frames are in it, a processor's entry to a fault and return from it are not, and \
             memory stands in for files.",
            self.what(),
            ways.join(", and "),
        ))
    }

    fn what(&self) -> String {
        match self.replayed_percent {
            all if all >= 100.0 => "the same faults and calls".to_string(),
            part => {
                format!("the {}{HELD}% of these that are replayed", number((part * 100.0).floor() / 100.0))
            }
        }
    }
}

/// A space at which no line is broken.
const HELD: char = '\u{a0}';

const NOTHING_OF_LINUX: &str = "What Linux spent on memory, and what faults waited for, the trace does not \
     tell: it was recorded without privilege, so its times are those of a tracer's stops, and faults in \
     kernel mode are not in it.";
const OF_HUGE_PAGES: &str = "Linux had huge pages: a fault that got one took longer than the \
     estimate, and what of such a page was touched after it the trace does not tell, so it is not touched \
     here.";

impl Recorded {
    fn share_text(&self) -> String {
        let spent = |ns: u64| format!("{} ({})", time(ns), share(self.lived_ns, ns));
        let lived = match self.threads {
            1 => "that the run's thread lived".to_string(),
            threads => format!("that the run's {} lived, waiting included", counted(threads, "thread")),
        };
        let mut text = format!(
            "Of the {} {lived}, Linux spent about {} on memory: {} in {}",
            time(self.lived_ns),
            spent(self.memory_ns()),
            spent(self.calls_ns),
            counted(self.calls, "memory call"),
        );
        if self.forks > 0 {
            text += &format!(" and {} in {}", spent(self.forks_ns), counted(self.forks, "fork"));
        }
        text += ", measured from entry to return with the recording; ";
        if self.faults == 0 {
            return text + "there was no page fault.";
        }
        text += &format!(
            "and about {} in {}, estimated at {} each, since a trace has the start of a fault alone (a \
             tenth of them were followed sooner by their thread's next event; all the time up to that event \
             is {}).",
            spent(self.faults_estimated_ns),
            counted(self.faults, "page fault"),
            time(self.fault_tenth_ns),
            share(self.lived_ns, self.faults_at_most_ns),
        );
        text
    }

    fn waits_text(&self) -> String {
        if self.beside_calls == 0 {
            return "No fault began while another thread of its process was in a call that changes \
                    mappings, measured, so none is seen to have waited for one."
                .to_string();
        }
        format!(
            "{} ({}) began while another thread of their process was in a call that changes mappings, \
             measured. How long they waited for it is not in a trace: at most {} together; half of them went \
             on within {}, half of the others within {}.",
            counted(self.beside_calls, "fault"),
            share(self.faults, self.beside_calls),
            time(self.waited_at_most_ns),
            time(self.beside_half_ns),
            time(self.others_half_ns),
        )
    }
}

fn percent(whole: u64, part: u64) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

fn share(whole: u64, part: u64) -> String {
    match percent(whole, part) {
        0.0 => "none of it".to_string(),
        little if little < 0.1 => format!("less than 0.1{HELD}%"),
        some => format!("{some:.1}{HELD}%"),
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    held(&format!("{} {what}{plural}", grouped(count as i64)))
}

fn time(ns: u64) -> String {
    us(ns as f64 / 1000.0)
}

fn us(us: f64) -> String {
    held(&match us {
        us if us >= 1e6 => format!("{} s", number(us / 1e6)),
        us if us >= 1000.0 => format!("{} ms", number(us / 1000.0)),
        us => format!("{} us", number(us)),
    })
}

/// What stays in one line.
fn held(text: &str) -> String {
    text.replace(' ', &HELD.to_string())
}

fn capital(line: &str) -> String {
    let mut letters = line.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
#[path = "tests/text.rs"]
mod tests;
