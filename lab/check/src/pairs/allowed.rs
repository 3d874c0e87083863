//! Which outcomes are legal: those of some merge of the two CPUs' steps, executed by the model.

use super::Operation;
use super::operations::{BASE, FAR, Memory, OBJECT, PAGES, Step, Variation, setup, subject, touches};
use crate::calls::{Call, CallResult, Errno, MapLine, PAGE, PageState, advice};
use crate::model::{Mapping, Spaces};
use crate::setting::Setting;
use rustc_hash::FxHashSet;

/// All that is seen of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// What each CPU was answered.
    pub answers: [Vec<CallResult>; 2],
    /// Each space afterwards; then the child of each CPU's fork, if it made one.
    pub spaces: Vec<SpaceState>,
}

/// All that is seen of a space: its map and its pages.
pub type SpaceState = (Vec<MapLine>, Vec<(u64, PageState)>);

/// One indivisible step of the model.
#[derive(Clone, Copy, Debug)]
enum Atom {
    /// A fault, whose access may yet be refused: its result is not recorded.
    Fault(Whose, Call),
    /// A call, whose result is recorded.
    Call(Whose, Call),
    /// One page of a call. Once a page fails the rest is left out and its error is the result; success is
    /// recorded after the last.
    Page { call: Call, pages_left: u64, stops: bool },
    /// One page of a pin, of which `pages_left` come after it. The first that cannot be had is the result of
    /// all.
    Pin { addr: u64, pages_left: u64 },
    /// A fork.
    Fork,
    /// A forced store to the CPU's space makes its page ready, which may come to nothing.
    Ready { addr: u64 },
    /// The store itself.
    Force { addr: u64, value: u8 },
}

/// The space that a step is about.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// The CPU's.
    Own,
    /// That of the child that the CPU has forked.
    Child,
}

/// A state in the search: how far each CPU is, and what it was answered.
#[derive(Clone)]
struct State {
    model: Spaces,
    /// How many spaces there were at first.
    own: usize,
    /// The spaces of each CPU's child.
    children: [Option<usize>; 2],
    at: [usize; 2],
    answers: [Vec<CallResult>; 2],
}

/// Every legal outcome of a pair.
pub fn outcomes(pair: (Operation, Operation), variation: Variation, setting: &Setting) -> Vec<Seen> {
    let atoms = [pair.0, pair.1].into_iter().zip(0..);
    let atoms = atoms.map(|(operation, cpu)| atoms_of(operation, cpu, variation, setting));
    let atoms: [Vec<Atom>; 2] = std::array::from_fn({
        let mut lists: Vec<_> = atoms.collect();
        move |cpu| std::mem::take(&mut lists[cpu])
    });
    let mut model = Spaces::new(setting, variation.spaces());
    for space in 0..variation.spaces() {
        if space == 0 {
            model.call(0, &subject(variation));
            if variation.memory == Memory::OfObject {
                model.map_private(0, &(OBJECT..OBJECT + PAGES * PAGE), BASE);
            }
        } else {
            model.share(0, space, &(BASE..BASE + PAGES * PAGE));
        }
        for call in setup(variation, setting.start_brk).iter().chain(&touches(variation)) {
            model.call(space, call);
        }
    }
    let mut search = Search { atoms, setting, visited: FxHashSet::default(), found: Vec::new() };
    let (own, answers) = (variation.spaces(), [Vec::new(), Vec::new()]);
    search.from(State { model, own, children: [None; 2], at: [0; 2], answers });
    search.found
}

fn atoms_of(operation: Operation, cpu: u64, variation: Variation, setting: &Setting) -> Vec<Atom> {
    operation.steps(cpu, variation, setting.start_brk).into_iter().flat_map(atoms_of_step).collect()
}

