//! The steps of a sequence: which CPU does what, drawn before anything is done.

use super::world::PLACES;
use crate::calls::{Call, MapFlags, PAGE, Prot, advice};
use crate::fuzz::words::wild;
use crate::setting::{InheritedZeroPages, Setting};
use interleaf::space::{MapRequest, Path, Place, Sharing};
use interleaf::units::{Access, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_lab::rng::Rng;

/// The format of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// x86-64, four levels.
    X86,
    /// x86-64, five levels.
    X86La57,
    /// AArch64.
    Aarch64,
}

/// What may be done, and what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Calls of one space and its descendants, each answered as the plain model answers.
    Modelled,
    /// Everything that a space can be asked, of two spaces and their descendants.
    Everything,
}

impl Scope {
    /// Number of spaces at first, and the first place of a child.
    pub fn first_child(self) -> usize {
        match self {
            Scope::Modelled => 1,
            Scope::Everything => 2,
        }
    }
}

/// The circumstances of a sequence.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The format of the tables.
    pub tables: Tables,
    /// Which way faults go.
    pub path: Path,
    /// CPUs that take turns.
    pub cpus: u32,
    /// What may be done.
    pub scope: Scope,
    /// Windows and limits.
    pub setting: Setting,
}

/// Which allocation of an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The n-th.
    Nth(u64),
    /// The n-th and all after it.
    From(u64),
}

/// One operation, and the CPU that does it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The CPU.
    pub cpu: u32,
    /// The space that it runs.
    pub space: usize,
    /// The allocation that fails, if one does.
    pub refusal: Option<Refusal>,
    /// The operation.
    pub operation: Operation,
}

/// Something that a space is asked for. Addresses and lengths are raw.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A call that the model knows.
    Call(Call),
    /// fork: the child gets this place, if that is free.
    Fork { child: usize },
    /// A child ends. The CPU runs the first space.
    End { child: usize },
    /// mmap as the library takes it.
    Map(MapRequest<'static>),
    /// mprotect with any flags.
    Protect { addr: u64, len: u64, flags: VmaFlags },
    /// Shared memory of a space, mapped once more.
    Share { space: usize, from: Source, request: MapRequest<'static> },
    /// mbind.
    Bind { addr: u64, len: u64, mode: u32, nodes: u64, flags: u32 },
    /// A fault, whether there was one or not.
    Fault { addr: u64, access: Access },
    /// Questions that change nothing.
    Look { addr: u64, len: u64, request: MapRequest<'static> },
}

/// Where the memory lies that is mapped once more.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// At this address.
    At(u64),
    /// In one of the shared mappings that there are then; all words are reduced to what there is.
    Part { which: u64, offset: u64 },
}

/// Draws the steps of one sequence.
pub struct Draw<'a> {
    rng: Rng,
    circumstances: &'a Circumstances,
    /// One in this number of words is wild.
    wild_one_in: u64,
    /// Pages that most addresses lie in.
    pages: u64,
    /// Starts of the ranges that they lie in.
    bases: Vec<u64>,
    /// One in this number of steps is refused memory; 0: none.
    refusal_one_in: u64,
    /// One in this number of operations is a fork or an end; 0: none.
    fork_one_in: u64,
}

impl Circumstances {
    /// Draws the circumstances of a sequence.
    pub fn draw(rng: &mut Rng, scope: Scope) -> Self {
        let tables = rng.pick(&[Tables::X86, Tables::X86, Tables::Aarch64, Tables::X86La57]);
        let path = rng.pick(&[Path::Speculative, Path::VmaLock, Path::Locked]);
        let mut setting = Setting { zero_pages: InheritedZeroPages::Everywhere, ..Setting::default() };
        if rng.chance(1, 2) {
            // Nearly all of user space: only a page at each end of a window is foreign.
            let middle = setting.task_end / 2 / PAGE * PAGE;
            setting.windows = [setting.min_addr + PAGE..middle - PAGE, middle..setting.task_end - PAGE];
            setting.start_brk = setting.task_end - 41 * PAGE;
        }
        if rng.chance(1, 3) {
            setting.max_mappings = 3 + 10;
        }
        setting.memory_pages = rng.pick(&[1 << 40, 1 << 40, 1 << 22, 8]);
        Self { tables, path, cpus: 1 + rng.below(3) as u32, scope, setting }
    }
}

