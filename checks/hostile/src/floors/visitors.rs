//! Visitors that call back into what calls them: each call ends, by an answer or by a panic with a message.
//!
//! docs/design/locking.md lists the functions that take a closure of the caller's.

use crate::called;
use crate::world::{Heap, Lab, with_vm};
use interleaf::frame::{AllocRequest, IndexPools};
use interleaf::index::{RangeIndex, Ranged};
use interleaf::machine::Cpu;
use interleaf::space::{AddressSpace, Advice, Fault, Layout, MapRequest, Path, RmapFound, Spaces, Vm};
use interleaf::sync::{CpuLocal, PerCpu, Rcu};
use interleaf::table::format::X86_64;
use interleaf::table::{Mapper, scan_accessed};
use interleaf::units::{Access, VirtAddr, Vpn, VpnRange};
use interleaf::vma::VmaFlags;
use interleaf::work::{Chunk, Failed, Job, WorkerPool};
use interleaf_lab::machine::host::Host;
use std::cell::Cell;
use std::ops::ControlFlow;

type Space<'v> = AddressSpace<'v, Lab>;

const PAGES: u64 = 40;

/// Calls every function that calls back.
pub fn run() {
    with_vm(spaces);
    with_vm(tables_and_index);
    with_vm(jobs);
}

fn new_space<'v>(vm: &'v Vm<'v, Lab>) -> Space<'v> {
    AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .expect("memory for a space")
}

fn touched(space: &Space<'_>) -> VirtAddr {
    let base = space.map(&MapRequest::anonymous(PAGES * 4096)).expect("room");
    for nr in 0..PAGES {
        let addr = VirtAddr(base.0 + nr * 4096);
        space.fault(Fault { addr, access: Access::Write }).expect("mapped");
    }
    base
}

/// Edits of the space, a fork, waits for readers, and every other visitor.
fn call_all(space: &Space<'_>, base: VirtAddr) {
    let vm = space.vm();
    let own = space.map(&MapRequest::anonymous(3 * 4096)).expect("room");
    space.fault(Fault { addr: own, access: Access::Write }).expect("mapped");
    space.protect(own, 4096, VmaFlags::READ).expect("mapped");
    space.advise(own, 3 * 4096, Advice::DontNeed).expect("mapped");
    space.unmap(own, 3 * 4096).expect("mapped");
    drop(space.fork().expect("memory"));
    space.inspect().each_vma(|_| ());
    space.mincore(base, 4096, |_, _| ()).expect("mapped");
    space
        .walker()
        .scan_accessed_and_flush(VpnRange { start: base.vpn(), end: base.vpn().add(PAGES) }, |_, _| ());
    vm.synchronize();
    vm.trim();
}

fn spaces(_: &Lab, vm: &Vm<'_, Lab>) {
    let space = new_space(vm);
    let running = space.activate(None);
    let base = touched(&space);
    let all = VpnRange { start: base.vpn(), end: base.vpn().add(PAGES) };
    let calls = Cell::new(0);
    let call = || {
        calls.set(calls.get() + 1);
        call_all(&space, base);
    };
    let ends = [
        called!(Inspect::each_vma => space.inspect().each_vma(|_| call())),
        called!(AddressSpace::mincore => space.mincore(base, PAGES * 4096, |_, _| call()).expect("mapped")),
        called!(Walker::scan_accessed_and_flush => {
            space.walker().scan_accessed_and_flush(all, |_, _| call());
        }),
        called!(Inspect::each_part => space.inspect().each_part(|_, _| call())),
        called!(Vm::each_part => vm.each_part(|_, _| call())),
    ];
    assert!(ends.iter().all(Option::is_some) && calls.get() > PAGES, "{ends:?}");
    // In the caller's section nothing waits for readers: what a visitor calls there is refused.
    space.fault(Fault { addr: base, access: Access::Write }).expect("mapped");
    let reading = vm.read();
    let waited = called!(Walker::scan_accessed => {
        space.walker().scan_accessed(all, &reading, |_, _| vm.synchronize())
    });
    assert!(waited.is_none(), "a wait for itself");
    called!(table::scan_accessed => {
        scan_accessed(space.inspect().page_table(), all, &reading, |_, _| vm.synchronize())
    });
    drop((reading, running));
    entries(vm, space, base);
}

