//! What a caller does that takes any help: show its work at the desk of its CPU, take it back.

use super::desk_word as word;
use super::lend::{Then, Visit};
use super::post::Board;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, compiler_fence, fence};
use crate::units::{CpuId, MAX_CPUS, NodeMask};
use core::cell::Cell;
use core::fmt;

/// Pieces of work that callers on one CPU show at once: one line of memory. Who finds no place works alone.
pub(super) const PLACES: usize = 3;

/// Where callers on one CPU show their work.
pub(super) struct Desk<C: Cpu> {
    /// See [`word`]. Shown by a plain store that releases `nodes` and `work`, acquired by who enters; freed
    /// by one that releases the place to who shows something there next.
    pub(super) words: [AtomicU32<C>; PLACES],
    /// Whose helpers may come. Relaxed, as `work`.
    nodes: [AtomicU64<C>; PLACES],
    /// What is shown; looked at by visitors only.
    work: [AtomicPtr<Head<C>, C>; PLACES],
}

/// Work that can be shown, on its caller's stack: once.
///
/// It begins with a line of memory that helpers take for themselves when they come. What a visit needs to
/// begin, and what it writes, belongs to the first [`HEAD_ROOM`] bytes of `what`.
#[repr(C, align(64))]
pub struct Exhibit<V, C: Cpu> {
    head: Head<C>,
    /// What is visited.
    pub what: V,
    beyond: Beyond<C>,
}

/// As [`Head::came`], of all other CPUs. Aligned so that no two are written across the end of a line.
#[repr(align(16))]
struct Beyond<C: Cpu> {
    came: [AtomicU64<C>; MAX_CPUS / 64 - 1],
}

/// So much of what is shown is on the line that a visitor takes first.
pub const HEAD_ROOM: usize = 32;

/// Work without its type. It stays until the place is closed and the last visitor has left.
#[repr(C)]
pub(super) struct Head<C: Cpu> {
    /// Safe to call with this while it is visited.
    pub(super) call: unsafe fn(*const Self, CpuId, u64) -> Then,
    /// The ranks that the caller holds.
    pub(super) held: u64,
    /// What a visitor writes last: [`VISIT`] for each visit that has ended, and the nanoseconds that they
    /// took. Released by the visitor, acquired by the caller, whose all of it is again after the last.
    pub(super) ended: AtomicU64<C>,
    /// Which of the first 64 CPUs' helpers came. Relaxed: read once the visitors have left.
    came: AtomicU64<C>,
}

/// Above the nanoseconds of two years.
pub(super) const VISIT: u64 = 1 << 56;

/// Who may help.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// So many at once.
    pub seats: u32,
    /// From these nodes.
    pub nodes: NodeMask,
}

/// What helpers did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Helped {
    /// How many came.
    pub helpers: u32,
    /// Nanoseconds that they worked, all together.
    pub ns: u64,
}

impl<C: Cpu> Desk<C> {
    pub(super) fn new() -> Self {
        Self {
            words: [const { AtomicU32::new(0) }; PLACES],
            nodes: [const { AtomicU64::new(0) }; PLACES],
            work: [const { AtomicPtr::null() }; PLACES],
        }
    }

    /// Puts work into a free place. Only threads of the desk's CPU do so, with preemption off, so nobody else
    /// takes the place in between.
    #[inline]
    fn show(&self, work: *const Head<C>, terms: Terms) -> Option<&AtomicU32<C>> {
        // Acquire: pairs with `Offer::close` of who had the place before, so that its visitors' looks are
        // over.
        let free = |place: &usize| Some((*place, word::show(self.words[*place].load(Acquire), terms.seats)?));
        let (place, shown) = (0..PLACES).find_map(|place| free(&place))?;
        self.nodes[place].store(terms.nodes.bits(), Relaxed);
        self.work[place].store(work.cast_mut(), Relaxed);
        // Release: pairs with `enter`. No fence of the CPU's: `round` tells who sees this nevertheless.
        self.words[place].store(shown, Release);
        compiler_fence::<C>();
        Some(&self.words[place])
    }

    /// Whose helpers may come to what is shown in `place`.
    pub(super) fn nodes(&self, place: usize) -> NodeMask {
        NodeMask::from_bits(self.nodes[place].load(Relaxed))
    }

    /// What is shown in `place`. Its owner's only, but for visitors.
    pub(super) fn work(&self, place: usize) -> *const Head<C> {
        self.work[place].load(Relaxed)
    }
}

impl<C: Cpu> Board<C> {
    /// Lets helpers visit what `exhibit` holds while `own` runs, as far as there are any and `terms` allow.
    /// When this returns, or unwinds, none is there or will come.
    ///
    /// It may sleep: until visits end that have begun, never for a helper that has not come.
    #[inline]
    pub fn show<V: Visit, R>(
        &self,
        exhibit: &Exhibit<V, C>,
        terms: Terms,
        own: impl FnOnce(&Offer<'_, C>) -> R,
    ) -> (R, Helped) {
        // The exhibit outlives the offer, which outlives every visit: that is what `Round::enter` relies on.
        let result = {
            let shown = self.show_here((&raw const *exhibit).cast(), terms);
            let offer = Offer { board: self, shown: Cell::new(shown), ended: &exhibit.head.ended };
            own(&offer)
        };
        (result, exhibit.helped())
    }

    /// Shows work at this CPU's desk, and sees to it that somebody looks.
    #[inline]
    fn show_here(&self, work: *const Head<C>, terms: Terms) -> Option<&AtomicU32<C>> {
        if terms.seats == 0 {
            return None;
        }
        let terms = Terms { seats: terms.seats.min(word::MOST_SEATS), ..terms };
        C::preempt_off();
        let me = C::id();
        let shown = if me.0 < self.nr_cpus() { self.desk(me).show(work, terms) } else { None };
        C::preempt_on();
        if shown.is_some() {
            self.invite(me, terms);
        }
        shown
    }
}

/// Work that is shown; closed when dropped.
pub struct Offer<'b, C: Cpu> {
    board: &'b Board<C>,
    /// The word of its place, as long as it is there.
    shown: Cell<Option<&'b AtomicU32<C>>>,
    /// As [`Head::ended`].
    ended: &'b AtomicU64<C>,
}

