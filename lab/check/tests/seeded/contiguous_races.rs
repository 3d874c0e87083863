//! A block of 64 KiB that is installed while another CPU has single pages of it cached, whose flush is
//! pending.

use interleaf::machine::Cpu;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::sync::atomic::{AtomicU32, Ordering::*};
use interleaf::sync::with_interrupts_off;
use interleaf::table::format::Aarch64;
use interleaf::units::{Access, CpuId, Order, PAGE_SIZE, VirtAddr, Vpn};
use interleaf::vma::{HugeSizes, SizePolicy, VmaFlags};
use interleaf_check::drive::Faults;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};

type Machine = SoftMachine<Baton, Aarch64>;
type Space<'v> = AddressSpace<'v, Machine>;

const PAGE: u64 = PAGE_SIZE as u64;
const BASE: Vpn = Vpn(1 << 20);

fn at(page: u64) -> VirtAddr {
    BASE.add(page).addr()
}

fn wait(flag: &AtomicU32<Baton>) {
    while flag.load(Acquire) == 0 {
        Baton::relax();
    }
}

/// One CPU drops 16 single pages, of which another has one cached and takes no interrupts; a third stores to
/// one, and gets a block; then the second loads another page of that block.
fn scene(schedule: &Schedule) {
    let machine = Machine::new(&MachineConfig::small(3, 4096)).expect("memory for the machine");
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let vm = vm.with_huge_sizes(HugeSizes::NEVER.with(Order(4), SizePolicy::Always));
    let space = Space::new(&vm, Layout::linux::<Aarch64>(), Path::Speculative).expect("memory for a space");
    space.map(&MapRequest { place: Place::Fixed(at(0)), ..MapRequest::anonymous(64 * PAGE) }).expect("room");
    let running = space.activate(None);
    (0..64).for_each(|page| machine.write_u64(at(page), page, &Faults::new(&space)).expect("it is mapped"));
    // An edit of one page makes single pages of its group.
    for rights in [VmaFlags::READ, VmaFlags::READ | VmaFlags::WRITE] {
        space.protect(at(5), PAGE, rights).expect("memory for a mapping");
    }
    drop(running);
    drop(cpu);
    let (has_cached, has_block) = (AtomicU32::<Baton>::new(0), AtomicU32::<Baton>::new(0));
    let editor: Program<'_> = Box::new(|| {
        let _running = space.activate(None);
        wait(&has_cached);
        space.advise(at(0), 16 * PAGE, Advice::DontNeed).expect("it is mapped");
    });
    let late: Program<'_> = Box::new(|| {
        let _running = space.activate(None);
        machine.read_u64(at(3), &Faults::new(&space)).expect("it is mapped");
        with_interrupts_off::<Baton, _>(|| {
            has_cached.store(1, Release);
            wait(&has_block);
            machine.read_u64(at(6), &Faults::new(&space)).expect("it is mapped");
        });
    });
    let faulter: Program<'_> = Box::new(|| {
        let _running = space.activate(None);
        wait(&has_cached);
        while [4, 15].iter().any(|&page| space.resident_frame(BASE.add(page)).is_some()) {
            Baton::relax();
        }
        space.fault(Fault { addr: at(4), access: Access::Write }).expect("it is mapped");
        has_block.store(1, Release);
    });
    schedule.run(&machine, vec![editor, late, faulter]);
    let _cpu = machine.enter(CpuId(0));
    drop(space);
    assert_eq!(machine.violations(), []);
}

#[test]
fn no_tlb_holds_a_block_beside_a_page_of_it_that_was_not_flushed() {
    let options = Options { limit_steps: 400_000, ..Options::default() };
    explore(0..32, options, scene).unwrap_or_else(|report| panic!("{report}"));
}
