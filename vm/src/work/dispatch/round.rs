//! What a helper does that has nothing to do: look round the desks, visit what is shown there, or sleep.
//!
//! The one subtle thing is that work is not shown to sleepers only. Both sides write before they look:
//!
//! ```text
//!   caller   show the work                           does nobody look, and somebody sleep?   then wake
//!   helper   count as asleep, ASLEEP, fence, wait    is work shown?                          else sleep
//! ```
//!
//! With a fence on both sides at least one look would see what the other side has written. The caller has
//! none: it would wait until all that describes the work has left its CPU, which is most of what a short job
//! costs. So its store may be seen after its look, by as long as a store takes to come out, some ten
//! nanoseconds; and the helper waits for a microsecond before its own look. That is likely and no proof.
//! Therefore a caller that goes on behind its second chunk asks once more, with a fence: what is not begun by
//! then is never left to sleepers. What could be lost, where a store takes longer than a microsecond, is help
//! with what the caller does until then anyway.
//!
//! While somebody looks, the caller wakes nobody, and pays one load for it; so whoever ceases to look,
//! because he found work, or is wanted elsewhere, and was the last, looks in the same way whether work is
//! shown that others sleep over, and wakes two of them. Those do the same when they find theirs: so a piece
//! of work for many has them all in as many steps as doubling takes, and none of its caller's time.
//!
//! Who looks at a line takes it from its owner for a moment, and who visits work that was about to end holds
//! its caller up for ten times what it took. So a helper that finds nothing looks less and less often, down
//! to every few microseconds, about what waking up takes; then it looks twice before it comes, and what is
//! gone at the second look was too short to be shared. After a visit it looks without a pause for a while,
//! the longer the longer that was: who is needed again and again is there at once. It stays awake while it
//! sees that callers come and go.

use super::desk::{Desk, Head, PLACES, Terms, VISIT};
use super::desk_word as word;
use super::lend::Then;
use super::post::{Board, Post};
use super::word as post_word;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*, fence};
use crate::units::{CpuId, NodeMask};

/// The longest pause between two looks, in turns of a wait loop.
const LONGEST: u32 = 64;

/// Turns of a wait loop, about a microsecond of them, after which what another CPU has stored is seen. Models
/// have fences instead.
const ARRIVAL: u32 = if cfg!(loom) { 0 } else { 64 };

/// Who pauses for longer than this comes only to work that is still shown at a second look.
const EAGER: u32 = 4;

/// A helper without work. Counted in the crowd while it looks.
pub(super) struct Round<'b, C: Cpu> {
    board: &'b Board<C>,
    post: &'b Post<C>,
    me: CpuId,
    looks: bool,
    /// What the words of the desks were, in one.
    seen: u32,
    /// Turns of waiting since something was seen.
    turns: u32,
    /// Of those the next to take at once.
    pause: u32,
    /// So often more it looks without a longer pause.
    eager: u32,
}

impl<'b, C: Cpu> Round<'b, C> {
    /// A helper that is about to look.
    pub(super) fn new(board: &'b Board<C>, post: &'b Post<C>) -> Self {
        board.crowd.enter();
        Self { board, post, me: C::id(), looks: true, seen: 0, turns: 0, pause: 1, eager: 0 }
    }

    /// Looks round, and visits the first work that is found. True where there was some.
    pub(super) fn look(&mut self) -> bool {
        if !self.looks {
            self.looks = true;
            self.board.crowd.enter();
        }
        let board = self.board;
        let mut seen = 0u32;
        for (desk, place) in board.places(self.me) {
            // Acquire: `nodes` is as it was when this was shown.
            let now = desk.words[place].load(Acquire);
            seen = seen.rotate_left(5) ^ now;
            if word::seats(now) > 0
                && desk.nodes(place).contains(self.post.node)
                && let Some(took_ns) = self.enter(desk, place, now)
            {
                (self.turns, self.pause) = (0, 1);
                // A turn takes some twenty nanoseconds: for a quarter of the time that the visit took.
                self.eager = (took_ns / 64).min(LONGEST.into()) as u32;
                return true;
            }
        }
        if seen != self.seen {
            (self.seen, self.turns) = (seen, 0);
        }
        false
    }

