//! Contents of a whole trace, in tables.

use super::calls::Sys;
use super::damage::Damage;
use super::dump::status_text;
use super::event::{Access, Cause, Fault, Kind, Mode};
use super::header::{Extent, Footer, Header};
use super::image::Image;
use super::reader::TraceReader;
use crate::show::table::largest;
use crate::show::{table, width};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io::Read;

/// The most processes that have a row each.
const ROWS_MOST: usize = 20;

/// The sum of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Info {
    /// Where, how and of what it was made.
    pub header: Header,
    /// What it adds up to.
    pub footer: Footer,
    /// Faults by kind.
    pub faults: FaultKinds,
    /// Calls by name: how many, and how many of them failed.
    pub calls: BTreeMap<Sys, (u64, u64)>,
    /// Different pages that faulted, all processes together.
    pub pages: u64,
    /// Threads and processes seen.
    pub tasks: u64,
    /// Programs loaded after the first.
    pub execs: u64,
}

/// Faults by kind. A fault is in one of the first four, and possibly in the last two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultKinds {
    /// Loads.
    pub read: u64,
    /// Stores.
    pub write: u64,
    /// Instruction fetches.
    pub execute: u64,
    /// Not known.
    pub unknown: u64,
    /// Taken in kernel mode.
    pub kernel: u64,
    /// A present entry forbade it.
    pub protection: u64,
}

impl Info {
    /// Reads a trace to its end. `each` is called with the number of events read so far.
    pub fn of<R: Read>(mut reader: TraceReader<R>, mut each: impl FnMut(u64)) -> Result<Info, Damage> {
        let mut info = Info { header: reader.header().clone(), ..Info::default() };
        let (mut pages, mut tasks) = (HashSet::new(), HashSet::new());
        for (n, event) in reader.by_ref().enumerate() {
            let event = event?;
            each(n as u64);
            tasks.insert((event.pid, event.tid));
            match &event.kind {
                Kind::Fault(fault) => {
                    pages.insert((event.pid, fault.address >> 12));
                    info.faults.add(fault);
                }
                Kind::Call(call) => {
                    let (all, failed) = info.calls.entry(call.sys).or_default();
                    *all += 1;
                    *failed += u64::from(call.result.is_some_and(|r| (-4095..0).contains(&r)));
                }
                Kind::Exec(_) => info.execs += 1,
                _ => {}
            }
        }
        info.footer = reader.footer().cloned().unwrap_or_default();
        (info.pages, info.tasks) = (pages.len() as u64, tasks.len() as u64);
        Ok(info)
    }

    /// Everything, as tables.
    pub fn text(&self) -> String {
        let parts = [self.head(), self.kinds(), self.call_table(), self.process_table(), account_text(self)];
        parts.join("\n")
    }

    fn head(&self) -> String {
        let (header, footer) = (&self.header, &self.footer);
        let extent = match header.extent {
            Extent::Whole => "whole",
            Extent::Partial => "PARTIAL: recorded without privilege; user mode only, access unknown",
        };
        let image = &header.image;
        let mut table = plain();
        table.add_row(["command", &header.command.join(" ")]);
        table.add_row(["program", &program_text(image)]);
        table.add_row(["extent", extent]);
        table.add_row(["kernel", &header.host.kernel]);
        table.add_row([
            "cpus, memory",
            &format!("{}, {} MiB", header.host.cpus, header.host.memory_bytes >> 20),
        ]);
        table.add_row(["duration", &format!("{:.3} s", footer.duration_ns as f64 / 1e9)]);
        table.add_row(["ended with", &status_text(footer.status)]);
        if let Some(signal) = footer.stopped_by {
            table.add_row([
                "recorded until",
                &format!("signal {signal} ended the recording, and the command"),
            ]);
        }
        let counts = format!(
            "{} ({} faults on {} pages, {} calls)",
            footer.events, footer.faults, self.pages, footer.calls
        );
        table.add_row(["events", &counts]);
        let ends = format!(
            "{} tasks in {} processes, {} further execs",
            self.tasks,
            footer.processes.len(),
            self.execs
        );
        table.add_row(["tasks", &ends]);
        table::fitted(table, width::of_stdout())
    }

