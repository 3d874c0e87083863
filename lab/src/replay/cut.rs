//! Cuts a trace into families of lives.
//!
//! Every event of a trace is in one life, or counted in [`LeftOut`].

use super::files::FileTable;
use super::life::{End, Family, LeftOut, Life, Then, Turn};
use super::setup;
use super::signals::{Signalled, signalled};
use super::step::{Steps, Told};
use super::thp_disable::ThpDisableOfSpaces;
use crate::trace::{Access, Call, Event, Header, Image, Kind, Mode, Started, Sys};
use interleaf::vma::ThpDisable;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Cuts a trace into families.
///
/// # Errors
/// One line: an event that no replay can perform.
pub fn families(
    header: &Header,
    events: Vec<Event>,
    files: &FileTable,
) -> Result<(Vec<Family>, LeftOut), String> {
    let mut cutter = Cutter::default();
    cutter.begin(header.pid, Arc::new(header.image.clone()));
    for (number, event) in events.into_iter().enumerate() {
        cutter.take(number, event);
    }
    cutter.left_out.forked_processes = cutter.forked.values().filter(|&&alive| alive).count() as u64;
    let lowest_hint = setup::lowest_hint(header);
    let families = cutter.families.into_iter().map(|cuts| family(cuts, lowest_hint, files));
    let families = families.collect::<Result<_, String>>()?;
    Ok((families, cutter.left_out))
}

/// A life, by family and index in it.
type At = (usize, usize);

/// A life under way.
struct Cut {
    life: Life,
    /// The number in the trace of each of its events.
    numbers: Vec<usize>,
    /// Numbers of the events that were forks, and the lives that they made.
    forks: Vec<(usize, usize)>,
    /// Numbers of the events that mapped System V memory, and its bytes.
    segments: Vec<(usize, u64)>,
    /// The number of the event after which there is no such space any more; that of an exec is not its own.
    last: usize,
}

#[derive(Default)]
struct Cutter {
    families: Vec<Vec<Cut>>,
    /// The life in which each process acts.
    acts_in: HashMap<u32, At>,
    /// For each process that acts in the life of another, that life's first event since.
    acts_from: HashMap<u32, usize>,
    /// Children of forks in what is not replayed, and whether they have not called exec.
    forked: HashMap<u32, bool>,
    /// Sizes of System V segments by their numbers, bytes.
    segments: HashMap<i64, u64>,
    /// Which spaces have huge pages disabled.
    thp_disable: ThpDisableOfSpaces,
    /// Processes under a limit that they or their ancestors set: a fork copies it, an exec keeps it.
    limited: HashSet<u32>,
    left_out: LeftOut,
}

impl Cutter {
    /// Begins a life that exec made.
    fn begin(&mut self, pid: u32, start: Arc<Image>) -> At {
        self.families.push(Vec::new());
        let life = Life { thp_disable: self.thp_disable.of(pid), ..Life::new(pid, None, start) };
        self.add(self.families.len() - 1, life, 0)
    }

    fn add(&mut self, family: usize, mut life: Life, last: usize) -> At {
        life.limited_from = self.limited.contains(&life.pid).then_some(0);
        let at = (family, self.families[family].len());
        self.acts_in.insert(life.pid, at);
        self.acts_from.remove(&life.pid);
        let (numbers, forks, segments) = (Vec::new(), Vec::new(), Vec::new());
        self.families[family].push(Cut { life, numbers, forks, segments, last });
        at
    }

    fn cut(&mut self, (family, at): At) -> &mut Cut {
        &mut self.families[family][at]
    }

