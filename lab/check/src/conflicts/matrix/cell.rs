//! One cell of the matrix: two operations at one distance, in random states.

use super::fields::NEIGHBOURS;
use super::operation::{Act, Distance, Operation};
use super::state::{State, setting};
use crate::calls::{Call, CallResult, PAGE, Segv};
use crate::conflicts::turns::{Machine, Recorded, Space, in_turns};
use crate::conflicts::written;
use crate::drive::{Driver, Faults};
use crate::library::layout_of;
use interleaf::frame::PinnedFrame;
use interleaf::space::{Advice, Fault, FaultError, MapRequest, MemlockLimit, Path, Place, Vm};
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf_lab::machine::soft::{MachineConfig, boot_map};
use interleaf_lab::machine::watch::{Conflict, Use, site};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// Frames of the machine.
const FRAMES: u64 = 1024;
/// Seeds that are tried for each state that is wanted: in the others the order is visible.
const TRIES: u64 = 4;

/// Two operations at a distance.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The operations.
    pub pair: [Operation; 2],
    /// How far they are from each other.
    pub distance: Distance,
    /// States in which they commute, and were done.
    pub states: u64,
    /// Those in which no line was shared that one of them wrote.
    pub free: u64,
    /// The lines of the others, by the names of what was written there.
    pub lines: BTreeMap<String, Shared>,
}

/// Lines of one name that two operations share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// States in which they did.
    pub states: u64,
    /// Those in which they used no word in common: the words are neighbours.
    pub neighbours: u64,
    /// Where one is that writes, and where the other is, in the first of these states.
    pub sites: [String; 2],
}

impl Cell {
    /// Plays so many states in which the two commute, if there are that many among the first seeds.
    ///
    /// # Panics
    /// Where the host has no memory for the machine, or the library answers what the model does not.
    #[must_use]
    pub fn play(pair: [Operation; 2], distance: Distance, states: u64, seed: u64) -> Self {
        let mut cell = Self { pair, distance, states: 0, free: 0, lines: BTreeMap::new() };
        for number in 0..TRIES * states {
            if cell.states == states {
                break;
            }
            let state = State::of_seed(pair, distance, seed.wrapping_add(number));
            if let Some(answers) = state.commuting_answers() {
                cell.states += 1;
                cell.play_one(&state, &answers);
            }
        }
        cell
    }

    fn play_one(&mut self, state: &State, answers: &[CallResult; 2]) {
        let machine = Machine::new(&MachineConfig::small(2, FRAMES)).expect("memory for the machine");
        let cpu = machine.enter(CpuId(0));
        let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
        let new = || Space::new(&vm, layout_of(&setting()), Path::Speculative).expect("memory for a space");
        let spaces: Vec<_> = (0..state.spaces).map(|_| new()).collect();
        drop(cpu);
        let own = [0, 1].map(|cpu| &spaces[state.space_of(cpu)]);
        (0..2).for_each(|cpu| edit(cpu, own[cpu]));
        own.iter().enumerate().for_each(|(cpu, space)| prepare(cpu, space, &state.before[cpu]));
        let (seen, children) = (Mutex::new([None, None]), Mutex::new(Vec::new()));
        let recorded = in_turns(own, 1, |cpu, _| {
            let cpu = cpu as usize;
            let (answer, child) = carry_out(own[cpu], state.acts[cpu]);
            seen.lock().expect("no panic")[cpu] = Some(answer);
            children.lock().expect("no panic").extend(child);
        });
        let seen = seen.into_inner().expect("no panic").map(|answer| answer.expect("both have answered"));
        assert_eq!(
            &seen, answers,
            "{} beside {}, {}: {:?}",
            self.pair[0], self.pair[1], self.distance, state.acts
        );
        self.note(&recorded);
        let _cpu = machine.enter(CpuId(0));
        drop((children, spaces));
    }

    fn note(&mut self, recorded: &Recorded<'_, '_>) {
        let conflicts = recorded.conflicts();
        if conflicts.is_empty() {
            self.free += 1;
            return;
        }
        let names = recorded.names();
        let mut met = BTreeSet::new();
        for conflict in &conflicts {
            let (sites, is_shared) = sites(conflict);
            let mut written = written(conflict, &names);
            if !is_shared && written.iter().all(|name| RECORDS.contains(&name.as_str())) {
                written = vec![NEIGHBOURS.into()];
            }
            for name in written.into_iter().filter(|name| met.insert(name.clone())) {
                let none = Shared { states: 0, neighbours: 0, sites: sites.clone() };
                let shared = self.lines.entry(name).or_insert(none);
                shared.states += 1;
                shared.neighbours += u64::from(!is_shared);
            }
        }
    }
}

/// What lies in a frame's record.
const RECORDS: [&str; 2] = ["the lock of a table", "the record of a frame"];

