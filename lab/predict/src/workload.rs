//! The workloads that can be predicted by their names.

use crate::files::{Between, OneLibraryPage, OwnFiles, Tasks, WRITES_OF_LIBRARY_PAGE};
use crate::frames::{self, Load};
use crate::linux::Way;
use crate::sample::{Operations, Sample};
use crate::system::{self, Space, System, Workload};
use interleaf::space::{Advice, MapRequest, Path, Sharing};
use interleaf::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf_lab::error::Failure;
use interleaf_lab::machine::sim::{Ps, Setting, Sim, measured, meet, pass};

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages of a table.
const TABLE: u64 = 512;

/// A workload by its name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// What its CPUs do, in one line.
    pub about: &'static str,
    /// What is counted, in the plural.
    pub operations: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Touch(Touch),
    Malloc(Malloc),
    OwnFiles(OwnFiles),
    OneLibraryPage,
    Frames(Load),
    Counter(Counter),
}

/// Every workload.
pub const WORKLOADS: &[Named] = &[
    Named {
        name: "page_fault1",
        about: "one mapping; each CPU writes to pages in tables of its own, with frames from its own cache",
        operations: "faults",
        kind: Kind::Touch(Touch { apart: TABLE, pages: PAGES, frames: Frames::Cached }),
    },
    Named {
        name: "shared_tables",
        about: "the same, the CPUs' pages side by side: eight CPUs share a table",
        operations: "faults",
        kind: Kind::Touch(Touch { apart: PAGES, pages: PAGES, frames: Frames::Cached }),
    },
    Named {
        name: "zone_frames",
        about: "as page_fault1, but no frame comes back: caches are refilled from the zones",
        operations: "faults",
        kind: Kind::Touch(Touch { apart: TABLE, pages: PAGES, frames: Frames::OfTheZone }),
    },
    Named {
        name: "zone_faults",
        about: "as page_fault1, with more pages than caches hold: frames come from the zone and go back",
        operations: "faults",
        kind: Kind::Touch(Touch { apart: 2 * TABLE, pages: 10 * PAGES, frames: Frames::ThroughTheZone }),
    },
    Named {
        name: "malloc1",
        about: "each CPU maps 128 MiB, writes to the first page, unmaps, again and again (will-it-scale)",
        operations: "rounds",
        kind: Kind::Malloc(Malloc),
    },
    Named {
        name: "page_fault2",
        about: "each CPU stores to a private mapping of its own file: the cache's pages are copied \
                (will-it-scale)",
        operations: "faults",
        kind: own_files(Sharing::Private, Tasks::Threads, Between::Nothing),
    },
    Named {
        name: "page_fault3",
        about: "each CPU stores to a shared mapping of its own file: the cache's pages are mapped \
                (will-it-scale)",
        operations: "faults",
        kind: own_files(Sharing::Shared, Tasks::Threads, Between::Nothing),
    },
    Named {
        name: "page_fault3_written",
        about: "as page_fault3, the file written back in between: each store makes its page dirty",
        operations: "faults",
        kind: own_files(Sharing::Shared, Tasks::Threads, Between::Written),
    },
    Named {
        name: "page_fault2_processes",
        about: "as page_fault2, each CPU in a process of its own",
        operations: "faults",
        kind: own_files(Sharing::Private, Tasks::Processes, Between::Nothing),
    },
    Named {
        name: "page_fault3_processes",
        about: "as page_fault3, each CPU in a process of its own",
        operations: "faults",
        kind: own_files(Sharing::Shared, Tasks::Processes, Between::Nothing),
    },
    Named {
        name: "one_library_page",
        about: "a process on each CPU: all map the same page of a file, and unmap it, again and again",
        operations: "mappings",
        kind: Kind::OneLibraryPage,
    },
    Named {
        name: "zone_batches",
        about: "4 096 frames taken and given back by each CPU, through caches and zones; no faults",
        operations: "frames",
        kind: Kind::Frames(Load::Batches),
    },
    Named {
        name: "zone_returned",
        about: "as zone_batches, but each CPU gives back what its neighbour took",
        operations: "frames",
        kind: Kind::Frames(Load::Returned),
    },
    Named {
        name: "zone_mixed",
        about: "half of memory in use: frames and blocks of all orders are replaced at random",
        operations: "replacements",
        kind: Kind::Frames(Load::Mixed),
    },
    Named {
        name: "zone_strewn",
        about: "half of memory in use: frames are replaced at random, every second one of any CPU",
        operations: "replacements",
        kind: Kind::Frames(Load::Strewn),
    },
    Named {
        name: "zone_huge",
        about: "blocks of 2 MiB taken and given back by each CPU",
        operations: "blocks",
        kind: Kind::Frames(Load::Huge),
    },
    Named {
        name: "shared_counter",
        about: "each CPU adds to one word, and does nothing else: what a line costs that all write",
        operations: "additions",
        kind: Kind::Counter(Counter { then: None }),
    },
    Named {
        name: "reader_count",
        about: "each CPU adds to one word and subtracts again, --work ns in all: a lock that counts readers",
        operations: "sections",
        kind: Kind::Counter(Counter { then: Some(READER_WORK) }),
    },
];

