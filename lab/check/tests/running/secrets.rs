//! What one process has left in frames that it freed, no other process ever sees: neither in fresh memory,
//! nor beside what it wrote, nor in copies, shared memory or tables.
//!
//! One space fills whole frames with a secret and frees them, in all ways there are; another one's memory and
//! tables are read in full after each of its steps. Programs write no byte of the secret.

use interleaf::frame::{AllocRequest, Priority};
use interleaf::machine::{Entry, Format};
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path, Place, Sharing, Vm};
use interleaf::table::format::{Aarch64, X86_64};
use interleaf::units::{Access, CpuId, Pfn, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_check::recount::{Seen, each_entry};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

type Machine<F> = SoftMachine<Host, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;

const PAGE: usize = 4096;
const SECRET: u8 = 0xa5;
/// Few, so that those that one space has freed are soon another's.
const FRAMES: u64 = 256;
const BASE: u64 = 64 << 30;
/// Pages in use, over two tables.
const PAGES: u64 = 24;

struct World<'a, 'v, F: Format> {
    machine: &'a Machine<F>,
    vm: &'v Vm<'v, Machine<F>>,
    rng: Rng,
    /// Frames that held the secret.
    told: BTreeSet<Pfn>,
    /// Frames of the other space that held it before.
    reused: usize,
}

/// Writes to a frame, as a program whose entry allows it.
fn store<F: Format>(machine: &Machine<F>, pfn: Pfn, offset: usize, bytes: &[u8]) {
    // SAFETY: the callers' spaces have just made the frame present for writing, or it was allocated for the
    // caller; one thread runs, and borrows nothing from frames.
    unsafe { machine.write(pfn, offset, bytes) }
}

fn page(nr: u64) -> VirtAddr {
    VirtAddr(BASE + (512 - PAGES / 2 + nr) * PAGE as u64)
}

impl<'v, F: Format> World<'_, 'v, F> {
    fn space(&self) -> Space<'v, F> {
        AddressSpace::new(self.vm, Layout::linux::<F>().overcommit(), Path::Speculative)
            .expect("memory for a space")
    }

    /// Some pages in a row: the first, and how many.
    fn range(&mut self) -> (u64, u64) {
        let first = self.rng.below(PAGES);
        (first, 1 + self.rng.below(PAGES - first))
    }

    fn map(&mut self, space: &Space<'_, F>, (first, pages): (u64, u64)) {
        let sharing = self.rng.pick(&[Sharing::Private, Sharing::Private, Sharing::Shared]);
        let place = Place::Fixed(page(first));
        let request = MapRequest { place, sharing, ..MapRequest::anonymous(pages * PAGE as u64) };
        space.map(&request).expect("room and memory");
    }

    /// Makes pages present for writing. Pages that are not mapped are left out.
    fn write(&mut self, space: &Space<'_, F>, (first, pages): (u64, u64), fill: impl Fn(&Self, Pfn)) {
        for nr in first..first + pages {
            let fault = Fault { addr: page(nr), access: Access::Write };
            if space.fault(fault).is_ok() {
                let (pfn, _) = space.inspect().resident_frame(page(nr).vpn()).expect("just made present");
                fill(self, pfn);
            }
        }
    }

    /// One that has secrets: fills frames with them, and frees some.
    fn tell(&mut self, space: &Space<'v, F>) {
        let range @ (first, pages) = self.range();
        self.map(space, range);
        let child = self.rng.chance(1, 3).then(|| space.fork().expect("memory for a fork"));
        self.write(space, range, |world, pfn| store(world.machine, pfn, 0, &[SECRET; PAGE]));
        let present = (first..first + pages).filter_map(|nr| space.inspect().resident_frame(page(nr).vpn()));
        self.told.extend(present.map(|(pfn, _)| pfn));
        let second = self.rng.chance(1, 2).then(|| space.fork().expect("memory for a fork"));
        if let Some(copier) = &second {
            // Copies of the secret.
            self.write(copier, range, |world, pfn| store(world.machine, pfn, 7, &[SECRET]));
        }
        drop(child);
        let len = pages * PAGE as u64;
        match self.rng.below(4) {
            0 => space.unmap(page(first), len).expect("it is a range"),
            1 => space.advise(page(first), len, Advice::DontNeed).expect("it is mapped"),
            2 => space.unmap(VirtAddr(BASE), 1024 * PAGE as u64).expect("it is a range"),
            _ => {}
        }
    }

    /// One that is to see none: gets memory in all ways there are.
    fn ask(&mut self, space: &mut Space<'v, F>) {
        let range @ (first, pages) = self.range();
        let len = pages * PAGE as u64;
        let byte = |world: &Self, pfn: Pfn| store(world.machine, pfn, 9, &[1]);
        match self.rng.below(9) {
            0 | 1 => self.map(space, range),
            2 => drop(space.advise(page(first), len, Advice::PopulateWrite)),
            3 => drop(space.advise(page(first), len, Advice::DontNeed)),
            4 => drop(space.fault(Fault { addr: page(first), access: Access::Read })),
            5 => {
                let heap = space.layout().heap_start;
                space.brk(VirtAddr(heap.0 + self.rng.below(6) * PAGE as u64));
                // The heap may have been emptied.
                let _ = space.fault(Fault { addr: heap, access: Access::Write });
            }
            6 => {
                // The child copies what it writes; then it is looked at in the parent's place.
                let child = space.fork().expect("memory for a fork");
                self.write(&child, range, byte);
                self.look(space);
                *space = child;
            }
            7 => drop(space.protect(page(first), len, VmaFlags::READ)),
            _ => self.write(space, range, byte),
        }
    }

    /// Reads all frames and tables of a space.
    fn look(&mut self, space: &Space<'_, F>) {
        let mut frames = BTreeMap::from([(space.root(), "a table")]);
        each_entry(space, |seen| match seen {
            Seen::Table { pfn, .. } => drop(frames.insert(pfn, "a table")),
            Seen::Entry { entry: Entry::Leaf(leaf), .. } => {
                frames.insert(leaf.pfn, "a page");
            }
            Seen::Entry { entry, .. } => panic!("{entry:?} was left"),
        });
        self.reused += frames.keys().filter(|pfn| self.told.remove(pfn)).count();
        for (pfn, what) in frames {
            assert!(
                !holds_secret(self.machine, pfn, what),
                "{what} in {pfn:?} shows what another left there"
            );
        }
    }
}