impl<C: Cpu> Offer<'_, C> {
    /// Whether it is taken back.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.shown.get().is_none()
    }

    /// Sees once more to it that somebody looks, now that what is shown is seen by all. `terms` are those
    /// that it was shown on.
    pub fn ask_again(&self, terms: Terms) {
        if !self.is_closed() {
            // Pairs with the fences of `round::doze` and `round::see_that_somebody_looks`: either those find
            // what is shown, or this finds what they wrote.
            fence::<C>(SeqCst);
            self.board.invite(C::id(), terms);
        }
    }

    /// Takes the work back if nobody has come: then nobody will. True where it is taken back, now or before.
    #[inline]
    pub fn close_unvisited(&self) -> bool {
        let Some(word) = self.shown.get() else { return true };
        let closed = word.update(AcqRel, Relaxed, word::close_unvisited).is_ok();
        if closed {
            self.shown.set(None);
        }
        closed
    }

    /// Takes the work back, and waits until the last visitor has left.
    fn close(&self, word: &AtomicU32<C>) {
        let closed = word.fetch_sub(word::SHOWN, AcqRel);
        if word::is_visited(closed) {
            self.wait_until_left(word, closed);
        }
        // Release: pairs with the look of who shows work here next. A plain store, as nobody else changes the
        // word any more but to rouse us, which is an exchange and finds it changed.
        word.store(word::free(closed), Release);
    }

    fn wait_until_left(&self, word: &AtomicU32<C>, closed: u32) {
        // Acquire: pairs with `Visiting::leave`.
        let have_left = || (self.ended.load(Acquire) / VISIT) as u8 == word::entries(closed);
        let mut turns = 0;
        while !have_left() {
            if turns < self.board.patience() {
                turns += 1;
            } else {
                let was = word.fetch_or(word::AWAITED, AcqRel);
                // Pairs with the fence of `Visiting::leave`: either this finds the visit ended, or its
                // visitor finds us asleep.
                fence::<C>(SeqCst);
                if !have_left() {
                    word.sleep_while(was | word::AWAITED);
                }
            }
            C::relax();
        }
    }
}

impl<C: Cpu> Drop for Offer<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if let Some(word) = self.shown.take() {
            self.close(word);
        }
    }
}

impl<C: Cpu> fmt::Debug for Offer<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offer, {}", if self.shown.get().is_some() { "open" } else { "closed" })
    }
}

impl<V: Visit, C: Cpu> Exhibit<V, C> {
    /// Something that the current thread is to show, once: visits are counted from its making. Visitors hold
    /// the ranks that it holds now.
    #[inline(always)]
    pub fn new(what: V) -> Self {
        #[cfg(not(loom))]
        const {
            assert!(core::mem::offset_of!(Self, what) + HEAD_ROOM == 64)
        };
        Self {
            head: Head {
                call: visit::<V, C>,
                held: C::with_context(|context| context.held()),
                ended: AtomicU64::new(0),
                came: AtomicU64::new(0),
            },
            what,
            beyond: Beyond { came: [const { AtomicU64::new(0) }; MAX_CPUS / 64 - 1] },
        }
    }

    /// What visitors did; they have left.
    #[inline]
    fn helped(&self) -> Helped {
        let all =
            || core::iter::once(&self.head.came).chain(&self.beyond.came).map(|cpus| cpus.load(Relaxed));
        if all().fold(0, |any, cpus| any | cpus) == 0 {
            return Helped::default();
        }
        Helped { helpers: all().map(u64::count_ones).sum(), ns: self.head.ended.load(Relaxed) % VISIT }
    }
}

impl<C: Cpu> Head<C> {
    /// Notes that the helper of `me` comes. The first thing that it does: so that the line comes once, and
    /// for good. Those beyond the first 64 note nothing here, but have the line come all the same.
    pub(super) fn note_visitor(&self, me: CpuId) {
        self.came.fetch_or(1u64.checked_shl(me.0).unwrap_or(0), Relaxed);
    }
}

impl<C: Cpu> Beyond<C> {
    fn note_visitor(&self, me: CpuId) {
        if let Some(cpus) = (me.index() / 64).checked_sub(1).and_then(|index| self.came.get(index)) {
            cpus.fetch_or(1 << (me.0 % 64), Relaxed);
        }
    }
}

impl<V, C: Cpu> fmt::Debug for Exhibit<V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exhibit of {}", core::any::type_name::<V>())
    }
}

/// # Safety
/// `head` is that of an `Exhibit<V, C>`, and may reach all of it, which stays as it is during the call.
unsafe fn visit<V: Visit, C: Cpu>(head: *const Head<C>, me: CpuId, began_ns: u64) -> Then {
    // SAFETY: by this function's contract; the exhibit begins with its head, and is `Sync` as `V` is.
    let exhibit = unsafe { &*head.cast::<Exhibit<V, C>>() };
    exhibit.beyond.note_visitor(me);
    exhibit.what.visit(me, began_ns)
}
