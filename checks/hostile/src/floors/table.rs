//! Page tables: slots that are none, tables of other trees and other memory, locks taken twice, walks under
//! the wrong read section, and edits behind a space's back.

use crate::odd::{self, LEVELS};
use crate::world::{Heap, Lab, must_work, use_pages, with_vm};
use crate::{call, called};
use interleaf::frame::{FramePlacement, MappedFolio, MappedFrame, Memory, Priority};
use interleaf::machine::{Entry, Leaf, Marker};
use interleaf::space::{AddressSpace, Layout, MapRequest, Path, Vm};
use interleaf::sync::Rcu;
use interleaf::table::format::{Aarch64, Ept, Sv39, X86_64, X86_64La57};
use interleaf::table::{
    self, EntryRef, LeafBits, LeafContent, LockedTable, Mapper, PageTable, SlotMarker, Table, ZeroLeaf,
};
use interleaf::units::{Level, Order, Pfn, Rights, Vpn, VpnRange};
use interleaf_check::drive::Faults;
use interleaf_lab::machine::host::Host;

const SLOTS: [usize; 6] = [0, 1, 511, 512, 1 << 31, usize::MAX];
const ALL: LeafBits = LeafBits::new(Rights::all()).used(true);

/// Calls every function of the floor.
pub fn run() {
    for page in odd::vpns() {
        called!(table::is_canonical => table::is_canonical::<X86_64>(page));
        called!(table::is_canonical => table::is_canonical::<X86_64La57>(page));
        called!(table::is_canonical => table::is_canonical::<Aarch64>(page));
        called!(table::is_canonical => table::is_canonical::<Sv39>(page));
        called!(table::is_canonical => table::is_canonical::<Ept>(page));
    }
    with_vm(|machine, vm| {
        trees(vm);
        must_work(machine, vm);
    });
    with_vm(behind_its_back);
    with_vm(locked_and_unmapped);
}

fn frame<'m>(memory: &'m Memory<'m, Lab>) -> MappedFrame<'m, Lab> {
    memory.alloc_zeroed(Priority::Normal).expect("memory").into_mapped()
}

fn huge<'m>(memory: &'m Memory<'m, Lab>) -> MappedFolio<'m, Lab> {
    let folio = memory.alloc_zeroed_folio(FramePlacement::Local, Order::HUGE);
    folio.expect("memory").into_mapped()
}

fn trees(vm: &Vm<'_, Lab>) {
    let memory = vm.memory();
    let [rcu, foreign] = [(); 2].map(|()| Rcu::<Host>::carve(&mut Heap, 2).expect("memory"));
    let root = || memory.alloc_table(Priority::Normal).expect("memory");
    let tree = call!(PageTable::new, memory, root(), &rcu).expect("a tree");
    let other = call!(PageTable::of_all_cpus, memory, root()).expect("a tree");
    for tree in [&tree, &other] {
        call!(PageTable::root, tree);
        called!(LeafContent::may_be_in => ZeroLeaf::BASE.may_be_in(tree));
        let top = call!(PageTable::top, tree).expect("a table");
        call!(Table::pfn, &top);
        for slot in SLOTS {
            call!(Table::read, &top, slot);
            call!(Table::entry, &top, slot);
            for guard in [rcu.read(), foreign.read()] {
                called!(Table::child => top.child(slot, &guard).is_some());
            }
        }
        edit(memory, call!(Table::lock, &top).flatten().expect("it is attached"));
    }
    let below = chain(memory, &tree);
    assert_eq!(below, 3, "a table of each level below the root");
    walks(&tree, &other, [&rcu, &foreign]);
    mapper(memory, &rcu);
    let (above, top) = (other.top().lock().expect("it is attached"), tree.top());
    assert!(called!(Table::lock_below => top.lock_below(&above).is_some()).is_none(), "of another tree");
    drop(above);
    on_other_memory(|foreign| {
        assert!(called!(PageTable::new => drop(PageTable::new(memory, table_of(foreign), &rcu))).is_none());
        assert!(
            called!(PageTable::of_all_cpus => drop(PageTable::of_all_cpus(memory, table_of(foreign))))
                .is_none()
        );
        let mut locked = other.top().lock().expect("it is attached");
        let linked = called!(LockedTable::link => locked.link(9, table_of(foreign)).is_ok());
        assert!(linked.is_none(), "a table of another memory");
        assert!(call!(LockedTable::install, &mut locked, 9, frame(foreign), ALL).is_none());
    });
}

