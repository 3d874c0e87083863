//! The account of faults: what was recorded against what the kernel counted.
//!
//! Three independent counts: the exceptions recorded, the kernel's counter of exceptions
//! that were resolved (it writes no records, so it cannot lose any), and `minflt + majflt` of every process,
//! which also has the pages that the kernel filled in without an exception: for a call that asks for that
//! (populate, mlock, exec's arguments), or for one that needs the page itself, which it then looks up and
//! faults in by hand (a futex in a page that a fork has shared, direct I/O, pages pinned for a device or a
//! pipe).

use crate::trace::calls::Sys;
use crate::trace::event::{Event, Kind, Mode};
use crate::trace::header::{Account, Extent, ProcessCount};
use interleaf_linux_abi::{MapFlags, advice};
use std::collections::BTreeMap;

/// What the events of one process add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    faults: u64,
    kernel_faults: u64,
    signalled: u64,
    asked_pages: u64,
    argument_pages: u64,
}

/// Adds up events as they are written.
#[derive(Clone, Debug, Default)]
pub struct ProcessCounts {
    processes: BTreeMap<u32, Counts>,
    /// Faults seen before the recording's start.
    pub before_exec: u64,
}

/// Counts that come from outside the events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outside {
    /// Exceptions resolved, from the first exec's end on; in a partial recording those of user mode.
    pub completed: u64,
    /// How much was recorded.
    pub extent: Extent,
}

impl ProcessCounts {
    /// Adds one event.
    pub fn add(&mut self, event: &Event) {
        let counts = self.processes.entry(event.pid).or_default();
        match &event.kind {
            Kind::Fault(fault) => {
                counts.faults += 1;
                counts.kernel_faults += u64::from(fault.mode == Mode::Kernel);
            }
            Kind::Signal(signal) => counts.signalled += u64::from(is_of_a_fault(signal.number, signal.code)),
            Kind::Call(call) if call.result.is_none_or(|r| r >= 0) => {
                counts.asked_pages = counts.asked_pages.saturating_add(asked_pages(call.sys, &call.args));
            }
            Kind::Exec(started) => {
                let layout = &started.image.layout;
                counts.argument_pages += layout.env_end.saturating_sub(layout.arg_start) / 4096 + 3;
            }
            _ => {}
        }
    }

    /// Fills in what the events say of `processes`, and balances the account.
    pub fn balance(&self, processes: &mut [ProcessCount], outside: Outside) -> Account {
        for process in processes.iter_mut() {
            let counts = self.processes.get(&process.pid).copied().unwrap_or_default();
            (process.faults, process.signalled) = (counts.faults, counts.signalled);
            process.asked_pages = counts.asked_pages;
        }
        let sum = |of: fn(&Counts) -> u64| self.processes.values().map(of).fold(0, u64::saturating_add);
        let (recorded, completed) = (sum(|t| t.faults), outside.completed);
        let counted: u64 = processes.iter().map(|p| p.counted).sum();
        // An exception that is not resolved ends in a signal, or was taken by the kernel, whose call failed
        // or tried another way.
        let signalled = sum(|t| t.signalled).min(recorded.saturating_sub(completed));
        let refused = recorded.saturating_sub(completed + signalled).min(sum(|t| t.kernel_faults));
        let filled = counted.saturating_sub(completed);
        let filled_at_most =
            sum(|t| t.asked_pages).saturating_add(sum(|t| t.argument_pages)).saturating_add(refused);
        // What kernel mode did was not recorded, so nothing can be said of it.
        let invented_matters = outside.extent == Extent::Whole;
        let missing = recorded as i64 - (completed + signalled + refused) as i64;
        let invented = counted as i64 - completed as i64 - filled as i64;
        let filled_otherwise = if invented_matters { filled.saturating_sub(filled_at_most) } else { 0 };
        Account {
            recorded,
            before_exec: self.before_exec,
            completed,
            signalled,
            refused,
            counted,
            filled,
            filled_at_most,
            filled_otherwise,
            unexplained: if missing != 0 || !invented_matters { missing } else { invented },
        }
    }
}

/// Whether a signal is the end of a page fault (and not of a privileged instruction, say).
fn is_of_a_fault(number: i32, code: i32) -> bool {
    match number {
        libc::SIGSEGV => (1..=4).contains(&code),
        _ => code == 2,
    }
}

/// Flags with which mmap makes pages present.
const PRESENT: u64 = MapFlags::LOCKED.union(MapFlags::POPULATE).bits() as u64;

/// How many pages a call may have the kernel fault in without an exception.
fn asked_pages(sys: Sys, args: &[u64; 6]) -> u64 {
    let pages = args[1].div_ceil(4096);
    match sys {
        Sys::Mmap if args[3] & PRESENT != 0 => pages,
        Sys::Mlock | Sys::Mlock2 => pages + 1,
        Sys::Madvise if matches!(args[2] as i32, advice::POPULATE_READ | advice::POPULATE_WRITE) => pages,
        // From here on whatever is mapped is filled.
        Sys::Mlockall => u64::MAX,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "tests/account.rs"]
mod tests;
