//! The address space: addresses and lengths at all edges, spaces of another machine, spaces that are loaded
//! in no order, and guards that are forgotten.

use super::{objects, pagers};
use crate::odd::{self, NUMBERS};
use crate::world::{FRAMES, Lab, must_add_up, must_work, on_cpu, on_lost_cpu, use_pages, with_vm};
use crate::{call, called};
use interleaf::frame::RecordInit;
use interleaf::space::{
    Active, AddressSpace, Advice, Counter, Counters, Error, Fallback, Fault, Inspect, Layout, LazyTlb,
    RangeToken,
};
use interleaf::space::{
    MapRequest, Misplaced, Path, Place, RangeGuard, RangeReadGuard, RemapFlags, RemapRequest, Sharing,
    Totals, Vm, VmOptions,
};
use interleaf::sync::PreemptGuard;
use interleaf::table::format::{Aarch64, Ept, Sv39, X86_64, X86_64La57};
use interleaf::units::{Access, NodeMask, Order, VirtAddr, Vpn, VpnRange};
use interleaf::vma::{
    CollapseLimits, FlagAdvice, HugePolicy, MthpPolicies, MthpPolicy, PolicyMode, PolicyRequest, Requester,
    SharedHugePolicy, ThpDisable, VmaFlags, ZeroPagePolicy,
};
use interleaf::work::WorkerPool;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;
use std::mem::forget;

type Space<'v> = AddressSpace<'v, Lab>;

/// Calls every function of the floor.
pub fn run() {
    on_cpu(vms);
    pagers::run(new_space);
    counters();
    with_vm(layouts);
    for path in Path::ALL {
        call!(Path::name, path);
        with_vm(|machine, vm| in_spaces(path, machine, vm));
    }
    with_vm(orders);
    on_lost_cpu(forgotten);
    on_lost_cpu(torn_down_while_loaded);
}

fn in_spaces(path: Path, machine: &Lab, vm: &Vm<'_, Lab>) {
    let with_space = |f: &dyn Fn(&Space<'_>)| with_space(path, machine, vm, f);
    with_space(&arguments);
    with_space(&policies);
    with_space(&inspection);
    with_space(&guards);
    with_space(&|space| super::pin::run(vm, space));
    with_space(&|space| super::walk::run(vm, space));
    with_space(&|space| super::pin::copies(vm, space));
    with_space(&|space| objects::run(vm, [space, &space_of_path(vm, path)], |vm| space_of_path(vm, path)));
    with_space(&|space| super::pfnmap::run(machine, space));
    with_space(&|space| super::hugetlb::run(vm, space));
}

fn new_space<'v>(vm: &'v Vm<'v, Lab>) -> Space<'v> {
    space_of_path(vm, Path::Speculative)
}

fn space_of_path<'v>(vm: &'v Vm<'v, Lab>, path: Path) -> Space<'v> {
    let layout = Layout { max_mappings: 3000, max_commit_pages: Some(1 << 30), ..Layout::linux::<X86_64>() };
    call!(AddressSpace::new, vm, layout, path).expect("an answer").expect("memory for a space")
}

/// Calls `f` with a space that this CPU runs, whose faults go that way; then everything is recounted.
fn with_space(path: Path, machine: &Lab, vm: &Vm<'_, Lab>, f: &dyn Fn(&Space<'_>)) {
    let space = space_of_path(vm, path);
    let running = called!(AddressSpace::activate => space.activate(None)).expect("nothing runs here");
    f(&space);
    must_add_up(machine, vm, &[&space], path);
    space.unmap(VirtAddr(0x1000), (1 << 47) - 0x3000).expect("all of it");
    use_pages(machine, &space);
    must_add_up(machine, vm, &[&space], path);
    drop(running);
}

