//! The value space of the word: every transition from every kind of value.

use super::*;

fn at(pfn: u64, users: u64) -> HugeZeroWord {
    let placed = HugeZeroWord::NONE.placed(Pfn(pfn)).unwrap();
    (1..users).fold(placed, |word, _| word.gotten().unwrap())
}

#[test]
fn without_a_page_there_is_nothing_to_get_to_put_or_to_shrink() {
    let none = HugeZeroWord::NONE;
    assert_eq!((none.gotten(), none.put(), none.shrunk(), none.page()), (None, None, None, None));
}

#[test]
fn a_page_is_placed_where_there_is_none_and_has_one_user() {
    for pfn in [0, 512, 0x3_4e00, (u64::from(u32::MAX) - 1) << 9] {
        let word = at(pfn, 1);
        assert_eq!((word.page(), word.users(), word.is_dying()), (Some(Pfn(pfn)), 1, false));
        assert_eq!(word.placed(Pfn(1024)), None);
    }
    assert_eq!(HugeZeroWord::NONE.placed(Pfn(513)), None, "not aligned");
    assert_eq!(HugeZeroWord::NONE.placed(Pfn(u64::from(u32::MAX) << 9)), None, "does not fit");
}

#[test]
fn users_come_and_go_and_the_page_stays() {
    let word = at(512, 3);
    assert_eq!((word.users(), word.put().unwrap().users()), (3, 2));
    let unused = at(512, 1).put().unwrap();
    assert_eq!((unused.page(), unused.users(), unused.put()), (Some(Pfn(512)), 0, None));
    assert_eq!(unused.gotten(), Some(at(512, 1)));
}

#[test]
fn an_unused_page_is_taken_away_at_once_and_a_used_one_by_its_last_user() {
    assert_eq!(at(512, 1).put().unwrap().shrunk(), Some(HugeZeroWord::NONE));
    let dying = at(512, 2).shrunk().unwrap();
    assert!(dying.is_dying() && dying.shrunk().is_none());
    let last = dying.put().unwrap();
    assert_eq!((last.users(), last.is_dying()), (1, true));
    assert_eq!(last.put(), Some(HugeZeroWord::NONE));
    // Wanted again.
    assert_eq!(last.gotten(), Some(at(512, 2)));
}

#[test]
fn the_count_never_overflows_into_the_mark() {
    let full = HugeZeroWord(at(512, 1).0 - 1 + USERS);
    assert_eq!((full.users(), full.is_dying(), full.is_full()), (USERS, false, true));
    assert_eq!(full.gotten(), None);
    assert_eq!(full.shrunk().unwrap().gotten(), None);
    assert_eq!(full.put().unwrap().gotten(), Some(full));
}
