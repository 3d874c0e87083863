//! Where in the order a system call takes effect.
//!
//! A fault has an instant. A call has a start and an end, and somewhere between them it takes effect;
//! meanwhile other threads of the process fault, map and unmap. A replay does one thing after the other, so
//! every call needs one place, such that everything else that was recorded can have happened in that order:
//!
//! ```text
//!            start                                            end
//!   A        |------------------ munmap [p, q) ----------------|
//!   B             fault in [p, q): fine      fault in [p, q): SIGSEGV
//!   C                                mmap gives [p, q) -|
//!                                    ^
//!            the munmap is here: after the fault that succeeded, before anything that needs it done
//! ```
//!
//! - Calls that take something away or give it (`munmap`, `mprotect`, `madvise`) are placed at their *start*,
//!   or right after the last fault of another thread inside them that succeeded though the call forbids it,
//!   or ended in a signal though the call allows it; never later than the first end of a call that was given
//!   a part of the same addresses.
//! - Calls that give addresses (`mmap`, `mremap`, `brk`) are placed at their *end*: the address is not known
//!   before. `mremap` comes earlier if another call was given its old place before it returned.
//! - `fork`, `clone` and `exec` have exact events of their own (task, exec); the call itself is placed at its
//!   end. A call that never returned is placed at its start.
//!
//! A fault succeeded unless the next thing its thread does is to receive a signal that names the same
//! address. If that is not known yet when the call returns, the call waits for it, and what follows waits
//! with it.
//!
//! Limits: processes that share memory without being threads of each other (`vfork`) are looked at one by
//! one.

use super::calls::{Shape, Sys};
use super::event::{Access, Call, Event, Fault, Inode, Kind};
use super::record::raw::{Raw, What};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// How long a returned call waits to learn whether a fault inside it succeeded.
const VERDICT_NS: u64 = 100_000_000;

/// Puts what was recorded into the order of a trace.
#[derive(Debug, Default)]
pub struct Order {
    window: VecDeque<Event>,
    open: HashMap<u32, Open>,
    undecided: Vec<Waiting>,
    handed_on_ns: u64,
}

#[derive(Debug)]
struct Open {
    pid: u32,
    sys: Sys,
    args: [u64; 6],
    start_ns: u64,
    file: Option<Arc<str>>,
    inode: Option<Inode>,
}

/// A returned call whose place depends on whether a fault of the thread `for_tid` succeeded.
#[derive(Debug)]
struct Waiting {
    pid: u32,
    tid: u32,
    call: Call,
    for_tid: u32,
}

enum Place {
    At(usize, u64),
    /// The thread whose next event decides.
    Undecided(u32),
}

impl Order {
    /// Takes the next thing in the order of time.
    pub fn push(&mut self, raw: Raw) {
        let Raw { time_ns, pid, tid, what } = raw;
        let was = former_of(&what).unwrap_or(tid);
        let event = |kind| Event { time_ns, pid, tid, kind };
        match what {
            What::Fault(fault) => self.window.push_back(event(Kind::Fault(fault))),
            What::Task(task) => self.window.push_back(event(Kind::Task(task))),
            What::File(facts) => self.window.push_back(event(Kind::File(facts))),
            What::Cache(change) => self.window.push_back(event(Kind::Cache(change))),
            What::Signal(signal) => self.window.push_back(event(Kind::Signal(signal))),
            What::Enter(sys, args) => self.enter(pid, tid, sys, args, time_ns),
            What::Leave(sys, result) => self.leave(pid, tid, sys, Some(result), time_ns),
            What::Mapped(name, inode) => self.name(tid, &name, inode),
            What::Exec(started, former) => {
                if let Some(open) = self.open.remove(&former) {
                    self.open.insert(tid, open);
                }
                self.window.push_back(event(Kind::Exec(started)));
            }
            What::Exit(ended) => {
                self.abandon(tid, time_ns);
                self.window.push_back(event(Kind::Exit(ended)));
            }
        }
        self.retry(time_ns, |for_tid| for_tid == tid || for_tid == was);
    }

    /// The next event, once no earlier one can arrive.
    pub fn pop(&mut self) -> Option<Event> {
        let calls = self.open.values().filter(|o| holds(o.sys)).map(|o| o.start_ns);
        let low = calls.chain(self.undecided.iter().map(|waiting| waiting.call.start_ns)).min();
        let ready = self.window.front().is_some_and(|e| low.is_none_or(|low| e.time_ns < low));
        let event = if ready { self.window.pop_front() } else { None }?;
        self.handed_on_ns = event.time_ns;
        Some(event)
    }

