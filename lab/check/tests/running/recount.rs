//! The checkers hold for a machine in use, and each notices when what it guards is broken on purpose.

use interleaf::frame::{AllocRequest, Priority};
use interleaf::machine::{Entry, Format, Leaf};
use interleaf::space::{
    AddressSpace, Advice, Layout, MapRequest, ObjectHandle, Path, Sharing, Vm, VmOptions,
};
use interleaf::table::format::X86_64;
use interleaf::table::{LeafBits, LockedTable, PageTable, SlotMarker, ZeroLeaf, walk};
use interleaf::units::{CpuId, Level, Rights, VirtAddr, Vpn};
use interleaf::vma::VmaFlags;
use interleaf_check::disk::{Disk, FILE};
use interleaf_check::drive::Faults;
use interleaf_check::recount::QuiescentSystem;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};

type Machine = SoftMachine<Host, X86_64>;

type Harm = fn(&Vm<'_, Machine>, &AddressSpace<'_, Machine>, Vpn);

/// As [`recount_as`], faults being taken for what they are.
fn recount_after(harm: Harm) -> String {
    recount_as(Path::Speculative, harm)
}

/// A machine with two pages written and one read by a CPU that still runs the space; `harm` is done; what is
/// recounted then, faults being taken to have gone `path`.
fn recount_as(path: Path, harm: Harm) -> String {
    let machine = Machine::new(&MachineConfig::small(2, 2048)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let (disk, memory) = (Disk::new(4 * 4096), boot_map(&machine).claim(&machine).expect("it is free"));
    let options = VmOptions { pager: Some(&disk), ..VmOptions::default() };
    let vm = Vm::start(memory, options).expect("memory");
    let layout = Layout::linux::<X86_64>();
    // What was harmed is not put right: it is left as it is.
    let space = AddressSpace::new(&vm, layout, Path::Speculative).expect("a space");
    let space = std::mem::ManuallyDrop::new(space);
    // The CPU still runs it when the machine goes.
    std::mem::forget(space.activate(None));
    let start = space.map(&MapRequest::anonymous(8 * 4096)).expect("room");
    for page in 0..2 {
        let addr = VirtAddr(start.0 + page * 4096);
        machine.write_u64(addr, page, &Faults::new(&*space)).expect("mapped");
    }
    machine.read_u64(VirtAddr(start.0 + 2 * 4096), &Faults::new(&*space)).expect("mapped");
    let system = QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space], path: Path::Speculative };
    system.recount().expect("all is well before");
    harm(&vm, &space, start.vpn());
    QuiescentSystem { path, ..system }.recount().expect_err("the harm is noticed")
}

/// Calls `f` with the table of the page, locked.
fn with_table(
    space: &AddressSpace<'_, Machine>,
    page: Vpn,
    f: impl FnOnce(&mut LockedTable<'_, Machine>, usize),
) {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), page, Level::Pte, &reading);
    assert_eq!(found.table.level(), Level::Pte, "the page has a table");
    f(&mut found.table.lock().expect("it is attached"), found.slot);
}

#[test]
fn a_frame_that_no_entry_maps_is_noticed() {
    let wrong = recount_after(|vm, _, _| {
        vm.memory().alloc_frame(AllocRequest::ZEROED).expect("memory").into_user().into_pfn();
    });
    assert!(wrong.starts_with("frames: 0 entries show"), "{wrong}");
}

#[test]
fn a_table_that_is_in_no_space_is_noticed() {
    let wrong = recount_after(|vm, _, _| {
        let tree = vm.memory().alloc_table(Priority::Normal).expect("memory");
        std::mem::forget(PageTable::of_all_cpus(vm.memory(), tree));
    });
    assert!(wrong.contains("is in no space"), "{wrong}");
}

#[test]
fn a_mapcount_too_many_is_noticed() {
    let wrong = recount_after(|vm, _, _| {
        let frame = vm.memory().alloc_zeroed(Priority::Normal).expect("memory");
        std::mem::forget(frame.into_mapped());
    });
    assert!(wrong.contains("0 entries show") && wrong.contains("are (1, 1)"), "{wrong}");
}

/// Gives the leaf of a page the right to write, which the library refuses to do.
fn make_writable(vm: &Vm<'_, Machine>, space: &AddressSpace<'_, Machine>, page: Vpn) {
    with_table(space, page, |table, slot| {
        let Entry::Leaf(mut leaf) = table.entry(slot) else { panic!("{page:?} is there") };
        leaf.rights |= Rights::WRITE;
        let word = X86_64::encode(Entry::Leaf(leaf), Level::Pte);
        // SAFETY: no other CPU runs; what the entry maps is then broken, as it should be, and nothing uses
        // it.
        unsafe { vm.machine().write(table.table().pfn(), slot * 8, &word.to_le_bytes()) };
    });
}

#[test]
fn a_right_to_write_a_shared_frame_is_noticed() {
    let wrong = recount_after(|vm, space, page| {
        // The child is gone, and the frame is not exclusive any more.
        drop(space.fork().expect("memory"));
        make_writable(vm, space, page);
    });
    assert!(wrong.contains("a writable shared frame"), "{wrong}");
}