/// Where a write of one is, and where an access of the other is: of a word in common, if there is one.
fn sites(conflict: &Conflict) -> ([String; 2], bool) {
    let both = |a: &Use, b: &Use| a.addr < b.addr + b.len_bytes && b.addr < a.addr + a.len_bytes;
    let of = |from: &[Use], to: &[Use], in_common: bool| {
        let writes = from.iter().filter(|used| used.kind.writes());
        let pairs = writes.flat_map(|write| to.iter().map(move |other| (*write, *other)));
        pairs
            .filter(|(write, other)| !in_common || both(write, other))
            .map(|(a, b)| [site(a.place), site(b.place)])
            .next()
    };
    let (first, second) = (&conflict.first, &conflict.second);
    let in_common = of(first, second, true).or_else(|| of(second, first, true));
    let is_shared = in_common.is_some();
    let any = || of(first, second, false).or_else(|| of(second, first, false));
    (in_common.or_else(any).expect("one of them writes"), is_shared)
}

/// A page of the CPU's own is written. Where both do so, no CPU owns the locks of the space's tables any
/// more, as in any space with threads on two CPUs.
fn edit(cpu: usize, space: &Space<'_>) {
    let _entered = space.vm().machine().enter(CpuId(cpu as u32));
    let addr = VirtAddr(WARM + ((2 + cpu as u64) << 36));
    let place = Place::FixedNoReplace(addr);
    space.map(&MapRequest { place, ..MapRequest::anonymous(PAGE) }).expect("room");
    space.fault(Fault { addr, access: Access::Write }).expect("mapped");
}

/// Pages that a CPU has in its cache of frames, at least.
const WARM_PAGES: u64 = 32;
/// Where a CPU warms up, apart from the other.
const WARM: u64 = (16 << 40) + (256 << 30);

/// Fills the CPU's caches of frames and of objects, and makes the calls.
fn prepare(cpu: usize, space: &Space<'_>, calls: &[Call]) {
    let machine = space.vm().machine();
    let _entered = machine.enter(CpuId(cpu as u32));
    let _running = space.activate(None);
    let start = VirtAddr(WARM + ((cpu as u64) << 36));
    let at = |page: u64| VirtAddr(start.0 + page * PAGE);
    let map = |page, pages: u64| {
        let place = Place::FixedNoReplace(at(page));
        space.map(&MapRequest { place, ..MapRequest::anonymous(pages * PAGE) }).expect("room");
    };
    map(0, WARM_PAGES);
    for page in 0..WARM_PAGES {
        machine.touch(at(page), Access::Write, &Faults::new(space)).expect("mapped");
    }
    space.advise(start, WARM_PAGES * PAGE, Advice::DontNeed).expect("mapped");
    for _ in 0..4 {
        map(2 * WARM_PAGES, 1);
        space.unmap(at(2 * WARM_PAGES), PAGE).expect("mapped");
    }
    calls.iter().for_each(|call| drop(carry_out(space, Act::Call(*call))));
}

/// Does it, and returns the answer and the child. Accesses are made without the driver's look at the frame's
/// record, which is no part of an access.
fn carry_out<'v>(space: &Space<'v>, act: Act) -> (CallResult, Option<Space<'v>>) {
    let machine = space.vm().machine();
    let (faults, mut byte) = (Faults::new(space), [0]);
    let answer = match act {
        Act::Call(Call::Read { addr }) => match machine.read_bytes(VirtAddr(addr), &mut byte, &faults) {
            Ok(()) => CallResult::Byte(byte[0]),
            Err(_) => refused(&faults),
        },
        Act::Call(Call::Write { addr, value }) => {
            match machine.write_bytes(VirtAddr(addr), &[value], &faults) {
                Ok(()) => CallResult::Written,
                Err(_) => refused(&faults),
            }
        }
        Act::Call(call) => Driver { machine, space }.call(&call),
        Act::Pin { addr, pages } => pin(space, VirtAddr(addr), pages),
        Act::Fork => return (CallResult::Value(0), Some(space.fork().expect("there is memory"))),
    };
    (answer, None)
}

fn refused(faults: &Faults<'_, '_, Machine>) -> CallResult {
    CallResult::Segv(if faults.why() == Some(FaultError::NotAllowed) { Segv::Rights } else { Segv::Unmapped })
}

fn pin(space: &Space<'_>, addr: VirtAddr, pages: u64) -> CallResult {
    let limit = MemlockLimit::new(pages);
    let slots: Vec<Option<PinnedFrame<'_, Machine>>> = (0..pages).map(|_| None).collect();
    match space.pin_range(addr, Access::Write, &limit, slots) {
        Ok(_pinned) => CallResult::Value(0),
        Err(error) => CallResult::Error(error.into()),
    }
}
