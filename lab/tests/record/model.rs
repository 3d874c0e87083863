//! The obvious replay of a trace: a table of pages for each address space, changed call by call.
//!
//! It knows nothing of how the trace was made. If the trace lacks a call, has it with a wrong result or in a
//! wrong order, the table differs from a final map, or a fault that succeeded has no mapping that allows it.

use interleaf_lab::trace::{Access, Call, Event, Fault, Header, Image, Kind, Mapping, Sys};
use std::collections::{BTreeMap, HashMap};

/// What went wrong, as far as one can tell in words.
pub type Complaints = Vec<String>;

#[derive(Clone, Default)]
struct Space {
    /// Rights of each mapped page: bits of `mprotect`.
    pages: BTreeMap<u64, u64>,
    brk: u64,
    stack: (u64, u64),
}

const PAGE: u64 = 4096;
/// Linux keeps this much free below a stack that may grow.
const STACK_MOST_BYTES: u64 = 64 << 20;

/// Replays `events` from `header` on and says what does not fit.
pub fn check(header: &Header, events: &[Event]) -> Complaints {
    let mut complaints = Vec::new();
    let mut spaces = vec![Space::of(&header.image)];
    let mut of_process = HashMap::from([(header.pid, 0)]);
    for (n, event) in events.iter().enumerate() {
        let Some(&at) = of_process.get(&event.pid) else {
            complaints.push(format!("event {n} is of process {}, which no task made", event.pid));
            continue;
        };
        match &event.kind {
            Kind::Task(task) if !task.is_thread() => {
                let space = if task.shares_memory() { at } else { spaces.len() };
                if space == spaces.len() {
                    spaces.push(spaces[at].clone());
                }
                of_process.insert(task.tid, space);
            }
            Kind::Exec(started) => {
                of_process.insert(event.pid, spaces.len());
                spaces.push(Space::of(&started.image));
            }
            Kind::Call(call) if call.result.is_some_and(|r| !(-4095..0).contains(&r)) => {
                spaces[at].call(call)
            }
            Kind::Fault(fault) if !spaces[at].allows(fault) && !failed(events, n) => {
                complaints.push(format!("event {n}: {fault:x?} has no mapping"));
            }
            Kind::Exit(ended) => {
                let image = ended.image.as_ref();
                complaints.extend(
                    image.and_then(|i| spaces[at].differs_from(i)).map(|d| format!("event {n}: {d}")),
                );
            }
            _ => {}
        }
    }
    complaints
}

/// Whether the fault at `n` came to nothing: the next thing of its thread is a signal, or it was the kernel's
/// own.
fn failed(events: &[Event], n: usize) -> bool {
    let told = |e: &Event| matches!(e.kind, Kind::File(_) | Kind::Cache(_));
    let next = events[n + 1..].iter().find(|e| e.tid == events[n].tid && !told(e));
    let kernel = matches!(&events[n].kind, Kind::Fault(f) if f.mode == interleaf_lab::trace::Mode::Kernel);
    kernel || matches!(next.map(|e| &e.kind), Some(Kind::Signal(_)))
}

impl Space {
    fn of(image: &Image) -> Space {
        let mut space = Space { brk: image.layout.start_brk, ..Space::default() };
        for m in &image.mappings {
            space.set(m.start, m.end - m.start, rights(m));
            if m.name == "[stack]" {
                space.stack = (m.end - STACK_MOST_BYTES, m.end);
            }
        }
        space
    }

    fn set(&mut self, start: u64, len: u64, rights: u64) {
        for page in start / PAGE..(start + len).div_ceil(PAGE) {
            self.pages.insert(page, rights);
        }
    }

    fn clear(&mut self, start: u64, len: u64) {
        for page in start / PAGE..(start + len).div_ceil(PAGE) {
            self.pages.remove(&page);
        }
    }

    fn call(&mut self, call: &Call) {
        let (a, result) = (&call.args, call.result.unwrap_or(0) as u64);
        match call.sys {
            Sys::Mmap => self.set(result, a[1], a[2] & 7),
            Sys::Munmap => self.clear(a[0], a[1]),
            Sys::Mprotect => {
                for page in a[0] / PAGE..(a[0] + a[1]).div_ceil(PAGE) {
                    self.pages.entry(page).and_modify(|rights| *rights = a[2] & 7);
                }
            }
            Sys::Mremap => {
                let rights = self.pages.get(&(a[0] / PAGE)).copied().unwrap_or(0);
                self.clear(a[0], a[1]);
                self.set(result, a[2], rights);
            }
            Sys::Brk => {
                let (old, new) = (self.brk.next_multiple_of(PAGE), result.next_multiple_of(PAGE));
                self.set(old, new.saturating_sub(old), 3);
                self.clear(new, old.saturating_sub(new));
                self.brk = result;
            }
            _ => {}
        }
    }

    fn allows(&self, fault: &Fault) -> bool {
        let needed = match fault.access {
            Access::Read => 1 | 2 | 4,
            Access::Write => 2,
            Access::Execute => 4,
            Access::Unknown => 7,
        };
        let in_stack = (self.stack.0..self.stack.1).contains(&fault.address);
        in_stack || self.pages.get(&(fault.address / PAGE)).is_some_and(|rights| rights & needed != 0)
    }

    /// The first page at which this and `image` differ; the growth of the stack aside.
    fn differs_from(&self, image: &Image) -> Option<String> {
        let grown = |page: &u64| (self.stack.0..self.stack.1).contains(&(page * PAGE));
        let seen = Space::of(image).pages;
        let all: std::collections::BTreeSet<u64> = self.pages.keys().chain(seen.keys()).copied().collect();
        let page = all.into_iter().find(|p| !grown(p) && self.pages.get(p) != seen.get(p))?;
        Some(format!(
            "page {page:#x}000: {:?} by the calls, {:?} in the map",
            self.pages.get(&page),
            seen.get(&page)
        ))
    }
}

fn rights(m: &Mapping) -> u64 {
    u64::from(m.is_readable()) | u64::from(m.is_writable()) << 1 | u64::from(m.is_executable()) << 2
}
