//! What a fault writes into an entry, and what it no longer writes once the table is locked.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::machine::{Entry, Machine};
use crate::space::fault::attempt::Proof;
use crate::space::fault::confirm::Confirmed;
use crate::space::fault::decide::Decision;
use crate::space::fault::prepared::Prepared;
use crate::space::{
    AddressSpace, Advice, Fallback, Fault, FaultError, Layout, MapRequest, ObjectHandle, Path, Sharing, Vm,
};
use crate::sync::ReadGuard;
use crate::table::{LeafBits, walk, walk_cached};
use crate::units::{Access, Level, NodeId, PAGE_SIZE, Rights, VirtAddr, Vpn};
use crate::vma::Vma;

pub(super) type TestSpace<'a> = AddressSpace<'a, TestMachine>;

const PAGE: u64 = PAGE_SIZE as u64;

pub(super) fn with_space(test: impl FnOnce(&TestSpace<'_>)) {
    let machine = TestMachine::new(500);
    let frames = machine.frames();
    let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE);
    let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) };
    let vm = Vm::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    let space =
        AddressSpace::new(&vm, Layout::linux::<TestFormat>().overcommit(), Path::Speculative).unwrap();
    test(&space);
    drop(space);
    vm.trim();
    vm.memory().check().unwrap();
}

fn entry(space: &TestSpace<'_>, page: Vpn) -> Entry {
    let reading = space.vm.rcu.read();
    walk(&space.entries.table, page, Level::Pte, &reading).entry()
}

/// A load that finds too few rights is rare: mprotect gives the entries of a mapping theirs back itself, but
/// only after the mapping has them.
#[test]
fn a_load_that_gets_rights_back_leaves_the_page_dirty() {
    with_space(|space| {
        let addr = space.map(&MapRequest::anonymous(PAGE)).unwrap();
        space.fault(Fault { addr, access: Access::Write }).unwrap();
        let page = addr.vpn();
        let rights = space.inspect().vma_at(addr).unwrap().rights();
        let reading = space.vm.rcu.read();
        let found = walk(&space.entries.table, page, Level::Pte, &reading);
        let Entry::Leaf(before) = found.entry() else { panic!("{:?}", found.entry()) };
        let (mut table, slot) = (found.table.lock().unwrap(), found.slot);
        drop(reading);
        table.adjust(slot, |leaf| Some(LeafBits { rights: Rights::empty(), ..LeafBits::of(leaf) }));
        let confirmed = Confirmed { space, table, slot, page, access: Access::Read, rights };
        let applied = confirmed.apply(Decision::Allow(rights), &mut Prepared::new(space.vm));
        assert_eq!(applied, Ok(()));
        assert_eq!(entry(space, page), Entry::Leaf(before), "dirty as before");
    });
}

/// Changes the object just before the mapping is confirmed, at the page of the fault.
struct Changes(fn(&TestSpace<'_>, &TestObject, u64, &TestReading<'_>));

type TestCpu = <TestMachine as Machine>::Cpu;
type TestObject = crate::object::Object<TestCpu>;
type TestReading<'a> = ReadGuard<'a, TestCpu>;

impl Proof<TestMachine> for Changes {
    type Hold<'g> = ();

    fn hold<'g>(&self, _vma: &'g Vma<TestCpu>, _reading: &'g TestReading<'_>) -> Option<()> {
        Some(())
    }

    fn confirm<'g>(
        &self,
        space: &'g TestSpace<'_>,
        vma: &'g Vma<TestCpu>,
        page: Vpn,
        reading: &'g TestReading<'_>,
    ) -> Option<&'g Vma<TestCpu>> {
        let object = space.vm.object(vma.backing().object()?, reading)?;
        (self.0)(space, object, vma.frame_offset(page), reading);
        Some(vma)
    }
}

/// The page leaves the object.
const TAKES_OUT: Changes = Changes(|space, object, page, reading| {
    drop(object.take_out(space.vm.memory(), page, reading).expect("it has the page"));
});

/// The object becomes shorter; its page is not taken out yet.
const SHORTENS: Changes = Changes(|_, object, _, _| object.shorten_unlocked(PAGE));

#[test]
fn a_frame_that_has_left_its_object_since_it_was_looked_up_is_not_installed() {
    with_space(|space| {
        let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(2 * PAGE) };
        let start = space.map(&request).unwrap();
        // The tables are there, so that the mapping is confirmed once.
        space.fault(Fault { addr: VirtAddr(start.0 + PAGE), access: Access::Write }).unwrap();
        let fault = Fault { addr: start, access: Access::Write };
        let result = space.faults().attempt(fault, &TAKES_OUT, &mut Prepared::new(space.vm));
        assert_eq!((result, entry(space, start.vpn())), (Err(Fallback::VmaChanged), Entry::Absent));
        space.fault(fault).unwrap();
        assert!(matches!(entry(space, start.vpn()), Entry::Leaf(_)));
        space.unmap(start, 2 * PAGE).unwrap();
    });
}