fn vms(machine: &Lab) {
    let boot_memory = boot_map(machine).claim(machine).expect("nobody has it");
    let workers = WorkerPool::without_helpers(machine);
    let options = VmOptions {
        fault_around_bytes: 16 * 4096,
        records: RecordInit::Deferred,
        workers: Some(&workers),
        huge_pages: HugePolicy::Always,
        mthp: MthpPolicies::all(MthpPolicy::Always),
        shared_huge_pages: SharedHugePolicy::Advise,
        zero_page: ZeroPagePolicy::Huge,
        pager: None,
    };
    let vm = call!(Vm::start, boot_memory, options).expect("an answer").expect("memory");
    assert_eq!(call!(Vm::huge_policy, &vm), Some(options.huge_pages));
    assert_eq!(call!(Vm::shared_huge_policy, &vm), Some(options.shared_huge_pages));
    assert_eq!(call!(Vm::zero_page, &vm), Some(options.zero_page));
    assert_eq!(call!(Vm::mthp, &vm), Some(options.mthp));
    call!(Vm::machine, &vm);
    call!(Vm::memory, &vm);
    call!(Vm::shootdown_stats, &vm);
    call!(Vm::garbage, &vm);
    call!(Vm::garbage_limits, &vm);
    call!(Vm::garbage_stats, &vm);
    for age in [0, 1, u64::MAX] {
        call!(Vm::idle, &vm, age);
        call!(Vm::tick, &vm, age);
        call!(Vm::offline, &vm);
    }
    call!(Vm::totals, &vm);
    drop(call!(Vm::read, &vm));
    for _ in 0..3 {
        call!(Vm::synchronize, &vm);
        assert_eq!(call!(Vm::try_trim, &vm), Some(true));
        call!(Vm::trim, &vm);
    }
    call!(Vm::each_part, &vm, |_, _| panic!("a visit that panics"));
    must_work(machine, &vm);
    // A second one over the same memory is refused, also when the first has ended; so is one that has
    // nothing.
    assert!(call!(Vm::new, machine, boot_map(machine)).is_none_or(|vm| vm.is_err()));
    drop(vm);
    assert!(call!(Vm::new, machine, boot_map(machine)).is_none_or(|vm| vm.is_err()));
    let empty = interleaf::frame::BootMap::new(&[]).expect("no region is sound");
    assert!(call!(Vm::new, machine, empty).is_none_or(|vm| vm.is_err()));
    let other = Lab::new(&MachineConfig::small(2, FRAMES)).expect("a machine");
    forget(Vm::new(&other, boot_map(&other)).expect("memory"));
}

fn counters() {
    on_cpu(|_| {
        let counters: Counters<'_, Host> =
            call!(Counters::carve, &mut crate::world::Heap, 2).flatten().expect("memory");
        let none: Counters<'_, Host> = Counters::carve(&mut crate::world::Heap, 0).expect("none is enough");
        for order in [0, 1, 2, 8, 9, 255].map(Order) {
            let of_size = call!(Counter::anon_fault_alloc, order).expect("an answer");
            assert_eq!(of_size.is_some(), MthpPolicies::index(order).is_some());
            call!(Counter::anon_fault_fallback, order);
        }
        for counter in Counter::ALL {
            call!(Counter::name, *counter);
            for counters in [&counters, &none] {
                let pinned = PreemptGuard::<Host>::new();
                call!(Counters::count, counters, *counter);
                call!(Counters::count_each, counters, [*counter; 3]);
                call!(Counters::count_here, counters, *counter, &pinned);
                call!(Counters::count_many, counters, *counter, u64::MAX);
            }
        }
        call!(Counters::extent, &counters);
        let totals = call!(Counters::totals, &counters).expect("totals");
        for earlier in [totals, call!(Counters::totals, &none).expect("totals")] {
            call!(Totals::since, &earlier, &totals);
        }
        call!(Totals::get, &totals, Counter::PgFault);
        called!(Totals::iter => totals.iter().count());
        for fallback in Fallback::ALL {
            call!(Fallback::counter, fallback);
        }
    });
}