impl<'a> Draw<'a> {
    /// The habits of a sequence.
    pub fn new(mut rng: Rng, circumstances: &'a Circumstances, refusals: bool) -> Self {
        let setting = &circumstances.setting;
        let [low, main] = &setting.windows;
        let bases = [setting.arena().start, setting.arena().start, main.start, low.start, setting.start_brk];
        let refusal_one_in = if refusals && rng.chance(1, 3) { rng.pick(&[2, 5]) } else { 0 };
        let fork_one_in = rng.pick(&[0, 10, 25, 25]);
        Self {
            fork_one_in,
            wild_one_in: rng.pick(&[5, 12, 40, 1000]),
            pages: rng.pick(&[4, 8, 24, 60]),
            bases: bases[..rng.pick(&[1, 2, 5])].to_vec(),
            refusal_one_in,
            rng,
            circumstances,
        }
    }

    /// `length` steps.
    pub fn steps(&mut self, length: u64) -> Vec<Step> {
        let (mut cpu, mut space) = (0, 0);
        let mut steps = Vec::new();
        while (steps.len() as u64) < length {
            if self.rng.chance(1, 6) {
                cpu = self.rng.below(self.circumstances.cpus.into()) as u32;
                space = self.space();
            }
            let operation = self.operation();
            if !self.is_admitted(&operation) {
                continue;
            }
            let refusal = self.refusal(&operation);
            let space = if matches!(operation, Operation::End { .. }) { 0 } else { space };
            steps.push(Step { cpu, space, refusal, operation });
        }
        steps
    }

    fn space(&mut self) -> usize {
        let places = if self.fork_one_in > 0 { PLACES } else { self.circumstances.scope.first_child() };
        self.rng.below(places as u64) as usize
    }

    /// The place of a child.
    fn child(&mut self) -> usize {
        let first = self.circumstances.scope.first_child();
        first + self.rng.below((PLACES - first) as u64) as usize
    }

    fn refusal(&mut self, operation: &Operation) -> Option<Refusal> {
        if self.refusal_one_in == 0 || !self.rng.chance(1, self.refusal_one_in) {
            return None;
        }
        // What MAP_POPULATE leaves out for lack of memory the model does not leave out.
        let best_effort = match operation {
            Operation::Call(Call::Mmap { flags, .. }) => flags.contains(MapFlags::POPULATE),
            _ => false,
        };
        let nth = 1 + self.rng.below(12);
        let refusal = if self.rng.chance(1, 2) { Refusal::Nth(nth) } else { Refusal::From(nth) };
        (self.circumstances.scope == Scope::Everything || !best_effort).then_some(refusal)
    }

    /// Whether an operation does a bounded amount of work, and one that is modelled stays in the windows.
    fn is_admitted(&self, operation: &Operation) -> bool {
        const MOST: u64 = 64 * PAGE;
        let Operation::Call(call) = operation else { return true };
        match (self.circumstances.scope, *call) {
            (Scope::Modelled, _) => self.circumstances.setting.admits(call),
            (_, Call::Mmap { len, flags, .. }) => len <= MOST || !flags.contains(MapFlags::POPULATE),
            (_, Call::Mincore { len, .. }) => len <= 1 << 24 || len >= 1 << 56,
            (_, Call::Madvise { len, advice: number, .. }) => {
                len <= MOST || !matches!(number, advice::POPULATE_READ | advice::POPULATE_WRITE)
            }
            _ => true,
        }
    }

    /// One operation.
    pub fn operation(&mut self) -> Operation {
        if self.fork_one_in > 0 && self.rng.chance(1, self.fork_one_in) {
            let child = self.child();
            return if self.rng.chance(2, 3) { Operation::Fork { child } } else { Operation::End { child } };
        }
        if self.circumstances.scope == Scope::Everything && self.rng.chance(2, 5) {
            return self.unmodelled();
        }
        Operation::Call(self.call())
    }

    fn call(&mut self) -> Call {
        let (addr, len) = (self.word(), self.len());
        match self.rng.below(16) {
            0..=4 => Call::Mmap { hint: addr, len, prot: self.prot(), flags: self.map_flags() },
            5 => Call::Munmap { addr, len },
            6 | 7 => Call::Mprotect { addr, len, prot: self.prot() },
            8 | 9 => Call::Madvise { addr, len, advice: self.advice() },
            10 => Call::Brk { addr: self.new_break() },
            11 => Call::Mincore { addr, len },
            12 => Call::Read { addr },
            _ => Call::Write { addr, value: self.rng.bits() as u8 },
        }
    }