/// Whether there is a byte of the secret in a page, or a word of it in a table.
fn holds_secret<F: Format>(machine: &Machine<F>, pfn: Pfn, what: &str) -> bool {
    let mut bytes = [0; PAGE];
    machine.read(pfn, 0, &mut bytes);
    let word = |word: &[u8]| word.iter().all(|byte| *byte == SECRET);
    if what == "a page" { bytes.contains(&SECRET) } else { bytes.chunks(8).any(word) }
}

/// Plays one seed. Returns how many frames with secrets became the other's.
fn play<F: Format>(machine: &mut Machine<F>, seed: u64) -> usize {
    machine.unclaim_memory();
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(machine, boot_map(machine)).expect("memory");
    let before = vm.memory().check().expect("frames add up").allocated;
    let mut world = World { machine, vm: &vm, rng: Rng::new(seed), told: BTreeSet::new(), reused: 0 };
    let mut asking = world.space();
    for _ in 0..6 {
        let telling = world.space();
        for _ in 0..1 + world.rng.below(4) {
            world.tell(&telling);
            world.ask(&mut asking);
            world.look(&asking);
        }
        drop(telling);
        for _ in 0..6 {
            world.ask(&mut asking);
            world.look(&asking);
        }
    }
    let (zero, reused) = (vm.memory().zero_frame(), world.reused);
    assert!(!holds_secret(machine, zero, "a page"), "the zero page was written");
    drop(asking);
    vm.trim();
    assert_eq!(vm.memory().check().expect("frames add up").allocated, before);
    reused
}

fn no_secret_is_seen<F: Format>(seeds: std::ops::Range<u64>) {
    let mut machine = Machine::<F>::new(&MachineConfig::small(1, FRAMES)).expect("a machine");
    let reused: usize = seeds.clone().map(|seed| play(&mut machine, seed)).sum();
    println!("{reused} frames that had held the secret were another's later");
    assert!(reused as u64 > 10 * (seeds.end - seeds.start), "{reused} frames were used again");
}

#[test]
fn memory_of_another_process_is_never_seen_on_x86() {
    no_secret_is_seen::<X86_64>(0..300);
}

#[test]
fn memory_of_another_process_is_never_seen_on_aarch64() {
    no_secret_is_seen::<Aarch64>(300..600);
}

/// The check itself: a secret in a page, and one in a table.
#[test]
fn a_secret_that_is_there_is_found() {
    let machine = Machine::<X86_64>::new(&MachineConfig::small(1, FRAMES)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let frame = vm.memory().alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Normal)).expect("memory");
    let pfn = frame.pfn();
    store(&machine, pfn, 0, &[0; PAGE]);
    assert!(!holds_secret(&machine, pfn, "a page"));
    store(&machine, pfn, 4000, &[SECRET]);
    assert!(holds_secret(&machine, pfn, "a page") && !holds_secret(&machine, pfn, "a table"));
    store(&machine, pfn, 4000, &[SECRET; 8]);
    assert!(holds_secret(&machine, pfn, "a table"));
}