/// Layouts that make no sense.
fn layouts(_: &Lab, vm: &Vm<'_, Lab>) {
    called!(Layout::linux => Layout::linux::<X86_64La57>());
    called!(Layout::linux => Layout::linux::<Aarch64>());
    called!(Layout::linux => Layout::linux::<Sv39>());
    called!(Layout::linux => Layout::linux::<Ept>());
    called!(Layout::overcommit => Layout::linux::<Aarch64>().overcommit());
    let usual =
        call!(VirtAddr::vpn, VirtAddr(0)).map(|_| called!(Layout::linux => Layout::linux::<X86_64>()));
    let usual = usual.flatten().expect("a layout");
    for user in odd::vpn_ranges().step_by(19) {
        for base in odd::vpns().step_by(9) {
            let mut areas = usual.areas;
            (areas.user, areas.mmap_base, areas.legacy_base) = (user, base, Vpn(!base.0));
            let layout = Layout { areas, heap_start: base.addr(), max_mappings: base.0 as usize, ..usual };
            let Some(Ok(space)) = call!(AddressSpace::new, vm, layout, Path::Locked) else { continue };
            let mapped = call!(AddressSpace::map, &space, &MapRequest::anonymous(1 << 20));
            if let Some(Ok(base)) = mapped {
                space.unmap(base, 1 << 20).expect("it was mapped");
            }
            call!(AddressSpace::brk, &space, VirtAddr(u64::MAX));
        }
    }
}

fn arguments(space: &Space<'_>) {
    call!(AddressSpace::vm, space);
    let child = call!(AddressSpace::fork, space);
    drop(child.and_then(Result::ok).map(|child| call!(AddressSpace::fork, &child)));
    for thp_disable in [ThpDisable::Completely, ThpDisable::ExceptAdvised, ThpDisable::None] {
        call!(AddressSpace::set_thp_disable, space, thp_disable);
        assert_eq!(call!(AddressSpace::thp_disable, space), Some(thp_disable));
    }
    call!(AddressSpace::layout, space);
    call!(AddressSpace::root, space);
    for (nth, addr) in odd::virt_addrs().enumerate() {
        for len in NUMBERS {
            map(space, addr, len, NUMBERS[(nth + 5) % NUMBERS.len()] as u32);
            let access = VmaFlags::from_bits_retain(len as u32 ^ addr.0 as u32);
            let _ = call!(AddressSpace::protect, space, addr, len, access);
            let _ = call!(AddressSpace::collapse, space, addr, len);
            let requester = if len % 2 == 0 { Requester::Program } else { Requester::Scanner };
            let _ = call!(AddressSpace::collapse_region, space, addr.vpn(), requester, &CollapseLimits::NONE);
            let _ = call!(AddressSpace::scan_to_collapse, space, addr.vpn(), 3, &CollapseLimits::LINUX);
            for advice in [
                Advice::DontNeed,
                Advice::Free,
                Advice::WillNeed,
                Advice::Cold,
                Advice::Collapse,
                Advice::Flag(FlagAdvice::NoHugePage),
            ] {
                let _ = call!(AddressSpace::advise, space, addr, len, advice);
            }
            if len <= 1 << 20 {
                let _ = call!(AddressSpace::advise, space, addr, len, Advice::PopulateRead);
                let _ = call!(AddressSpace::advise, space, addr, len, Advice::PopulateWrite);
                let _ = call!(AddressSpace::mincore, space, addr, len, |_, _| ());
            }
            remap(space, addr, len, VirtAddr(NUMBERS[(nth + 3) % NUMBERS.len()]));
            let _ = call!(AddressSpace::unmap, space, addr, len);
        }
        for access in [Access::Read, Access::Write, Access::Execute] {
            let _ = call!(AddressSpace::fault, space, Fault { addr, access });
        }
        call!(AddressSpace::brk, space, addr);
    }
    let panics = |_: Vpn, _: bool| panic!("a visit that panics");
    let base = space.map(&MapRequest::anonymous(8192)).expect("room");
    let _ = call!(AddressSpace::mincore, space, base, 8192, panics);
}

