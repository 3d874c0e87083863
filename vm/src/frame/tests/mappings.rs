//! What entries hold of the frame that they map.

use super::*;

#[test]
fn all_mappings_of_a_frame_hold_one_reference_together() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let owner = memory.alloc_zeroed(Priority::Normal).unwrap().into_file((1, 0));
    let meta = memory.meta(owner.pfn()).unwrap();
    let counts = || (meta.mapcount(), meta.state().refcount());
    let [first, second] = [(); 2].map(|()| memory.try_get(owner.pfn()).unwrap().map().unwrap());
    assert_eq!(counts(), (2, 2));
    drop(first);
    assert_eq!(counts(), (1, 2));
    drop(second);
    assert_eq!(counts(), (0, 1));
    let last = owner.map().unwrap();
    assert_eq!(counts(), (1, 1));
    drop(last);
    assert_eq!(meta.state().kind(), Kind::Cached);
    assert_whole(&memory);
}

#[test]
fn a_frame_of_an_object_is_mapped_with_the_reference_of_its_entries() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let owner = memory.alloc_zeroed(Priority::Normal).unwrap().into_file((1, 0));
    let pfn = owner.pfn();
    let meta = memory.meta(pfn).unwrap();
    let counts = || (meta.mapcount(), meta.state().refcount());
    let map = || MappedFrame::of_object(&memory, pfn);
    assert!(!meta.add_mapping_of_object(), "no entry maps it");
    let first = map().unwrap().unwrap();
    assert_eq!(counts(), (1, 2), "the first mapping has a reference");
    let second = map().unwrap().unwrap();
    assert_eq!(counts(), (2, 2), "which the second shares");
    drop((first, second));
    assert_eq!(counts(), (0, 1));
    // So many that no more are counted.
    meta.set_mapcount(1 << 29 | 1 << 28);
    assert!(matches!(map(), Err(NotMappedAgain::TooManyMappings)));
    meta.set_mapcount(1 << 29);
    drop(owner);
    assert_eq!((meta.state().kind(), counts()), (Kind::Cached, (0, 0)));
    assert_whole(&memory);
}

/// What was an object's frame a moment ago may be anything.
#[test]
fn what_is_no_frame_of_an_object_is_not_mapped_as_one_and_keeps_its_counts() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let refused = |pfn| matches!(MappedFrame::of_object(&memory, pfn), Ok(None));
    let user = memory.alloc_zeroed(Priority::Normal).unwrap().into_mapped();
    let meta = memory.meta(user.pfn()).unwrap();
    assert!(refused(user.pfn()));
    assert_eq!((meta.mapcount(), meta.state().refcount()), (1, 1));
    let table = memory.alloc_table(Priority::Normal).unwrap();
    let meta = memory.meta(table.pfn()).unwrap();
    meta.set_used_parts(u32::MAX);
    let locked = meta.table_lock().lock(crate::sync::lockdep::table(crate::units::Level::Pte));
    assert!(refused(table.pfn()));
    assert_eq!((meta.used_parts(), meta.state().kind()), (u32::MAX, Kind::Table));
    drop(locked);
    meta.set_used_parts(0);
    let folio = memory.alloc_zeroed_folio(FramePlacement::Local, Order(3)).unwrap().into_file((1, 0));
    assert!(refused(folio.pfn()), "a folio is no base frame");
    let freed = user.pfn();
    drop((user, table, folio));
    assert!(refused(freed));
    assert_whole(&memory);
}