fn atoms_of_step(step: Step) -> Vec<Atom> {
    match step {
        Step::Call(call) => vec![Atom::Call(Whose::Own, call)],
        Step::Fork => vec![Atom::Fork],
        Step::Force { addr, value } => vec![Atom::Ready { addr }, Atom::Force { addr, value }],
        Step::Access(call) | Step::InChild(call) => {
            let whose = if matches!(step, Step::InChild(_)) { Whose::Child } else { Whose::Own };
            let (addr, wants) = match call {
                Call::Write { addr, .. } => (addr, advice::POPULATE_WRITE),
                Call::Read { addr } => (addr, advice::POPULATE_READ),
                _ => unreachable!("an access loads or stores"),
            };
            let fault = Call::Madvise { addr: addr / PAGE * PAGE, len: PAGE, advice: wants };
            vec![Atom::Fault(whose, fault), Atom::Call(whose, call)]
        }
        Step::Pages { addr, pages, advice: wants } => {
            let stops = wants == advice::POPULATE_WRITE;
            let page = |n: u64| Call::Madvise { addr: addr + n * PAGE, len: PAGE, advice: wants };
            (0..pages).map(|n| Atom::Page { call: page(n), pages_left: pages - n - 1, stops }).collect()
        }
        Step::PinRange { addr, pages } => {
            let pin = |n| Atom::Pin { addr: addr + n * PAGE, pages_left: pages - n - 1 };
            (0..pages).map(pin).collect()
        }
        Step::OtherSpaceEnds | Step::OtherSpaceRuns | Step::FindEntries { .. } => vec![],
    }
}

struct Search<'a> {
    atoms: [Vec<Atom>; 2],
    setting: &'a Setting,
    visited: FxHashSet<([usize; 2], Seen, Vec<Vec<Mapping>>)>,
    found: Vec<Seen>,
}

impl Search<'_> {
    fn from(&mut self, state: State) {
        let seen = self.look(&state);
        let mappings = state.spaces().map(|space| state.model.mappings(space).cloned().collect()).collect();
        if !self.visited.insert((state.at, seen.clone(), mappings)) {
            return;
        }
        let mut ended = true;
        for cpu in 0..2 {
            if let Some(&atom) = self.atoms[cpu].get(state.at[cpu]) {
                ended = false;
                let mut next = state.clone();
                next.carry_out(cpu, atom);
                self.from(next);
            }
        }
        if ended && !self.found.contains(&seen) {
            self.found.push(seen);
        }
    }

    fn look(&self, state: &State) -> Seen {
        let shown = |space| {
            let page = |addr| Some((addr, state.model.page(space, addr)?));
            (state.model.map(space), looked_at(self.setting).filter_map(page).collect())
        };
        Seen { answers: state.answers.clone(), spaces: state.spaces().map(shown).collect() }
    }
}

/// The pages that are compared.
pub fn looked_at(setting: &Setting) -> impl Iterator<Item = u64> {
    let heap = setting.start_brk..setting.start_brk + 8 * PAGE;
    let near = BASE..BASE + 66 * PAGE;
    let object = OBJECT..OBJECT + PAGES * PAGE;
    near.chain(FAR..FAR + 16 * PAGE).chain(object).chain(heap).step_by(PAGE as usize)
}

impl State {
    /// The spaces, in the order in which they are compared.
    fn spaces(&self) -> impl Iterator<Item = usize> {
        (0..self.own).chain(self.children.into_iter().flatten())
    }

    fn carry_out(&mut self, cpu: usize, atom: Atom) {
        self.at[cpu] += 1;
        let space = cpu.min(self.own - 1);
        let of = |whose| match whose {
            Whose::Own => space,
            Whose::Child => self.children[cpu].expect("its CPU has forked"),
        };
        match atom {
            Atom::Fault(whose, call) => {
                let space = of(whose);
                self.model.call(space, &call);
            }
            Atom::Call(whose, call) => {
                let space = of(whose);
                let answer = self.model.call(space, &call);
                self.answers[cpu].push(answer);
            }
            Atom::Fork => {
                self.children[cpu] = Some(self.model.fork(space).expect("there is memory"));
            }
            Atom::Ready { addr } => {
                self.model.force(space, addr, None);
            }
            Atom::Force { addr, value } => {
                let answer = self.model.force(space, addr, Some(value));
                self.answers[cpu].push(answer);
            }
            Atom::Pin { addr, pages_left } => {
                let fault = Call::Madvise { addr, len: PAGE, advice: advice::POPULATE_WRITE };
                let failed = matches!(self.model.call(space, &fault), CallResult::Error(_));
                if failed {
                    self.at[cpu] += pages_left as usize;
                }
                if failed || pages_left == 0 {
                    let pinned = CallResult::Value(0);
                    self.answers[cpu].push(if failed { CallResult::Error(Errno::EFAULT) } else { pinned });
                }
            }
            Atom::Page { call, pages_left, stops } => {
                let answer = self.model.call(space, &call);
                let failed = matches!(answer, CallResult::Error(_));
                if failed && stops {
                    self.at[cpu] += pages_left as usize;
                }
                if pages_left == 0 || (failed && stops) {
                    self.answers[cpu].push(answer);
                }
            }
        }
    }
}
