//! The word of a worker slot, without threads.

use super::*;
use crate::machine::testing::TestCpu;

type Slot = WorkerSlot<TestCpu>;

/// All words of a slot whose helper is awake.
fn words() -> impl Iterator<Item = u32> {
    (0..128).filter(|word| word & STATE <= RESERVED && word & PARKED == 0)
}

/// What `change` returns for a slot with this word, and the word behind it.
fn after<R>(word: u32, change: impl FnOnce(&Slot) -> R) -> (R, u32) {
    let slot = Slot { word: AtomicU32::new(word), ..Slot::new(CpuId(0), NodeId(0)) };
    (change(&slot), slot.word.load(Relaxed))
}

#[test]
fn a_helper_begins_or_is_reserved_or_notified_as_idle_only_if_it_is_idle_and_not_leaving() {
    for word in words() {
        let is_free = word & (STATE | ABSENT) == IDLE;
        let set = |bits| (is_free, if is_free { word | bits } else { word });
        assert_eq!(after(word, |slot| slot.take(BUSY)), set(BUSY));
        assert_eq!(after(word, |slot| slot.take(RESERVED)), set(RESERVED));
        assert_eq!(after(word, Slot::notify_idle), set(NOTIFIED));
        assert_eq!(after(word, Slot::notify), (word & ABSENT == 0, word | NOTIFIED));
    }
}

#[test]
fn a_worker_that_is_released_looks_for_work_whatever_its_other_bits() {
    for word in words().filter(|word| word & STATE == RESERVED) {
        assert_eq!(after(word, Slot::release).1, word & !STATE | NOTIFIED);
        let is_notified = word & NOTIFIED != 0;
        assert_eq!(after(word, Slot::take_notification), ((true, is_notified), word & !NOTIFIED));
        assert_eq!(after(word & !STATE, Slot::take_notification).0, (false, is_notified));
    }
}

#[test]
fn a_helper_does_not_sleep_if_it_is_notified_or_has_to_leave() {
    for word in words().filter(|word| word & (NOTIFIED | LEAVING | CLOSED) != 0) {
        assert_eq!(after(word, Slot::park).1, word);
    }
}

#[test]
fn a_helper_that_leaves_stays_reserved_and_may_arrive_again_unless_the_pool_is_closed() {
    for word in words() {
        let gone = after(word, Slot::depart).1;
        assert!(gone & GONE != 0 && gone & (LEAVING | NOTIFIED) == 0);
        assert_eq!(gone & (STATE | CLOSED), word & (STATE | CLOSED));
        let may_arrive = word & CLOSED == 0;
        assert_eq!(after(gone, Slot::arrive), (may_arrive, if may_arrive { word & STATE } else { gone }));
        assert_eq!(after(word, Slot::arrive).0, word & (GONE | CLOSED) == GONE);
        assert_eq!(after(gone, |slot| slot.dismiss(false)).1, gone);
        assert!(after(word, |slot| slot.dismiss(true)).1 == word | CLOSED);
        assert!(!after(gone, |slot| slot.take(BUSY)).0);
    }
}
