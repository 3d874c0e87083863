//! The board, its posts, and a helper's life.

use super::crowd::Crowd;
use super::desk::Desk;
use super::lend::{Call, Lent, Then};
use super::round::Round;
use super::word;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use crate::sync::{Carve, PerCpu};
use crate::units::{CpuId, NodeId};
use core::fmt;

/// One CPU's post.
pub(super) struct Post<C: Cpu> {
    /// See [`word`]. Every change is a read-modify-write that acquires and releases.
    pub(super) word: AtomicU32<C>,
    /// What is offered. Stored before the offer releases it, loaded after the visit has acquired it: relaxed.
    pub(super) lent: AtomicPtr<Lent, C>,
    /// Nanoseconds of the helper's visits since the post was claimed. Written by whose the post is: relaxed,
    /// ordered by the word.
    pub(super) spent_ns: AtomicU64<C>,
    pub(super) node: NodeId,
}

/// Helper, caller, and who dismisses: all sleep on the one word, and each looks what the news is.
const ALL: u32 = u32::MAX;

/// For how many turns of a wait loop somebody waits before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollLimit(pub u32);

impl PollLimit {
    /// Some ten microseconds: more than going to sleep and being woken takes.
    pub const SHORT: Self = Self(1000);
    /// None.
    pub const NONE: Self = Self(0);
}

/// Posts for the helpers of all CPUs, and desks for the callers of all CPUs.
pub struct Board<C: Cpu> {
    posts: PerCpu<Post<C>, C>,
    desks: PerCpu<Desk<C>, C>,
    pub(super) crowd: Crowd<C>,
    /// Nodes that the CPUs are on: below this.
    nr_nodes: u32,
    patience: AtomicU32<C>,
}

impl<C: Cpu> Board<C> {
    /// A board without posts.
    pub fn empty() -> Self {
        Self {
            posts: PerCpu::none(),
            desks: PerCpu::none(),
            crowd: Crowd::new(),
            nr_nodes: 1,
            patience: AtomicU32::new(0),
        }
    }

    /// A post for each CPU, at which nobody is yet. `None` where the memory does not suffice.
    pub fn carve(from: &mut impl Carve, nr_cpus: u32, node_of: impl Fn(CpuId) -> NodeId) -> Option<Self> {
        let post = |cpu| Post {
            word: AtomicU32::new(word::NOBODY),
            lent: AtomicPtr::null(),
            spent_ns: AtomicU64::new(0),
            node: node_of(cpu),
        };
        let posts = PerCpu::carve(from, nr_cpus, post)?;
        let desks = PerCpu::carve(from, nr_cpus, |_| Desk::new())?;
        let nr_nodes = posts.iter().map(|(_, post)| post.node.0 + 1).max().unwrap_or(1);
        Some(Self {
            posts,
            desks,
            crowd: Crowd::new(),
            nr_nodes,
            patience: AtomicU32::new(PollLimit::SHORT.0),
        })
    }

    /// Number of posts.
    pub fn nr_cpus(&self) -> u32 {
        self.posts.nr_cpus()
    }

    /// How long those wait who wait, before they sleep.
    pub fn set_poll_limit(&self, patience: PollLimit) {
        // Relaxed: nothing hangs on it.
        self.patience.store(patience.0, Relaxed);
    }

    pub(super) fn patience(&self) -> u32 {
        self.patience.load(Relaxed)
    }

    pub(super) fn post(&self, cpu: CpuId) -> &Post<C> {
        self.posts.of(cpu)
    }

    pub(super) fn desk(&self, cpu: CpuId) -> &Desk<C> {
        self.desks.of(cpu)
    }

    /// Lets at most so many helpers be at work at once; those at work stay there.
    pub fn set_max_helpers(&self, most: u32) {
        self.crowd.set_max_helpers(most);
    }

    /// How many helpers may come to work that is shown now, as soon as they are free; stale at once.
    pub fn could_come_racy(&self) -> u32 {
        self.crowd.present_racy()
    }

    /// Reserves up to `want` helpers under the cap, for claiming; to be given back with [`Board::release`].
    pub fn reserve(&self, want: u32) -> u32 {
        self.crowd.reserve(want)
    }

    /// Gives reserved ones back.
    pub fn release(&self, reserved: u32) {
        self.crowd.release(reserved);
    }

    /// The CPUs are on nodes below this.
    pub fn nr_nodes(&self) -> u32 {
        self.nr_nodes
    }

    /// The node of `cpu`.
    pub fn node_of(&self, cpu: CpuId) -> NodeId {
        self.post(cpu).node
    }

    /// Whether a helper serves the post; stale at once.
    pub fn is_served_racy(&self, cpu: CpuId) -> bool {
        cpu.0 < self.nr_cpus() && self.post(cpu).word.load(Relaxed) & word::GONE == 0
    }