    /// Enters, if that is still what was seen and the cap allows it, and does some of the work. Says how many
    /// nanoseconds that took.
    fn enter(&self, desk: &Desk<C>, place: usize, seen: u32) -> Option<u64> {
        let entered = word::enter(seen).filter(|_| self.board.crowd.room_racy() > 0)?;
        if self.pause > EAGER {
            C::relax();
            if desk.words[place].load(Relaxed) != seen {
                return None;
            }
        }
        desk.words[place].compare_exchange(seen, entered, AcqRel, Relaxed).ok()?;
        let at = desk.work(place);
        // SAFETY: we have entered, and our visit has not ended: the caller that showed this has not seen it
        // end, nor returned. The pointer was stored before the word that we acquired, and what it points to
        // stays meanwhile.
        let work = unsafe { &*at };
        work.note_visitor(self.me);
        let mut visiting =
            Visiting { round: self, word: &desk.words[place], entered, work, begun: None, then: Then::Pause };
        if !self.board.crowd.begin() {
            return None;
        }
        let began_ns = C::now_ns();
        visiting.begun = Some((began_ns, C::with_context(|context| context.inherit_held(work.held))));
        self.board.see_that_somebody_looks(self.me);
        // SAFETY: `show` stored a pointer to all of an exhibit that `call` belongs to; it is `Sync` and stays
        // as above.
        visiting.then = unsafe { (work.call)(at, self.me, began_ns) };
        let pauses = visiting.then == Then::Pause;
        let took_ns = visiting.leave();
        core::mem::forget(visiting);
        if pauses {
            C::yield_now();
        }
        Some(took_ns)
    }

    /// Does not look for now: others must, if there is something.
    pub(super) fn stop(&mut self) {
        if core::mem::take(&mut self.looks) {
            self.board.crowd.leave();
            self.board.see_that_somebody_looks(self.me);
        }
    }

    /// Lets time pass, or sleeps if that was in vain for long.
    pub(super) fn rest(&mut self) {
        if self.turns < self.board.patience() {
            C::yield_now();
            (1..self.pause).for_each(|_| C::relax());
            self.turns += self.pause;
            match self.eager.checked_sub(1) {
                Some(less) => self.eager = less,
                None => self.pause = (self.pause * 2).min(LONGEST),
            }
        } else {
            self.doze();
            C::relax();
            (self.turns, self.pause) = (0, 1);
        }
    }

    /// Sleeps until it is woken, unless there is something to do after all. Counted as looking when this
    /// returns.
    fn doze(&mut self) {
        let crowd = &self.board.crowd;
        if !core::mem::replace(&mut self.looks, true) {
            crowd.enter();
        }
        crowd.doze();
        let Ok(was) = self.post.word.update(AcqRel, Acquire, post_word::doze) else { return crowd.rouse() };
        // Pairs with `Offer::ask_again`: either its caller finds us asleep, or we find what it shows.
        fence::<C>(SeqCst);
        (0..ARRIVAL).for_each(|_| C::relax());
        if post_word::state(was) != post_word::IDLE || !self.is_wanted() {
            self.post.word.sleep_while(was | post_word::ASLEEP);
        }
        // Who has woken us has counted us.
        if self.post.word.update(AcqRel, Acquire, post_word::rouse).is_ok() {
            crowd.rouse();
        }
    }

    /// Whether work is shown that this helper may visit.
    fn is_wanted(&self) -> bool {
        let is_for_me = |(desk, place): (&Desk<C>, usize)| {
            word::seats(desk.words[place].load(Relaxed)) > 0 && desk.nodes(place).contains(self.post.node)
        };
        self.board.crowd.room_racy() > 0 && self.board.places(self.me).any(is_for_me)
    }
}

