//! The word of a place at a desk: who may be at the work that is shown there. Pure transitions; retry loops are the caller's.
//!
//! ```text
//!            show                       close
//!   free -----------> shown, 0 visitors ------------------> free
//!                      | ^                                   ^
//!                enter v | leave                             | the last one leaves
//!                     shown, n visitors ------> n visitors --+
//!                                       close
//! ```
//!
//! *Show* and *close* are the caller's, *enter* and *leave* the helpers'. A free place changes by *show* only, and only in the hands of a
//! thread of this desk's CPU; so the caller needs no exchange to show its work. Closing and leaving change one part of the word each, whatever
//! the others are: they are one addition, for which the line need come only once.
//!
//! | bits | say |
//! |---|---|
//! | `SHOWN` | helpers may enter |
//! | `AWAITED` | the caller sleeps on the word until the last visitor has left |
//! | 2..9 | visitors |
//! | 9..16 | seats: so many more may enter |
//! | 16..23 | visitors that found nothing left to begin: where there was one, no other need come |
//! | 23..32 | how often something was shown here, to tell one piece of work from the next |
//!
//! The last is for speed alone. A helper that sees work and reaches for it takes a hundred nanoseconds to get there; work that is gone
//! by then was too short to be shared, and its successor shall not be held up in its place. Were the count to come round in between, the
//! helper would visit what is shown now, and rightly; and a caller that waits for its visitors, and has slept over 512 shows of others on its
//! CPU, would wait for another's.

pub const SHOWN: u32 = 1;
pub const AWAITED: u32 = 2;
const VISITOR: u32 = 1 << 2;
const SEAT: u32 = 1 << 9;
const EMPTY: u32 = 1 << 16;
const TURN: u32 = 1 << 23;
/// Most seats of one piece of work.
pub const MOST_SEATS: u32 = 127;

/// What leaving adds: a seat for a visitor.
pub const LEAVE: u32 = SEAT.wrapping_sub(VISITOR);
/// What the leaving of a visitor adds that found nothing more to begin. Nobody enters behind the first, so they are counted in seven bits.
pub const LEAVE_EMPTY: u32 = LEAVE.wrapping_add(EMPTY);

const fn field(word: u32, unit: u32) -> u32 {
    (word / unit) & 127
}

/// Helpers that are there.
pub const fn visitors(word: u32) -> u32 {
    field(word, VISITOR)
}

/// So many more may come.
pub const fn seats(word: u32) -> u32 {
    if word & SHOWN != 0 && field(word, EMPTY) == 0 { field(word, SEAT) } else { 0 }
}

const fn turn(word: u32) -> u32 {
    word & !(TURN - 1)
}

/// Takes a free place for work that up to `seats` may visit.
pub const fn show(word: u32, seats: u32) -> Option<u32> {
    let is_free = word & SHOWN == 0 && visitors(word) == 0;
    if is_free { Some(turn(word).wrapping_add(TURN) | (seats * SEAT) | SHOWN) } else { None }
}

/// A helper comes.
pub const fn enter(word: u32) -> Option<u32> {
    if seats(word) > 0 { Some(word + VISITOR - SEAT) } else { None }
}

/// Gives the place back, if nobody is there. Otherwise [`SHOWN`] is taken off, so that nobody comes any more.
pub const fn close_unvisited(word: u32) -> Option<u32> {
    if visitors(word) == 0 { Some(word - SHOWN) } else { None }
}

/// Whether those have left who were there when `closed` was: the place may be another's by now.
pub const fn is_left(word: u32, closed: u32) -> bool {
    visitors(word) == 0 || turn(word) != turn(closed)
}

/// Notes that the caller, who has closed the place, sleeps until the last visitor leaves.
pub const fn awaited(word: u32, closed: u32) -> Option<u32> {
    if is_left(word, closed) { None } else { Some(word | AWAITED) }
}

