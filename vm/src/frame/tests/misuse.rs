//! Frees, references and counts that do not fit are refused.

use super::*;

#[test]
#[should_panic(expected = "is not there to be taken back")]
fn a_frame_freed_twice_is_caught() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let pfn = memory.alloc_frame(AllocRequest::DIRTY).unwrap().into_pfn();
    // SAFETY: the first is right, the second is what the test is about.
    unsafe {
        drop(Frame::from_pfn(&memory, pfn, Base));
        drop(Frame::from_pfn(&memory, pfn, Base));
    }
}

#[test]
#[should_panic(expected = "is not there to be taken back")]
fn a_foreign_frame_is_caught() {
    let machine = TestMachine::new(64);
    // SAFETY: none: this is what the test is about.
    unsafe { drop(Frame::from_pfn(&memory(&machine), machine.frames().end, Base)) };
}

#[test]
#[should_panic(expected = "is not there to be taken back")]
fn a_frame_inside_a_block_is_caught() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let block = memory.alloc(Order(2), AllocRequest::DIRTY).unwrap();
    // SAFETY: none: this is what the test is about.
    unsafe { drop(Frame::from_pfn(&memory, block.into_pfn().add(1), Base)) };
}

#[test]
#[should_panic(expected = "is not there to be taken back")]
fn a_block_freed_as_one_of_another_order_is_caught() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let block = memory.alloc(Order(2), AllocRequest::DIRTY).unwrap();
    // SAFETY: none: this is what the test is about.
    unsafe { drop(Folio::from_pfn(&memory, block.into_pfn(), Order(3))) };
}

#[test]
#[should_panic(expected = "has no reference to be taken back")]
fn a_reference_to_a_free_frame_is_caught() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let pfn = memory.alloc_frame(AllocRequest::DIRTY).unwrap().into_user().into_pfn();
    // SAFETY: the first is right, the second is what the test is about.
    unsafe {
        drop(FrameRef::from_pfn(&memory, pfn));
        drop(FrameRef::from_pfn(&memory, pfn));
    }
}

#[test]
fn counts_that_would_overflow_are_refused_before() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let first = memory.alloc_frame(AllocRequest::DIRTY).unwrap().into_user();
    let (pfn, most) = (first.pfn(), 1 << 28);
    let meta = memory.meta(pfn).unwrap();
    meta.set_mapcount(most);
    let first = first.map().expect_err("the mapcount is at its limit");
    assert_eq!(meta.mapcount(), most);
    meta.set_mapcount(0);
    let pinned = memory.try_get(pfn).unwrap().pin().unwrap();
    assert_eq!((meta.pincount(), meta.state().refcount()), (1, 2));
    drop(pinned);
    assert_eq!((meta.pincount(), meta.state().refcount()), (0, 1));
    let most: Vec<_> = std::iter::repeat_with(|| memory.try_get(pfn)).map_while(|more| more).collect();
    assert_eq!(
        (most.len(), meta.state().refcount()),
        (65_534, 65_535),
        "references that are no pins have 16 bits"
    );
    let mut pins: Vec<_> = most.into_iter().map(|reference| reference.pin().unwrap()).collect();
    pins.extend(memory.try_get(pfn).unwrap().pin());
    assert_eq!((meta.pincount(), meta.state().refcount()), (65_535, 65_536), "of pins there may be more");
    drop(pins);
    drop(first);
    assert_whole(&memory);
}

/// Two entries of one exclusive frame would each free it.
#[test]
fn anonymous_memory_with_other_references_is_not_mapped() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let first = memory.alloc_frame(AllocRequest::DIRTY).unwrap().into_user();
    let pfn = first.pfn();
    let second = memory.try_get(pfn).unwrap();
    let first = first.map().expect_err("somebody else has a reference");
    drop(second);
    let mapped = first.map().unwrap();
    let third = memory.try_get(pfn).unwrap();
    drop(third.map().expect_err("an entry maps it already"));
    let meta = memory.meta(pfn).unwrap();
    assert_eq!((meta.mapcount(), meta.state().refcount()), (1, 1));
    drop(mapped);
    assert_whole(&memory);
}