impl<C: Cpu> Drop for Round<'_, C> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A visit; ends when dropped, also where it unwinds.
struct Visiting<'a, 'b, C: Cpu> {
    round: &'a Round<'b, C>,
    word: &'a AtomicU32<C>,
    /// What that was when it began.
    entered: u32,
    work: &'a Head<C>,
    /// When it came to working, and the ranks held before.
    begun: Option<(u64, u64)>,
    then: Then,
}

impl<C: Cpu> Visiting<'_, '_, C> {
    /// Says how many nanoseconds it was at work. `work` is gone when this returns.
    fn leave(&mut self) -> u64 {
        let took_ns = self.begun.map_or(0, |(began_ns, held)| {
            let helped = C::with_context(|context| {
                context.inherit_held(held);
                context.take_helper_ns()
            });
            C::now_ns().saturating_sub(began_ns).saturating_add(helped).min(VISIT / 256)
        });
        // Who comes back needs its seat; who does not says that nobody else need come, where somebody could.
        if self.then == Then::Pause {
            self.word.fetch_add(word::SEAT, Relaxed);
        } else if word::seats(self.entered) > 0 {
            self.word.fetch_or(word::EMPTY, Relaxed);
        }
        // Release: pairs with `Offer::wait_until_left`, after which all of it is the caller's again, and may
        // be gone.
        self.work.ended.fetch_add(took_ns + VISIT, AcqRel);
        // Pairs with the fence there: either the caller finds the visit ended, or this finds it asleep.
        fence::<C>(SeqCst);
        if self.word.update(Relaxed, Relaxed, |word| word::rouse(word, self.entered)).is_ok() {
            self.word.wake(u32::MAX);
        }
        if self.begun.is_some() {
            self.round.board.crowd.end();
        }
        took_ns
    }
}

impl<C: Cpu> Drop for Visiting<'_, '_, C> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<C: Cpu> Board<C> {
    /// All places but those of `me`, from the next CPU's on and round.
    fn places(&self, me: CpuId) -> impl Iterator<Item = (&Desk<C>, usize)> {
        self.others(me).flat_map(move |cpu| (0..PLACES).map(move |place| (self.desk(cpu), place)))
    }

    /// All CPUs but `me`, from the next on and round.
    fn others(&self, me: CpuId) -> impl Iterator<Item = CpuId> {
        let all = self.nr_cpus();
        (me.0.saturating_add(1)..all).chain(0..me.0.min(all)).map(CpuId)
    }

    /// After work was shown on `me`: wakes helpers unless somebody looks.
    #[inline]
    pub(super) fn invite(&self, me: CpuId, terms: Terms) {
        // Who looks need not be on the right node.
        if self.crowd.somebody_sleeps() && (self.crowd.nobody_looks() || terms.nodes != NodeMask::ALL) {
            self.wake_some(me, terms);
        }
    }

    /// After `me` has ceased to look: if nobody else does, wakes helpers for what is shown.
    fn see_that_somebody_looks(&self, me: CpuId) {
        // Pairs with `Offer::ask_again`: either its caller finds us no longer looking, or we find what it
        // shows.
        fence::<C>(SeqCst);
        if !self.crowd.somebody_sleeps() || !self.crowd.nobody_looks() {
            return;
        }
        for (desk, place) in self.places(me) {
            let seats = word::seats(desk.words[place].load(Relaxed));
            if seats > 0 {
                self.wake_some(me, Terms { seats, nodes: desk.nodes(place) });
            }
        }
    }

    /// Wakes up to two helpers that may come; they see to the others.
    #[cold]
    fn wake_some(&self, me: CpuId, terms: Terms) {
        let is_roused = |&cpu: &CpuId| {
            let post = self.post(cpu);
            terms.nodes.contains(post.node)
                && post_word::rouse_idle(post.word.load(Relaxed)).is_some()
                && post.word.update(AcqRel, Relaxed, post_word::rouse_idle).is_ok()
        };
        let most = terms.seats.min(2) as usize;
        self.others(me).filter(is_roused).take(most).for_each(|cpu| {
            self.crowd.rouse();
            self.post(cpu).word.wake(u32::MAX);
        });
    }
}
