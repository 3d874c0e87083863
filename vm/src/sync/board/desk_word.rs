//! The word of a place at a desk: who may be at the work that is shown there. Pure transitions; the retry loop is the caller's.
//!
//! ```text
//!            show                       close (nobody is there)
//!   free -----------> shown, 0 visitors -----------------------> free
//!                      | ^                                        ^
//!                enter v | leave                                  | free
//!                     shown, n visitors ------> kept, n ... 0 ----+
//!                                       close
//! ```
//!
//! *Show*, *close* and *free* are the caller's, *enter* and *leave* the helpers'. A free place changes by *show* only, and only in the
//! hands of a thread of this desk's CPU; so the caller needs no exchange to show its work.
//!
//! | bits | say |
//! |---|---|
//! | `SHOWN` | helpers may enter |
//! | `KEPT` | a caller has the place: until it has seen the last visitor leave |
//! | `AWAITED` | the caller sleeps on the word until that |
//! | `EMPTY` | a visitor found nothing left to begin: no other need come |
//! | 4..12 | visitors |
//! | 12..20 | seats: so many more may enter |
//! | 20..32 | how often something was shown here, to tell one piece of work from the next |
//!
//! The last is for speed alone. A helper that sees work and reaches for it takes a hundred nanoseconds to get there; work that is gone
//! by then was too short to be shared, and its successor shall not be held up in its place. Were the count to come round in between, the
//! helper would visit what is shown now, and rightly.

pub const SHOWN: u32 = 1;
pub const KEPT: u32 = 2;
pub const AWAITED: u32 = 4;
pub const EMPTY: u32 = 8;
const VISITOR: u32 = 1 << 4;
const SEAT: u32 = 1 << 12;
const TURN: u32 = 1 << 20;
/// Most seats of one piece of work.
pub const MOST_SEATS: u32 = 255;

const fn field(word: u32, unit: u32) -> u32 {
    (word / unit) & 255
}

/// Helpers that are there.
pub const fn visitors(word: u32) -> u32 {
    field(word, VISITOR)
}

/// So many more may come.
pub const fn seats(word: u32) -> u32 {
    if word & (SHOWN | EMPTY) == SHOWN { field(word, SEAT) } else { 0 }
}

const fn turn(word: u32) -> u32 {
    word & !(TURN - 1)
}

/// Takes a free place for work that up to `seats` may visit.
pub const fn show(word: u32, seats: u32) -> Option<u32> {
    if word & KEPT == 0 { Some(turn(word).wrapping_add(TURN) | (seats * SEAT) | SHOWN | KEPT) } else { None }
}

/// A helper comes.
pub const fn enter(word: u32) -> Option<u32> {
    if seats(word) > 0 { Some(word + VISITOR - SEAT) } else { None }
}

/// A helper leaves; the caller is awake once nobody is left.
pub const fn leave(word: u32) -> u32 {
    let left = word - VISITOR + SEAT;
    if visitors(left) == 0 { left & !AWAITED } else { left }
}

/// A helper leaves that found nothing more to begin.
pub const fn leave_empty(word: u32) -> u32 {
    leave(word) | EMPTY
}

/// Gives the place back, if nobody is there.
pub const fn close_unvisited(word: u32) -> Option<u32> {
    if visitors(word) == 0 { Some(turn(word)) } else { None }
}

/// Lets nobody else enter: gives the place back, or keeps it until the visitors have left.
pub const fn close(word: u32) -> u32 {
    match close_unvisited(word) {
        Some(free) => free,
        None => word & !SHOWN,
    }
}

/// Notes that the caller sleeps until the last visitor leaves.
pub const fn awaited(word: u32) -> Option<u32> {
    if visitors(word) > 0 { Some(word | AWAITED) } else { None }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What can come about with up to `most` seats.
    fn words(most: u32) -> impl Iterator<Item = u32> {
        (1..=most).flat_map(|seats| {
            let shown = show(7 * TURN, seats).unwrap();
            let visited = (0..=seats).map(move |n| (0..n).fold(shown, |word, _| enter(word).unwrap()));
            visited.flat_map(|word| [word, word | EMPTY, close(word), awaited(close(word)).unwrap_or(word)])
        })
    }

    #[test]
    fn only_shown_work_with_a_seat_is_entered_and_only_a_free_place_shown_at() {
        for word in words(4).chain([0, 9 * TURN]) {
            assert_eq!(
                enter(word).is_some(),
                word & SHOWN != 0 && word & EMPTY == 0 && field(word, SEAT) > 0
            );
            assert_eq!(show(word, 3).is_some(), word & KEPT == 0);
        }
    }

    #[test]
    fn a_place_is_free_only_once_the_last_visitor_has_left() {
        for word in words(4).filter(|word| word & KEPT != 0) {
            assert_eq!(close_unvisited(word).is_some(), visitors(word) == 0);
            assert_eq!(close(word) & KEPT == 0, visitors(word) == 0);
            assert!(seats(close(word)) == 0 && visitors(close(word)) == visitors(word));
        }
    }

    #[test]
    fn who_leaves_frees_a_seat_and_the_last_one_finds_the_caller_awake() {
        for word in words(4).filter(|&word| visitors(word) > 0) {
            let left = leave(word);
            assert_eq!((visitors(left), field(left, SEAT)), (visitors(word) - 1, field(word, SEAT) + 1));
            assert_eq!(left & AWAITED != 0, word & AWAITED != 0 && visitors(left) > 0);
            assert_eq!(leave_empty(word), left | EMPTY);
        }
    }

    #[test]
    fn the_next_work_looks_different_and_the_count_comes_round() {
        let mut word = 0;
        for _ in 0..5000 {
            let shown = show(word, 1).unwrap();
            assert!(shown != show(turn(word).wrapping_sub(TURN), 1).unwrap());
            word = close(shown);
            assert!(word & (TURN - 1) == 0);
        }
    }
}