/// What a private mapping shows, or copies, is asked for in the same way.
#[test]
fn a_frame_that_has_left_its_object_is_neither_shown_nor_copied_by_a_private_mapping() {
    for access in [Access::Read, Access::Write] {
        with_space(|space| {
            let object = ObjectHandle::new(space.vm, 2 * PAGE).unwrap();
            let start = space.map(&MapRequest::anonymous(2 * PAGE).backed_by(object.at_page(0))).unwrap();
            space.fault(Fault { addr: VirtAddr(start.0 + PAGE), access: Access::Write }).unwrap();
            let fault = Fault { addr: start, access };
            let result = space.faults().attempt(fault, &TAKES_OUT, &mut Prepared::new(space.vm));
            assert_eq!((result, entry(space, start.vpn())), (Err(Fallback::VmaChanged), Entry::Absent));
            space.fault(fault).unwrap();
            space.unmap(start, 2 * PAGE).unwrap();
        });
    }
}

/// Frames beyond the end stay with the object where they are part of a folio that could not be divided.
#[test]
fn a_frame_beyond_the_end_is_not_installed() {
    with_space(|space| {
        let object = ObjectHandle::new(space.vm, 2 * PAGE).unwrap();
        let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(2 * PAGE) };
        let start = space.map(&request.backed_by(object.at_page(0))).unwrap();
        let fault = Fault { addr: VirtAddr(start.0 + PAGE), access: Access::Write };
        space.fault(fault).unwrap();
        space.advise(start, 2 * PAGE, Advice::DontNeed).unwrap();
        let result = space.faults().attempt(fault, &SHORTENS, &mut Prepared::new(space.vm));
        assert_eq!((result, entry(space, fault.addr.vpn())), (Err(Fallback::VmaChanged), Entry::Absent));
        assert_eq!(space.fault(fault), Err(FaultError::Beyond));
        space.unmap(start, 2 * PAGE).unwrap();
    });
}

/// Else the fault would find the detached table again and again.
#[test]
fn a_walk_does_not_begin_in_the_table_of_the_last_fault_once_that_is_detached() {
    with_space(|space| {
        let addr = space.map(&MapRequest::anonymous(2 * PAGE)).unwrap();
        // The first fault links the table, the second finds it.
        for addr in [addr, VirtAddr(addr.0 + PAGE)] {
            space.fault(Fault { addr, access: Access::Write }).unwrap();
        }
        space.unmap(addr, 2 * PAGE).unwrap();
        let reading = space.vm.rcu.read();
        let found = walk_cached(&space.entries.table, addr.vpn(), &reading);
        assert!(found.table.lock().is_some(), "the walk ended in a detached table");
    });
}

/// A walk to a page without a table starts where the last such walk has ended: at the table above.
#[test]
fn a_walk_by_way_of_the_table_above_ends_where_one_from_the_root_does() {
    with_space(|space| {
        let region = Level::Pmd.entry_pages();
        let base = space.map(&MapRequest::anonymous(4 * region * PAGE)).unwrap();
        let page = |at: u64| Vpn(base.vpn().0.next_multiple_of(region) + at);
        let write = |at| space.fault(Fault { addr: page(at).addr(), access: Access::Write }).unwrap();
        // The first fault links the tables above, and its own; nothing is below the entries of the others.
        write(0);
        let same = |at| {
            let reading = space.vm.rcu.read();
            // The first caches the table that it ends in, the second starts there.
            let cached = [(); 2].map(|()| walk_cached(&space.entries.table, page(at), &reading));
            let found = walk(&space.entries.table, page(at), Level::Pte, &reading);
            for cached in cached {
                assert_eq!((cached.table.pfn(), cached.slot), (found.table.pfn(), found.slot), "page {at}");
                assert_eq!((cached.table.level(), cached.word), (found.table.level(), found.word));
            }
            found.table.level()
        };
        for at in [region, 2 * region + 1, 1, region + 5, 3, 2 * region] {
            assert_eq!(same(at), if at < region { Level::Pte } else { Level::Pmd }, "page {at}");
        }
        write(region + 7);
        assert_eq!([same(2 * region), same(region), same(2 * region)], [Level::Pmd, Level::Pte, Level::Pmd]);
        // The table above is detached with the last mapping, and its hit is none any more.
        let above = {
            let reading = space.vm.rcu.read();
            walk_cached(&space.entries.table, page(2 * region), &reading).table.pfn()
        };
        space.unmap(base, 4 * region * PAGE).unwrap();
        let reading = space.vm.rcu.read();
        let found = walk_cached(&space.entries.table, page(2 * region), &reading);
        assert_ne!(found.table.pfn(), above, "the walk ended in a detached table");
        assert!(found.table.lock().is_some());
    });
}