#[test]
fn a_leaf_without_a_mapping_is_noticed() {
    let wrong = recount_after(|_, space, page| {
        let bits = LeafBits::new(Rights::READ | Rights::USER);
        with_table(space, page.add(8), |table, slot| table.install(slot, ZeroLeaf::BASE, bits));
    });
    assert!(wrong.starts_with("entries:") && wrong.contains("where nothing is mapped"), "{wrong}");
}

#[test]
fn a_right_to_write_the_zero_page_is_noticed() {
    let wrong = recount_after(|vm, space, page| make_writable(vm, space, page.add(2)));
    assert!(wrong.contains("a writable zero page"), "{wrong}");
}

#[test]
fn a_right_taken_away_without_a_flush_is_noticed() {
    let wrong = recount_after(|_, space, page| {
        with_table(space, page, |table, slot| {
            let read_only = |leaf: Leaf| {
                let mut bits = LeafBits::of(leaf);
                bits.rights -= Rights::WRITE;
                Some(bits)
            };
            assert!(table.adjust(slot, read_only).is_some_and(|(_, changed)| changed));
        });
    });
    assert!(wrong.starts_with("translations:"), "{wrong}");
}

/// As above, where no CPU has the translation: a device may.
#[test]
fn a_right_taken_away_that_no_flush_tells_is_noticed() {
    let wrong = recount_after(|vm, space, page| {
        with_table(space, page.add(1), |table, slot| {
            let denied = |leaf: Leaf| {
                let mut bits = LeafBits::of(leaf);
                bits.rights = Rights::empty();
                Some(bits)
            };
            assert!(table.adjust(slot, denied).is_some_and(|(_, changed)| changed));
        });
        interleaf::machine::Machine::flush_all(vm.machine());
    });
    assert!(wrong.starts_with("copies:"), "{wrong}");
}

#[test]
fn a_marker_left_behind_is_noticed() {
    let wrong = recount_after(|_, space, page| {
        with_table(space, page.add(5), |table, slot| assert!(table.mark(slot, SlotMarker::Busy)));
    });
    assert!(wrong.contains("was left at"), "{wrong}");
}

#[test]
fn faults_that_went_another_way_than_they_should_are_noticed() {
    let wrong = recount_as(Path::Locked, |_, _, _| {});
    assert!(wrong.starts_with("totals: 3 faults: 3 speculated"), "{wrong}");
}

#[test]
fn a_frame_that_does_not_lead_to_its_entry_is_noticed() {
    let wrong = recount_after(|vm, space, start| {
        // Mapped by a page of the space, of which its record knows nothing.
        let frame = vm.memory().alloc_zeroed(Priority::Normal).expect("memory").into_mapped();
        let bits = LeafBits::new(Rights::READ | Rights::USER);
        with_table(space, Vpn(start.0 + 5), |table, slot| table.install(slot, frame, bits));
    });
    assert!(wrong.starts_with("rmap: "), "{wrong}");
}

#[test]
fn no_flag_of_a_request_breaks_the_recount() {
    let machine = Machine::new(&MachineConfig::small(1, 4096)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("a space");
    let _running = space.activate(None);
    let system = QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space], path: Path::Speculative };
    let (read, write) = (VmaFlags::READ, VmaFlags::READ | VmaFlags::WRITE);
    for bits in (0..32).map(|bit| 1 << bit).chain([u32::MAX]) {
        for (rights, sharing) in [
            (read, Sharing::Private),
            (write, Sharing::Private),
            (read, Sharing::Shared),
            (write, Sharing::Shared),
        ] {
            let flags = rights | VmaFlags::from_bits_retain(bits) | VmaFlags::NORESERVE;
            let request = MapRequest { flags, sharing, ..MapRequest::anonymous(4 * 4096) };
            let base = space.map(&request).expect("room");
            machine.read_u64(base, &Faults::new(&space)).expect("readable");
            space.protect(base, 2 * 4096, write).expect("every right may be set");
            machine.write_u64(base, 1, &Faults::new(&space)).expect("writable");
            system.recount().unwrap_or_else(|wrong| panic!("{bits:#x}, {sharing:?}: {wrong}"));
            space.advise(base, 4 * 4096, Advice::DontNeed).expect("it is not locked");
            space.unmap(base, 4 * 4096).expect("it is mapped");
            system.recount().unwrap_or_else(|wrong| panic!("{bits:#x}, {sharing:?}: {wrong}"));
        }
    }
}

#[test]
fn a_clean_page_of_a_file_that_lets_stores_through_is_noticed() {
    let wrong = recount_after(|vm, space, _| {
        let file = ObjectHandle::paged(vm, FILE).expect("memory");
        let shared = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(4 * 4096) };
        let at = space.map(&shared.backed_by(file.at_page(0))).expect("room");
        vm.machine().read_u64(at, &Faults::new(space)).expect("mapped");
        with_table(space, at.vpn(), |table, slot| {
            let writable = |leaf: Leaf| {
                let mut bits = LeafBits::of(leaf);
                bits.rights |= Rights::WRITE;
                Some(bits)
            };
            table.adjust(slot, writable);
        });
    });
    assert!(wrong.starts_with("files: page 0 of a file is clean"), "{wrong}");
}
