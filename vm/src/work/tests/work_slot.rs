//! The word of a work slot, without threads.

use super::*;

/// Words that occur with up to `max` helpers.
fn words(max: u32) -> impl Iterator<Item = u32> {
    let opened = open(7 * GENERATION);
    let visited = (0..=max).scan(opened, move |word, n| {
        *word = if n == 0 { *word } else { join(*word, max).unwrap() };
        Some(*word)
    });
    visited.flat_map(|word| [word, word | DRAINED, word & !OPEN, word & !OPEN | AWAITED])
}

#[test]
fn only_an_open_slot_with_room_and_work_is_joined() {
    for word in words(4).chain([0, 9 * GENERATION]) {
        let may_join = word & OPEN != 0 && word & DRAINED == 0 && visits(word) < 4;
        assert_eq!(join(word, 4).is_some(), may_join);
        assert_eq!(join(word, 4).map(visits), may_join.then_some(visits(word) + 1));
        assert!(join(word, 0).is_none());
    }
}

#[test]
fn a_visit_that_ends_changes_only_the_count() {
    for word in words(4).filter(|&word| visits(word) > 0) {
        let left = leave(word, 0);
        assert_eq!((visits(left), left / GENERATION), (visits(word) - 1, word / GENERATION));
        assert_eq!(left & (OPEN | DRAINED), word & (OPEN | DRAINED));
        assert_eq!(left & AWAITED != 0, word & AWAITED != 0 && visits(left) > 0);
        assert!(leave(word, DRAINED) & DRAINED != 0);
    }
}

#[test]
fn a_caller_sleeps_only_while_a_helper_visits() {
    assert!(words(4).all(|word| await_visits(word).is_some() == (visits(word) > 0)));
}

#[test]
fn the_next_item_has_another_generation_and_the_generation_wraps() {
    let mut word = 0;
    for _ in 0..70_000 {
        let opened = open(word);
        assert!(opened / GENERATION == (word / GENERATION + 1) % GENERATION && visits(opened) == 0);
        word = leave(join(opened, 1).unwrap() & !OPEN | AWAITED, DRAINED);
        assert!(visits(word) == 0 && join(word, 1).is_none());
    }
}

#[test]
fn the_most_visits_that_can_be_counted_do_not_change_the_generation() {
    let opened = open(0);
    let full = (0..MAX_VISITS).fold(opened, |word, _| join(word, u32::MAX).unwrap());
    assert_eq!((visits(full), full / GENERATION, join(full, u32::MAX)), (MAX_VISITS, 1, None));
    assert_eq!((0..MAX_VISITS).fold(full, |word, _| leave(word, 0)), opened);
}
