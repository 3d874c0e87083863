//! The report of a replay: one object, or tables.

use super::conclusion::Conclusion;
use super::contention::{Contended, LinuxTimes};
use super::difference::DifferenceKind;
use super::excerpt;
use super::fault_counts::Faults;
use super::file_report::MappedFiles;
use super::huge::HugePages;
use super::huge_report;
use super::huge_setting::HugeSetting;
use super::life::{End, LeftOut, Life};
use super::resident::ResidentLife;
use super::step::Way;
use super::timed::Timed;
use super::times::Times;
use super::verdict::{Agreed, CallCount, Filled, Verdict};
use crate::show::table::{self, grouped, number};
use crate::trace::{Extent, Header, Sys, dump};
use interleaf::space::{Counter, Totals};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A replayed trace. The field names are the JSON's and stay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The trace.
    pub file: String,
    /// The command that was recorded.
    pub command: Vec<String>,
    /// What the rest comes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<Conclusion>,
    /// Whether the trace was recorded without privilege: no faults of kernel mode, no kinds of access.
    pub partial: bool,
    /// Events of the trace: those replayed and those left out.
    pub recorded: u64,
    /// Events replayed: those of the lives.
    pub events: u64,
    /// What was not replayed.
    pub left_out: LeftOut,
    /// Every address space that was replayed.
    pub lives: Vec<LifeReport>,
    /// Recorded faults that were performed as accesses.
    pub performed: u64,
    /// Of these, the ones that faulted here.
    pub faulted: u64,
    /// What the library's faults came to; done, fallbacks and errors add up to all.
    pub faults: Faults,
    /// Calls by name and way.
    pub calls: Vec<CallRow>,
    /// Places that Linux chose and we did too.
    pub places: Agreed,
    /// Final maps without an unexplained difference.
    pub maps: Agreed,
    /// Differences by kind.
    pub differences: Vec<DifferenceRow>,
    /// How many are not explained.
    pub unexplained: u64,
    /// What there is to see of the first of those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Frames zeroed for user pages.
    pub frames_zeroed: u64,
    /// Forks that were replayed.
    pub forks: u64,
    /// Frames copied because a page was written whose frame another space had too.
    pub frames_copied: u64,
    /// Frames that a fork had shared, written without a copy because the other spaces were gone.
    pub frames_reused: u64,
    /// The files that were mapped, and what was no file.
    pub files: MappedFiles,
    /// Signs of huge pages in the trace.
    pub huge: HugePages,
    /// The setting of huge pages that was replayed: `never`, `madvise` or `always`.
    pub huge_policy: &'static str,
    /// Whether that is the recorded machine's.
    pub huge_is_recorded: bool,
    /// The mTHP sizes that were replayed, each with its policy.
    pub huge_sizes: Vec<String>,
    /// The policy of huge pages of shared memory that was replayed: `never`, `advise` or `always`.
    pub huge_shared: &'static str,
    /// What the library counts of huge pages, by Linux's names.
    pub huge_counts: Vec<(&'static str, u64)>,
    /// First pages of huge pages here of which Linux had base pages under the same setting.
    pub lacked_huge: BTreeSet<u64>,
    /// Resident anonymous memory: the most of one life; and at their ends, of lives with a last map.
    pub resident: ResidentLife,
    /// Faults that met a mapping call of another thread under Linux.
    pub contended: Contended,
    /// What the replay took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed: Option<Timed>,
    /// Linux's recorded times beside ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    #[serde(skip)]
    counts: BTreeMap<(Sys, Way), CallCount>,
    #[serde(skip)]
    kinds: BTreeMap<DifferenceKind, u64>,
}

/// One address space.
#[derive(Clone, Debug, Serialize)]
pub struct LifeReport {
    /// The process.
    pub pid: u32,
    /// Its program, by the name it was called by.
    pub program: String,
    /// The process whose space a fork copied; none where exec made the space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<u32>,
    /// Events replayed.
    pub events: u64,
    /// How it ended, in words.
    pub end: String,
    /// Differences that are not explained.
    pub unexplained: u64,
    /// Its resident memory.
    pub resident: ResidentLife,
}

/// Calls of one name that are replayed in one way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CallRow {
    /// The name.
    pub call: Sys,
    /// How.
    pub way: Way,
    /// How many, and how many were answered alike.
    #[serde(flatten)]
    pub count: CallCount,
}

/// Differences of one kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DifferenceRow {
    /// Which.
    pub kind: DifferenceKind,
    /// In words.
    pub text: &'static str,
    /// Whether it must be so.
    pub explained: bool,
    /// How many.
    pub count: u64,
}

/// The first difference that is not explained.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The process.
    pub pid: u32,
    /// What differs.
    pub text: String,
    /// Five events around it.
    pub events: Vec<String>,
    /// Linux's final map.
    pub linux: Vec<String>,
    /// Ours.
    pub ours: Vec<String>,
}