    /// Ends the recording at `time_ns`: calls that are still open never returned.
    pub fn finish(&mut self, time_ns: u64) {
        let mut open: Vec<u32> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|tid| self.abandon(tid, time_ns));
        self.retry(u64::MAX, |_| true);
    }

    fn enter(&mut self, pid: u32, tid: u32, sys: Sys, mut args: [u64; 6], time_ns: u64) {
        self.abandon(tid, time_ns);
        args[sys.arity()..].fill(0);
        if matches!(sys, Sys::Exit | Sys::ExitGroup) {
            let (start_ns, end_ns) = (time_ns, time_ns);
            let call = Call { sys, args, result: None, start_ns, end_ns, file: None, inode: None };
            return self.window.push_back(Event { time_ns, pid, tid, kind: Kind::Call(call) });
        }
        self.open.insert(tid, Open { pid, sys, args, start_ns: time_ns, file: None, inode: None });
    }

    fn name(&mut self, tid: u32, name: &str, inode: Option<Inode>) {
        if let Some(open) = self.open.get_mut(&tid).filter(|o| o.sys == Sys::Mmap) {
            (open.file, open.inode) = (Some(name.into()), inode);
        }
    }

    /// A return without an entry is that of a child's `fork`, or of the `exec` that began the recording.
    fn leave(&mut self, pid: u32, tid: u32, sys: Sys, result: Option<i64>, end_ns: u64) {
        if self.open.get(&tid).is_none_or(|o| o.sys != sys) {
            return;
        }
        let Some(Open { args, start_ns, file, inode, .. }) = self.open.remove(&tid) else { return };
        self.place(pid, tid, Call { sys, args, result, start_ns, end_ns, file, inode });
    }

    fn abandon(&mut self, tid: u32, end_ns: u64) {
        if let Some(Open { pid, sys, args, start_ns, file, inode }) = self.open.remove(&tid) {
            self.place(pid, tid, Call { sys, args, result: None, start_ns, end_ns, file, inode });
        }
    }

    fn place(&mut self, pid: u32, tid: u32, call: Call) {
        match self.find_place(pid, tid, &call, false) {
            Place::At(at, time_ns) => self.insert(at, time_ns, pid, tid, call),
            Place::Undecided(for_tid) => self.undecided.push(Waiting { pid, tid, call, for_tid }),
        }
    }

    fn insert(&mut self, at: usize, time_ns: u64, pid: u32, tid: u32, call: Call) {
        self.window.insert(at, Event { time_ns, pid, tid, kind: Kind::Call(call) });
    }

    /// Places the calls that wait for a thread which `has_acted`, and those that have waited for long.
    fn retry(&mut self, now_ns: u64, has_acted: impl Fn(u32) -> bool) {
        if self.undecided.is_empty() {
            return;
        }
        for waiting in std::mem::take(&mut self.undecided) {
            let force = now_ns > waiting.call.end_ns.saturating_add(VERDICT_NS);
            if !force && !has_acted(waiting.for_tid) {
                self.undecided.push(waiting);
                continue;
            }
            let Waiting { pid, tid, call, .. } = waiting;
            match self.find_place(pid, tid, &call, force) {
                Place::At(at, time_ns) => self.insert(at, time_ns, pid, tid, call),
                Place::Undecided(for_tid) => self.undecided.push(Waiting { pid, tid, call, for_tid }),
            }
        }
    }

    fn find_place(&self, pid: u32, tid: u32, call: &Call, force: bool) -> Place {
        let at = |time| self.window.partition_point(|e| e.time_ns < time);
        let after = |time| self.window.partition_point(|e| e.time_ns <= time);
        if !holds(call.sys) {
            // A call that never returned: as near to its start as what was handed on allows.
            let time = if call.result.is_none() { call.start_ns.max(self.handed_on_ns) } else { call.end_ns };
            return Place::At(after(time), time);
        }
        let inside = at(call.start_ns)..after(call.end_ns);
        let range = old_range(call);
        let reused = self.first_reuse(pid, tid, inside.clone(), &range);
        if call.sys == Sys::Mremap {
            return match reused {
                Some(at) => Place::At(at, self.window[at].time_ns),
                None => Place::At(inside.end, call.end_ns),
            };
        }
        let until = reused.unwrap_or(inside.end);
        self.after_last_earlier(pid, tid, call, inside.start..until, &range, force)
    }

    /// The first event in `inside` by which another thread is given a part of `range`.
    fn first_reuse(&self, pid: u32, tid: u32, inside: Range<usize>, range: &Range<u64>) -> Option<usize> {
        inside.into_iter().find(|&i| {
            let e = &self.window[i];
            e.pid == pid
                && e.tid != tid
                && matches!(&e.kind, Kind::Call(c) if given_range(c).is_some_and(|g| overlaps(&g, range)))
        })
    }

    /// The place after the last fault of another thread that cannot have gone as it did once the call has
    /// taken effect.
    fn after_last_earlier(
        &self,
        pid: u32,
        tid: u32,
        call: &Call,
        inside: Range<usize>,
        range: &Range<u64>,
        force: bool,
    ) -> Place {
        for i in inside.clone().rev() {
            let e = &self.window[i];
            let Kind::Fault(fault) = &e.kind else { continue };
            if e.pid != pid || e.tid == tid || !range.contains(&fault.address) {
                continue;
            }
            let is_earlier = match (effect(call, fault), self.succeeded(i, e.tid, fault)) {
                (Effect::None, _) => false,
                (_, None) if !force => return Place::Undecided(e.tid),
                (Effect::Forbids, succeeded) => succeeded != Some(false),
                (Effect::Allows, succeeded) => succeeded == Some(false),
            };
            if is_earlier {
                return Place::At(i + 1, e.time_ns);
            }
        }
        Place::At(inside.start, call.start_ns)
    }

    /// Whether the fault at `at` succeeded: `None` while its thread has done nothing since.
    fn succeeded(&self, at: usize, tid: u32, fault: &Fault) -> Option<bool> {
        let told = |e: &Event| matches!(e.kind, Kind::File(_) | Kind::Cache(_));
        let next = self.window.range(at + 1..).find(|e| e.tid == tid && !told(e));
        match next.map(|e| &e.kind) {
            Some(Kind::Signal(signal)) => Some(signal.address != fault.address),
            Some(_) => Some(true),
            None => self.open.contains_key(&tid).then_some(true),
        }
    }
}

