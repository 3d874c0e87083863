//! What a process does about each signal. Its threads share that; a child begins with its parent's.

use crate::arch::Core;
use interleaf::sync::SpinLock;
use interleaf_linux_abi::signal::*;

/// What is done about a signal, as `rt_sigaction` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// The handler, [`SIG_DFL`] or [`SIG_IGN`].
    pub handler: u64,
    /// Linux's flags.
    pub flags: u64,
    /// What the handler returns to.
    pub restorer: u64,
    /// Signals that are blocked meanwhile, besides.
    pub mask: u64,
}

impl Action {
    /// Nothing was asked for.
    pub const DEFAULT: Self = Self { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 };

    /// A handler that is called as often as its signal is raised, and never returns.
    pub fn nested(handler: u64) -> Self {
        Self { handler, flags: u64::from(SA_NODEFER | SA_RESTORER), ..Self::DEFAULT }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }
}

/// The actions of a process. A call replaces one while a thread takes it, so they have a lock.
pub struct Actions(SpinLock<[Action; LAST_SIGNAL as usize], Core, 40>);

impl Actions {
    /// All as they are of themselves.
    pub const fn new() -> Self {
        Self(SpinLock::new([Action::DEFAULT; LAST_SIGNAL as usize]))
    }

    /// Those of the parent, where there is one.
    pub fn inherit(&self, parent: Option<&Actions>) {
        let inherited = parent.map_or([Action::DEFAULT; LAST_SIGNAL as usize], |parent| *parent.0.lock());
        *self.0.lock() = inherited;
    }

    /// The action of a signal, from 1 to [`LAST_SIGNAL`].
    pub fn get(&self, signal: u32) -> Action {
        self.0.lock()[signal as usize - 1]
    }

    /// Replaces the action of a signal, from 1 to [`LAST_SIGNAL`]; returns the old one.
    pub fn set(&self, signal: u32, action: Action) -> Action {
        core::mem::replace(&mut self.0.lock()[signal as usize - 1], action)
    }

    /// The action of a signal that is about to be handled: with SA_RESETHAND it is the last time.
    pub fn take(&self, signal: u32) -> Action {
        let mut actions = self.0.lock();
        let action = &mut actions[signal as usize - 1];
        let taken = *action;
        if taken.has(SA_RESETHAND) && taken.handler > SIG_IGN {
            action.handler = SIG_DFL;
        }
        taken
    }
}
