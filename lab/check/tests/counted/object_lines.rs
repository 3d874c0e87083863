//! What faults, unmapping and truncation of objects cost, counted: read-modify-writes on the records of the
//! frames, locks of tables, flushes.

use super::records::{Machine, PAGE, PAGES, Space, addr, frames, updates};
use interleaf::machine::AccessKind;
use interleaf::space::{Advice, Counter, Fault, Layout, MapRequest, ObjectHandle};
use interleaf::space::{Path, Sharing, Vm, VmOptions};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::watch::{Names, footprint};

type Object<'v> = ObjectHandle<'v, Machine>;

/// Pages that a load maps where it maps those around it.
const AROUND: u64 = 16;

fn machine() -> Machine {
    Machine::new(&MachineConfig::small(2, 4 * PAGES + 4096)).expect("memory for the machine")
}

fn vm(machine: &Machine, fault_around_bytes: u64) -> Vm<'_, Machine> {
    let memory = boot_map(machine).claim(machine).expect("it is free");
    let options = VmOptions { fault_around_bytes, ..VmOptions::default() };
    Vm::start(memory, options).expect("memory for the records")
}

fn space<'v>(vm: &'v Vm<'v, Machine>) -> Space<'v> {
    Space::new(vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a space")
}

/// An object that has all of its pages.
fn object<'v>(vm: &'v Vm<'v, Machine>) -> Object<'v> {
    let object = Object::new(vm, PAGES * PAGE).expect("memory for a record");
    (0..PAGES).for_each(|page| assert_eq!(object.write_at(page * PAGE, &[1]), Ok(1)));
    object
}

fn map(space: &Space<'_>, object: &Object<'_>, sharing: Sharing) -> VirtAddr {
    let request = MapRequest { sharing, ..MapRequest::anonymous(PAGES * PAGE) };
    space.map(&request.backed_by(object.at_page(0))).expect("room")
}

fn fault(space: &Space<'_>, base: VirtAddr, access: Access) {
    for nr in 0..PAGES {
        space.fault(Fault { addr: addr(base, nr), access }).expect("mapped");
    }
}

#[test]
fn a_page_that_is_mapped_elsewhere_takes_one_read_modify_write_and_a_first_mapping_two() {
    for sharing in [Sharing::Shared, Sharing::Private] {
        let machine = machine();
        let _cpu = machine.enter(CpuId(0));
        let vm = vm(&machine, PAGE);
        let (object, first, second) = (object(&vm), space(&vm), space(&vm));
        let running = first.activate(None);
        let base = map(&first, &object, sharing);
        let ((), seen) = footprint(|| fault(&first, base, Access::Read));
        let frames = frames(&first, base);
        assert_eq!(updates(&vm, &frames, &seen), 2.0, "a first mapping");
        drop(running);
        let running = second.activate(None);
        let base = map(&second, &object, sharing);
        let ((), seen) = footprint(|| fault(&second, base, Access::Read));
        assert_eq!(updates(&vm, &frames, &seen), 1.0, "a mapping more");
        let ((), seen) =
            footprint(|| second.advise(base, PAGES * PAGE, Advice::DontNeed).expect("it is mapped"));
        assert_eq!(updates(&vm, &frames, &seen), 1.0, "a mapping less");
        drop(running);
    }
}

/// The table of the pages has no CPU that owns its lock: each time that it is taken is an exchange.
#[test]
fn a_load_that_maps_sixteen_pages_takes_the_lock_of_one_table_once() {
    let machine = machine();
    let vm = {
        let _cpu = machine.enter(CpuId(0));
        vm(&machine, AROUND * PAGE)
    };
    let (object, space, base) = {
        let _cpu = machine.enter(CpuId(0));
        let (object, space) = (object(&vm), space(&vm));
        let base = map(&space, &object, Sharing::Shared);
        (object, space, base)
    };
    let load = |nr| space.fault(Fault { addr: addr(base, nr), access: Access::Read }).expect("mapped");
    for cpu in [1, 0] {
        let _cpu = machine.enter(CpuId(cpu));
        load(u64::from(cpu) * AROUND);
    }
    let _cpu = machine.enter(CpuId(0));
    let first = 4 * AROUND;
    let (_, seen) = footprint(|| load(first));
    let names = Names::of_now(&machine, &vm, &[&space]);
    let locks = seen.uses().filter(|used| {
        used.kind == AccessKind::Update && names.of(used.addr, used.place) == "the lock of a table"
    });
    assert_eq!(locks.map(|used| used.count).sum::<u64>(), 1);
    let present = |nr: &u64| space.inspect().resident_frame(addr(base, *nr).vpn()).is_some();
    assert_eq!((first..first + AROUND).filter(present).count() as u64, AROUND);
    drop((object, space));
}

#[test]
fn munmap_of_a_gib_of_a_file_and_its_truncation_flush_once_for_each_space() {
    const GIB: u64 = 1 << 30;
    let machine = machine();
    let _cpu = machine.enter(CpuId(0));
    let vm = vm(&machine, AROUND * PAGE);
    let flushes = || vm.totals().get(Counter::TlbFlush);
    let file = Object::new(&vm, GIB).expect("memory for a record");
    // A page in each 2 MiB: every table is there.
    (0..512).for_each(|nr| assert_eq!(file.write_at(nr << 21, &[1]), Ok(1)));
    let space = space(&vm);
    let running = space.activate(None);
    let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(GIB) };
    let map = || {
        let base = space.map(&request.backed_by(file.at_page(0))).expect("room");
        let load = |nr: u64| Fault { addr: VirtAddr(base.0 + (nr << 21)), access: Access::Read };
        for nr in 0..512 {
            space.fault(load(nr)).expect("mapped");
        }
        base
    };
    let base = map();
    let before = flushes();
    space.unmap(base, GIB).expect("it is mapped");
    assert_eq!(flushes() - before, 1, "of munmap");
    let [_, _] = [map(), map()];
    let before = flushes();
    let reach = file.set_len_bytes(0, |id| (id == space.id()).then_some(&space)).expect("a length");
    assert_eq!((reach.missing, flushes() - before), (0, 2), "of truncation: one for each of two mappings");
    drop(running);
}