    fn unmodelled(&mut self) -> Operation {
        let (addr, len) = (self.word(), self.len());
        match self.rng.below(8) {
            0 | 1 => Operation::Map(self.request()),
            2 => Operation::Protect { addr, len, flags: self.flags() },
            3 | 4 => {
                let (which, offset) = (self.rng.bits(), self.rng.bits());
                let from =
                    if self.rng.chance(1, 4) { Source::At(addr) } else { Source::Part { which, offset } };
                let sharing = if self.rng.chance(1, 3) { Sharing::Private } else { Sharing::Shared };
                let request = MapRequest { sharing, ..self.request() };
                Operation::Share { space: self.space(), from, request }
            }
            5 => {
                let (mode, nodes) = (self.rng.below(7) as u32, self.rng.pick(&[0, 1, 2, 3, 1 << 63, !0]));
                let flags = if self.is_wild() { self.rng.bits() as u32 } else { 0 };
                Operation::Bind { addr, len, mode, nodes, flags }
            }
            6 => {
                let access = self.rng.pick(&[Access::Read, Access::Write, Access::Execute]);
                Operation::Fault { addr, access }
            }
            _ => Operation::Look { addr, len, request: self.request() },
        }
    }

    fn request(&mut self) -> MapRequest<'static> {
        let (addr, len_bytes) = (VirtAddr(self.word()), self.len());
        let place = match self.rng.below(6) {
            0 | 1 => Place::Hint(addr),
            2 | 3 => Place::Fixed(addr),
            4 => Place::FixedNoReplace(addr),
            _ => Place::Low(addr),
        };
        let sharing = if self.rng.chance(1, 3) { Sharing::Shared } else { Sharing::Private };
        let populate = len_bytes <= 64 * PAGE && self.rng.chance(1, 5);
        MapRequest { place, flags: self.flags(), sharing, populate, ..MapRequest::anonymous(len_bytes) }
    }

    fn flags(&mut self) -> VmaFlags {
        let bits = if self.rng.chance(1, 3) { self.rng.bits() as u32 } else { self.rng.below(8) as u32 };
        VmaFlags::from_bits_retain(bits)
    }

    fn prot(&mut self) -> Prot {
        if self.is_wild() {
            return Prot::from_bits_retain(self.rng.bits() as u32);
        }
        let (r, w) = (Prot::READ, Prot::WRITE);
        self.rng.pick(&[r | w, r | w, r | w, r, Prot::empty(), r | Prot::EXEC, w])
    }

    fn map_flags(&mut self) -> MapFlags {
        let kind = self.rng.pick(&[MapFlags::PRIVATE, MapFlags::PRIVATE, MapFlags::SHARED]);
        let manner = self.rng.pick(&[
            MapFlags::FIXED,
            MapFlags::FIXED,
            MapFlags::FIXED_NOREPLACE,
            MapFlags::empty(),
            MapFlags::LOW,
            MapFlags::POPULATE,
            MapFlags::POPULATE | MapFlags::FIXED,
            MapFlags::NORESERVE,
        ]);
        let mut flags = kind | manner | MapFlags::ANONYMOUS;
        if self.is_wild() {
            flags ^=
                self.rng.pick(&[MapFlags::SHARED, MapFlags::PRIVATE, MapFlags::ANONYMOUS, MapFlags::STACK]);
        }
        flags
    }

    fn advice(&mut self) -> i32 {
        if self.is_wild() {
            return self.rng.bits() as i32;
        }
        self.rng.pick(advice::NAMES).0
    }

    fn new_break(&mut self) -> u64 {
        if self.is_wild() {
            return wild(&mut self.rng);
        }
        self.circumstances.setting.start_brk
            + self.rng.below(self.pages) * PAGE
            + self.rng.pick(&[0, 0, 1, 4095])
    }

    fn is_wild(&mut self) -> bool {
        self.rng.chance(1, self.wild_one_in)
    }

    /// An address.
    pub fn word(&mut self) -> u64 {
        if self.is_wild() {
            return wild(&mut self.rng);
        }
        self.rng.pick(&self.bases) + self.rng.below(self.pages) * PAGE
    }

    fn len(&mut self) -> u64 {
        if self.is_wild() {
            return wild(&mut self.rng);
        }
        let odd = if self.is_wild() { self.rng.below(PAGE) } else { 0 };
        (1 + self.rng.below(self.pages)) * PAGE - odd
    }
}
