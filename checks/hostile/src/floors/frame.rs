//! Frames: boot maps that lie, orders that are none, values of another memory, and values that are leaked.

use crate::world::{FRAMES, Heap, Lab, must_work, on_cpu, with_vm};
use crate::{call, called, odd};
use interleaf::frame::{
    AllocRequest, BootError, BootMap, BootMemory, DeferredInit, Folio, Frame, FrameMeta, FramePlacement,
    FrameRef, HugeZeroOptions, Init, Mapped, ZeroedFolio,
};
use interleaf::frame::{Memory, Priority, RecordExtent, RecordInit, Region, RegionKind, SlabPool, Stats};
use interleaf::frame::{ZeroPages, ZeroedFrame, Zone};
use interleaf::space::Vm;
use interleaf::sync::{Carve, Rcu};
use interleaf::units::{NodeId, Order, Pfn, PfnRange, PhysAddr};
use interleaf::work::WorkerPool;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;
use std::alloc::Layout;
use std::mem::forget;

/// Calls every function of the module.
pub fn run() {
    on_cpu(boot_maps);
    on_cpu(deferred);
    with_vm(inspection);
    with_vm(|_, vm| allocation(vm.memory()));
    with_vm(|_, vm| values(vm.memory()));
    with_vm(|_, vm| pools(vm.memory()));
    with_vm(|machine, vm| {
        leaks(vm.memory());
        must_work(machine, vm);
    });
    on_cpu(exhausted);
}

/// Boot maps over memory that is not there, and over all numbers.
fn boot_maps(machine: &Lab) {
    let mut maps = 0;
    for start in odd::phys_addrs() {
        for len_bytes in odd::NUMBERS {
            for node in odd::nodes().step_by(3) {
                let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node };
                called!(Region::frames => region.frames());
                called!(Region::usable => region.usable());
                let reserved = Region { kind: RegionKind::Reserved, ..region };
                for regions in [vec![region], vec![reserved], vec![region, region], vec![region; 200], vec![]]
                {
                    let Some(Ok(map)) = call!(BootMap::new, &regions) else { continue };
                    maps += 1;
                    call!(BootMap::span, &map);
                    called!(BootMap::regions => map.regions().len());
                    called!(BootMap::usable => map.usable().count());
                    let Some(Ok(mut memory)) = call!(BootMap::claim, map, machine) else { continue };
                    called!(BootMemory::machine => std::ptr::from_ref(memory.machine()));
                    called!(BootMemory::map => memory.map().span());
                    carve(&mut call!(BootMemory::early_allocator, &mut memory).expect("an allocator"));
                }
            }
        }
    }
    assert!(maps > 10, "some odd maps are accepted");
    // A machine gives no memory that it has not.
    let beyond = Region {
        start: PhysAddr(1 << 40),
        len_bytes: 64 << 20,
        kind: RegionKind::Usable(Init::Zeroed),
        node: NodeId(0),
    };
    let made =
        called!(Memory::new => Memory::new(machine, BootMap::new(&[beyond]).expect("it is sound")).err());
    assert_eq!(made, Some(Some(BootError::NotFree)));
    called!(Memory::new => drop(Memory::new(machine, BootMap::new(&[]).expect("it is sound"))));
}

fn carve<'m>(from: &mut impl Carve<'m>) {
    for (bytes, align) in
        [(0, 1), (1, 4096), (8192, 1), (1 << 62, 1), (64, 1 << 62), (isize::MAX as usize, 1)]
    {
        if let Ok(layout) = Layout::from_size_align(bytes, align) {
            called!(Carve::carve => from.carve(layout).map(|bytes| bytes.len()));
        }
    }
}