/// Every set of flags, to a place that may be anything; back again, so that little is left elsewhere.
fn remap(space: &Space<'_>, addr: VirtAddr, len_bytes: u64, to: VirtAddr) {
    for bits in 0..=RemapFlags::all().bits() {
        let flags = RemapFlags::from_bits_retain(bits);
        for (old_len_bytes, new_len_bytes) in [(len_bytes, len_bytes), (len_bytes / 2, len_bytes), (0, 4096)]
        {
            let request = RemapRequest { addr, old_len_bytes, new_len_bytes, flags, to };
            if let Some(Ok(now)) = call!(AddressSpace::remap, space, &request) {
                let _ = call!(AddressSpace::unmap, space, now, new_len_bytes);
            }
        }
    }
}

fn map(space: &Space<'_>, addr: VirtAddr, len_bytes: u64, flags: u32) {
    let usual = call!(MapRequest::anonymous, len_bytes).expect("a request");
    for place in [Place::Hint(addr), Place::Fixed(addr), Place::FixedNoReplace(addr), Place::Low(addr)] {
        for sharing in [Sharing::Private, Sharing::Shared] {
            // What is locked or populated is charged at once: no more than the machine has.
            let small = len_bytes <= FRAMES * 4096 / 16;
            let flags = VmaFlags::from_bits_retain(flags) | VmaFlags::NORESERVE;
            let request = MapRequest { place, flags, sharing, populate: small, ..usual };
            let _ = call!(AddressSpace::choose_place, space, &request);
            if let Some(Ok(at)) = call!(AddressSpace::map, space, &request)
                && small
            {
                let _ = call!(AddressSpace::unmap, space, at, len_bytes / 2);
            }
        }
    }
}

fn policies(space: &Space<'_>) {
    let base = space.map(&MapRequest::anonymous(64 * 4096)).expect("room");
    for addr in odd::virt_addrs().chain([base]) {
        for len in NUMBERS {
            for mode in [PolicyMode::Default, PolicyMode::Bind, PolicyMode::Interleave, PolicyMode::Local] {
                let request = PolicyRequest::of(mode, len ^ 1);
                for misplaced in [Misplaced::Keep, Misplaced::Refuse, Misplaced::Report] {
                    let _ = call!(AddressSpace::set_policy, space, addr, len, request, misplaced);
                }
            }
        }
    }
    assert!(NodeMask::ALL.contains(interleaf::units::NodeId(0)));
}

fn inspection(space: &Space<'_>) {
    let base = space.map(&MapRequest::anonymous(64 * 4096)).expect("room");
    for page in odd::vpns().chain([base.vpn()]) {
        call!(Inspect::resident_frame, space.inspect(), page);
        call!(Inspect::vma_at, space.inspect(), page.addr());
        call!(Inspect::first_vma_in, space.inspect(), VpnRange { start: page, end: base.vpn() });
        call!(Inspect::vma_at, space.inspect(), VirtAddr(page.0));
        for len in NUMBERS {
            call!(Inspect::is_any_mapped, space.inspect(), page.addr(), len);
        }
    }
    call!(AddressSpace::inspect, space);
    call!(AddressSpace::walker, space);
    call!(Inspect::nr_mappings, space.inspect());
    call!(Inspect::each_vma, space.inspect(), |_| ());
    call!(Inspect::each_vma, space.inspect(), |_| panic!("a visit that panics"));
    call!(Inspect::each_part, space.inspect(), |_, _| panic!("a visit that panics"));
    call!(Inspect::page_table, space.inspect());
    let _ = call!(Inspect::check_index, space.inspect()).expect("an answer").expect("it is in order");
    call!(Inspect::cpus_racy, space.inspect());
    assert_eq!(call!(AddressSpace::runs_nowhere, space), Some(false));
}

