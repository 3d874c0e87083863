//! Which address spaces have huge pages disabled (PR_SET_THP_DISABLE), followed through forks and execs.
//!
//! Linux keeps the flags with the memory of a process; a fork copies it, and exec keeps it. Every process
//! is followed, replayed or not: any may call exec, and is replayed from there on.

use crate::trace::{Call, Event, Kind, Sys};
use interleaf::vma::ThpDisable;
use interleaf_linux_abi::thp_disable;
use std::collections::HashMap;

/// Of all processes. A process that no event has told has nothing disabled.
#[derive(Debug, Default)]
pub struct ThpDisableOfSpaces {
    /// The space of each process, by its number in `of_space`.
    space_of: HashMap<u32, usize>,
    of_space: Vec<ThpDisable>,
}

impl ThpDisableOfSpaces {
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
                if let Some(thp_disable) = granted_thp_disable(call) {
                    let space = self.space(event.pid);
                    self.of_space[space] = thp_disable;
                }
            }
            _ => {}
        }
    }

    /// That of a process.
    pub fn of(&self, pid: u32) -> ThpDisable {
        self.space_of.get(&pid).map_or(ThpDisable::None, |&space| self.of_space[space])
    }

    /// A new space of the process `to`, with what the process `from` has disabled.
    fn copy(&mut self, from: u32, to: u32) {
        let thp_disable = self.of(from);
        self.space_of.insert(to, self.of_space.len());
        self.of_space.push(thp_disable);
    }

    fn space(&mut self, pid: u32) -> usize {
        if !self.space_of.contains_key(&pid) {
            self.copy(pid, pid);
        }
        self.space_of[&pid]
    }
}

/// What a call has disabled; `None` where it is no such call, Linux refused it, or its words are none of
/// those that are known.
pub fn granted_thp_disable(call: &Call) -> Option<ThpDisable> {
    let [option, words @ .., _] = call.args;
    if (call.sys, call.result) != (Sys::Prctl, Some(0)) {
        return None;
    }
    thp_disable(option as u32, words)?.ok()
}