fn deferred(machine: &Lab) {
    for init in [RecordInit::Eager, RecordInit::Deferred] {
        let other = Lab::new(&MachineConfig::small(2, FRAMES)).expect("a machine");
        let boot_memory = boot_map(&other).claim(&other).expect("nobody has it");
        assert_eq!(boot_map(&other).claim(&other).err(), Some(BootError::NotFree));
        let memory = call!(Memory::start, boot_memory, init).expect("an answer").expect("memory");
        let deferred = call!(Memory::deferred, &memory).expect("a view");
        let workers = WorkerPool::without_helpers(machine);
        let done = |_| panic!("a report that panics");
        let stop = || panic!("a question that panics");
        let _ = called!(DeferredInit::initialise => deferred.initialise(&workers, u32::MAX, &stop, &|_| ()));
        let _ =
            called!(DeferredInit::initialise => deferred.initialise(&workers, u32::MAX, &|| false, &done));
        let _ = called!(DeferredInit::initialise => deferred.initialise(&workers, 0, &|| true, &|_| ()));
        call!(DeferredInit::frames, deferred);
        let blocks: Vec<_> = (0..9).map(|_| memory.alloc(Order::MAX, AllocRequest::DIRTY)).collect();
        deferred.initialise(&workers, 7, &|| false, &|_| ()).expect("nothing stops it");
        deferred.initialise(&workers, 7, &|| false, &|_| ()).expect("nor a second time");
        assert_eq!(call!(DeferredInit::unclaimed_frames, deferred), Some(0));
        drop(blocks);
        memory.drain();
        assert_eq!(memory.check().expect("frames add up").allocated, 1);
    }
}

/// Extents that no memory has: their fields are public.
fn odd_extents() -> impl Iterator<Item = RecordExtent> {
    odd::pfns().flat_map(|start| {
        let extent = move |node| RecordExtent {
            frames: PfnRange { start, end: Pfn(!start.0) },
            node,
            memory: start.addr(),
            memory_node: NodeId(0),
        };
        odd::nodes().map(extent)
    })
}

fn inspection(machine: &Lab, vm: &Vm<'_, Lab>) {
    let memory = vm.memory();
    call!(Memory::machine, memory);
    call!(Memory::garbage_limits, memory);
    call!(Memory::id, memory);
    call!(Memory::span, memory);
    call!(Memory::zero_frame, memory);
    let extents = call!(Memory::record_extents, memory).expect("where records lie").to_vec();
    for extent in extents.into_iter().chain(odd_extents()) {
        call!(RecordExtent::len_bytes, &extent);
        call!(RecordExtent::is_near, &extent);
    }
    let lazy = HugeZeroOptions::LAZY;
    let zero = call!(Memory::zero_pages, memory).expect("a view");
    let persistent = call!(HugeZeroOptions::persistent, lazy).expect("options");
    for options in [persistent, call!(HugeZeroOptions::per_node, persistent).expect("options"), lazy] {
        call!(ZeroPages::set_options, zero, options);
        assert_eq!(call!(ZeroPages::options, zero), Some(options));
        assert_eq!(call!(ZeroPages::shrink, zero), Some(0));
        assert_eq!(call!(ZeroPages::huge_frames, zero), Some(0));
        assert_eq!(call!(ZeroPages::table_frames, zero), Some(0));
    }
    call!(Memory::extent_of_caches, memory);
    for pfn in odd::pfns().chain([memory.zero_frame(), memory.span().start, memory.span().end]) {
        let meta = call!(Memory::meta, memory, pfn).flatten();
        if let Some(meta) = meta {
            call!(FrameMeta::state, meta);
            call!(FrameMeta::mapcount, meta);
            call!(FrameMeta::pincount, meta);
            call!(FrameMeta::owner, meta);
        }
        called!(Memory::try_get => memory.try_get(pfn).is_none());
        call!(ZeroPages::is_huge_zero, zero, pfn);
        call!(ZeroPages::is_zero_page, zero, pfn);
        call!(ZeroPages::is_table, zero, pfn);
        call!(Memory::node_of, memory, pfn);
    }
    for cpu in odd::cpus() {
        call!(Memory::local_node, memory, cpu);
    }
    for node in odd::nodes() {
        called!(Memory::fallback_order => memory.fallback_order(node).count());
    }
    for nodes in odd::node_masks() {
        call!(Memory::has_memory_on, memory, nodes);
    }
    for zone in call!(Memory::zones, memory).expect("zones") {
        call!(Zone::node, zone);
        call!(Zone::managed, zone);
        call!(Zone::watermark, zone);
        call!(Zone::free_blocks, zone);
        call!(Zone::deferred, zone);
    }
    let stats = call!(Memory::stats, memory).expect("counts");
    call!(Stats::free, &stats);
    call!(Stats::allocated, &stats);
    let mut forged = stats;
    (forged.managed, forged.free_blocks, forged.cached) = (0, [u64::MAX; 11], u64::MAX);
    call!(Stats::free, &forged);
    call!(Stats::allocated, &forged);
    for _ in 0..3 {
        call!(Memory::drain, memory);
        let _ = call!(Memory::check, memory).expect("an answer").expect("frames add up");
    }
    let foreign = Rcu::<Host>::carve(&mut Heap, 2).expect("memory");
    foreign.poll(machine, memory);
}