/// Tables alone, without PFN-mapped frames: only unsafe code gives some.
fn mapper<'m>(memory: &'m Memory<'m, Lab>, rcu: &'m Rcu<'m, Host>) {
    let careless = |_: VpnRange| panic!("a flush that panics");
    for page in odd::vpns() {
        let mapper = called!(Mapper::new => Mapper::new(memory, rcu, |_| ())).flatten().expect("memory");
        call!(Mapper::root, &mapper);
        call!(Mapper::query, &mapper, page);
        super::walk::mapper(&mapper, page);
        for end in odd::vpns() {
            let _ = call!(Mapper::unmap, &mapper, VpnRange { start: page, end });
        }
    }
    let mapper = call!(Mapper::new, memory, rcu, careless).flatten().expect("memory");
    assert!(call!(Mapper::unmap, &mapper, VpnRange { start: Vpn(0), end: Vpn(1) }).is_none());
    crate::call::without_message(|| drop(mapper));
}

fn table_of<'m>(memory: &'m Memory<'m, Lab>) -> interleaf::frame::TableFrame<'m, Lab> {
    memory.alloc_table(Priority::Normal).expect("memory")
}

/// Calls `f` with another memory of the same machine's kind, on its CPU.
fn on_other_memory(f: impl FnOnce(&Memory<'_, Lab>)) {
    use interleaf_lab::machine::soft::current;
    let kept = current::suspend();
    crate::world::on_cpu(|machine| {
        let map = interleaf_lab::machine::soft::boot_map(machine);
        f(&Memory::new(machine, map).expect("memory"));
    });
    current::resume(kept);
}

/// Every edit of a locked table, with every slot.
fn edit<'m>(memory: &'m Memory<'m, Lab>, mut locked: LockedTable<'_, Lab>) {
    let level = call!(LockedTable::level, &locked).expect("a level");
    assert_eq!(
        Some(level),
        called!(Table::level => call!(LockedTable::table, &locked).expect("a table").level())
    );
    let leaf = Leaf::new(memory.zero_frame(), Rights::all());
    call!(LeafBits::of, leaf);
    let bits = call!(LeafBits::new, Rights::all()).expect("bits");
    call!(LeafBits::used, bits, false);
    for (kind, payload) in (0..40).flat_map(|kind| [0, 1, u64::MAX].map(|payload| (kind, payload))) {
        if let Some(marker) = call!(SlotMarker::of, Marker::from_parts(kind, payload)).flatten() {
            call!(SlotMarker::marker, marker);
            call!(SlotMarker::entry, marker);
        }
    }
    for slot in SLOTS {
        call!(LockedTable::read, &locked, slot);
        call!(LockedTable::entry, &locked, slot);
        called!(LockedTable::child => locked.child(slot).is_some());
        call!(LockedTable::marker, &locked, slot);
        call!(LockedTable::mark, &mut locked, slot, SlotMarker::Busy);
        called!(LockedTable::link => locked.link(slot, table_of(memory)).is_ok());
        called!(LockedTable::mark => locked.mark(slot, SlotMarker::Busy));
        let forged = called!(LockedTable::mark => locked.mark(slot, SlotMarker::PendingFree(Pfn(0))));
        assert_ne!(forged, Some(true), "a marker that owns a frame was forged");
        called!(LockedTable::install => locked.install(slot, frame(memory), ALL));
        called!(LockedTable::install => locked.install(slot, huge(memory), ALL));
        called!(LockedTable::install => locked.install(slot, ZeroLeaf::BASE, ALL));
        call!(LockedTable::adjust, &mut locked, slot, |_| Some(ALL));
        called!(LockedTable::adjust => locked.adjust(slot, |_| panic!("a change that panics")));
        call!(LockedTable::is_discardable, &locked, slot);
        for lazyfree in [true, false] {
            call!(LockedTable::set_lazyfree, &locked, slot, lazyfree);
        }
        for end in SLOTS {
            call!(LockedTable::first_used, &locked, slot..end);
        }
    }
}

