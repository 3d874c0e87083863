//! Lives: a trace, cut into parts that can be replayed alone.
//!
//! ```text
//!   process 10   exec ............ vfork ............................ exit  life 1: exec to exit
//!   process 11                       \ faults in 10's memory  exec .. exit  life 2; until exec in life 1
//!   process 12   exec .... fork                                             life 3 ends at the fork
//!   process 13                \ ...............                             left out: fork without exec
//! ```
//!
//! A life is one address space from the exec that made it; that exec is its first event, but for faults that
//! the kernel took in the new space before. Lives share nothing in a replay (a fork, which would share, ends
//! the life), so they are replayed one after the other, each with its events in recorded order.
//!
//! Every event of a trace is in one life, or counted in [`LeftOut`].

use crate::trace::{Event, Header, Image, Kind, Mode, Started, Sys};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// An address space, from exec to its end.
#[derive(Clone, Debug)]
pub struct Life {
    /// The process.
    pub pid: u32,
    /// The map at exec.
    pub start: Arc<Image>,
    /// What happened in it, in recorded order.
    pub events: Vec<Event>,
    /// How it ended.
    pub end: End,
}

/// How a life ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The process exited with this map.
    Exited(Arc<Image>),
    /// The process forked: pages are shared from there on, which is not built.
    Forked,
    /// The process made a call whose effect the trace does not say.
    Untold(Sys),
    /// Another program took its place.
    Replaced,
    /// The trace has no final map of it.
    Unseen,
}

/// What of a trace is not replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Processes made by fork that never called exec.
    pub forked_processes: u64,
    /// Events of processes made by fork, before their exec.
    pub forked_events: u64,
    /// Events of processes after they had forked.
    pub events_after_fork: u64,
    /// Events of processes after a call whose effect the trace does not say.
    pub events_after_untold: u64,
    /// Events of processes whose beginning the trace does not tell.
    pub events_of_strangers: u64,
}

impl LeftOut {
    /// All events that are left out.
    pub fn events(&self) -> u64 {
        let LeftOut { forked_events, events_after_fork, events_after_untold, events_of_strangers, .. } = self;
        forked_events + events_after_fork + events_after_untold + events_of_strangers
    }
}

/// Cuts a trace into lives.
pub fn lives(header: &Header, events: Vec<Event>) -> (Vec<Life>, LeftOut) {
    let mut cutter = Cutter::default();
    cutter.begin(header.pid, Arc::new(header.image.clone()), Vec::new());
    events.into_iter().for_each(|event| cutter.take(event));
    cutter.left_out.forked_processes = cutter.forked.values().filter(|&&alive| alive).count() as u64;
    (cutter.lives, cutter.left_out)
}

#[derive(Default)]
struct Cutter {
    lives: Vec<Life>,
    /// The life in which each process acts.
    acts_in: HashMap<u32, usize>,
    /// Children of forks, and whether they have not called exec.
    forked: HashMap<u32, bool>,
    left_out: LeftOut,
}

impl Cutter {
    fn begin(&mut self, pid: u32, start: Arc<Image>, events: Vec<Event>) {
        self.acts_in.insert(pid, self.lives.len());
        self.lives.push(Life { pid, start, events, end: End::Unseen });
    }

    fn take(&mut self, event: Event) {
        if let Kind::Exec(Started { image }) = &event.kind {
            let image = image.clone();
            self.exec(image, event);
            return;
        }
        let Some(&at) = self.acts_in.get(&event.pid) else {
            match self.forked.contains_key(&event.pid) {
                true => self.left_out.forked_events += 1,
                false => self.left_out.events_of_strangers += 1,
            }
            self.follow_forked(&event);
            return;
        };
        let count = match self.lives[at].end {
            End::Forked => &mut self.left_out.events_after_fork,
            End::Untold(_) => &mut self.left_out.events_after_untold,
            _ => return self.put(at, event),
        };
        *count += 1;
        self.follow_forked(&event);
    }

    fn exec(&mut self, image: Arc<Image>, event: Event) {
        let pid = event.pid;
        if let Some(&at) = self.acts_in.get(&pid)
            && self.lives[at].pid == pid
            && self.lives[at].end == End::Unseen
        {
            self.lives[at].end = End::Replaced;
        }
        self.forked.entry(pid).and_modify(|alone| *alone = false);
        let mut events = self.take_early(pid, &image);
        events.push(event);
        self.begin(pid, image, events);
    }

    /// Before the event that says so, the kernel has made the new space and touched it, filling the program's
    /// first pages.
    fn take_early(&mut self, pid: u32, image: &Image) -> Vec<Event> {
        let Some(&at) = self.acts_in.get(&pid) else { return Vec::new() };
        let is_early = |event: &Event| match &event.kind {
            Kind::Fault(fault) => fault.mode == Mode::Kernel && image.find(fault.address).is_some(),
            _ => false,
        };
        let events = &mut self.lives[at].events;
        let last_other = events.iter().rposition(|event| event.pid == pid && !is_early(event));
        let from = last_other.map_or(0, |last| last + 1);
        events.extract_if(from.., |event| event.pid == pid).collect()
    }

    /// Processes made where nothing is replayed are not replayed either, before their exec.
    fn follow_forked(&mut self, event: &Event) {
        if let Kind::Task(task) = event.kind
            && !task.is_thread()
        {
            self.fork(task.tid);
        }
    }

    /// A number that an earlier process had may be used again.
    fn fork(&mut self, pid: u32) {
        self.acts_in.remove(&pid);
        self.forked.insert(pid, true);
    }

    fn put(&mut self, at: usize, event: Event) {
        let own = self.lives[at].pid == event.pid;
        match &event.kind {
            Kind::Task(task) if task.is_thread() => {}
            Kind::Task(task) if task.shares_memory() => {
                self.acts_in.insert(task.tid, at);
            }
            Kind::Task(task) => {
                self.fork(task.tid);
                self.lives[at].end = End::Forked;
            }
            Kind::Exit(ended) if own => {
                if let Some(image) = &ended.image {
                    self.lives[at].end = End::Exited(image.clone());
                }
            }
            Kind::Call(call) if untold(call.sys) && call.result.is_some_and(|result| result >= 0) => {
                self.lives[at].end = End::Untold(call.sys);
            }
            _ => {}
        }
        self.lives[at].events.push(event);
    }
}

/// Calls that map memory of a size which no argument says, or have faults answered by the program.
fn untold(sys: Sys) -> bool {
    matches!(sys, Sys::Shmat | Sys::RemapFilePages | Sys::Userfaultfd)
}