/// The number that the thread of a record had until then, where it has a new one.
fn former_of(what: &What) -> Option<u32> {
    match what {
        What::Exec(_, former) => Some(*former),
        _ => None,
    }
}

/// Whether events must wait for the end of such a call before its place is known.
fn holds(sys: Sys) -> bool {
    sys.shape() == Shape::Changes || sys == Sys::Mremap
}

/// The addresses whose old contents a call changes or takes away.
fn old_range(call: &Call) -> Range<u64> {
    let start = call.args[0] & !0xfff;
    start..call.args[0].saturating_add(call.args[1]).saturating_add(0xfff) & !0xfff
}

/// The addresses that a call gave to its caller.
fn given_range(call: &Call) -> Option<Range<u64>> {
    let start = call.result.filter(|&r| r > 0)? as u64;
    match call.sys {
        Sys::Mmap => Some(start..start.saturating_add(call.args[1])),
        Sys::Mremap => Some(start..start.saturating_add(call.args[2])),
        _ => None,
    }
}

fn overlaps(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// What a call means for accesses like a fault's, once it has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// They are refused.
    Forbids,
    /// They are granted.
    Allows,
    /// Neither.
    None,
}

/// What `call` means for accesses like that of `fault`, which lies in its range.
fn effect(call: &Call, fault: &Fault) -> Effect {
    if call.result.is_some_and(|r| r < 0) {
        return Effect::None;
    }
    let allowed = |is_allowed| if is_allowed { Effect::Allows } else { Effect::Forbids };
    let (argument, any) = (call.args[2], call.args[2] & 7 != 0);
    match (call.sys, fault.access) {
        (Sys::Munmap, _) => Effect::Forbids,
        (Sys::Madvise, _) if argument == GUARD_INSTALL => Effect::Forbids,
        (Sys::Madvise, _) if argument == GUARD_REMOVE => Effect::Allows,
        // What may be written or executed may be read on x86.
        (Sys::Mprotect | Sys::PkeyMprotect, Access::Read) => allowed(any),
        (Sys::Mprotect | Sys::PkeyMprotect, Access::Write) => allowed(argument & 2 != 0),
        (Sys::Mprotect | Sys::PkeyMprotect, Access::Execute) => allowed(argument & 4 != 0),
        // All that data is accessed by, or nothing at all; else it depends on the access.
        (Sys::Mprotect | Sys::PkeyMprotect, Access::Unknown) if !any => Effect::Forbids,
        (Sys::Mprotect | Sys::PkeyMprotect, Access::Unknown) if argument & 2 != 0 => Effect::Allows,
        _ => Effect::None,
    }
}

/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE`.
const GUARD_INSTALL: u64 = 102;
const GUARD_REMOVE: u64 = 103;

#[cfg(test)]
#[path = "tests/order.rs"]
mod tests;
