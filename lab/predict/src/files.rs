//! Workloads of mapped files: stores to files of the CPUs' own, and the page of a library that every process
//! maps.

use crate::sample::Operations;
use crate::system::{Machine, Space, System, Workload, layout};
use interleaf::frame::PageFill;
use interleaf::object::{PageAnswer, PageContents, Pager, PagerKey};
use interleaf::space::{AddressSpace, Advice, Fault, MapRequest, ObjectHandle, Path, Place, Sharing};
use interleaf::units::{Access, PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_lab::machine::sim::{measured, meet};

const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes that a table covers.
const TABLE: u64 = 512 * PAGE;

/// Where files lie: every page is there, with zeros, and is written at once.
#[derive(Debug)]
pub struct Disk;

impl Pager<Machine> for Disk {
    fn try_page(&self, _: PagerKey, _: u64, _: &mut PageFill<'_, Machine>) -> PageAnswer {
        PageAnswer::Ready
    }

    fn is_written_back(&self, _: PagerKey) -> bool {
        true
    }

    fn write_back(&self, _: PagerKey, _: u64, _: &PageContents<'_, '_, Machine>) -> PageAnswer {
        PageAnswer::Ready
    }
}

/// In which spaces CPUs work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// All in one.
    Threads,
    /// Each in its own.
    Processes,
}

/// What is done to a file between two rounds of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Nothing: the pages of a shared mapping are dirty from the first round on.
    Nothing,
    /// It is written back: each store of a shared mapping makes its page dirty anew.
    Written,
}

/// Each CPU stores to all pages of a mapping of its own file, whose pages are in the cache. Only the stores
/// are measured.
#[derive(Clone, Copy, Debug)]
pub struct OwnFiles {
    /// Whether a store goes to the cache's page, or to a copy.
    pub sharing: Sharing,
    pub tasks: Tasks,
    pub between: Between,
}

/// A file that a CPU maps.
pub struct Mapped<'v> {
    /// The CPU's process, if it has one of its own.
    space: Option<Space<'v>>,
    file: ObjectHandle<'v, Machine>,
    start: VirtAddr,
}

/// Pages of a file: fewer than a CPU's cache of frames holds, with their copies.
const PAGES: u64 = 64;
/// Rounds of stores. The first is not measured: tables are linked, files read, caches filled.
const ROUNDS: u64 = 4;

impl Workload for OwnFiles {
    type Shared<'v> = Vec<Mapped<'v>>;

    fn frames(&self, cpus: u32) -> u64 {
        // Those of the file, of copies, and of a process with its tables.
        u64::from(cpus) * (2 * PAGES + 32)
    }

    fn prepare<'v>(&self, space: &Space<'v>, path: Path, cpus: u32) -> Vec<Mapped<'v>> {
        let vm = space.vm();
        let room = MapRequest::anonymous((u64::from(cpus) + 1) * TABLE);
        let first = space.map(&room).expect("there is room").0.next_multiple_of(TABLE);
        let of_cpu = |cpu: u64| {
            let own = match self.tasks {
                Tasks::Threads => None,
                Tasks::Processes => Some(AddressSpace::new(vm, layout(), path).expect("memory for a space")),
            };
            let start = VirtAddr(first + cpu * TABLE);
            let file = ObjectHandle::paged(vm, PagerKey(cpu)).expect("memory for a file");
            let place = Place::Fixed(start);
            let request = MapRequest { place, sharing: self.sharing, ..MapRequest::anonymous(PAGES * PAGE) };
            let mapped = own.as_ref().unwrap_or(space).map(&request.backed_by(file.at_page(0)));
            mapped.expect("it is room of this space, or of an empty one");
            Mapped { space: own, file, start }
        };
        (0..u64::from(cpus)).map(of_cpu).collect()
    }

    fn spaces<'s, 'v: 's>(&self, shared: &'s Vec<Mapped<'v>>) -> Vec<&'s Space<'v>> {
        shared.iter().filter_map(|mapped| mapped.space.as_ref()).collect()
    }

    fn mappings(&self, cpus: u32) -> u32 {
        cpus
    }

    fn mapping_of(&self, cpu: u32) -> u32 {
        cpu
    }

    fn run<'v>(&self, on: &System<'_, 'v>, shared: &Vec<Mapped<'v>>) -> Operations {
        let Mapped { space, file, start } = &shared[on.cpu as usize];
        let on = System { space: space.as_ref().unwrap_or(on.space), ..*on };
        let mut done = Operations::default();
        for round in 0..ROUNDS {
            let pages = (0..PAGES).map(|page| VirtAddr(start.0 + page * PAGE));
            on.write_together(pages, round > 0, &mut done);
            if self.between == Between::Written {
                let find = |id| (on.space.id() == id).then_some(on.space);
                let written = file.write_back(0, PAGES * PAGE, find).expect("the disk takes it");
                assert_eq!((written.failed, written.missing), (0, 0));
            }
            on.discard(|| on.space.advise(*start, PAGES * PAGE, Advice::DontNeed).expect("it is mapped"));
        }
        done
    }
}

/// Each CPU has a process. All map the same page of a library, touch it and unmap it, again and again. One
/// process more has it mapped all the time.
#[derive(Clone, Copy, Debug)]
pub struct OneLibraryPage;

/// A process with the library.
pub struct Process<'v> {
    space: Space<'v>,
    start: VirtAddr,
}

/// Read-modify-writes of the page's record for each time: the mapping is counted, and then it is not.
pub const WRITES_OF_LIBRARY_PAGE: u32 = 2;

/// Times that a process maps the page; the first is not measured.
const TIMES: u64 = 33;

impl Workload for OneLibraryPage {
    type Shared<'v> = Vec<Process<'v>>;

    fn frames(&self, cpus: u32) -> u64 {
        u64::from(cpus) * 32
    }

    fn prepare<'v>(&self, space: &Space<'v>, path: Path, cpus: u32) -> Vec<Process<'v>> {
        let library = ObjectHandle::paged(space.vm(), PagerKey(0)).expect("memory for a file");
        let map = |space: &Space<'v>| {
            let flags = VmaFlags::READ | VmaFlags::EXECUTE;
            let request = MapRequest { flags, ..MapRequest::anonymous(PAGE) };
            space.map(&request.backed_by(library.at_page(0))).expect("an empty space")
        };
        let addr = map(space);
        space.fault(Fault { addr, access: Access::Read }).expect("it is mapped");
        let process = |_| {
            let space = AddressSpace::new(space.vm(), layout(), path).expect("memory for a space");
            let start = map(&space);
            Process { space, start }
        };
        (0..cpus).map(process).collect()
    }

    fn spaces<'s, 'v: 's>(&self, shared: &'s Vec<Process<'v>>) -> Vec<&'s Space<'v>> {
        shared.iter().map(|process| &process.space).collect()
    }

    fn run<'v>(&self, on: &System<'_, 'v>, shared: &Vec<Process<'v>>) -> Operations {
        let Process { space, start } = &shared[on.cpu as usize];
        let on = System { space, ..*on };
        let drop_entry = || space.advise(*start, PAGE, Advice::DontNeed).expect("it is mapped");
        let map = |done: &mut Operations| {
            done.fault(|| on.read(*start));
            done.call(drop_entry);
        };
        let running = space.activate(None);
        map(&mut Operations::default());
        meet();
        let mut done = Operations::default();
        measured(|| (1..TIMES).for_each(|_| done.operation(map)));
        // The others are measured beside as many as there are.
        meet();
        drop(running);
        done
    }
}
