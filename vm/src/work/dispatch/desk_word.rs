//! The word of a place at a desk: who may come to the work that is shown there. Pure transitions; retry loops
//! are the caller's.
//!
//! ```text
//!            show                       close
//!   free -----------> shown, n entries -------> kept, n entries
//!     ^                | ^                        |
//!     |                +-+ enter                  | free, once n visits have ended
//!     +-------------------------------------------+
//! ```
//!
//! *Show*, *close* and *free* are the caller's, *enter* the helpers'. The end of a visit is not told here but
//! in the work itself ([`Exhibit`](super::Exhibit)), on the line that the visitor writes anyway and that the
//! caller wants to see next. So the caller counts: the place is free once as many visits have ended as have
//! begun.
//!
//! A free place changes by *show* only, and only in the hands of a thread of this desk's CPU; so the caller
//! needs no exchange to show its work, nor to free the place. Closing changes one bit, whatever the others
//! are: it is a subtraction, for which the line need come only once.
//!
//! | bits | say |
//! |---|---|
//! | `SHOWN` | helpers may enter |
//! | `KEPT` | a caller has the place: until it has seen the last visit end |
//! | `AWAITED` | the caller sleeps on the word until that |
//! | `EMPTY` | a visitor found nothing left to begin: no other need come |
//! | `VISITED` | somebody has come |
//! | 5..12 | seats: so many more may enter |
//! | 12..24 | how often something was shown here, to tell one piece of work from the next |
//! | 24..32 | visits that have begun, modulo 256; fewer are under way at once |
//!
//! Telling one piece of work from the next is for speed alone. A helper that sees work and reaches for it
//! takes a hundred nanoseconds to get there; work that is gone by then was too short to be shared, and its
//! successor shall not be held up in its place. Were the count to come round in between, the helper would
//! visit what is shown now, and rightly.

pub const SHOWN: u32 = 1;
pub const KEPT: u32 = 2;
pub const AWAITED: u32 = 4;
pub const EMPTY: u32 = 8;
const VISITED: u32 = 16;
pub const SEAT: u32 = 1 << 5;
const TURN: u32 = 1 << 12;
const TURNS: u32 = ENTRY - TURN;
const ENTRY: u32 = 1 << 24;
/// Most seats of one piece of work.
pub const MOST_SEATS: u32 = 127;

/// So many more may come.
pub const fn seats(word: u32) -> u32 {
    if word & (SHOWN | EMPTY) == SHOWN { (word / SEAT) & MOST_SEATS } else { 0 }
}

/// Visits that have begun, modulo 256.
pub const fn entries(word: u32) -> u8 {
    (word / ENTRY) as u8
}

/// A place that is free, after it was this.
pub const fn free(word: u32) -> u32 {
    word & TURNS
}

/// Takes a free place for work that up to `seats` may visit.
pub const fn show(word: u32, seats: u32) -> Option<u32> {
    let turn = word.wrapping_add(TURN) & TURNS;
    if word & KEPT == 0 { Some(turn | (seats * SEAT) | SHOWN | KEPT) } else { None }
}

/// A helper comes.
pub const fn enter(word: u32) -> Option<u32> {
    if seats(word) > 0 { Some((word - SEAT).wrapping_add(ENTRY) | VISITED) } else { None }
}

/// Whether somebody has come.
pub const fn is_visited(word: u32) -> bool {
    word & VISITED != 0
}

/// Gives the place back, if nobody has come. Otherwise [`SHOWN`] is taken off, so that nobody comes any more.
pub const fn close_unvisited(word: u32) -> Option<u32> {
    if is_visited(word) { None } else { Some(free(word)) }
}

/// Notes that the caller is to look again, if it sleeps: a visit that began when the word was `entered` has
/// ended.
pub const fn rouse(word: u32, entered: u32) -> Option<u32> {
    let is_same = word & TURNS == entered & TURNS;
    if is_same && word & AWAITED != 0 { Some(word & !AWAITED) } else { None }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What can come about with up to `most` seats.
    fn words(most: u32) -> impl Iterator<Item = u32> {
        (1..=most).flat_map(|seats| {
            let shown = show(7 * TURN, seats).unwrap();
            let visited = (0..=seats).map(move |n| (0..n).fold(shown, |word, _| enter(word).unwrap()));
            visited.flat_map(|word| [word, word | EMPTY, word - SHOWN, (word - SHOWN) | AWAITED])
        })
    }

    #[test]
    fn only_shown_work_with_a_seat_is_entered_and_only_a_free_place_shown_at() {
        for word in words(4).chain([0, 9 * TURN]) {
            assert_eq!(
                enter(word).is_some(),
                word & SHOWN != 0 && word & EMPTY == 0 && (word / SEAT) & 127 > 0
            );
            assert_eq!(show(word, 3).is_some(), word & KEPT == 0);
            assert!(show(free(word), 3).is_some_and(|next| entries(next) == 0 && !is_visited(next)));
        }
    }

    #[test]
    fn who_enters_is_counted_and_takes_a_seat() {
        for word in words(4) {
            if let Some(entered) = enter(word) {
                assert_eq!((entries(entered), seats(entered)), (entries(word) + 1, seats(word) - 1));
                assert!(is_visited(entered) && close_unvisited(entered).is_none());
            }
            assert_eq!(close_unvisited(word).is_some(), entries(word) == 0);
        }
    }

    #[test]
    fn who_comes_back_again_and_again_is_never_overlooked_and_disturbs_no_other_count() {
        let mut word = show(free(u32::MAX), MOST_SEATS).unwrap();
        assert_eq!(seats(word), MOST_SEATS);
        let turn = free(word);
        for visits in 1..1000u32 {
            word = enter(word).unwrap();
            assert!(is_visited(word) && entries(word) == visits as u8);
            assert_eq!((free(word), seats(word)), (turn, MOST_SEATS - 1));
            // As it pauses.
            word += SEAT;
        }
    }

    #[test]
    fn a_caller_is_roused_by_visitors_of_its_own_work_only() {
        let entered = enter(show(0, 2).unwrap()).unwrap();
        let sleeps = (entered - SHOWN) | AWAITED;
        assert_eq!((rouse(sleeps, entered), rouse(entered - SHOWN, entered)), (Some(entered - SHOWN), None));
        let next = enter(show(free(sleeps), 2).unwrap()).unwrap();
        let next = (next - SHOWN) | AWAITED;
        assert_eq!((rouse(next, entered), rouse(free(sleeps), entered)), (None, None));
    }

    #[test]
    fn the_next_work_looks_different_and_the_count_comes_round() {
        let mut word = 0;
        for _ in 0..5000 {
            let shown = show(word, 1).unwrap();
            assert!(shown != show(word.wrapping_sub(TURN) & TURNS, 1).unwrap());
            word = close_unvisited(shown).unwrap();
            assert!(word & !TURNS == 0);
        }
    }
}
