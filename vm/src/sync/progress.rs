//! Retries that depend on another party, and what ends them.
//!
//! ```text
//!   a round ─► done
//!      │ to be tried again
//!      ▼
//!   Retry::again(what has changed since the last round)
//!      ├─ another party's step was seen      the count begins anew
//!      ├─ the caller's own step              counts: a call needs few of them
//!      ├─ nothing                            counts, and relaxes
//!      └─ the count is full: NoProgress      the caller returns its error
//! ```
//!
//! A loop whose end another party decides has no bound of its own: a lock is free some day because its holder
//! goes on, but an entry that no code works on stays as it is, and so does a page that a caller keeps a
//! reference to. So each round says what has changed since the last one. The steps of others are without
//! bound, as each is one that some call has made; the caller's own steps and rounds in which nothing has
//! changed are few. docs/design/waits.md lists the loops of the library.
//!
//! A test withholds progress at the retry of a name ([`withhold`]), where a call that would succeed goes
//! round again, and expects an error.

use crate::machine::Cpu;

/// What has changed since the last round of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another party's step was seen: what this round has met differs from what the last one met.
    Observed,
    /// The caller's own step: it has got what the last round lacked, or has waited for what was under way.
    Own,
    /// Nothing.
    None,
}

/// Nothing has changed for as many rounds as a retry may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoProgress;

/// The rounds of one retry.
#[derive(Debug)]
pub struct Retry {
    /// What the rounds since the last observed step have cost.
    cost: u32,
    #[cfg(test)]
    name: &'static str,
}

impl Retry {
    /// Rounds in which nothing changes, one after another: some ten microseconds at least. A thread in the
    /// middle of a step has preemption off, or a lock that the round takes too.
    const MOST: u32 = 4096;
    /// Of these an own step takes as many. A call that prepares all it can has fewer than ten.
    const OWN: u32 = 64;

    /// No round yet. `name`: the retry's, by which a test withholds its progress.
    #[cfg_attr(not(test), allow(unused_variables))]
    #[inline(always)]
    pub const fn new(name: &'static str) -> Self {
        Self {
            cost: 0,
            #[cfg(test)]
            name,
        }
    }

    /// Goes on to the next round. Relaxes where nothing has changed.
    ///
    /// # Errors
    /// Nothing has changed for too long.
    pub fn again<C: Cpu>(&mut self, progress: Progress) -> Result<(), NoProgress> {
        let progress = if self.is_withheld() { Progress::None } else { progress };
        self.cost = match progress {
            Progress::Observed => 0,
            Progress::Own => self.cost + Self::OWN,
            Progress::None => self.cost + 1,
        };
        if self.cost > Self::MOST && !mutant!("progress.never-ends") {
            return Err(NoProgress);
        }
        if progress == Progress::None {
            let most = Self::MOST.saturating_sub(self.cost) + 1;
            self.cost = self.cost.saturating_sub(1).saturating_add(C::spin(most));
        }
        Ok(())
    }

    /// Whether a test withholds the progress of this retry: then a round that is done is to be taken for one
    /// that is not. Constant `false` but in tests.
    #[inline(always)]
    pub fn is_withheld(&self) -> bool {
        #[cfg(test)]
        return stub::is_withheld(self.name);
        #[cfg(not(test))]
        false
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) use stub::withhold;

/// The stub of tests.
#[cfg(test)]
mod stub {
    use std::cell::Cell;

    std::thread_local! {
        static WITHHELD: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Whether this thread withholds the progress of that retry.
    pub(super) fn is_withheld(name: &str) -> bool {
        WITHHELD.with(Cell::get) == Some(name)
    }

    /// Calls `f`, in which the retry of that name makes no progress on this thread.
    #[cfg(not(loom))]
    pub(crate) fn withhold<R>(name: &'static str, f: impl FnOnce() -> R) -> R {
        let before = WITHHELD.replace(Some(name));
        let result = f();
        WITHHELD.set(before);
        result
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/progress.rs"]
mod tests;