/// The reverse map, whose finder and visitor end spaces too.
fn entries<'v>(vm: &'v Vm<'v, Lab>, space: Space<'v>, base: VirtAddr) {
    let spaces = Spaces::new(vm).expect("memory");
    let child = Cell::new(Some(spaces.insert(space.fork().expect("memory")).expect("memory")));
    let space = spaces.insert(space).expect("memory");
    let (pfn, _) = space.inspect().resident_frame(base.vpn()).expect("present");
    let frame = vm.memory().try_get(pfn).expect("user memory");
    let found = called!(Spaces::rmap_walk => spaces.rmap_walk(&frame, |entry| {
        call_all(entry.space(), base);
        drop(child.take());
        ControlFlow::Continue(())
    }));
    assert_eq!(found, Some(Ok(RmapFound::All(1))));
    let found = called!(Vm::rmap_walk => vm.rmap_walk(&frame, |id| {
        call_all(&space, base);
        spaces.hold(id)
    }, |_| ControlFlow::Continue(())));
    assert_eq!(found, Some(Ok(RmapFound::All(1))));
    let taken = called!(AddressSpace::unmap_hugetlb_sharers => space.unmap_hugetlb_sharers(base, |id| {
        call_all(&space, base);
        spaces.hold(id)
    }));
    assert_eq!(taken, Some(Ok(false)));
}

/// An item of the index that covers two pages.
struct Two(u64);

impl Ranged for Two {
    fn range(&self) -> VpnRange {
        VpnRange { start: Vpn(self.0), end: Vpn(self.0 + 2) }
    }
}

fn tables_and_index(machine: &Lab, vm: &Vm<'_, Lab>) {
    let rcu = Rcu::<Host>::carve(&mut Heap, 2).expect("memory");
    let mapper = Mapper::new(vm.memory(), &rcu, |_| rcu.wait(machine, vm.memory())).expect("memory");
    let pages = VpnRange { start: Vpn(8), end: Vpn(900) };
    // The flush is called with nothing held, too.
    assert_eq!(called!(Mapper::unmap => mapper.unmap(pages)), Some(Ok(0)));
    let scan = called!(Mapper::scan_accessed => mapper.scan_accessed(pages, |_, _| {
        let _ = mapper.unmap(pages);
    }));
    assert!(scan.is_some_and(|scan| scan.is_ok()));
    drop(mapper);
    let pools = IndexPools::<Two, Lab>::new(vm.memory(), &rcu).expect("memory");
    let store = pools.allocator(vm.memory(), &rcu);
    let index = RangeIndex::<Two, Host>::new(&store);
    let none = VpnRange::default();
    let nested = |start| {
        let edit = index.prepare(none, [Two(start)], &store).expect("memory");
        edit.publish();
        Two(start + 10)
    };
    // An iterator is asked before the edit begins; a visit, while it is under way.
    let put = called!(RangeIndex::prepare => {
        index.prepare(none, [10].map(nested), &store).expect("memory").publish()
    });
    assert_eq!((put, index.len()), (Some(()), 2));
    let edit = index.prepare(VpnRange { start: Vpn(10), end: Vpn(30) }, [], &store).expect("memory");
    let visited = called!(Replacement::publish_and => edit.publish_and(|_| {
        assert!(index.find(&rcu.read(), Vpn(10)).is_some(), "it is not unlinked yet");
        rcu.wait(machine, vm.memory());
        drop(index.prepare(none, [Two(50)], &store));
    }));
    assert_eq!((visited, index.len()), (None, 2), "a second edit is refused");
    index.prepare(VpnRange { start: Vpn(10), end: Vpn(30) }, [], &store).expect("memory").publish();
    rcu.wait(machine, vm.memory());
}

/// Parts of jobs run jobs; a CPU's own data, taken twice, is refused.
fn jobs(machine: &Lab, vm: &Vm<'_, Lab>) {
    let pool = WorkerPool::without_helpers(machine);
    let inner = |_: &Chunk<'_>| {
        drop(vm.memory().alloc_frame(AllocRequest::ZEROED));
        Ok::<(), ()>(())
    };
    let stop = || {
        vm.synchronize();
        false
    };
    let undo = |_| vm.trim();
    let outer = |_: &Chunk<'_>| {
        vm.trim();
        pool.run(&Job::new(0..9, inner)).map(drop).map_err(|_| ())?;
        Err(())
    };
    let job = Job::new(0..9, outer).stop_if(&stop).undo(&undo);
    let ran = called!(WorkerPool::run => pool.run(&job).map(drop));
    assert_eq!(ran, Some(Err(Failed::Error(()))));
    let done = called!(DeferredInit::initialise => {
        vm.memory().deferred().initialise(&pool, 9, &stop, &|_| vm.trim()).is_ok()
    });
    assert_eq!(done, Some(true));
    let slots: PerCpu<'_, CpuLocal<u32>, Host> =
        PerCpu::carve(&mut Heap, 2, |_| CpuLocal::new(0)).expect("memory");
    let own = slots.get_cpu();
    let nested = called!(CpuGuard::with => own.with(|local| local, |_| own.with(|local| local, |_| ())));
    assert_eq!(nested, Some(Some(None)));
    Host::relax();
}
