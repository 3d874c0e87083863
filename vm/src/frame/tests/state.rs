//! Transitions of the state word.

use super::*;

const TAKEN: FrameState = FrameState::TAKEN_FRAME;

#[test]
fn all_zero_is_reserved_and_goes_nowhere() {
    let zero = FrameState(0);
    assert_eq!((zero.kind(), zero.refcount(), zero.order()), (Kind::Reserved, 0, Order::BASE));
    for next in
        [zero.gotten(), zero.put(), zero.relinquished(), zero.becomes(Kind::User), zero.clear_exclusive()]
    {
        assert_eq!(next, None);
    }
}

#[test]
fn the_last_put_leaves_the_frame_taken() {
    let user = TAKEN.becomes(Kind::User).unwrap();
    assert!(user.is_exclusive());
    let twice = user.gotten().unwrap();
    assert_eq!(twice.refcount(), 2);
    assert_eq!(twice.set_exclusive(), None);
    assert_eq!(twice.put().unwrap(), user);
    assert_eq!(user.put().unwrap(), TAKEN);
    assert_eq!(TAKEN.gotten(), None);
    assert_eq!(TAKEN.put(), None);
}

#[test]
fn a_shared_frame_is_made_exclusive_by_its_only_holder() {
    let shared = TAKEN.becomes(Kind::User).and_then(FrameState::clear_exclusive).unwrap();
    assert!(!shared.is_exclusive());
    assert_eq!(shared.clear_exclusive(), None);
    assert!(shared.set_exclusive().unwrap().is_exclusive());
    assert!(shared.with_lazyfree(true).unwrap().is_lazyfree());
}

#[test]
fn a_frame_that_is_referenced_stays_exclusive_and_only_a_kept_one_is_got_to_be_pinned() {
    let user = TAKEN.becomes(Kind::User).unwrap();
    let pinned = user.gotten_to_pin(true).unwrap();
    assert_eq!((pinned.refcount(), pinned.pincount(), pinned.clear_exclusive()), (2, 1, None));
    assert_eq!(user.clear_exclusive().unwrap().gotten_to_pin(true), None);
    assert_eq!(user.with_lazyfree(true).unwrap().gotten_to_pin(true), None);
    let of_object = TAKEN.becomes(Kind::Object).unwrap();
    assert!(of_object.gotten_to_pin(true).is_some());
    assert_eq!(of_object.gotten_to_pin(false), None, "a private mapping may show it");
    for other in [TAKEN, TAKEN.becomes(Kind::Table).unwrap(), TAKEN.becomes(Kind::Zero).unwrap()] {
        assert_eq!(other.gotten_to_pin(true), None);
    }
}

#[test]
fn a_table_is_freed_only_detached() {
    let fresh = TAKEN.becomes(Kind::Table).unwrap();
    assert_eq!((fresh.is_attached(), fresh.relinquished()), (false, Some(TAKEN)));
    let table = fresh.attached().unwrap();
    assert!(table.is_attached() && table.attached().is_none());
    assert_eq!(table.relinquished(), None);
    let detached = table.detached().unwrap();
    assert_eq!(detached.detached(), None);
    assert_eq!(detached.relinquished(), Some(TAKEN));
    let retired = detached.retired().unwrap();
    assert_eq!((retired.retired(), retired.relinquished(), table.retired()), (None, None, None));
    assert_eq!(retired.unretired(), Some(detached));
    assert_eq!((detached.unretired(), retired.attached()), (None, None));
}

#[test]
fn large_blocks_become_user_memory_but_not_tables() {
    let large = FrameState::taken(Order::HUGE);
    assert_eq!(large.becomes(Kind::Table), None);
    assert_eq!(large.becomes(Kind::User).and_then(FrameState::put), Some(large));
}

#[test]
fn only_the_exact_free_block_merges() {
    let free = FrameState::free(3, Order(4), Init::Zeroed);
    assert!(free.is_free_block(3, Order(4)));
    assert!(!free.is_free_block(2, Order(4)) && !free.is_free_block(3, Order(5)));
    assert!(!TAKEN.is_free_block(0, Order(0)));
    assert_eq!((free.kind(), free.init()), (Kind::Free, Init::Zeroed));
}

#[test]
fn a_count_never_overflows() {
    let object = TAKEN.becomes(Kind::Object).unwrap();
    let full = FrameState(object.0 - 1 + MOST_REFS);
    assert_eq!(full.gotten(), None);
    assert_eq!(full.put().unwrap().refcount() as u64, MOST_REFS - 1);
    let most_pins = (PINS / PIN) as u32;
    let pinned = FrameState(object.0 | PINS);
    assert_eq!(
        (pinned.pincount(), pinned.refcount(), pinned.kind()),
        (most_pins, most_pins + 1, Kind::Object)
    );
    assert_eq!((pinned.gotten_to_pin(true), pinned.pinned()), (None, None));
    assert_eq!(pinned.gotten().unwrap().refcount(), most_pins + 2);
    assert_eq!(pinned.unpinned().unwrap().pincount(), most_pins - 1);
}

#[test]
fn a_reference_becomes_a_pin_and_the_last_of_either_kind_leaves_the_frame_taken() {
    let user = TAKEN.becomes(Kind::User).unwrap();
    assert_eq!(user.unpinned(), None, "nobody has pinned it");
    let pinned = user.pinned().unwrap();
    assert_eq!((pinned.refcount(), pinned.pincount(), pinned.put(), pinned.pinned()), (1, 1, None, None));
    assert!(!pinned.has_one_reference() && user.has_one_reference());
    assert_eq!((pinned.clear_exclusive(), pinned.set_exclusive()), (None, None));
    assert_eq!(pinned.unpinned(), Some(TAKEN));
    let both = pinned.gotten().unwrap();
    assert_eq!((both.put(), both.unpinned()), (Some(pinned), Some(user)));
    assert_eq!((TAKEN.pinned(), TAKEN.unpinned(), TAKEN.gotten_to_pin(true)), (None, None, None));
}
