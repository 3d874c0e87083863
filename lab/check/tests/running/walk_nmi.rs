//! NMIs at every access of every kind of operation: the handler walks, and what was interrupted goes on as if
//! it had not been there.

use interleaf::space::{
    AddressSpace, Advice, Fault, FrameRecord, Layout, MapRequest, MemlockLimit, Path, Place, Vm,
};
use interleaf::table::NotRead;
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, Pfn, VirtAddr, VpnRange};
use interleaf::vma::VmaFlags;
use interleaf_check::drive::Faults;
use interleaf_check::recount::QuiescentSystem;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::machine::watch::{Watch, with_nmi_at};

type Machine = SoftMachine<Watch, X86_64>;
type Space = AddressSpace<'static, Machine>;

const PAGE: u64 = PAGE_SIZE as u64;
const BASE: VirtAddr = VirtAddr(1 << 40);
/// Pages that stay as they are, then pages that operations change.
const KEPT: u64 = 2;
const PAGES: u64 = 8;

fn page(nr: u64) -> VirtAddr {
    VirtAddr(BASE.0 + nr * PAGE)
}

fn stamp(nr: u64) -> u64 {
    0x1000 + nr
}

/// What an operation works with; never dropped, as handlers borrow it.
#[derive(Clone, Copy)]
struct World {
    machine: &'static Machine,
    vm: &'static Vm<'static, Machine>,
    space: &'static Space,
    other: &'static Space,
    kept: Pfn,
}

fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

impl World {
    fn map(self, nr: u64, pages: u64) {
        let request = MapRequest { place: Place::Fixed(page(nr)), ..MapRequest::anonymous(pages * PAGE) };
        self.space.map(&request).expect("memory");
    }

    fn store(self, nr: u64) {
        self.machine.write_u64(page(nr), stamp(nr), &Faults::new(self.space)).expect("it is mapped");
    }

    fn load(self, nr: u64) -> u64 {
        self.machine.read_u64(page(nr), &Faults::new(self.space)).expect("it is mapped")
    }

    /// The handler: every walker that may run in one.
    fn handle(self) {
        let section = self.vm.read_in_handler();
        let led = self.space.walker().translate_in_handler(page(0), &section).expect("it stays");
        assert_eq!(led.pfn, self.kept, "a page that stays leads elsewhere");
        let all = VpnRange::new(BASE.vpn(), BASE.vpn().add(PAGES));
        let found = self.space.walker().find_frame_in_handler(self.kept, all, 100, &section);
        assert_eq!(found.page, Some(BASE.vpn()));
        for nr in 0..PAGES {
            match self.space.walker().read_word_in_handler(page(nr), &section) {
                Ok(word) => assert!(word == stamp(nr) || word == 0 && nr >= KEPT, "page {nr}: {word:#x}"),
                Err(why) if nr < KEPT => assert_eq!(why, NotRead::NotLoaded, "a page that stays"),
                Err(_) => {}
            }
            assert!(self.space.walker().call_chain(page(nr), FrameRecord::X86_64, 9, &section).count() <= 1);
        }
    }
}

/// Runs the operation, which leaves everything as it was, once for each of its accesses, with an NMI there.
fn at_every_access(operation: impl Fn(World)) {
    let machine = leaked(Machine::new(&MachineConfig::small(1, 1024)).expect("memory for the machine"));
    let _cpu = machine.enter(CpuId(0));
    let vm = leaked(Vm::new(machine, boot_map(machine)).expect("memory for the records"));
    let space = || Space::new(vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a space");
    let (space, other) = (leaked(space()), leaked(space()));
    std::mem::forget(space.activate(None));
    let world = World { machine, vm, space, other, kept: Pfn(0) };
    world.map(0, KEPT);
    (0..KEPT).for_each(|nr| world.store(nr));
    let (kept, _) = space.inspect().resident_frame(BASE.vpn()).expect("it was stored to");
    let world = World { kept, ..world };
    operation(world);
    let mut number = 0;
    loop {
        number += 1;
        let ((), came) = with_nmi_at(number, move || world.handle(), || operation(world));
        assert!((0..KEPT).all(|nr| world.load(nr) == stamp(nr)), "NMI at access {number}");
        if number % 64 == 0 || !came {
            let system = QuiescentSystem { machine, vm, spaces: &[space, other], path: Path::Speculative };
            system.recount().unwrap_or_else(|wrong| panic!("NMI at access {number}: {wrong}"));
        }
        if !came {
            break;
        }
        assert!(number < 100_000, "the operation does not end");
    }
    assert!(number > 20, "{number} accesses are no operation");
}

#[test]
fn in_faults_and_unmaps() {
    at_every_access(|world| {
        world.map(KEPT, 4);
        (KEPT..KEPT + 3).for_each(|nr| world.store(nr));
        world.load(KEPT + 3);
        world.space.advise(page(KEPT), PAGE, Advice::DontNeed).expect("it is mapped");
        world.space.unmap(page(KEPT), 4 * PAGE).expect("it is mapped");
    });
}

#[test]
fn in_forks_and_copies() {
    at_every_access(|world| {
        world.map(KEPT, 2);
        world.store(KEPT);
        let child = world.space.fork().expect("memory");
        world.store(KEPT);
        drop(child);
        world.space.protect(page(KEPT), PAGE, VmaFlags::READ).expect("it is mapped");
        world.space.unmap(page(KEPT), 2 * PAGE).expect("it is mapped");
    });
}

#[test]
fn in_switches_of_spaces_and_in_rcu() {
    at_every_access(|world| {
        let active = world.space.active_here().expect("it is loaded");
        let active = world.other.activate(Some(active));
        std::mem::forget(world.space.activate(Some(active)));
        drop((world.vm.read(), world.vm.read_in_handler()));
        world.vm.synchronize();
        world.vm.try_trim();
    });
}

#[test]
fn in_pins_and_scans() {
    let limit = leaked(MemlockLimit::<Watch>::new(u64::MAX));
    at_every_access(|world| {
        let reading = world.vm.read();
        let pins = world.space.try_pin_fast(page(0), Access::Read, limit, [None, None], &reading);
        assert_eq!(pins.expect("they are there").len(), 2);
        let all = VpnRange::new(BASE.vpn(), BASE.vpn().add(KEPT));
        world.space.walker().scan_accessed(all, &reading, |_, _| ());
        drop(reading);
        world.space.walker().scan_accessed_and_flush(all, |_, _| ());
        (0..KEPT).for_each(|nr| world.store(nr));
        let fault = Fault { addr: page(0), access: Access::Write };
        world.space.fault(fault).expect("it is mapped");
    });
}