    fn kinds(&self) -> String {
        let f = self.faults;
        let mut table = numbers(["faults", "read", "write", "execute", "unknown", "in kernel", "protection"]);
        let all = f.read + f.write + f.execute + f.unknown;
        table.add_row([all, f.read, f.write, f.execute, f.unknown, f.kernel, f.protection]);
        table::fitted(table, width::of_stdout())
    }

    fn call_table(&self) -> String {
        let mut table = numbers(["call", "times", "failed"]);
        for (sys, (all, failed)) in &self.calls {
            table.add_row([sys.to_string(), all.to_string(), failed.to_string()]);
        }
        table::fitted(table, width::of_stdout())
    }

    fn process_table(&self) -> String {
        let columns = [
            "process",
            "parent",
            "threads",
            "faults",
            "minflt+majflt",
            "signalled",
            "asked pages",
            "final map",
        ];
        let mut table = numbers(columns);
        let shown = largest(&self.footer.processes, ROWS_MOST, |process| process.faults);
        for p in &shown {
            let numbers = [
                p.pid.into(),
                p.parent.into(),
                p.threads.into(),
                p.faults,
                p.counted,
                p.signalled,
                p.asked_pages,
            ];
            let map = if p.final_map { "seen" } else { "missing" };
            table.add_row(numbers.iter().map(u64::to_string).chain([map.to_string()]));
        }
        let others = self.footer.processes.len() - shown.len();
        let rest = match others {
            0 => String::new(),
            _ => format!(
                "and {others} other processes, with {} faults; all of them: --json\n",
                self.footer.faults.saturating_sub(shown.iter().map(|process| process.faults).sum())
            ),
        };
        table::fitted(table, width::of_stdout()) + &rest
    }
}

impl FaultKinds {
    fn add(&mut self, fault: &Fault) {
        *match fault.access {
            Access::Read => &mut self.read,
            Access::Write => &mut self.write,
            Access::Execute => &mut self.execute,
            Access::Unknown => &mut self.unknown,
        } += 1;
        self.kernel += u64::from(fault.mode == Mode::Kernel);
        self.protection += u64::from(fault.cause == Cause::Protection);
    }
}

/// The program, how it was called if that is another name, and the size of its map.
fn program_text(image: &Image) -> String {
    let called = match image.name() {
        name if name == image.program => String::new(),
        name => format!("{name}: "),
    };
    format!("{called}{}, {} mappings at exec", image.program, image.mappings.len())
}

/// The account of faults, one line for each difference and its explanation.
fn account_text(info: &Info) -> String {
    let account = info.footer.account;
    let mut table = plain();
    let mut row = |name: &str, value: i64, why: &str| {
        table.add_row([name, &value.to_string(), why]);
    };
    row("lost records", info.footer.lost as i64, "0, or there would be no trace");
    row("recorded", account.recorded as i64, "exceptions recorded, from the end of the first exec");
    row("before exec", account.before_exec as i64, "recorded while the command was loaded, left out");
    row(
        "- signalled",
        account.signalled as i64,
        "ended in SIGSEGV or SIGBUS, which the kernel does not count",
    );
    let refused = "taken in kernel mode and answered with an error of the call";
    row("- refused", account.refused as i64, refused);
    row("= completed", account.completed as i64, "exceptions resolved, by the kernel's own counter");
    let (name, why) = filled_text(info);
    row(name, (account.filled - account.filled_otherwise.min(account.filled)) as i64, &why);
    if account.filled_otherwise != 0 {
        let why = "by the kernel without an exception: futexes, direct I/O, pinned pages";
        row("+ filled otherwise", account.filled_otherwise as i64, why);
    }
    row("= minflt + majflt", account.counted as i64, "of every process, from the first exec on");
    if account.unexplained != 0 {
        row("unexplained", account.unexplained, "");
    }
    format!("account of faults\n{}", table::fitted(table, width::of_stdout()))
}

/// What the kernel counted beyond the exceptions that were recorded.
fn filled_text(info: &Info) -> (&'static str, String) {
    let asked = match info.footer.account.filled_at_most {
        u64::MAX => "any number (mlockall)".to_string(),
        most => format!("at most {most}"),
    };
    match info.header.extent {
        Extent::Whole => (
            "+ filled",
            format!("without an exception: populate, mlock, exec's arguments; {asked} asked for"),
        ),
        Extent::Partial => ("+ not recorded", "in kernel mode, or filled without an exception".to_string()),
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn numbers<const N: usize>(columns: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns);
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    table
}