const fn own_files(sharing: Sharing, tasks: Tasks, between: Between) -> Kind {
    Kind::OwnFiles(OwnFiles { sharing, tasks, between })
}

impl Named {
    /// The workload of this name.
    ///
    /// # Errors
    /// Names those that there are.
    pub fn find(name: &str) -> Result<Self, Failure> {
        let found = WORKLOADS.iter().find(|workload| workload.name == name).copied();
        let known: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
        let none = || format!("{name}: no workload, one of {}, and no trace", known.join(", "));
        found.ok_or_else(|| Failure::usage(none()))
    }

    /// The same with sections of this length.
    ///
    /// # Errors
    /// It has no sections.
    pub fn with_work(self, work: Ps) -> Result<Self, Failure> {
        match self.kind {
            Kind::Counter(Counter { then: Some(_) }) => {
                Ok(Self { kind: Kind::Counter(Counter { then: Some(work) }), ..self })
            }
            _ => Err(Failure::usage(format!("--work is for reader_count: {} has no sections", self.name))),
        }
    }

    /// Whether its CPUs take faults.
    pub fn has_faults(&self) -> bool {
        !matches!(self.kind, Kind::Frames(_) | Kind::Counter(_))
    }

    /// Whether all its CPUs are of one process, so that there is one set of Linux's locks.
    pub fn is_one_process(&self) -> bool {
        match self.kind {
            Kind::OwnFiles(files) => files.tasks == Tasks::Threads,
            Kind::OneLibraryPage => false,
            _ => true,
        }
    }

    /// Read-modify-writes of the one line that the CPUs share in each operation, where nothing but that line
    /// limits them.
    pub fn writes_of_shared_line(&self) -> Option<u32> {
        match self.kind {
            Kind::OneLibraryPage => Some(WRITES_OF_LIBRARY_PAGE),
            _ => None,
        }
    }

    /// Runs it on so many CPUs.
    ///
    /// # Errors
    /// What the host says, or how the run failed.
    pub fn run(&self, setting: Setting, way: impl Into<Way>, cpus: u32) -> Result<Sample, Failure> {
        match self.kind {
            Kind::Touch(touch) => system::run(setting, &touch, way, cpus),
            Kind::Malloc(malloc) => system::run(setting, &malloc, way, cpus),
            Kind::OwnFiles(files) => system::run(setting, &files, way, cpus),
            Kind::OneLibraryPage => system::run(setting, &OneLibraryPage, way, cpus),
            Kind::Frames(load) => system::run(setting, &load, way, cpus),
            Kind::Counter(counter) => system::run(setting, &counter, way, cpus),
        }
    }
}

/// Pages that a CPU touches in a round: fewer than its cache of frames holds.
const PAGES: u64 = 64;
/// Rounds of touching. The first is not measured: tables are linked, caches filled.
const ROUNDS: u64 = 4;

/// Frames for each CPU where none comes back: 16 MiB.
const FRAMES_OF_ZONE: u64 = 4096;

/// Where the frames of faults come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frames {
    /// From the CPU's own cache, to which it gave them back before.
    Cached,
    /// From the zone: none is given back.
    OfTheZone,
    /// From the zone, to which they go back.
    ThroughTheZone,
}

/// All CPUs write to pages of one mapping. Only the writing is measured.
#[derive(Clone, Copy, Debug)]
struct Touch {
    /// Pages from one CPU's part to the next.
    apart: u64,
    /// Pages of a round.
    pages: u64,
    frames: Frames,
}

impl Workload for Touch {
    /// Where the first CPU's part begins.
    type Shared<'v> = VirtAddr;

    fn frames(&self, cpus: u32) -> u64 {
        let of_cpu = match self.frames {
            Frames::Cached => PAGES,
            Frames::OfTheZone => FRAMES_OF_ZONE,
            Frames::ThroughTheZone => frames::FRAMES,
        };
        u64::from(cpus) * of_cpu
    }