/// Links a table of each level, and installs leaves in the last.
fn chain<'m>(memory: &'m Memory<'m, Lab>, tree: &PageTable<'m, Lab>) -> usize {
    let mut depth = 0;
    let mut locked = tree.top().lock().expect("it is attached");
    let mut above = Vec::new();
    while locked.level() != Level::Pte {
        drop(locked.link(7, table_of(memory)));
        assert!(locked.link(7, table_of(memory)).is_err(), "a slot holds one table");
        assert!(call!(LockedTable::install, &mut locked, 7, frame(memory), ALL).is_none(), "no leaf up here");
        let below = {
            let child = call!(LockedTable::child, &locked, 7).flatten().expect("it was linked");
            assert_eq!(call!(Table::lock_below, &child, &locked).flatten().map(drop), Some(()));
            child.lock_below(&locked).expect("it is attached")
        };
        above.push(locked);
        locked = below;
        depth += 1;
    }
    edit(memory, locked);
    // The upper ones are dropped first.
    above.into_iter().for_each(drop);
    depth
}

fn walks<'m>(tree: &PageTable<'m, Lab>, other: &PageTable<'m, Lab>, rcus: [&Rcu<'_, Host>; 2]) {
    let odd = odd::vpns().chain([Vpn(7 | 7 << 9 | 7 << 18 | 7 << 27)]);
    for rcu in rcus {
        let reading = rcu.read();
        for page in odd.clone() {
            for to in LEVELS {
                for tree in [tree, other] {
                    let found = called!(table::walk => table::walk(tree, page, to, &reading));
                    found.iter().for_each(|found| assert!(call!(EntryRef::entry, found).is_some()));
                    let top = tree.top();
                    called!(table::walk_on => table::walk_on(top, page, to, &reading).word);
                    if let Some(found) = found {
                        called!(table::walk_on => {
                            table::walk_on(found.table, Vpn(!page.0), to, &reading).word
                        });
                        drop(called!(Table::lock => found.table.lock()));
                    }
                }
            }
            for tree in [tree, other] {
                called!(table::walk_cached => table::walk_cached(tree, page, &reading).word);
            }
        }
    }
}

fn space<'v>(vm: &'v Vm<'v, Lab>) -> AddressSpace<'v, Lab> {
    AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .expect("memory for a space")
}

/// Edits of a space's table that the space knows nothing of: what they map may be lost, and its memory with
/// it, but no frame is freed that has an owner.
fn behind_its_back(machine: &Lab, vm: &Vm<'_, Lab>) {
    let space = space(vm);
    let running = space.activate(None);
    let base = space.map(&MapRequest::anonymous(64 * 4096)).expect("room");
    let faults = Faults::new(&space);
    for nth in 0..64 {
        machine.write_u64(interleaf::units::VirtAddr(base.0 + nth * 4096), nth, &faults).expect("mapped");
    }
    {
        let reading = vm.read();
        let found = table::walk(space.inspect().page_table(), base.vpn(), Level::Pte, &reading);
        let mut locked = found.table.lock().expect("it is attached");
        for slot in found.slot..512 {
            let _ = called!(LockedTable::install => locked.install(slot, frame(vm.memory()), ALL));
            called!(LockedTable::adjust => locked.adjust(slot, |_| Some(ALL)));
            locked.mark(slot, SlotMarker::Busy);
            assert_ne!(call!(LockedTable::entry, &locked, slot), None::<Entry>);
        }
    }
    // What is busy for ever makes a fault wait for ever: it is unmapped before it is touched.
    // Debug builds notice that a table holds what no mapping has.
    let _ = called!(AddressSpace::unmap => space.unmap(base, 64 * 4096));
    drop(running);
    crate::call::without_message(|| drop(space));
    vm.trim();
    vm.memory().check().expect("frames add up");
}

/// A table's lock is held while the space unmaps everything below: the call is refused, or the table stays.
fn locked_and_unmapped(machine: &Lab, vm: &Vm<'_, Lab>) {
    let space = space(vm);
    let running = space.activate(None);
    let base = space.map(&MapRequest::anonymous(4096 * 4096)).expect("room");
    let faults = Faults::new(&space);
    machine.write_u64(base, 7, &faults).expect("mapped");
    let reading = vm.read();
    let found = table::walk(space.inspect().page_table(), base.vpn(), Level::Pte, &reading);
    let locked = found.table.lock().expect("it is attached");
    let pfn = locked.table().pfn();
    drop(reading);
    let unmapped = called!(AddressSpace::unmap => space.unmap(base, 4096 * 4096));
    let kind = vm.memory().meta(pfn).map(|meta| (meta.state().kind(), meta.state().is_attached()));
    assert_eq!(kind, Some((interleaf::frame::Kind::Table, true)), "a locked table is detached: {unmapped:?}");
    drop(locked);
    use_pages(machine, &space);
    drop(running);
}
