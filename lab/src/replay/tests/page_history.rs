use super::*;
use crate::trace::Inode;

fn change(first: u64, pages: u64, cached: Cached) -> CacheChange {
    CacheChange { inode: Inode { device: 1, number: 2 }, first, pages, cached }
}

fn history(changes: &[(u64, CacheChange)]) -> PageHistory {
    let mut history = PageHistory::default();
    changes.iter().for_each(|(time_ns, change)| history.note(*time_ns, change));
    history
}

#[test]
fn what_was_found_was_there_and_what_was_not_was_not() {
    let history = history(&[(10, change(4, 4, Cached::Found))]);
    let has: Vec<bool> = (3..9).map(|page| history.has(page, 5)).collect();
    assert_eq!(has, [false, true, true, true, true, false]);
}

#[test]
fn what_came_was_not_there_before_though_it_was_found_later() {
    let history = history(&[(20, change(0, 100, Cached::Found)), (15, change(70, 4, Cached::Added))]);
    assert_eq!([5, 15, 30].map(|at| history.has(71, at)), [false, true, true]);
    assert!(history.has(69, 5));
}

#[test]
fn what_left_was_there_before_and_may_come_again() {
    for pages in [1, 2000] {
        let all = [
            (10, change(0, pages, Cached::Removed)),
            (20, change(0, 1, Cached::Added)),
            (30, change(0, pages, Cached::Removed)),
        ];
        let history = history(&all);
        assert_eq!([5, 10, 25, 35].map(|at| history.has(0, at)), [true, false, true, false]);
    }
}
