//! What do faults on cached pages of a file cost, and its truncation, beside Linux in the same run?
//!
//! Linux makes the pages of a file in memory (`memfd_create`) present by one call of madvise: faults without
//! traps. Ours are called without traps, too, on a file whose stores are followed.

use super::fork::full_pages;
use super::{Bar, Benchmark, Figure, Options, alone, paired};
use crate::error::Failure;
use crate::machine::soft::Entered;
use crate::measure::timed_machine::{self, TimedMachine};
use crate::os::affinity::AffinityGuard;
use crate::os::file_memory::{FileMemory, PopulateBy};
use interleaf::object::PagerKey;
use interleaf::space::{AddressSpace, Advice, Counter, Fault, Layout, MapRequest, ObjectHandle};
use interleaf::space::{Path, Sharing, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "file",
    question: "What do faults on cached pages of a file cost, and its truncation, beside Linux?",
    figures: &[
        "file.minor_fault",
        "file.read_fault",
        "file.private_store",
        "file.fault_around",
        "file.truncate",
        "file.munmap_flushes",
    ],
    run,
};

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages that a load maps: Linux's 64 KiB.
const AROUND: u64 = 16;
/// The share of Linux's time that ours may take.
const SHARE: Bar = Bar::AtMost(0.2);
const LINUX: &str = "Linux, memfd";

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let mut figures = on_machine(options, 1, 1 << 12, |vm| faults(options, vm))?;
    let pages = options.size(full_pages(), 1 << 10);
    figures.extend(on_machine(options, AROUND, pages + pages / 8 + 4096, |vm| {
        let around = fault_around(options, vm)?;
        Ok([vec![around], large_file(options, vm, pages)?].concat())
    })?);
    Ok(figures)
}