    fn prepare<'v>(&self, space: &Space<'v>, _: Path, cpus: u32) -> VirtAddr {
        let bytes = (self.apart * u64::from(cpus) + TABLE) * PAGE;
        let start = space.map(&MapRequest::anonymous(bytes)).expect("there is room");
        VirtAddr(start.0.next_multiple_of(TABLE * PAGE))
    }

    fn run<'v>(&self, on: &System<'_, 'v>, shared: &VirtAddr) -> Operations {
        let own = VirtAddr(shared.0 + u64::from(on.cpu) * self.apart * PAGE);
        let page = |page: u64| VirtAddr(own.0 + page * PAGE);
        let mut done = Operations::default();
        for round in 0..ROUNDS {
            let first = if self.frames == Frames::OfTheZone { round * self.pages } else { 0 };
            let pages = (first..first + self.pages).map(page);
            on.write_together(pages, round > 0, &mut done);
            if self.frames != Frames::OfTheZone {
                let freed = self.pages * PAGE;
                on.discard(|| on.space.advise(own, freed, Advice::DontNeed).expect("it is mapped"));
            }
        }
        done
    }
}

/// Bytes of a mapping of `malloc1`.
const MALLOC_BYTES: u64 = 128 << 20;
/// Rounds of `malloc1`; the first is not measured.
const MALLOC_ROUNDS: u64 = 9;

/// mmap, one write, munmap.
#[derive(Clone, Copy, Debug)]
struct Malloc;

impl Workload for Malloc {
    type Shared<'v> = ();

    fn frames(&self, cpus: u32) -> u64 {
        u64::from(cpus) * 16
    }

    fn prepare<'v>(&self, _: &Space<'v>, _: Path, _: u32) {}

    fn mappings(&self, cpus: u32) -> u32 {
        cpus
    }

    fn mapping_of(&self, cpu: u32) -> u32 {
        cpu
    }

    fn run<'v>(&self, on: &System<'_, 'v>, (): &()) -> Operations {
        let round = |done: &mut Operations| {
            let map = || on.space.map(&MapRequest::anonymous(MALLOC_BYTES)).expect("there is room");
            let start = done.call(|| on.call(map));
            done.fault(|| on.write(start));
            let unmap = || on.space.unmap(start, MALLOC_BYTES).expect("it was mapped just now");
            done.call(|| on.call(unmap));
        };
        let running = on.space.activate(None);
        round(&mut Operations::default());
        meet();
        let mut done = Operations::default();
        measured(|| (1..MALLOC_ROUNDS).for_each(|_| done.operation(round)));
        // All stay until the last is done: flushes reach all CPUs.
        meet();
        drop(running);
        done
    }
}

/// Operations of `shared_counter` and `reader_count`.
const ADDITIONS: u64 = 1000;
/// How long a section of `reader_count` is, if nothing is said.
const READER_WORK: Ps = 1_000_000;

/// Read-modify-writes of one word by all CPUs. Nothing of the library: faults go no way, and all paths are
/// the same.
#[derive(Clone, Copy, Debug)]
struct Counter {
    /// The length of the section that an addition begins and a subtraction ends; none: it is only added.
    then: Option<Ps>,
}

/// A part of the work lies outside of the section, as a trap and the program's own step do.
const OUTSIDE: Ps = 10;

/// A word on a line of its own.
#[repr(align(128))]
pub(crate) struct Word(pub AtomicU64<Sim>);

impl Workload for Counter {
    type Shared<'v> = Box<Word>;

    fn frames(&self, _: u32) -> u64 {
        0
    }

    fn prepare<'v>(&self, _: &Space<'v>, _: Path, _: u32) -> Box<Word> {
        Box::new(Word(AtomicU64::new(0)))
    }

    fn run<'v>(&self, _: &System<'_, 'v>, word: &Box<Word>) -> Operations {
        let mut done = Operations::default();
        // Relaxed: a count, which is not read.
        let operation = || {
            word.0.fetch_add(1, Relaxed);
            if let Some(work) = self.then {
                pass(work - work / OUTSIDE);
                word.0.fetch_sub(1, Relaxed);
                pass(work / OUTSIDE);
            }
        };
        operation();
        meet();
        measured(|| (0..ADDITIONS).for_each(|_| done.operation(|_| operation())));
        // The others are measured beside as many as there are.
        meet();
        done
    }
}