impl Report {
    /// Nothing replayed yet.
    pub(super) fn new(header: &Header, recorded: u64, left_out: LeftOut, huge: HugeSetting) -> Self {
        let partial = header.extent == Extent::Partial;
        let (huge_policy, huge_is_recorded) = (huge_report::policy_name(huge.policy), huge.is_recorded());
        let command = header.command.clone();
        let (huge_sizes, huge_shared) = huge_report::others(huge);
        let setting = Self { huge_policy, huge_is_recorded, huge_sizes, huge_shared, ..Self::default() };
        Self { command, partial, recorded, left_out, ..setting }
    }

    /// Adds what the spaces of a family have together.
    pub(super) fn add_family(&mut self, faults: &Faults, filled: &[Filled], counted: &Totals) {
        let copied = filled.iter().filter(|filled| matches!(filled, Filled::Copied(..))).count();
        self.faults += faults;
        self.frames_copied += copied as u64;
        self.frames_zeroed += filled.iter().map(|filled| filled.frames_zeroed()).sum::<u64>();
        self.frames_reused += counted.get(Counter::PgReuse);
        self.count_huge(counted);
    }

    /// Adds a life.
    pub(super) fn add(&mut self, life: &Life, verdict: Verdict) {
        let unexplained = verdict.differences.unexplained();
        self.events += life.events.len() as u64;
        self.performed += verdict.performed;
        self.faulted += verdict.faulted;
        self.forks += u64::from(life.forked_from.is_some());
        self.places.agreed += verdict.places.agreed;
        self.places.of += verdict.places.of;
        self.maps.of += u64::from(verdict.map_compared);
        self.maps.agreed += u64::from(verdict.map_compared && !differs_at_end(&verdict));
        self.unexplained += unexplained;
        self.resident.peak_kib = self.resident.peak_kib.max(verdict.resident.peak_kib);
        if let Some(linux) = verdict.resident.linux_end_kib {
            self.resident.end_kib += verdict.resident.end_kib;
            *self.resident.linux_end_kib.get_or_insert(0) += linux;
        }
        self.lacked_huge.extend(&verdict.lacked_huge);
        let contended = LinuxTimes::of(&life.events).contended;
        self.contended.faults += contended.faults;
        self.contended.beside_a_call += contended.beside_a_call;
        self.lives.push(LifeReport {
            pid: life.pid,
            program: life.start.name().to_string(),
            forked_from: life.forked_from,
            events: life.events.len() as u64,
            end: end_text(&life.end),
            unexplained,
            resident: verdict.resident,
        });
        if self.evidence.is_none() {
            self.evidence = evidence(life, &verdict);
        }
        self.count(verdict);
    }

    fn count(&mut self, verdict: Verdict) {
        for (key, count) in verdict.calls {
            let sum = self.counts.entry(key).or_default();
            sum.times += count.times;
            sum.agreed += count.agreed;
        }
        for (kind, count) in verdict.differences.counts {
            *self.kinds.entry(kind).or_default() += count;
        }
        let row = |(&(call, way), &count): (&(Sys, Way), &CallCount)| CallRow { call, way, count };
        self.calls = self.counts.iter().map(row).collect();
        let row = |(&kind, &count): (&DifferenceKind, &u64)| DifferenceRow {
            kind,
            text: kind.text(),
            explained: kind.is_explained(),
            count,
        };
        self.differences = self.kinds.iter().map(row).collect();
    }

    /// How many differences of a kind there are.
    pub fn count_of(&self, kind: DifferenceKind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }

