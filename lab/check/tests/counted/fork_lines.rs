//! Read-modify-writes of fork, reuse and copy on the records of the frames, counted.

use super::records::{Machine, PAGE, PAGES, Space, addr, frames, updates};
use interleaf::space::{Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::watch::footprint;

fn write(space: &Space<'_>, base: VirtAddr) {
    for nr in 0..PAGES {
        space.fault(Fault { addr: addr(base, nr), access: Access::Write }).expect("mapped");
    }
}

/// Counts for each page, with a machine of its own.
#[test]
fn a_forked_page_a_reuse_and_a_copy_take_one_read_modify_write_of_the_record_each() {
    let machine = Machine::new(&MachineConfig::small(1, 4 * PAGES + 4096)).expect("memory for the machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let space = Space::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a space");
    let _running = space.activate(None);
    let base = space.map(&MapRequest::anonymous(PAGES * PAGE)).expect("room");
    write(&space, base);
    let shared = frames(&space, base);
    let (child, seen) = footprint(|| space.fork().expect("memory for tables"));
    assert_eq!(updates(&vm, &shared, &seen), 1.0, "a forked page");
    let ((), seen) = footprint(|| write(&space, base));
    assert_eq!(updates(&vm, &shared, &seen), 1.0, "a copy, on the frame that is copied");
    // What a fault that takes no copy does: nothing more, of the frame that it gets.
    let copies = frames(&space, base);
    assert!(copies.iter().zip(&shared).all(|(copy, old)| copy != old));
    assert_eq!(updates(&vm, &copies, &seen), 0.0, "a copy, on the new frame");
    let ((), seen) = footprint(|| write(&child, base));
    assert_eq!(frames(&child, base), shared, "nothing is copied");
    assert_eq!(updates(&vm, &shared, &seen), 1.0, "a reuse");
}
