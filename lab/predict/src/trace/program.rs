//! A recorded program as steps.

use super::mappings::Mappings;
use interleaf::space::Advice;
use interleaf::units::{Access, PAGE_SIZE};
use interleaf::vma::VmaFlags;
use interleaf_lab::error::Failure;
use interleaf_lab::trace::{self, Call, Event, Kind, Sys, TraceReader};
use interleaf_linux_abi::advice::advice;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

const PAGE: u64 = PAGE_SIZE as u64;
/// How long a fault had taken when it was recorded, nanoseconds: a guess, as traces tell only when faults
/// began.
const RECORDED_FAULT_NS: u64 = 1_000;
/// Addresses of programs lie below.
const USER_END: u64 = 1 << 47;
/// Room for a stack to grow, bytes.
const STACK_ROOM: u64 = 8 << 20;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A load or a store of the word at an address.
    Touch(u64, Access),
    /// mmap of this memory, or growth of the heap.
    Map(u64, u64, VmaFlags),
    /// munmap, or shrinkage of the heap.
    Unmap(u64, u64),
    /// mprotect.
    Protect(u64, u64, VmaFlags),
    /// madvise that gives memory up.
    Discard(u64, u64),
    /// mremap: from, its length, to, its length. Contents do not move: they are touched anew.
    Move(u64, u64, u64, u64),
}

/// One fault or call of a thread.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The thread, by the order in which they first did something.
    pub(super) thread: u32,
    pub(super) act: Act,
    /// When it began and ended as it was recorded, nanoseconds.
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    /// Steps of other threads that it waits for, at most one of each thread.
    pub(super) after: Vec<u32>,
}

/// What the threads of one process did.
#[derive(Clone, Debug)]
pub struct RecordedProgram {
    /// The command line that was recorded.
    pub command: String,
    /// Its threads that did something to memory.
    pub threads: u32,
    /// Processes of the trace that are left out: this one has the most faults.
    pub other_processes: usize,
    pub(super) image: Vec<(Range<u64>, VmaFlags)>,
    pub(super) steps: Vec<Step>,
}

impl RecordedProgram {
    /// Reads a trace.
    ///
    /// # Errors
    /// It is damaged, or has no fault.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let damaged = |damage: trace::Damage| Failure::usage(format!("{}: {damage}", file.display()));
        let (header, events, _) = TraceReader::open(file).and_then(TraceReader::read_all).map_err(damaged)?;
        let mut faults: BTreeMap<u32, u64> = BTreeMap::new();
        for event in events.iter().filter(|event| matches!(event.kind, Kind::Fault(_))) {
            *faults.entry(event.pid).or_default() += 1;
        }
        let is_loaded = |pid: u32| pid == header.pid || events.iter().any(|event| event.is_exec_of(pid));
        let pid = faults.iter().filter(|(pid, _)| is_loaded(**pid)).max_by_key(|(_, count)| **count);
        let none = || Failure::usage(format!("{}: no process of it has a fault", file.display()));
        let (&pid, _) = pid.ok_or_else(none)?;
        let start = events.iter().rposition(|event| event.is_exec_of(pid));
        let image = match start.map(|at| &events[at].kind) {
            Some(Kind::Exec(started)) => &started.image,
            _ => &header.image,
        };
        let mut reading = Reading::of(image);
        events[start.map_or(0, |at| at + 1)..]
            .iter()
            .filter(|event| event.pid == pid)
            .for_each(|e| reading.add(e));
        Ok(Self {
            command: header.command.join(" "),
            threads: reading.threads.len() as u32,
            other_processes: faults.len() - 1,
            image: reading.image,
            steps: reading.steps,
        })
    }
}

/// Asks an event.
trait IsExec {
    fn is_exec_of(&self, pid: u32) -> bool;
}

impl IsExec for Event {
    fn is_exec_of(&self, pid: u32) -> bool {
        self.pid == pid && matches!(self.kind, Kind::Exec(_))
    }
}

/// Steps so far.
struct Reading {
    image: Vec<(Range<u64>, VmaFlags)>,
    mappings: Mappings,
    threads: BTreeMap<u32, u32>,
    steps: Vec<Step>,
    /// The end of the heap, once a call has told it.
    heap_end: Option<u64>,
}