    fn take(&mut self, number: usize, event: Event) {
        self.note_segment(&event);
        self.thp_disable.follow(&event);
        self.note_limit(&event);
        if let Kind::Exec(Started { image }) = &event.kind {
            let image = image.clone();
            self.exec(image, number, event);
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
        if matches!(self.cut(at).life.end, End::Untold(_)) {
            self.left_out.events_after_untold += 1;
            self.follow_forked(&event);
            return;
        }
        self.put(at, number, event);
    }

    fn exec(&mut self, image: Arc<Image>, number: usize, event: Event) {
        let pid = event.pid;
        let early = self.take_early(pid, &image);
        if let Some(&at) = self.acts_in.get(&pid)
            && self.cut(at).life.pid == pid
            && self.cut(at).life.end == End::Unseen
        {
            self.cut(at).life.end = End::Replaced;
            self.cut(at).last = number;
        }
        self.forked.entry(pid).and_modify(|alone| *alone = false);
        let at = self.begin(pid, image);
        early.into_iter().chain([(number, event)]).for_each(|(number, event)| self.push(at, number, event));
    }

    /// Before the event that says so, the kernel has made the new space and written to it, filling the
    /// program's first pages.
    fn take_early(&mut self, pid: u32, image: &Image) -> Vec<(usize, Event)> {
        let Some(&at) = self.acts_in.get(&pid) else { return Vec::new() };
        let is_early = |event: &Event| match &event.kind {
            Kind::Fault(fault) => {
                let is_kernels = (fault.mode, fault.access) == (Mode::Kernel, Access::Write);
                is_kernels && image.find(fault.address).is_some()
            }
            _ => false,
        };
        let acts_from = self.acts_from.get(&pid).copied().unwrap_or(0);
        let Cut { life, numbers, .. } = self.cut(at);
        let acts_from = acts_from.min(life.events.len());
        let its_events = &life.events[acts_from..];
        let last_other = its_events.iter().rposition(|event| event.pid == pid && !is_early(event));
        let from = last_other.map_or(acts_from, |last| acts_from + last + 1);
        let mut early = Vec::new();
        for at in (from..life.events.len()).rev() {
            if life.events[at].pid == pid {
                early.push((numbers.remove(at), life.events.remove(at)));
            }
        }
        early.reverse();
        early
    }

    /// Processes made where nothing is replayed are not replayed either, before their exec.
    fn follow_forked(&mut self, event: &Event) {
        if let Kind::Task(task) = event.kind
            && !task.is_thread()
        {
            // A number that an earlier process had may be used again.
            self.acts_in.remove(&task.tid);
            self.forked.insert(task.tid, true);
        }
    }

    fn put(&mut self, at: At, number: usize, event: Event) {
        match &event.kind {
            Kind::Task(task) if task.is_thread() => {}
            Kind::Task(task) if task.shares_memory() => {
                self.acts_in.insert(task.tid, at);
                let from = self.cut(at).life.events.len();
                self.acts_from.insert(task.tid, from);
            }
            Kind::Task(task) => {
                let Life { pid, start, .. } = &self.cut(at).life;
                let child = Life::new(task.tid, Some(*pid), start.clone());
                let child = self.add(at.0, child, number);
                self.cut(at).forks.push((number, child.1));
            }
            Kind::Exit(ended) if self.cut(at).life.pid == event.pid => {
                if let Some(image) = &ended.image {
                    self.cut(at).life.end = End::Exited(image.clone());
                }
            }
            Kind::Call(call) if call.result.is_some_and(|result| result >= 0) => {
                let size = self.segments.get(&(call.args[0] as i64)).copied();
                match (call.sys, size) {
                    (Sys::Shmat, Some(size)) => self.cut(at).segments.push((number, size)),
                    (sys, _) if untold(sys) => self.cut(at).life.end = End::Untold(sys),
                    _ => {}
                }
            }
            _ => {}
        }
        self.push(at, number, event);
    }

    fn push(&mut self, at: At, number: usize, event: Event) {
        let is_limited = self.limited.contains(&event.pid);
        let cut = self.cut(at);
        if is_limited && cut.life.pid == event.pid {
            cut.life.limited_from.get_or_insert(cut.life.events.len());
        }
        cut.numbers.push(number);
        cut.life.events.push(event);
        cut.last = cut.last.max(number);
    }

    /// A segment that is there is asked for with any size that is not larger.
    fn note_segment(&mut self, event: &Event) {
        if let Kind::Call(Call { sys: Sys::Shmget, args, result: Some(id), .. }) = event.kind
            && id >= 0
            && args[1] > 0
        {
            let size = self.segments.entry(id).or_default();
            *size = args[1].max(*size);
        }
    }
}

impl Cutter {
    fn note_limit(&mut self, event: &Event) {
        match &event.kind {
            Kind::Task(task) if !task.is_thread() => {
                match self.limited.contains(&event.pid) {
                    true => self.limited.insert(task.tid),
                    false => self.limited.remove(&task.tid),
                };
            }
            Kind::Call(Call { sys, args, result: Some(0), .. }) => {
                let target = match sys {
                    Sys::Setrlimit => event.pid,
                    Sys::Prlimit64 if args[0] == 0 => event.pid,
                    Sys::Prlimit64 => args[0] as u32,
                    _ => return,
                };
                self.limited.insert(target);
            }
            _ => {}
        }
    }
}

impl Life {
    fn new(pid: u32, forked_from: Option<u32>, start: Arc<Image>) -> Life {
        let (events, segments) = (Vec::new(), HashMap::new());
        let (thp_disable, limited_from) = (ThpDisable::None, None);
        Life { pid, forked_from, start, thp_disable, events, segments, limited_from, end: End::Unseen }
    }
}

/// Calls that map memory of a size which no argument says, or have faults answered by the program.
fn untold(sys: Sys) -> bool {
    matches!(sys, Sys::Shmat | Sys::RemapFilePages | Sys::Userfaultfd)
}

/// The lives of a family in their turns, with what is done for each event.
fn family(cuts: Vec<Cut>, lowest_hint: u64, files: &FileTable) -> Result<Family, String> {
    // Events by their number; after that of the last, the end of a life.
    let mut order: Vec<(usize, bool, usize)> = Vec::new();
    let mut forks: HashMap<(usize, usize), usize> = HashMap::new();
    let mut family = Family::default();
    let mut signals: Vec<Signalled> = Vec::new();
    for (life, cut) in cuts.into_iter().enumerate() {
        order.extend(cut.numbers.iter().map(|&number| (number, false, life)));
        order.push((cut.last, true, life));
        let index = |number: usize| cut.numbers.binary_search(&number).expect("an event of its own");
        forks.extend(cut.forks.iter().map(|&(number, child)| ((life, index(number)), child)));
        let segments = cut.segments.iter().map(|&(number, bytes)| (index(number), bytes)).collect();
        family.steps.push(Steps::at_exec(&cut.life.start, files, lowest_hint));
        signals.push(signalled(&cut.life.events));
        family.lives.push(Life { segments, ..cut.life });
    }
    // Runs by rising number, one of each life: merged in linear time where one goes on for long.
    order.sort();
    let mut next = vec![0; family.lives.len()];
    for (_, is_end, life) in order {
        let at = next[life];
        let then = match forks.get(&(life, at)) {
            _ if is_end => Then::End,
            Some(&child) => Then::Fork(child),
            None => Then::Switch,
        };
        let to = if is_end { at } else { at + 1 };
        next[life] = to;
        match family.turns.last_mut() {
            Some(turn) if turn.life == life && turn.then == Then::Switch => (turn.to, turn.then) = (to, then),
            _ => family.turns.push(Turn { life, from: at, to, then }),
        }
        if !is_end {
            let Life { events, segments, .. } = &family.lives[life];
            let told = Told { segment: segments.get(&at).copied(), signal: signals[life].get(&at).copied() };
            family.steps[life].add(&events[at], told, files)?;
        }
        if let Then::Fork(child) = then {
            family.steps[child] = family.steps[life].of_child();
        }
    }
    Ok(family)
}
