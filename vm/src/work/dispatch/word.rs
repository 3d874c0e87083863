//! The word of a post: who may do what next. Pure transitions; the retry loop is the caller's.
//!
//! ```text
//!             claim              offer              visit
//!    IDLE ------------> KEPT ------------> OFFERED ---------> VISITED
//!         <------------      <------------         <---------
//!           give back    ^     withdraw             pause    |
//!                        +-----------------------------------+
//!                                     leave
//! ```
//!
//! *Claim*, *offer*, *withdraw* and *give back* are the caller's, *visit*, *pause* and *leave* the helper's.
//! In KEPT, OFFERED and VISITED the post belongs to the caller that claimed it. What is offered may be looked
//! at in VISITED only.
//!
//! Withdrawing takes a post from KEPT and OFFERED alike to KEPT without `LENT`.
//!
//! | bit | set by | says |
//! |---|---|---|
//! | `ASLEEP` | the helper | it sleeps on the word: whoever has news wakes it |
//! | `AWAITED` | the caller | it sleeps on the word until the visit ends |
//! | `GONE` | the helper | no helper serves this post |
//! | `LEAVING` | anybody | the helper shall go |
//! | `LENT` | the caller | what was offered still stands: [`ring`] offers it again |
//! | `AGAIN` | anybody | the visit under way is not the last: there is more |
//! | `CLOSED` | the owner of the board | the helper shall go, and none shall come |

/// Nobody's: a helper without work.
pub const IDLE: u32 = 0;
/// A caller's, with nothing to visit.
pub const KEPT: u32 = 1;
/// Something may be visited.
pub const OFFERED: u32 = 2;
/// The helper is there.
pub const VISITED: u32 = 3;
const STATE: u32 = 3;
pub const ASLEEP: u32 = 4;
pub const AWAITED: u32 = 8;
pub const GONE: u32 = 16;
pub const LEAVING: u32 = 32;
pub const CLOSED: u32 = 64;
pub const LENT: u32 = 128;
pub const AGAIN: u32 = 256;

/// A post that no helper has come to yet.
pub const NOBODY: u32 = IDLE | GONE;

/// The state without the bits.
pub const fn state(word: u32) -> u32 {
    word & STATE
}

const fn go(word: u32, from: u32, to: u32) -> Option<u32> {
    if state(word) == from { Some(word & !STATE | to) } else { None }
}

/// Takes an idle helper.
pub const fn claim(word: u32) -> Option<u32> {
    if word & (GONE | LEAVING | CLOSED) == 0 { go(word, IDLE, KEPT) } else { None }
}

/// Lets the helper of a claimed post visit.
pub const fn offer(word: u32) -> Option<u32> {
    go(word | LENT, KEPT, OFFERED)
}

/// Offers again what was offered before and is not taken back; before and during a visit, has the helper look
/// once more. Where the offer stands already the word changes all the same: so the visit to come is ordered
/// behind what the helper shall see.
pub const fn ring(word: u32) -> Option<u32> {
    match state(word) {
        KEPT if word & LENT != 0 => go(word, KEPT, OFFERED),
        OFFERED | VISITED => Some(word | AGAIN),
        _ => None,
    }
}

/// Takes back for good what the helper is not visiting.
pub const fn withdraw(word: u32) -> Option<u32> {
    if state(word) == VISITED { None } else { Some(word & !(STATE | LENT | AGAIN) | KEPT) }
}

/// Notes that the caller sleeps until the visit ends.
pub const fn awaited(word: u32) -> Option<u32> {
    if state(word) == VISITED { Some(word | AWAITED) } else { None }
}

/// Makes a claimed post nobody's again.
pub const fn give_back(word: u32) -> Option<u32> {
    go(word, KEPT, IDLE)
}

/// Begins a visit.
pub const fn visit(word: u32) -> Option<u32> {
    if !has_news(word) { go(word & !AGAIN, OFFERED, VISITED) } else { None }
}

