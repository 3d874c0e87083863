//! fork: a parent and a child that share their memory until one of them writes; and a chain of forks, each of
//! which ends its parent.
//!
//! ```text
//! cargo run --package interleaf --example fork
//! cargo run --release --package interleaf --example fork -- 10000      forks of the chain
//! ```

mod flat;

use flat::FlatMachine;
use interleaf::machine::Machine;
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, PAGE_SIZE, VirtAddr};
use std::time::Instant;

type Space<'v> = AddressSpace<'v, FlatMachine>;

/// Pages of the parent.
const PAGES: u64 = 256;

fn main() {
    let forks = std::env::args().nth(1).map_or(Ok(200), |forks| forks.parse());
    let Ok(forks) = forks else {
        eprintln!("usage: fork [FORKS OF THE CHAIN]");
        std::process::exit(2)
    };
    fork();
    chain(forks);
}

/// `cargo test` runs it too.
#[test]
fn a_child_has_what_its_parent_had() {
    fork();
}

/// 10 000 where they are fast.
#[test]
fn a_chain_of_forks_holds_no_more_memory_at_its_end() {
    chain(if cfg!(debug_assertions) { 200 } else { 10_000 });
}

/// Forks again and again. Each child writes an eighth of its pages before its parent ends, and a quarter
/// afterwards, so that it copies some and reuses others.
fn chain(forks: u64) {
    let machine = FlatMachine::new(4096);
    let vm = Vm::new(&machine, machine.boot_map()).expect("16 MiB are enough");
    let mut last = space(&vm);
    let base = last.map(&MapRequest::anonymous(PAGES * PAGE_SIZE as u64)).expect("room for a MiB");
    let page = |nr: u64| VirtAddr(base.0 + nr % PAGES * PAGE_SIZE as u64);
    (0..PAGES).for_each(|nr| store(&machine, &last, page(nr), 0));
    let held = || {
        vm.trim();
        vm.memory().check().expect("frames add up").allocated
    };
    let (at_first, part) = (held(), forks.div_ceil(10).max(1));
    let (mut start, mut written) = (Instant::now(), [0; PAGES as usize]);
    for nr in 1..=forks {
        let child = last.fork().expect("memory for the child's tables");
        let mut write = |space: &Space<'_>, page_nr: u64| {
            written[(page_nr % PAGES) as usize] = nr as u8;
            store(&machine, space, page(page_nr), nr as u8);
        };
        (0..PAGES / 8).for_each(|page| write(&child, nr * 7 + page));
        drop(std::mem::replace(&mut last, child));
        (0..PAGES / 4).for_each(|page| write(&last, nr * 7 + page));
        if nr % part == 0 {
            let per_fork = start.elapsed().as_nanos() as u64 / part;
            println!("{nr:>6} forks: {} frames held, {per_fork} ns each", held());
            assert_eq!(held(), at_first, "frames that the first of them held");
            start = Instant::now();
        }
    }
    assert!((0..PAGES).all(|nr| load(&machine, &last, page(nr)) == written[nr as usize]));
    let total = |counter| vm.totals().get(counter);
    println!("copied {}, reused {}", total(Counter::CowCopied), total(Counter::PgReuse));
}

fn space<'v>(vm: &'v Vm<'v, FlatMachine>) -> Space<'v> {
    AddressSpace::new(vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a root table")
}

fn fork() {
    let machine = FlatMachine::new(4096);
    let vm = Vm::new(&machine, machine.boot_map()).expect("16 MiB are enough");
    let parent = space(&vm);
    let base = parent.map(&MapRequest::anonymous(PAGES * PAGE_SIZE as u64)).expect("room for a MiB");
    let page = |nr: u64| VirtAddr(base.0 + nr * PAGE_SIZE as u64);
    (0..PAGES).for_each(|nr| store(&machine, &parent, page(nr), nr as u8));

    // The system call. The child has the same pages in the same frames.
    let free = vm.memory().check().expect("frames add up").allocated;
    let child = parent.fork().expect("memory for the child's tables");
    let tables = vm.memory().check().expect("frames add up").allocated - free;
    println!("a child of {PAGES} pages took {tables} frames");
    assert!(tables < PAGES / 8);

    // The space that writes gets a copy; the other keeps what it had.
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
    let (frame, _) = space.inspect().resident_frame(addr.vpn()).expect("just made present");
    // SAFETY: one thread runs, and the entry of the page allows it to write the frame.
    unsafe { machine.window(frame.addr()).write(byte) };
}

/// Loads a byte.
fn load(machine: &FlatMachine, space: &Space<'_>, addr: VirtAddr) -> u8 {
    space.fault(Fault { addr, access: Access::Read }).expect("the mapping allows it");
    let (frame, _) = space.inspect().resident_frame(addr.vpn()).expect("just made present");
    // SAFETY: one thread runs, and the frame is memory that it has made present.
    unsafe { machine.window(frame.addr()).read() }
}
