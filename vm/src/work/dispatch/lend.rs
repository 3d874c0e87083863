//! What a caller does that wants certain helpers: claim their posts, lend its work, take it back.

use super::post::Board;
use super::word;
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use crate::units::{CpuId, CpuMask};
use core::fmt;

/// Work that helpers may visit.
pub trait Visit: Sync {
    /// Does some of it, on the CPU `me`; the clock said `began_ns` when the visit began. A visit that has
    /// lasted long pauses, so that others get the CPU; it comes back if the work is still offered then.
    fn visit(&self, me: CpuId, began_ns: u64) -> Then;

    /// The helper of `me` goes, dismissed or because it panicked, and will not come again for this.
    fn gone(&self, me: CpuId) {
        let _ = me;
    }
}

/// What a helper does after a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It comes back as soon as nobody else wants the CPU.
    Pause,
    /// It finds nothing more to do.
    Leave,
}

/// A function of what is lent, without its type.
pub(super) type Call = unsafe fn(what: *const (), me: CpuId, began_ns: u64) -> Then;

/// Work on somebody's stack, without its type. Lives as long as it is offered.
pub(super) struct Lent {
    /// Safe to call with `what` while it is offered.
    pub(super) call: Call,
    /// As `call`.
    pub(super) gone: Call,
    pub(super) what: *const (),
    /// The ranks that the caller holds.
    pub(super) held: u64,
}

/// # Safety
/// `what` points to a `V` that stays as it is during the call.
unsafe fn visit<V: Visit>(what: *const (), me: CpuId, began_ns: u64) -> Then {
    // SAFETY: by this function's contract; `V` is `Sync`.
    unsafe { &*what.cast::<V>() }.visit(me, began_ns)
}

/// # Safety
/// As [`visit`].
unsafe fn gone<V: Visit>(what: *const (), me: CpuId, _: u64) -> Then {
    // SAFETY: by this function's contract; `V` is `Sync`.
    unsafe { &*what.cast::<V>() }.gone(me);
    Then::Leave
}

/// Posts that belong to this caller; given back when dropped.
#[must_use = "the helpers are free again once this is dropped"]
pub struct Claimed<'b, C: Cpu> {
    board: &'b Board<C>,
    posts: CpuMask,
}

impl<C: Cpu> Board<C> {
    /// Claims up to `most` idle helpers among `candidates`.
    pub fn claim(&self, most: u32, candidates: impl Iterator<Item = CpuId>) -> Claimed<'_, C> {
        let mut claimed = Claimed { board: self, posts: CpuMask::EMPTY };
        let idle = candidates.filter(|&cpu| {
            let word = &self.post(cpu).word;
            // The look keeps the line where it is while the helper is busy.
            word::claim(word.load(Relaxed)).is_some() && word.update(AcqRel, Relaxed, word::claim).is_ok()
        });
        idle.take(most as usize).for_each(|cpu| {
            self.post(cpu).spent_ns.store(0, Relaxed);
            claimed.posts.insert(cpu);
        });
        claimed
    }
}

impl<C: Cpu> Board<C> {
    /// Has the helper of `cpu` look at what it was lent once more: there is more of it. Nothing happens where
    /// nothing is lent to it. False where no helper is there.
    pub fn ring(&self, cpu: CpuId) -> bool {
        let word = &self.post(cpu).word;
        match word.update(AcqRel, Relaxed, word::ring) {
            Ok(was) => {
                self.post(cpu).wake_helper(was);
                was & word::GONE == 0
            }
            Err(found) => found & word::GONE == 0,
        }
    }
}

impl<C: Cpu> Claimed<'_, C> {
    /// The CPUs whose helpers were claimed.
    pub fn cpus(&self) -> &CpuMask {
        &self.posts
    }

    /// Nanoseconds that the helpers have worked since they were claimed.
    pub fn spent_ns(&self) -> u64 {
        self.posts.iter().map(|cpu| self.board.post(cpu).spent_ns.load(Relaxed)).sum()
    }

    /// Lets the claimed helpers visit `what` while `own` runs. When this returns, or unwinds, no helper is
    /// there or will come.
    ///
    /// It may sleep: until visits end that have begun, never for a helper that has not come.
    pub fn lend<V: Visit, R>(&mut self, what: &V, own: impl FnOnce() -> R) -> R {
        let held = C::with_context(|context| context.held());
        let lent = Lent { call: visit::<V>, gone: gone::<V>, what: (&raw const *what).cast(), held };
        // `what` and `lent` outlive this guard, which outlives every visit: that is what `Post::visit` relies
        // on.
        let offers = Offers { board: self.board, posts: &self.posts };
        for cpu in self.posts.iter() {
            let post = self.board.post(cpu);
            post.lent.store((&raw const lent).cast_mut(), Relaxed);
            if let Ok(was) = post.word.update(AcqRel, Relaxed, word::offer) {
                post.wake_helper(was);
            }
        }
        let result = own();
        drop(offers);
        result
    }
}

impl<C: Cpu> Drop for Claimed<'_, C> {
    fn drop(&mut self) {
        for cpu in self.posts.iter() {
            let _ = self.board.post(cpu).word.update(AcqRel, Relaxed, word::give_back);
        }
    }
}

/// Offers that are withdrawn when this is dropped.
struct Offers<'a, C: Cpu> {
    board: &'a Board<C>,
    posts: &'a CpuMask,
}

impl<C: Cpu> Offers<'_, C> {
    /// Takes one offer back, if no visit is under way.
    fn try_withdraw(&self, cpu: CpuId) -> bool {
        let post = self.board.post(cpu);
        post.word.update(AcqRel, Acquire, word::withdraw).is_ok()
    }

    /// Waits for the end of a visit and takes the offer back.
    fn withdraw(&self, cpu: CpuId) {
        let (post, mut looks) = (self.board.post(cpu), 0);
        while !self.try_withdraw(cpu) {
            if looks < self.board.patience() {
                looks += 1;
                C::relax();
            } else if let Ok(was) = post.word.update(AcqRel, Acquire, word::awaited) {
                post.word.sleep_while(was | word::AWAITED);
                C::relax();
            }
        }
    }
}

impl<C: Cpu> Drop for Offers<'_, C> {
    fn drop(&mut self) {
        // First those that nobody has come to, so that nobody comes for nothing while we wait.
        self.posts.iter().for_each(|cpu| {
            self.try_withdraw(cpu);
        });
        self.posts.iter().for_each(|cpu| self.withdraw(cpu));
    }
}

impl<C: Cpu> fmt::Debug for Claimed<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claimed {:?}", self.posts)
    }
}
