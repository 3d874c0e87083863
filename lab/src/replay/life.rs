//! Lives: address spaces of a trace, from the exec or fork that made each to its end.
//!
//! ```text
//!   process 10   exec ............ vfork ............................ exit  life 1: exec to exit
//!   process 11                       \ faults in 10's memory  exec .. exit  life 2; until exec in life 1
//!   process 12   exec .... fork ..................................... exit  life 3 ┐ one family
//!   process 13                \ ...................... exit                 life 4 ┘ fork to exit
//! ```
//!
//! The first event of a life that exec made is that exec, but for faults that the kernel took in the new
//! space before. Lives that forks lead to share frames, so they are one *family*, replayed in recorded order;
//! families share nothing, and are replayed one after the other.

use super::step::Steps;
use crate::trace::{Event, Image, Sys};
use interleaf::vma::ThpDisable;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// An address space, from exec or fork to its end.
#[derive(Clone, Debug)]
pub struct Life {
    /// The process.
    pub pid: u32,
    /// The process whose space a fork copied; `None` where exec made the space.
    pub forked_from: Option<u32>,
    /// The map at the exec, of this process or of the ancestor that forks lead to.
    pub start: Arc<Image>,
    /// The `PR_SET_THP_DISABLE` of the process when exec made the space. A fork copies it.
    pub thp_disable: ThpDisable,
    /// What happened in it, in recorded order.
    pub events: Vec<Event>,
    /// Bytes of the System V segments that its calls of `shmat` mapped, by the index of the event.
    pub segments: HashMap<usize, u64>,
    /// The event from which on a limit holds that the program set itself, of its address space or its data;
    /// the first if it came with the fork or the exec.
    pub limited_from: Option<usize>,
    /// How it ended.
    pub end: End,
}

/// How a life ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The process exited with this map.
    Exited(Arc<Image>),
    /// The process made a call whose effect the trace does not say.
    Untold(Sys),
    /// Another program took its place.
    Replaced,
    /// The trace has no final map of it.
    Unseen,
}

/// Lives that share memory: one that exec made, the first, and those that forks made from it.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// The spaces, in the order in which they were made.
    pub lives: Vec<Life>,
    /// What to do for the events of each.
    pub steps: Vec<Steps>,
    /// Which life runs when.
    pub turns: Vec<Turn>,
}

/// Consecutive events of one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The life, by its index in the family.
    pub life: usize,
    /// Its first event of this turn.
    pub from: usize,
    /// One past the last.
    pub to: usize,
    /// What follows the events.
    pub then: Then,
}

/// What follows the events of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Another life goes on.
    Switch,
    /// The last of the events was a fork, which makes the space of this life.
    Fork(usize),
    /// The space ends.
    End,
}

impl Family {
    /// The lives with their steps.
    pub fn each(&self) -> impl Iterator<Item = (&Life, &Steps)> {
        self.lives.iter().zip(&self.steps)
    }
}

/// What of a trace is not replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Processes that forks of processes which are not replayed made, and that never called exec.
    pub forked_processes: u64,
    /// Events of processes that such forks made, before their exec.
    pub forked_events: u64,
    /// Events of processes after a call whose effect the trace does not say.
    pub events_after_untold: u64,
    /// Events of processes whose beginning the trace does not tell.
    pub events_of_strangers: u64,
}

impl LeftOut {
    /// All events that are left out.
    pub fn events(&self) -> u64 {
        let LeftOut { forked_events, events_after_untold, events_of_strangers, .. } = self;
        forked_events + events_after_untold + events_of_strangers
    }
}