fn requests() -> impl Iterator<Item = AllocRequest> {
    [AllocRequest::DIRTY, AllocRequest::ZEROED].into_iter().flat_map(|request| {
        [Priority::NoWait, Priority::Normal, Priority::Reserve]
            .map(|priority| call!(AllocRequest::with_priority, request, priority).expect("a request"))
    })
}

fn placements() -> Vec<FramePlacement> {
    let nodes = odd::nodes().map(FramePlacement::Preferred);
    let masks = || odd::node_masks();
    let masks = masks().map(FramePlacement::Bind).chain(masks().map(FramePlacement::PreferredMany));
    [FramePlacement::Local].into_iter().chain(nodes).chain(masks).collect()
}

fn allocation(memory: &Memory<'_, Lab>) {
    for request in requests() {
        for order in odd::orders() {
            let folio = call!(Memory::alloc, memory, order, request).flatten();
            assert!(folio.is_none() || order <= Order::MAX, "{order:?} was allocated");
        }
        drop(call!(Memory::alloc_frame, memory, request));
        drop(call!(Memory::alloc_zeroed, memory, request.priority));
        drop(call!(Memory::alloc_table, memory, request.priority));
        for placement in placements() {
            drop(call!(Memory::alloc_frame_from, memory, placement, request));
            drop(call!(Memory::alloc_zeroed_from, memory, placement, request.priority));
        }
    }
    for placement in placements() {
        for order in odd::orders() {
            drop(call!(Memory::alloc_zeroed_folio, memory, placement, order));
        }
    }
    for nth in odd::NUMBERS {
        call!(Memory::plan_mishap, memory, nth);
        drop(memory.alloc_zeroed(Priority::Normal));
        call!(Memory::plan_mishaps_from, memory, nth);
        drop(memory.alloc(Order(3), AllocRequest::DIRTY));
        call!(Memory::is_mishap_planned, memory);
    }
    memory.plan_mishap(0);
    let mut allocator = call!(Memory::boot_allocator, memory).expect("an allocator");
    carve(&mut allocator);
}

/// What the values of frames become.
fn values(memory: &Memory<'_, Lab>) {
    let folio = memory.alloc(Order(4), AllocRequest::DIRTY).expect("memory");
    let frames = call!(Folio::frames, &folio).expect("frames");
    assert_eq!((call!(Folio::pfn, &folio), frames.len()), (Some(frames.start), 16));
    call!(Folio::order, &folio);
    // A block as user memory: its parts have no reference of their own.
    let user = call!(Folio::into_user, folio).expect("a reference");
    for pfn in frames.start.0..frames.end.0 {
        called!(Memory::try_get => drop(memory.try_get(Pfn(pfn))));
    }
    references(memory, user);
    let folio = || memory.alloc_zeroed_folio(FramePlacement::Local, Order(3)).expect("memory");
    assert_eq!(call!(ZeroedFolio::order, &folio()), Some(Order(3)));
    call!(Folio::node, &folio());
    let first = call!(ZeroedFolio::pfn, &folio()).expect("a number");
    assert!(memory.try_get(first).is_none(), "a block that is not in use has no references");
    let mapped = call!(Folio::into_mapped, folio()).expect("a mapping");
    assert_eq!(call!(Mapped::order, &mapped), Some(Order(3)));
    drop(mapped);
    let frame = memory.alloc_frame(AllocRequest::DIRTY).expect("memory");
    let pfn = call!(Frame::pfn, &frame).expect("a number");
    assert!(memory.try_get(pfn).is_none(), "a frame that is not in use has no references");
    references(memory, call!(Frame::into_user, frame).expect("a reference"));
    let zeroed = || memory.alloc_zeroed(Priority::Normal).expect("memory");
    call!(ZeroedFrame::node, &zeroed());
    let mapped = call!(ZeroedFrame::into_mapped, zeroed()).expect("a mapping");
    let pfn = called!(Mapped::pfn => mapped.pfn()).expect("a number");
    // A second reference outlives the mapping.
    let second = memory.try_get(pfn).expect("it is in use");
    drop(mapped);
    references(memory, second);
    assert!(memory.try_get(pfn).is_none(), "the frame is free");
    for owner in [(0, 0), (u64::MAX, u64::MAX)] {
        references(memory, call!(Folio::into_file, zeroed(), owner).expect("a reference"));
    }
    let table = call!(ZeroedFrame::into_table, zeroed()).expect("a table");
    let pfn = called!(TableFrame::pfn => table.pfn()).expect("a number");
    assert!(memory.try_get(pfn).is_none(), "a table is no user memory");
    drop(table);
    let plain: Frame<'_, Lab> = zeroed().into();
    let plain: Folio<'_, Lab> = plain.into();
    drop(plain);
    memory.drain();
    assert_eq!(call!(ZeroedFrame::pfn, &zeroed()).map(|pfn| memory.meta(pfn).is_some()), Some(true));
}

