//! Retries at a page: a fault, a pin or a copy that meets another CPU's step, and tries again.
//!
//! What has changed between two rounds is found by looking at what the next round is going to meet. The look
//! locks the entry's table: a writer that puts a marker there holds that lock as long, so the wait for the
//! lock is the wait for its end.

use super::edit::entries::Entries;
use crate::machine::{Cpu, Machine};
use crate::sync::{NoProgress, Progress, Retry};
use crate::table::walk;
use crate::units::{Level, Vpn};
use crate::vma::{Vma, VmaAttributes, VmaTree};

/// The rounds of a retry at a page.
pub(in crate::space) struct PageRetry {
    rounds: u32,
    retry: Retry,
    seen: Option<Sight>,
}

/// What a round meets. Of two that are equal the second says that no other party has made a step in between:
/// writers replace mappings, a zap of a leaf flushes, and an install changes the entry.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sight {
    /// The mapping, and whether it is live.
    mapping: Option<(VmaAttributes, bool)>,
    /// Flushes of the space.
    generation: u64,
    level: Level,
    word: u64,
    /// Whether the entry was read under its table's lock, and not in a table that is detached.
    is_locked: bool,
}

impl PageRetry {
    /// Rounds that only relax. Nearly always the next one is the last, and a look takes a lock.
    const UNSEEN: u32 = 2;

    /// No round yet. `name` as of [`Retry::new`].
    #[inline(always)]
    pub const fn new(name: &'static str) -> Self {
        Self { rounds: 0, retry: Retry::new(name), seen: None }
    }

    /// As [`Retry::is_withheld`].
    #[inline(always)]
    pub fn is_withheld(&self) -> bool {
        self.retry.is_withheld()
    }

    /// Goes on to the next round at a page; `own` is what the caller has done since the last one: its own
    /// step, or nothing, and then this relaxes. Called with no spin lock held and outside any read section.
    ///
    /// # Errors
    /// Nothing has changed for too long.
    #[cold]
    #[inline(never)]
    pub fn again_at<M: Machine>(
        &mut self,
        (entries, vmas): (&Entries<'_, M>, &VmaTree<'_, M::Cpu>),
        page: Vpn,
        own: Progress,
    ) -> Result<(), NoProgress> {
        if own == Progress::None {
            M::Cpu::spin(1);
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds <= Self::UNSEEN {
            return Ok(());
        }
        let seen = Sight::of(entries, vmas, page);
        let is_same = self.seen.replace(seen) == Some(seen);
        self.retry.again::<M::Cpu>(if is_same { own } else { Progress::Observed })
    }
}

impl Sight {
    /// What a round at the page is going to meet.
    fn of<M: Machine>(entries: &Entries<'_, M>, vmas: &VmaTree<'_, M::Cpu>, page: Vpn) -> Self {
        let generation = entries.tlb.generation();
        let reading = entries.vm.rcu.read();
        let vma = vmas.find(&reading, page);
        let mapping = vma.map(|vma| (vma.attributes(), Vma::is_live(vma)));
        let found = walk(&entries.table, page, Level::Pte, &reading);
        let (level, slot) = (found.table.level(), found.slot);
        let locked = found.table.lock();
        let word = locked.as_ref().map_or(found.word, |table| table.read(slot));
        Self { mapping, generation, level, word, is_locked: locked.is_some() }
    }
}