    /// A helper's life at the post of its CPU: returns when it is dismissed, or at once where another serves
    /// the post. The thread stays on its CPU, and holds nothing.
    pub fn serve(&self) {
        let post = self.post(C::id());
        // Counted before it is seen to be there.
        let round = Round::new(self, post);
        if post.word.update(AcqRel, Acquire, word::arrive).is_ok() {
            self.stay(post, round);
        }
    }

    /// From arrival to departure.
    pub(super) fn stay(&self, post: &Post<C>, round: Round<'_, C>) {
        // Also where a visit unwinds: the caller must be able to withdraw, and others must see that nobody is
        // here.
        let _departs = Departs(post);
        let mut round = round;
        loop {
            let now = post.word.load(Acquire);
            if word::has_news(now) {
                return;
            }
            match word::state(now) {
                word::OFFERED => {
                    round.stop();
                    if post.visit() == Then::Pause {
                        C::yield_now();
                    }
                }
                word::IDLE if round.look() => (),
                word::IDLE => round.rest(),
                _ => {
                    round.stop();
                    round.rest();
                }
            }
        }
    }

    /// Has the helper of `cpu` go, and waits until it is gone: until the visit that it is on pauses or ends.
    /// May sleep.
    pub fn dismiss(&self, cpu: CpuId) {
        let post = self.post(cpu);
        if let Ok(was) = post.word.update(AcqRel, Acquire, word::dismiss) {
            post.wake_helper(was);
            post.wait_until_gone();
        }
    }

    /// Has all helpers go, and none come again. May sleep.
    pub fn close(&self) {
        for (_, post) in self.posts.iter() {
            if let Ok(was) = post.word.update(AcqRel, Acquire, word::close) {
                post.wake_helper(was);
            }
        }
        self.posts.iter().for_each(|(_, post)| post.wait_until_gone());
    }
}

impl<C: Cpu> Post<C> {
    /// Visits what is offered, if it still is.
    fn visit(&self) -> Then {
        self.enter(word::visit, |lent| lent.call)
    }

    /// Tells who lends to this helper, if anybody does, that it goes.
    fn bow(&self) {
        self.enter(word::bow, |lent| lent.gone);
    }

    /// A visit that begins by `begin`, and is a call of what `which` chooses.
    fn enter(&self, begin: fn(u32) -> Option<u32>, which: fn(&Lent) -> Call) -> Then {
        if self.word.update(AcqRel, Acquire, begin).is_err() {
            return Then::Leave;
        }
        let mut visit = Ends { post: self, then: Then::Leave, began_ns: C::now_ns(), held: 0 };
        // SAFETY: we are in VISITED, thus the caller that offered this has not withdrawn it, and it cannot
        // before the visit has ended: the pointer was stored before the offer, which we acquired, and what it
        // points to stays as it is meanwhile.
        let lent = unsafe { &*self.lent.load(Relaxed) };
        visit.held = C::with_context(|context| context.inherit_held(lent.held));
        // SAFETY: `lend` made the functions and `what` belong together, and what is lent is `Sync` and stays
        // as above.
        visit.then = unsafe { which(lent)(lent.what, C::id(), visit.began_ns) };
        visit.then
    }

    /// Waits for a helper that was told to go.
    fn wait_until_gone(&self) {
        loop {
            let now = self.word.load(Acquire);
            if now & word::GONE != 0 {
                return;
            }
            self.word.sleep_while(now);
            C::relax();
        }
    }

    /// Wakes the helper if it slept when the word was `was`.
    pub(super) fn wake_helper(&self, was: u32) {
        if was & word::ASLEEP != 0 {
            self.word.wake(ALL);
        }
    }
}

/// A visit under way; ends when dropped, also where it unwinds.
struct Ends<'a, C: Cpu> {
    post: &'a Post<C>,
    then: Then,
    began_ns: u64,
    held: u64,
}

impl<C: Cpu> Drop for Ends<'_, C> {
    fn drop(&mut self) {
        let helped = C::with_context(|context| {
            context.inherit_held(self.held);
            context.take_helper_ns()
        });
        let took = C::now_ns().saturating_sub(self.began_ns).saturating_add(helped);
        self.post.spent_ns.add_own(took);
        let end = if self.then == Then::Pause { word::pause } else { word::leave };
        if let Ok(was) = self.post.word.update(AcqRel, Acquire, end)
            && was & word::AWAITED != 0
        {
            self.post.word.wake(ALL);
        }
    }
}

struct Departs<'a, C: Cpu>(&'a Post<C>);

impl<C: Cpu> Drop for Departs<'_, C> {
    fn drop(&mut self) {
        self.0.bow();
        if let Ok(was) = self.0.word.update(AcqRel, Acquire, word::depart)
            && word::has_news(was)
        {
            self.0.word.wake(ALL);
        }
    }
}

impl<C: Cpu> fmt::Debug for Board<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Board of {}", self.nr_cpus())
    }
}