/// Guards of odd ranges, and of another space.
fn guards(space: &Space<'_>) {
    let other = new_space(space.vm());
    for range in odd::vpn_ranges().step_by(7) {
        let inverted = VpnRange { start: range.end, end: range.start };
        drop(call!(AddressSpace::write_two, space, range, inverted));
        drop(call!(AddressSpace::write_all, space));
        if let Some(guard) = call!(AddressSpace::write, space, range) {
            hold(call!(RangeGuard::token, &guard).expect("proof"), [space, &other], range);
        }
        drop(call!(AddressSpace::read_all, space));
        if let Some(guard) = call!(AddressSpace::read, space, range) {
            hold(call!(RangeReadGuard::token, &guard).expect("proof"), [space, &other], range);
        }
    }
    called!(AddressSpace::write_all => {
        let _guard = space.write_all();
        panic!("a writer that panics");
    });
}

fn hold(token: RangeToken<'_>, spaces: [&Space<'_>; 2], range: VpnRange) {
    for space in spaces {
        for range in [range, VpnRange { start: Vpn(0), end: Vpn(u64::MAX) }] {
            call!(RangeToken::assert_covers, token, space.id(), range);
            call!(RangeToken::assert_may_read, token, space.id(), range);
        }
    }
    let old = || panic!("a mapping that panics");
    call!(RangeToken::assert_may_replace, token, old, &[None; 5]);
}

/// Spaces that are loaded twice, given up twice, and given up in the wrong order.
fn orders(machine: &Lab, vm: &Vm<'_, Lab>) {
    let (one, two) = (new_space(vm), new_space(vm));
    for (a, b) in [(&one, &two), (&two, &one), (&one, &one)] {
        let active = called!(AddressSpace::activate => a.activate(None)).expect("nothing is loaded");
        call!(Active::space, &active);
        assert!(called!(AddressSpace::activate => drop(b.activate(None))).is_none(), "one is loaded already");
        let same = call!(AddressSpace::active_here, a).flatten();
        let lazy = called!(Active::enter_lazy_tlb => active.enter_lazy_tlb()).expect("it is loaded");
        call!(LazyTlb::space, &lazy);
        let active = called!(LazyTlb::resume => lazy.resume()).flatten();
        let next = called!(AddressSpace::activate => b.activate(active));
        // A space that another is loaded in place of, and one that was given up before.
        called!(AddressSpace::activate => drop(a.activate(same)));
        crate::call::without_message(|| drop(next));
        while let Some(left) = one.active_here().or_else(|| two.active_here()) {
            drop(left);
        }
        assert!(machine.root().is_none(), "this CPU runs nothing");
        assert!(one.runs_nowhere() && two.runs_nowhere());
    }
    let running = one.activate(None);
    use_pages(machine, &one);
    drop(running);
    assert_eq!(one.protect(VirtAddr(0), 4096, VmaFlags::READ), Err(Error::NoMemory));
    must_work(machine, vm);
}

/// Guards that are forgotten lock for ever, and a space that is forgotten stays.
fn forgotten(machine: &Lab) {
    let vm = Vm::new(machine, boot_map(machine)).expect("memory");
    let space = new_space(&vm);
    let running = space.activate(None);
    use_pages(machine, &space);
    let base = space.map(&MapRequest::anonymous(8192)).expect("room");
    forget(space.read_all());
    call!(AddressSpace::fault, &space, Fault { addr: base, access: Access::Write });
    forget(running);
    forget(space);
    vm.memory().check().expect("frames add up");
}

/// A space ends while this CPU has it loaded: refused, its tables stay.
fn torn_down_while_loaded(machine: &Lab) {
    let vm = Vm::new(machine, boot_map(machine)).expect("memory");
    let space = new_space(&vm);
    forget(space.activate(None));
    use_pages(machine, &space);
    let root = space.root();
    let dropped = crate::call::without_message(|| drop(space));
    let kind = vm.memory().meta(root).map(|meta| meta.state().kind());
    assert!(
        machine.root() != Some(root) || kind == Some(interleaf::frame::Kind::Table),
        "the root that a CPU has loaded is freed: {dropped:?}"
    );
}