/// Runs `measure` with the library on a machine of so many frames, on its first CPU. A load maps so many
/// pages.
fn on_machine<R>(
    options: &Options,
    around: u64,
    frames: u64,
    measure: impl FnOnce(&Vm<'_, TimedMachine>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let machine = timed_machine::machine(options, frames)?;
    let entered = machine.enter(CpuId(0));
    let pinned: (Option<AffinityGuard>, Entered) = (options.pin(), entered);
    let vm = timed_machine::vm_with_fault_around(&machine, around * PAGE)?;
    let measured = measure(&vm);
    drop(vm);
    drop(pinned);
    measured
}

/// A file of ours, whose pages are in the cache and dirty, and mappings of it, each in a space of its own.
struct Room<'v> {
    file: ObjectHandle<'v, TimedMachine>,
    mappings: Vec<(AddressSpace<'v, TimedMachine>, VirtAddr)>,
    pages: u64,
}

impl<'v> Room<'v> {
    fn new(
        vm: &'v Vm<'v, TimedMachine>,
        sharing: Sharing,
        mappings: usize,
        pages: u64,
    ) -> Result<Self, Failure> {
        let file = ObjectHandle::paged(vm, PagerKey(0)).map_err(Failure::of)?;
        let mapping = |_| {
            let layout = Layout::linux::<X86_64>().overcommit();
            let space = AddressSpace::new(vm, layout, Path::Speculative).map_err(Failure::of)?;
            let request = MapRequest { sharing, ..MapRequest::anonymous(pages * PAGE) };
            let base = space.map(&request.backed_by(file.at_page(0))).map_err(Failure::of)?;
            Ok((space, base))
        };
        let mappings = (0..mappings).map(mapping).collect::<Result<_, Failure>>()?;
        let room = Self { file, mappings, pages };
        room.fill();
        Ok(room)
    }

    /// Gives the file all of its pages.
    fn fill(&self) {
        (0..self.pages).for_each(|page| {
            assert_eq!(self.file.write_at(page * PAGE, &[1]), Ok(1), "there is memory");
        });
    }

    /// Faults on every page of a step, in every mapping.
    fn fault(&self, access: Access, step: u64) {
        for (space, base) in &self.mappings {
            for page in (0..self.pages).step_by(step as usize) {
                let addr = VirtAddr(base.0 + page * PAGE);
                space.fault(Fault { addr, access }).expect("the mapping allows it");
            }
        }
    }

    fn drop_entries(&self) {
        for (space, base) in &self.mappings {
            space.advise(*base, self.pages * PAGE, Advice::DontNeed).expect("it is mapped");
        }
    }

    /// Nanoseconds of a fault on every page of a step, over some rounds.
    fn time(&self, rounds: u64, access: Access, step: u64) -> f64 {
        let took = (0..rounds).map(|_| {
            let took = ns(|| self.fault(access, step));
            self.drop_entries();
            took
        });
        took.sum::<f64>() / (rounds * self.pages.div_ceil(step)) as f64
    }
}

/// The same of Linux's.
fn time_linux(file: &FileMemory, rounds: u64, by: PopulateBy, operations: u64) -> f64 {
    let took = (0..rounds).map(|_| {
        let took = ns(|| file.populate(by).expect("it is mapped"));
        file.drop_entries().expect("it is mapped");
        took
    });
    took.sum::<f64>() / (rounds * operations) as f64
}

fn ns(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

fn linux_file(pages: u64, mappings: usize) -> Result<FileMemory, Failure> {
    let file = FileMemory::new((pages * PAGE) as usize, mappings).map_err(Failure::of)?;
    file.populate(PopulateBy::Stores).map_err(Failure::of)?;
    file.drop_entries().map_err(Failure::of)?;
    Ok(file)
}

/// Faults one by one.
fn faults(options: &Options, vm: &Vm<'_, TimedMachine>) -> Result<Vec<Figure>, Failure> {
    let (pages, rounds) = (options.size(256, 32), options.size(40, 2));
    let shared = Room::new(vm, Sharing::Shared, 1, pages)?;
    let linux = linux_file(pages, 1)?;
    let stores = paired(
        options,
        "file.minor_fault",
        "ns",
        || shared.time(rounds, Access::Write, 1),
        LINUX,
        || time_linux(&linux, rounds, PopulateBy::Stores, pages),
    );
    let loads = alone(options, "file.read_fault", "ns", || shared.time(rounds, Access::Read, 1));
    let private = Room::new(vm, Sharing::Private, 1, pages)?;
    let copies = alone(options, "file.private_store", "ns", || private.time(rounds, Access::Write, 1));
    Ok(vec![stores.with_bar(SHARE), loads, copies])
}

/// Loads, each of which maps sixteen pages.
fn fault_around(options: &Options, vm: &Vm<'_, TimedMachine>) -> Result<Figure, Failure> {
    let (pages, rounds) = (options.size(512, 64), options.size(40, 2));
    let (room, linux) = (Room::new(vm, Sharing::Shared, 1, pages)?, linux_file(pages, 1)?);
    let ours = || room.time(rounds, Access::Read, AROUND);
    let theirs = || time_linux(&linux, rounds, PopulateBy::Loads, pages / AROUND);
    Ok(paired(options, "file.fault_around", "ns", ours, LINUX, theirs).with_bar(SHARE))
}

/// Truncation of a file that two mappings show, for each page; and how often munmap flushes.
fn large_file(options: &Options, vm: &Vm<'_, TimedMachine>, pages: u64) -> Result<Vec<Figure>, Failure> {
    let room = Room::new(vm, Sharing::Shared, 2, pages)?;
    let linux = FileMemory::new((pages * PAGE) as usize, 2).map_err(Failure::of)?;
    let find = |id| room.mappings.iter().map(|(space, _)| space).find(|space| space.id() == id);
    let ours = || {
        room.fault(Access::Read, AROUND);
        let took = ns(|| {
            let reach = room.file.set_len_bytes(0, find).expect("a length that files have");
            assert_eq!((reach.found, reach.missing), (2, 0));
        });
        room.fill();
        took / pages as f64
    };
    let theirs = || {
        linux.extend().expect("a length that files have");
        linux.populate(PopulateBy::Stores).expect("there is memory");
        ns(|| linux.truncate().expect("it is a file")) / pages as f64
    };
    // Each fills two GiB.
    let few = Options { pairs: options.pairs.min(7), ..options.clone() };
    let truncate = paired(&few, "file.truncate", "ns", ours, LINUX, theirs).with_bar(SHARE);
    room.fault(Access::Read, AROUND);
    let (space, base) = &room.mappings[0];
    let running = space.activate(None);
    let flushes = || vm.totals().get(Counter::TlbFlush);
    let before = flushes();
    space.unmap(*base, pages * PAGE).map_err(Failure::of)?;
    let flushed = (flushes() - before) as f64;
    drop(running);
    Ok(vec![truncate, Figure::count("file.munmap_flushes", flushed, "flushes").with_bar(Bar::AtMost(1.0))])
}
