//! One line for each event.

use super::calls::Sys;
use super::event::{Access, CacheChange, Cached, Call, Cause, Event, Inode, Kind, Mode, NewTask};
use std::fmt::Write;

/// The line of an event, without a newline.
pub fn line(event: &Event) -> String {
    let mut line = format!("{:>14} {:>7} {:>7}  ", micros(event.time_ns), event.pid, event.tid);
    let said = match &event.kind {
        Kind::Fault(fault) => {
            let access = [(Access::Read, "read"), (Access::Write, "write"), (Access::Execute, "execute")];
            let access = access.iter().find(|(a, _)| *a == fault.access).map_or("unknown", |(_, name)| name);
            let mode = if fault.mode == Mode::Kernel { " kernel" } else { "" };
            let cause = if fault.cause == Cause::Protection { " protection" } else { "" };
            write!(line, "fault      {:#014x} {access}{mode}{cause}", fault.address)
        }
        Kind::Call(call) => write!(line, "call       {}", call_text(call)),
        Kind::Task(task) => write!(line, "task       {} {}", task.tid, task_text(*task)),
        Kind::Exec(started) => {
            write!(line, "exec       {} ({} mappings)", started.image.program, started.image.mappings.len())
        }
        Kind::File(facts) => {
            let place = if facts.is_in_memory { " in memory" } else { "" };
            write!(line, "file       {} of {} bytes{place}", inode_text(facts.inode), facts.len_bytes)
        }
        Kind::Cache(change) => {
            let CacheChange { inode, first, pages, cached } = *change;
            let words = [(Cached::Found, "found"), (Cached::Added, "added"), (Cached::Removed, "removed")];
            let word = words.iter().find(|(c, _)| *c == cached).map_or("", |(_, word)| word);
            write!(line, "cache      {} {word} {first}..{}", inode_text(inode), first + pages)
        }
        Kind::Signal(s) => write!(line, "signal     {} code {} at {:#x}", s.number, s.code, s.address),
        Kind::Exit(ended) => {
            let map = ended.image.as_ref().map(|i| format!(" (final map: {} mappings)", i.mappings.len()));
            write!(line, "exit       {}{}", status_text(ended.status), map.unwrap_or_default())
        }
    };
    debug_assert!(said.is_ok(), "writing to a string does not fail");
    line
}

/// As a map has it.
fn inode_text(inode: Inode) -> String {
    format!("{:02x}:{:02x} {}", inode.device >> 20, inode.device & 0xf_ffff, inode.number)
}

/// Nanoseconds as microseconds with three digits after the point.
fn micros(time_ns: u64) -> String {
    format!("{}.{:03}", time_ns / 1000, time_ns % 1000)
}

fn call_text(call: &Call) -> String {
    let args = call.args[..call.sys.arity()].iter().map(|&arg| number(arg)).collect::<Vec<_>>().join(", ");
    let result = match call.result {
        None => "?".to_string(),
        Some(error @ -4095..=-1) => format!("-{}", -error),
        Some(value) => number(value as u64),
    };
    let took = micros(call.end_ns - call.start_ns);
    let file = call.file.as_ref().map(|f| format!(" {f}")).unwrap_or_default();
    match call.sys {
        Sys::Exit | Sys::ExitGroup => format!("{}({args})", call.sys),
        _ => format!("{}({args}) = {result} <{took} us>{file}", call.sys),
    }
}

/// Small numbers in decimal, the rest in hexadecimal; -1 as such.
fn number(value: u64) -> String {
    match value as i64 {
        -1 => "-1".into(),
        0..=9 => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

fn task_text(task: NewTask) -> &'static str {
    match (task.is_thread(), task.shares_memory()) {
        (true, _) => "thread",
        (false, true) => "process in the same memory",
        (false, false) => "process",
    }
}

/// A wait status in words.
pub fn status_text(status: i32) -> String {
    match status & 0x7f {
        0 => format!("status {}", status >> 8 & 0xff),
        signal => format!("signal {signal}"),
    }
}

#[cfg(test)]
#[path = "tests/dump.rs"]
mod tests;
