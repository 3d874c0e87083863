//! fork: a parent and a child that share their memory until one of them writes.
//!
//! ```text
//! cargo run --package interleaf --example fork
//! ```

mod flat;

use flat::FlatMachine;
use interleaf::machine::Machine;
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, PAGE_SIZE, VirtAddr};

type Space<'v> = AddressSpace<'v, FlatMachine>;

/// Pages of the parent.
const PAGES: u64 = 256;

fn main() {
    fork();
}

/// `cargo test` runs it too.
#[test]
fn a_child_has_what_its_parent_had() {
    fork();
}

fn fork() {
    let machine = FlatMachine::new(4096);
    let vm = Vm::new(&machine, machine.boot_map()).expect("16 MiB are enough");
    let layout = Layout::linux::<X86_64>();
    let parent = AddressSpace::new(&vm, layout, Path::Speculative).expect("memory for a root table");
    let base = parent.map(&MapRequest::anonymous(PAGES * PAGE_SIZE as u64)).expect("room for a MiB");
    let page = |nr: u64| VirtAddr(base.0 + nr * PAGE_SIZE as u64);
    (0..PAGES).for_each(|nr| store(&machine, &parent, page(nr), nr as u8));

    // The system call. The child has the same pages in the same frames.
    let free = vm.memory().check().expect("frames add up").allocated;
    let child = parent.fork().expect("memory for the child's tables");
    let tables = vm.memory().check().expect("frames add up").allocated - free;
    println!("a child of {PAGES} pages took {tables} frames");
    assert!(tables < PAGES / 8);

    // Who writes gets a copy; the other keeps what it had.
    store(&machine, &parent, page(1), 100);
    store(&machine, &child, page(2), 200);
    let see = |space: &Space<'_>| [0, 1, 2].map(|nr| load(&machine, space, page(nr)));
    println!("parent {:?}, child {:?}", see(&parent), see(&child));
    assert_eq!((see(&parent), see(&child)), ([0, 100, 2], [0, 1, 200]));

    // Exit. What the child maps alone from now on, it writes without a copy.
    drop(parent);
    (0..PAGES).for_each(|nr| store(&machine, &child, page(nr), 7));
    let total = |counter| vm.totals().get(counter);
    println!("copied {}, reused {}", total(Counter::CowCopied), total(Counter::PgReuse));
    assert_eq!((total(Counter::CowCopied), total(Counter::PgReuse)), (2, PAGES - 1));
}

/// Stores a byte, as a program: the entry must allow it.
fn store(machine: &FlatMachine, space: &Space<'_>, addr: VirtAddr, byte: u8) {
    space.fault(Fault { addr, access: Access::Write }).expect("the mapping allows it");
    let (frame, _) = space.resident_frame(addr.vpn()).expect("just made present");
    // SAFETY: one thread runs, and the entry of the page allows it to write the frame.
    unsafe { machine.window(frame.addr()).write(byte) };
}

/// Loads a byte.
fn load(machine: &FlatMachine, space: &Space<'_>, addr: VirtAddr) -> u8 {
    space.fault(Fault { addr, access: Access::Read }).expect("the mapping allows it");
    let (frame, _) = space.resident_frame(addr.vpn()).expect("just made present");
    // SAFETY: one thread runs, and the frame is memory that it has made present.
    unsafe { machine.window(frame.addr()).read() }
}
