//! Which address spaces refuse huge pages (PR_SET_THP_DISABLE), followed through forks and execs.
//!
//! Linux keeps the refusal with the memory of a process; a fork copies it, and exec keeps it. Every process
//! is followed, replayed or not: any may call exec, and is replayed from there on.

use crate::trace::{Call, Event, Kind, Sys};
use interleaf::vma::HugeRefusal;
use interleaf_linux_abi::thp_refusal;
use std::collections::HashMap;

/// The refusals of all processes. One that no event has told refuses nothing.
#[derive(Debug, Default)]
pub struct Refusals {
    /// The space of each process, by its number in `of_space`.
    space_of: HashMap<u32, usize>,
    of_space: Vec<HugeRefusal>,
}

impl Refusals {
    /// Follows an event.
    pub fn follow(&mut self, event: &Event) {
        match &event.kind {
            Kind::Task(task) if task.is_thread() => {}
            Kind::Task(task) if task.shares_memory() => {
                let space = self.space(event.pid);
                self.space_of.insert(task.tid, space);
            }
            Kind::Task(task) => self.copy(event.pid, task.tid),
            Kind::Exec(_) => self.copy(event.pid, event.pid),
            Kind::Call(call) => {
                if let Some(refusal) = granted_refusal(call) {
                    let space = self.space(event.pid);
                    self.of_space[space] = refusal;
                }
            }
            _ => {}
        }
    }

    /// The refusal of a process.
    pub fn of(&self, pid: u32) -> HugeRefusal {
        self.space_of.get(&pid).map_or(HugeRefusal::None, |&space| self.of_space[space])
    }

    /// A new space of the process `to`, with the refusal of the process `from`.
    fn copy(&mut self, from: u32, to: u32) {
        let refusal = self.of(from);
        self.space_of.insert(to, self.of_space.len());
        self.of_space.push(refusal);
    }

    fn space(&mut self, pid: u32) -> usize {
        if !self.space_of.contains_key(&pid) {
            self.copy(pid, pid);
        }
        self.space_of[&pid]
    }
}

/// The refusal that a call has set; `None` where it is no such call, Linux refused it, or its words are none
/// of those that are known.
pub fn granted_refusal(call: &Call) -> Option<HugeRefusal> {
    let [option, words @ .., _] = call.args;
    if (call.sys, call.result) != (Sys::Prctl, Some(0)) {
        return None;
    }
    thp_refusal(option as u32, words)?.ok()
}