fn references(memory: &Memory<'_, Lab>, first: FrameRef<'_, Lab>) {
    let pfn = call!(FrameRef::pfn, &first).expect("a number");
    let more: Vec<_> = (0..3000).map(|_| memory.try_get(pfn).expect("it is in use")).collect();
    let mut kept = Vec::new();
    for (nth, reference) in more.into_iter().enumerate() {
        match nth % 3 {
            0 => drop(call!(FrameRef::map, reference)),
            1 => drop(called!(FrameRef::pin => reference.pin().map(|pinned| pinned.pfn()).is_ok())),
            _ => kept.push(call!(FrameRef::pin, reference)),
        }
    }
    crate::call::note("PinnedFrame::pfn");
    drop(first);
    assert!(memory.meta(pfn).is_some_and(|meta| meta.state().refcount() == 1000));
    drop(kept);
    assert!(memory.try_get(pfn).is_none(), "the last reference frees the frame");
}

fn pools(memory: &Memory<'_, Lab>) {
    let pool = call!(SlabPool::new, memory).flatten().expect("memory");
    let pool: SlabPool<'_, [u64; 5], Lab> = pool;
    let bound = call!(SlabPool::with, &pool, memory).expect("it is the pool's");
    let objects: Vec<_> =
        (0..5000).map_while(|_| called!(BoundSlabPool::alloc => bound.alloc()).flatten()).collect();
    assert!(objects.len() > 100 && called!(BoundSlabPool::tag => bound.tag()) > Some(1));
    call!(SlabPool::object_bytes, &pool);
    for _ in 0..3 {
        called!(BoundSlabPool::shrink => bound.shrink());
    }
    assert!(call!(SlabPool::frames, &pool) > Some(0), "objects that are not freed stay");
    on_other_memory(|foreign| {
        assert!(called!(SlabPool::with => pool.with(foreign).tag()).is_none(), "a pool of another memory");
    });
}

/// Calls `f` with the memory of another machine, on that.
fn on_other_memory(f: impl FnOnce(&Memory<'_, Lab>)) {
    let kept = interleaf_lab::machine::soft::current::suspend();
    on_cpu(|machine| f(&Memory::new(machine, boot_map(machine)).expect("memory")));
    interleaf_lab::machine::soft::current::resume(kept);
}

/// Values that are leaked: their frames stay allocated, and nothing else is harmed.
fn leaks(memory: &Memory<'_, Lab>) {
    let before = memory.check().expect("frames add up").allocated;
    let zeroed = || memory.alloc_zeroed(Priority::Normal).expect("memory");
    forget(zeroed());
    forget(zeroed().into_mapped());
    let folio = || memory.alloc_zeroed_folio(FramePlacement::Local, Order(1)).expect("memory");
    forget(folio());
    forget(folio().into_mapped());
    forget(zeroed().into_table());
    forget(zeroed().into_file((1, 2)).map());
    forget(Frame::from(zeroed()).into_user().pin());
    call!(Frame::into_pfn, zeroed().into());
    call!(Folio::into_pfn, memory.alloc(Order(2), AllocRequest::DIRTY).expect("memory"));
    call!(FrameRef::into_pfn, Frame::from(zeroed()).into_user());
    assert_eq!(memory.check().expect("frames add up").allocated, before + 7 + 4 + 4);
}

/// No memory is left, again and again.
fn exhausted(machine: &Lab) {
    let memory = Memory::new(machine, boot_map(machine)).expect("memory");
    for request in requests() {
        let mut held = Vec::new();
        for order in (0..=10).rev().map(Order) {
            held.extend(std::iter::from_fn(|| memory.alloc(order, request)));
        }
        assert!(held.len() as u64 > FRAMES / 1024);
        drop((memory.alloc_zeroed(Priority::Reserve), memory.alloc_table(Priority::Reserve)));
        drop(held);
        memory.drain();
        assert_eq!(memory.check().expect("frames add up").allocated, 1);
    }
}
