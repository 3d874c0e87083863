//! The word of a worker slot, without threads.

use super::*;

fn words() -> impl Iterator<Item = u32> {
    (0..128).filter(|word| word & STATE <= RESERVED)
}

#[test]
fn a_helper_begins_or_is_reserved_only_if_it_is_idle_and_not_leaving() {
    for word in words() {
        let is_free = word & (STATE | ABSENT) == IDLE;
        assert_eq!([begin(word), reserve(word), notify_idle(word)].map(|to| to.is_some()), [is_free; 3]);
        assert_eq!(begin(word).map(|to| to & STATE), is_free.then_some(BUSY));
        assert_eq!(reserve(word).map(|to| to & STATE), is_free.then_some(RESERVED));
    }
}

#[test]
fn a_worker_that_is_released_looks_for_work_whatever_its_other_bits() {
    for word in words() {
        let released = (word & STATE == RESERVED).then_some(word & !STATE | NOTIFIED);
        assert_eq!(release(word), released);
    }
}

#[test]
fn a_helper_sleeps_only_if_it_is_not_notified_and_need_not_leave() {
    for word in words() {
        let has_news = word & (NOTIFIED | LEAVING | CLOSED) != 0;
        assert_eq!(park(word), (!has_news).then_some(word | PARKED));
    }
}

#[test]
fn a_helper_that_leaves_stays_reserved_and_may_arrive_again_unless_the_pool_is_closed() {
    for word in words() {
        let gone = depart(word);
        assert!(gone & GONE != 0 && gone & (PARKED | LEAVING | NOTIFIED) == 0);
        assert_eq!(gone & (STATE | CLOSED), word & (STATE | CLOSED));
        assert_eq!(arrive(gone), (word & CLOSED == 0).then_some(word & STATE));
        assert_eq!((arrive(word).is_some(), dismiss(gone)), (word & (GONE | CLOSED) == GONE, None));
        assert!(begin(gone).is_none() && reserve(gone).is_none());
    }
}

#[test]
fn an_assignment_is_found_as_it_was_stored() {
    let assignment = Assignment { slot: 5, opened: 0xffff_0001 };
    assert_eq!((Assignment::unpack(assignment.pack()), Assignment::unpack(0)), (Some(assignment), None));
}
