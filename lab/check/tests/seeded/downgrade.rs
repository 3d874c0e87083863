//! A writer that has published, and waits for another CPU's flush, holds up no reader elsewhere in the space.

use interleaf::machine::{Cpu as _, Format};
use interleaf::space::{AddressSpace, Fault, FaultError, Layout, MapRequest, Path, Place, Vm};
use interleaf::sync::atomic::{AtomicU32, Ordering::*};
use interleaf::sync::with_interrupts_off;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr, Vpn};
use interleaf::vma::VmaFlags;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};

type Machine<F> = SoftMachine<Baton, F>;

const PAGE: u64 = PAGE_SIZE as u64;
/// The first page of what is edited, which ends in the middle of a table; the rest of that table is the
/// neighbour's.
const EDITED: Vpn = Vpn(1 << 20);
const EDITED_PAGES: u64 = 1024 + 100;
const NEIGHBOUR: Vpn = Vpn(EDITED.0 + EDITED_PAGES);
const NEIGHBOUR_PAGES: u64 = 8;

/// What CPU 0 does.
#[derive(Clone, Copy)]
enum Edit {
    Unmap,
    MapOver,
    Protect,
    Shrink,
}

impl Edit {
    fn run<F: Format>(self, space: &AddressSpace<'_, Machine<F>>) {
        match self {
            Edit::Unmap => space.unmap(EDITED.addr(), EDITED_PAGES * PAGE).expect("it is mapped"),
            Edit::MapOver => map(space, EDITED, EDITED_PAGES, VmaFlags::READ),
            Edit::Protect => {
                space.protect(EDITED.addr(), EDITED_PAGES * PAGE, VmaFlags::READ).expect("it is mapped");
            }
            Edit::Shrink => drop(space.brk(space.layout().heap_start)),
        }
    }

    /// Whether it has replaced the mappings, as seen without a lock.
    fn is_published<F: Format>(self, space: &AddressSpace<'_, Machine<F>>) -> bool {
        let edited = space.inspect().vma_at(EDITED.addr());
        match self {
            Edit::Unmap => edited.is_none(),
            Edit::MapOver | Edit::Protect => edited.is_some_and(|vma| !vma.flags.contains(VmaFlags::WRITE)),
            Edit::Shrink => space.inspect().vma_at(space.layout().heap_start).is_none(),
        }
    }
}

fn map<F: Format>(space: &AddressSpace<'_, Machine<F>>, start: Vpn, pages: u64, flags: VmaFlags) {
    let place = Place::Fixed(start.addr());
    space.map(&MapRequest { place, flags, ..MapRequest::anonymous(pages * PAGE) }).expect("room");
}

fn touch<F: Format>(
    space: &AddressSpace<'_, Machine<F>>,
    page: Vpn,
    access: Access,
) -> Result<(), FaultError> {
    space.fault(Fault { addr: page.addr(), access }).map(drop)
}

/// CPU 1 runs the space and answers no flush before CPU 2 has done all it wants beside the edit of CPU 0,
/// which cannot have returned by then.
fn edit_beside_work_elsewhere<F: Format>(schedule: &Schedule, edit: Edit) {
    let machine = Machine::<F>::new(&MachineConfig::small(3, 512)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let space = AddressSpace::new(&vm, Layout::linux::<F>().overcommit(), Path::Locked).expect("memory");
    map(&space, EDITED, EDITED_PAGES, VmaFlags::READ | VmaFlags::WRITE);
    // Not joined with what is edited.
    map(&space, NEIGHBOUR, NEIGHBOUR_PAGES, VmaFlags::READ | VmaFlags::WRITE | VmaFlags::EXECUTE);
    for page in [0, 1, 600, EDITED_PAGES - 1] {
        touch(&space, EDITED.add(page), Access::Write).expect("it is mapped");
    }
    let heap = space.layout().heap_start;
    space.brk(VirtAddr(heap.0 + 600 * PAGE));
    touch(&space, heap.vpn(), Access::Write).expect("it is mapped");
    drop(cpu);
    let (ready, done, returned) =
        (AtomicU32::<Baton>::new(0), AtomicU32::<Baton>::new(0), AtomicU32::<Baton>::new(0));
    let wait_for = |flag: &AtomicU32<Baton>| {
        while flag.load(Acquire) == 0 {
            Baton::relax();
        }
    };
    let editor: Program<'_> = Box::new(|| {
        let _running = space.activate(None);
        wait_for(&ready);
        edit.run(&space);
        assert_eq!(done.load(Acquire), 1, "the edit has not waited for the flush");
        returned.store(1, Release);
    });
    let deaf: Program<'_> = Box::new(|| {
        let _running = space.activate(None);
        with_interrupts_off::<Baton, _>(|| {
            ready.store(1, Release);
            wait_for(&done);
        });
    });
    let elsewhere: Program<'_> = Box::new(|| {
        let _running = space.activate(None);
        while !edit.is_published(&space) {
            Baton::relax();
        }
        work(&space);
        assert_eq!(returned.load(Acquire), 0, "the edit has returned before the flush");
        done.store(1, Release);
    });
    schedule.run(&machine, vec![editor, deaf, elsewhere]);
    let _cpu = machine.enter(CpuId(0));
    drop(space);
    vm.trim();
    vm.memory().check().expect("frames add up");
}

/// Locked faults, mincore and a list of mappings: none of them flushes.
fn work<F: Format>(space: &AddressSpace<'_, Machine<F>>) {
    for page in [0, 1] {
        touch(space, NEIGHBOUR.add(page), Access::Write).expect("it is mapped");
    }
    let mut resident = 0;
    space
        .mincore(NEIGHBOUR.addr(), NEIGHBOUR_PAGES * PAGE, |_, is_resident| {
            resident += u64::from(is_resident)
        })
        .expect("it is mapped");
    assert_eq!(resident, 2);
    let mut nr_mappings = 0;
    space.inspect().each_vma(|_| nr_mappings += 1);
    assert!(nr_mappings > 0);
}

fn plays<F: Format>(edit: Edit) {
    let options = Options { limit_steps: 200_000, ..Options::default() };
    let play = move |schedule: &Schedule| edit_beside_work_elsewhere::<F>(schedule, edit);
    explore(0..150, options, play).unwrap_or_else(|report| panic!("{report}"));
}

#[test]
fn a_locked_fault_and_mincore_elsewhere_end_while_a_munmap_waits_for_its_flush() {
    plays::<X86_64>(Edit::Unmap);
    plays::<Aarch64>(Edit::Unmap);
}

#[test]
fn a_locked_fault_and_mincore_elsewhere_end_while_a_mapping_put_over_others_waits_for_its_flush() {
    plays::<X86_64>(Edit::MapOver);
    plays::<Aarch64>(Edit::MapOver);
}

#[test]
fn a_locked_fault_and_mincore_elsewhere_end_while_an_mprotect_waits_for_its_flush() {
    plays::<X86_64>(Edit::Protect);
    plays::<Aarch64>(Edit::Protect);
}

#[test]
fn a_locked_fault_and_mincore_elsewhere_end_while_a_heap_that_shrinks_waits_for_its_flush() {
    plays::<X86_64>(Edit::Shrink);
    plays::<Aarch64>(Edit::Shrink);
}