    /// The report as tables.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.file, self.command.join(" "));
        text += &self.conclusion.as_ref().map(Conclusion::text).unwrap_or_default();
        text += &format!("{}\n", self.share_text());
        text += &excerpt::lives(&self.lives);
        text += &format!("\n{}\n", self.sums());
        text += &table::of(&["call", "replay", "times", "agreed"], self.calls.iter().map(call_cells));
        text += &self.times.as_ref().map(Times::text).unwrap_or_default();
        text += &format!("\n{}", self.difference_text());
        if let Some(evidence) = &self.evidence {
            text += &evidence.lines();
        }
        text
    }

    /// How much was replayed, what was not and why, and what else limits the comparison.
    fn share_text(&self) -> String {
        let share = self.events as f64 / self.recorded.max(1) as f64 * 100.0;
        // Rounded down: 100 is all.
        let share = (share * 100.0).floor() / 100.0;
        let mut text = format!("replayed {share:.2} % of {} events\n", grouped(self.recorded as i64));
        let left = self.left_out;
        let reasons = [
            (left.forked_events, "of processes that forks of what is left out made, before an exec"),
            (left.events_after_untold, "of processes after a call whose effect a trace does not tell"),
            (left.events_of_strangers, "of processes whose beginning the trace does not tell"),
        ];
        for (count, why) in reasons.into_iter().filter(|(count, _)| *count > 0) {
            text += &format!("  left out {} {why}\n", grouped(count as i64));
        }
        if left.forked_processes > 0 {
            text +=
                &format!("  {} processes that such forks made are left out whole\n", left.forked_processes);
        }
        if self.partial {
            text += "PARTIAL: recorded without privilege: faults of user mode only, each replayed as the\n\
                     mapping allows; causes of faults are not compared\n";
        }
        text + &self.huge.text() + &self.huge_text()
    }

    fn sums(&self) -> String {
        let Faults { raised, speculated, vma_locked, locked, errors, stack_growths, fell_back } =
            &self.faults;
        let of = |agreed: &Agreed| format!("{} of {}", agreed.agreed, agreed.of);
        let mut rows = vec![
            ("recorded faults performed", grouped(self.performed as i64)),
            ("faulted here", grouped(self.faulted as i64)),
            ("library faults", grouped(*raised as i64)),
            ("= speculated", grouped(*speculated as i64)),
            ("+ locked", grouped(*locked as i64)),
        ];
        if *vma_locked > 0 {
            rows.push(("+ with the mapping locked", grouped(*vma_locked as i64)));
        }
        let reasons: Vec<_> = fell_back.iter().filter(|(_, count)| *count > 0).collect();
        let reasons: Vec<_> = reasons
            .iter()
            .map(|(name, count)| (format!("of these {name}"), grouped(*count as i64)))
            .collect();
        rows.push(("+ fell back", grouped(fell_back.iter().map(|(_, count)| *count as i64).sum())));
        let mut cells: Vec<Vec<String>> = rows.into_iter().map(|(a, b)| vec![a.to_string(), b]).collect();
        cells.extend(reasons.into_iter().map(|(name, count)| vec![name, count]));
        let mut row = |name: &str, value: String| cells.push(vec![name.to_string(), value]);
        row("+ errors", format!("{errors}, {stack_growths} of them stack growth, imposed"));
        row("places chosen alike", of(&self.places));
        row("final maps alike", of(&self.maps));
        self.files.rows().into_iter().for_each(|(name, value)| row(&name, value));
        row("frames zeroed for pages", grouped(self.frames_zeroed as i64));
        self.memory_rows().into_iter().for_each(|(name, value)| row(name, value));
        if self.forks > 0 {
            row("forks", grouped(self.forks as i64));
            row("frames copied on write", grouped(self.frames_copied as i64));
            row("frames reused on write", grouped(self.frames_reused as i64));
        }
        if let Some(timed) = &self.timed {
            row("replay takes", format!("{} us", number(timed.replay_us)));
            row(
                if self.forks > 0 { "its zeroing, copying" } else { "its zeroing" },
                format!("{} us; ratio {}", number(timed.zeroing_us), number(timed.ratio)),
            );
        }
        table::of(&["what", ""], cells)
    }

    fn difference_text(&self) -> String {
        if self.differences.is_empty() {
            return "no differences\n".to_string();
        }
        let row = |row: &DifferenceRow| {
            let why = if row.explained { "explained" } else { "UNEXPLAINED" };
            vec![row.count.to_string(), why.to_string(), row.text.to_string()]
        };
        table::of(&["times", "", "difference"], self.differences.iter().map(row))
    }
}

impl Evidence {
    fn lines(&self) -> String {
        let block = |title: &str, lines: &[String]| {
            format!("\n{title}\n{}", lines.iter().map(|line| format!("  {line}\n")).collect::<String>())
        };
        format!("\nprocess {}: {}\n", self.pid, self.text)
            + &block("five events around it", &self.events)
            + &block("Linux's map at the end", &excerpt::map(&self.linux, &self.ours))
            + &block("the map here", &excerpt::map(&self.ours, &self.linux))
    }
}

fn call_cells(row: &CallRow) -> Vec<String> {
    let way = match row.way {
        Way::Carried => "carried out",
        Way::StandIn => "stand-in",
        Way::Imposed => "imposed",
        Way::Left => "nothing to do",
    };
    vec![row.call.to_string(), way.to_string(), row.count.times.to_string(), row.count.agreed.to_string()]
}

fn end_text(end: &End) -> String {
    match end {
        End::Exited(_) => "its exit".to_string(),
        End::Untold(call) => format!("its {call}; what follows is not replayed"),
        End::Replaced => "its exec".to_string(),
        End::Unseen => "the last event; there is no final map".to_string(),
    }
}

fn differs_at_end(verdict: &Verdict) -> bool {
    use DifferenceKind::{Attributes, Edge, Map};
    [Map, Edge, Attributes].iter().any(|kind| verdict.differences.counts.contains_key(kind))
}

fn evidence(life: &Life, verdict: &Verdict) -> Option<Evidence> {
    let first = verdict.differences.first.as_ref()?;
    let from = first.event.saturating_sub(2);
    let to = (first.event + 3).min(life.events.len());
    let mark = |at: usize| if at == first.event { "> " } else { "  " };
    let events = (from..to).map(|at| format!("{}{}", mark(at), dump::line(&life.events[at]))).collect();
    let [linux, ours] = verdict.maps.clone().unwrap_or_default();
    Some(Evidence { pid: life.pid, text: format!("{}: {}", first.kind, first.text), events, linux, ours })
}