/// Begins the last visit of a helper that goes: to whoever lends to it.
pub const fn bow(word: u32) -> Option<u32> {
    if state(word) == OFFERED || state(word) == KEPT && word & LENT != 0 {
        Some(word & !(STATE | AGAIN) | VISITED)
    } else {
        None
    }
}

/// Ends a visit to come back; the caller is awake from now on.
pub const fn pause(word: u32) -> Option<u32> {
    go(word & !(AWAITED | AGAIN), VISITED, OFFERED)
}

/// Ends a visit that found nothing more, unless there is more by now; the caller is awake from now on.
pub const fn leave(word: u32) -> Option<u32> {
    go(word & !(AWAITED | AGAIN), VISITED, if word & AGAIN == 0 { KEPT } else { OFFERED })
}

/// Notes that the helper sleeps; there must be nothing for it to do.
pub const fn doze(word: u32) -> Option<u32> {
    if state(word) == OFFERED || has_news(word) { None } else { Some(word | ASLEEP) }
}

/// Notes that the helper is awake; `None` where somebody else has.
pub const fn rouse(word: u32) -> Option<u32> {
    if word & ASLEEP != 0 { Some(word & !ASLEEP) } else { None }
}

/// Has a helper that sleeps, and is nobody's, wake up to look round.
pub const fn rouse_idle(word: u32) -> Option<u32> {
    if state(word) == IDLE && !has_news(word) { rouse(word) } else { None }
}

/// Asks the helper to go; `None` where it is gone.
pub const fn dismiss(word: u32) -> Option<u32> {
    if word & GONE == 0 { Some(word | LEAVING) } else { None }
}

/// Asks the helper to go, and no other to come.
pub const fn close(word: u32) -> Option<u32> {
    Some(word | CLOSED)
}

/// The helper goes, whatever the caller does with the post.
pub const fn depart(word: u32) -> Option<u32> {
    Some(word & !(ASLEEP | LEAVING) | GONE)
}

/// A helper comes to a post that nobody serves.
pub const fn arrive(word: u32) -> Option<u32> {
    if word & GONE != 0 && word & CLOSED == 0 { Some(word & !GONE) } else { None }
}

/// Whether the helper has been told something besides an offer.
pub const fn has_news(word: u32) -> bool {
    word & (LEAVING | CLOSED) != 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Every state with every set of bits.
    fn words() -> impl Iterator<Item = u32> {
        0..512
    }

    #[test]
    fn only_an_offer_is_visited_and_only_an_unvisited_one_withdrawn() {
        for word in words() {
            let may = state(word) == OFFERED;
            assert_eq!(visit(word).is_some(), may && !has_news(word));
            assert_eq!(withdraw(word).is_none(), state(word) == VISITED);
            assert!(withdraw(word).is_none_or(|kept| state(kept) == KEPT && ring(kept).is_none()));
            assert_eq!(awaited(word).is_some(), state(word) == VISITED);
            assert_eq!(claim(word).is_some(), state(word) == IDLE && word & GONE == 0 && !has_news(word));
        }
    }

    #[test]
    fn a_visit_that_ends_leaves_nobody_awaiting_and_the_other_bits_alone() {
        for word in words().filter(|&word| state(word) == VISITED) {
            let others = word & !(STATE | AWAITED | AGAIN);
            assert_eq!(pause(word), Some(OFFERED | others));
            let next = if word & AGAIN == 0 { KEPT } else { OFFERED };
            assert_eq!(leave(word), Some(next | others));
        }
    }

    #[test]
    fn nobody_comes_to_a_post_that_is_served_or_closed() {
        for word in words() {
            assert_eq!(arrive(word).is_some(), word & GONE != 0 && word & CLOSED == 0);
            assert!(depart(word).is_some_and(|gone| gone & GONE != 0 && state(gone) == state(word)));
        }
    }

    #[test]
    fn a_helper_sleeps_only_where_it_has_nothing_to_do() {
        for word in words() {
            assert_eq!(doze(word).is_some(), state(word) != OFFERED && !has_news(word));
        }
    }
}
