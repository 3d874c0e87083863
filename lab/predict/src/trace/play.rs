//! Plays the steps of recorded threads.

use super::program::{Act, RecordedProgram, Step};
use crate::sample::Operations;
use crate::system::{Space, System, Workload, layout};
use interleaf::space::{AddressSpace, Advice, Error, MapRequest, Path, Place};
use interleaf::units::{Access, PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_lab::machine::sim::{Ps, measured, pass};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Waiting for a step of another CPU, it is looked at after this time, then after twice as long, ...
const FIRST_LOOK: Ps = 500_000;
/// ... up to this.
const LONGEST_LOOK: Ps = 20_000_000;

/// Copies of a recorded program, each in a space of its own.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The program.
    pub program: Arc<RecordedProgram>,
    /// Processes that run it.
    pub copies: u32,
}

/// One process.
pub struct Process<'v> {
    space: Space<'v>,
    done: Vec<Cell<bool>>,
}

impl Workload for Replay {
    type Shared<'v> = Vec<Process<'v>>;

    fn frames(&self, _: u32) -> u64 {
        let page = |step: &Step| match step.act {
            Act::Touch(addr, _) => Some(addr / PAGE_SIZE as u64),
            _ => None,
        };
        let pages: BTreeSet<u64> = self.program.steps.iter().filter_map(page).collect();
        // Tables of pages far from each other, and what flushes hold back.
        u64::from(self.copies) * (pages.len() as u64 * 2 + 1024)
    }

    fn prepare<'v>(&self, space: &Space<'v>, path: Path, _: u32) -> Vec<Process<'v>> {
        let process = |_| {
            let space = AddressSpace::new(space.vm(), layout(), path).expect("memory for a space");
            for (range, rights) in &self.program.image {
                let _refused = map(&space, range.start, range.end - range.start, *rights);
            }
            Process { space, done: self.program.steps.iter().map(|_| Cell::new(false)).collect() }
        };
        (0..self.copies).map(process).collect()
    }

    fn spaces<'s, 'v: 's>(&self, shared: &'s Vec<Process<'v>>) -> Vec<&'s Space<'v>> {
        shared.iter().map(|process| &process.space).collect()
    }

    fn run<'v>(&self, on: &System<'_, 'v>, shared: &Vec<Process<'v>>) -> Operations {
        let mut done = Operations::default();
        let mut free_since_ns = None;
        let mut running = None;
        for (copy, step) in self.steps_of(on) {
            let process = &shared[copy];
            let Step { act, began_ns, ended_ns, ref after, .. } = self.program.steps[step];
            pass(began_ns.saturating_sub(free_since_ns.unwrap_or(began_ns)) * 1000);
            free_since_ns = Some(ended_ns);
            after.iter().for_each(|&other| wait_for(&process.done[other as usize]));
            if running.as_ref().is_none_or(|(of, _)| *of != copy) {
                // One space at a time: the last is left first.
                drop(running.take());
                running = Some((copy, process.space.activate(None)));
            }
            let on = System { space: &process.space, ..*on };
            measured(|| done.operation(|done| play(&on, act, done)));
            process.done[step].set(true);
        }
        done
    }
}

impl Replay {
    /// Threads of all copies.
    pub fn threads(&self) -> u32 {
        self.program.threads * self.copies
    }

    /// The steps of the threads that stay on a CPU, each with its copy, in the order in which they were
    /// recorded.
    fn steps_of(&self, on: &System<'_, '_>) -> Vec<(usize, usize)> {
        let is_here = |copy: u32, thread: u32| (copy * self.program.threads + thread) % on.nr_cpus == on.cpu;
        let of_copy = |copy| {
            let steps = self.program.steps.iter().enumerate();
            let here = steps.filter(move |(_, step)| is_here(copy, step.thread));
            here.map(move |(at, _)| (copy as usize, at))
        };
        let mut steps: Vec<_> = (0..self.copies).flat_map(of_copy).collect();
        steps.sort_by_key(|&(copy, at)| (at, copy));
        steps
    }
}

fn wait_for(done: &Cell<bool>) {
    let mut look = FIRST_LOOK;
    while !done.get() {
        pass(look);
        look = (look * 2).min(LONGEST_LOOK);
    }
}

/// Does a step. What is refused here, as memory of a kind that is not played, is left out.
fn play(on: &System<'_, '_>, act: Act, done: &mut Operations) {
    let _refused = match act {
        Act::Touch(addr, access) => {
            done.fault(|| touch(on, addr, access));
            Ok(())
        }
        call => done.call(|| play_call(on.space, call)),
    };
}

fn play_call(space: &Space<'_>, act: Act) -> Result<(), Error> {
    match act {
        Act::Touch(..) => Ok(()),
        Act::Map(start, len, rights) => map(space, start, len, rights),
        Act::Unmap(start, len) => space.unmap(VirtAddr(start), len),
        Act::Protect(start, len, rights) => space.protect(VirtAddr(start), len, rights),
        Act::Discard(start, len) => space.advise(VirtAddr(start), len, Advice::DontNeed),
        Act::Move(from, from_len, to, to_len) => {
            space.unmap(VirtAddr(from), from_len)?;
            map(space, to, to_len, VmaFlags::READ | VmaFlags::WRITE)
        }
    }
}

fn touch(on: &System<'_, '_>, addr: u64, access: Access) {
    let machine = on.space.vm().machine();
    let _refused = match access {
        Access::Write => machine.write_u64(VirtAddr(addr), addr, on),
        Access::Read | Access::Execute => machine.read_u64(VirtAddr(addr), on).map(drop),
    };
}

fn map(space: &Space<'_>, start: u64, len_bytes: u64, rights: VmaFlags) -> Result<(), Error> {
    let flags = rights | VmaFlags::NORESERVE;
    let place = Place::Fixed(VirtAddr(start));
    space.map(&MapRequest { place, flags, ..MapRequest::anonymous(len_bytes) }).map(drop)
}