/// Whether a visitor that left when the word was this is to wake the caller.
pub const fn was_awaited(word: u32) -> bool {
    word & AWAITED != 0 && visitors(word) == 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn add(word: u32, what: u32) -> u32 {
        word.wrapping_add(what)
    }

    /// What can come about with up to `most` seats.
    fn words(most: u32) -> impl Iterator<Item = u32> {
        (1..=most).flat_map(|seats| {
            let shown = show(7 * TURN, seats).unwrap();
            let visited = (0..=seats).map(move |n| (0..n).fold(shown, |word, _| enter(word).unwrap()));
            let left = visited.flat_map(|word| {
                (0..=visitors(word)).map(move |n| (0..n).fold(word, |word, _| add(word, LEAVE_EMPTY)))
            });
            left.flat_map(|word| [word, word - SHOWN, awaited(word - SHOWN, word).unwrap_or(word)])
        })
    }

    #[test]
    fn only_shown_work_with_a_seat_is_entered_and_only_a_free_place_shown_at() {
        for word in words(4).chain([0, 9 * TURN]) {
            assert_eq!(
                enter(word).is_some(),
                word & SHOWN != 0 && field(word, EMPTY) == 0 && field(word, SEAT) > 0
            );
            assert_eq!(show(word, 3).is_some(), word & SHOWN == 0 && visitors(word) == 0);
        }
    }

    #[test]
    fn a_place_is_free_only_once_it_is_closed_and_the_last_visitor_has_left() {
        for word in words(4).filter(|word| word & SHOWN != 0) {
            assert_eq!(close_unvisited(word).is_some(), visitors(word) == 0);
            let mut closed = word - SHOWN;
            assert!(seats(closed) == 0 && visitors(closed) == visitors(word));
            while visitors(closed) > 0 {
                assert!(show(closed, 1).is_none() && awaited(closed, word).is_some());
                closed = add(closed, LEAVE);
            }
            assert!(is_left(closed, word) && awaited(closed, word).is_none());
            let next = (0..3).fold(show(closed, 3).unwrap(), |word, _| enter(word).unwrap());
            assert!(is_left(next, word) && awaited(next - SHOWN, word).is_none() && next & AWAITED == 0);
        }
    }

    #[test]
    fn who_leaves_frees_a_seat_and_the_last_one_wakes_the_caller() {
        for word in words(4).filter(|&word| visitors(word) > 0) {
            let left = add(word, LEAVE);
            assert_eq!((visitors(left), field(left, SEAT)), (visitors(word) - 1, field(word, SEAT) + 1));
            assert_eq!(was_awaited(word), word & AWAITED != 0 && visitors(left) == 0);
            assert_eq!(seats(add(word, LEAVE_EMPTY)), 0);
            assert_eq!(add(word, LEAVE_EMPTY) - EMPTY, left);
        }
    }

    #[test]
    fn as_many_as_there_are_seats_come_and_go_and_no_count_runs_over() {
        let shown = show(turn(u32::MAX), MOST_SEATS).unwrap();
        let full = (0..MOST_SEATS).fold(shown, |word, _| enter(word).unwrap());
        assert_eq!((visitors(full), seats(full)), (MOST_SEATS, 0));
        let left = (0..MOST_SEATS).fold(full, |word, _| add(word, LEAVE_EMPTY));
        assert_eq!((visitors(left), field(left, SEAT), field(left, EMPTY)), (0, MOST_SEATS, MOST_SEATS));
        assert_eq!(turn(left), turn(shown));
    }

    #[test]
    fn the_next_work_looks_different_and_the_count_comes_round() {
        let mut word = 0;
        for _ in 0..5000 {
            let shown = show(word, 1).unwrap();
            assert!(shown != show(turn(word).wrapping_sub(TURN), 1).unwrap());
            word = close_unvisited(shown).unwrap();
            assert!(word & SHOWN == 0);
        }
    }
}