impl Reading {
    fn of(image: &trace::Image) -> Self {
        let mut ranges: Vec<(Range<u64>, VmaFlags)> = Vec::new();
        for mapping in image.mappings.iter().filter(|mapping| mapping.end <= USER_END) {
            let below = ranges.last().map_or(0, |(range, _)| range.end);
            let room = if mapping.name == "[stack]" { STACK_ROOM } else { 0 };
            let start = mapping.start.min(mapping.end.saturating_sub(room)).max(below);
            ranges.push((start..mapping.end, rights_of_letters(&mapping.rights)));
        }
        let (threads, steps) = (BTreeMap::new(), Vec::new());
        Self { image: ranges, mappings: Mappings::default(), threads, steps, heap_end: None }
    }

    fn add(&mut self, event: &Event) {
        let (act, began_ns, ended_ns) = match &event.kind {
            Kind::Fault(fault) => {
                let access = match fault.access {
                    trace::Access::Read | trace::Access::Execute => Access::Read,
                    trace::Access::Write | trace::Access::Unknown => Access::Write,
                };
                (Act::Touch(fault.address & !7, access), event.time_ns, event.time_ns + RECORDED_FAULT_NS)
            }
            Kind::Call(call) => match self.act_of(call) {
                Some(act) => (act, call.start_ns, call.end_ns),
                None => return,
            },
            _ => return,
        };
        let next = self.threads.len() as u32;
        let thread = *self.threads.entry(event.tid).or_insert(next);
        let after = self.mappings.note(self.steps.len() as u32, thread, act);
        self.steps.push(Step { thread, act, began_ns, ended_ns, after });
    }

    /// What a call that succeeded did to the mappings.
    fn act_of(&mut self, call: &Call) -> Option<Act> {
        let result = call.result.filter(|result| *result >= 0)? as u64;
        let [first, second, third, ..] = call.args;
        let pages = |bytes: u64| bytes.next_multiple_of(PAGE);
        let act = match call.sys {
            Sys::Mmap => Act::Map(result, pages(second), rights_of_bits(third)),
            Sys::Munmap => Act::Unmap(first, pages(second)),
            Sys::Mprotect => Act::Protect(first, pages(second), rights_of_bits(third)),
            Sys::Madvise if matches!(advice(third as i32), Some(Advice::DontNeed | Advice::Free)) => {
                Act::Discard(first, pages(second))
            }
            Sys::Mremap => Act::Move(first, pages(second), result, pages(third)),
            Sys::Brk => self.heap_moves(pages(result))?,
            _ => return None,
        };
        let end = match act {
            Act::Map(start, len, _) | Act::Unmap(start, len) | Act::Protect(start, len, _) => {
                start.checked_add(len)
            }
            Act::Discard(start, len) => start.checked_add(len),
            Act::Move(_, _, to, len) => to.checked_add(len),
            Act::Touch(..) => None,
        };
        end.filter(|end| *end <= USER_END).map(|_| act)
    }

    fn heap_moves(&mut self, end: u64) -> Option<Act> {
        let before = self.heap_end.replace(end)?;
        let rights = VmaFlags::READ | VmaFlags::WRITE;
        match end {
            end if end > before => Some(Act::Map(before, end - before, rights)),
            end if end < before => Some(Act::Unmap(end, before - end)),
            _ => None,
        }
    }
}

fn rights_of_bits(prot: u64) -> VmaFlags {
    let flags = [VmaFlags::READ, VmaFlags::WRITE, VmaFlags::EXECUTE];
    let set = |(bit, flag): (usize, VmaFlags)| if prot & 1 << bit != 0 { flag } else { VmaFlags::empty() };
    flags.into_iter().enumerate().map(set).collect()
}

fn rights_of_letters(letters: &str) -> VmaFlags {
    let bit = |letter: char, bit: u64| if letters.contains(letter) { bit } else { 0 };
    rights_of_bits(bit('r', 1) | bit('w', 2) | bit('x', 4))
}
