//! Spaces that are reached by number, and handles that keep them.
//!
//! An [`AddressSpace`] is a value, which ends when its owner drops it. Where several threads run in a space,
//! and others look it up, none of them is the owner: then it is put into [`Spaces`], and its users have a
//! [`SpaceHandle`].
//!
//! ```text
//!   AddressSpace ── insert ──► SpaceHandle ── clone ──► a handle for each thread
//!                                  ▲    │
//!   SpaceId ─────── hold ──────────┘    └── the last one dropped ──► the space ends; `hold` refuses
//! ```
//!
//! # Lifetime
//!
//! A handle of a space that was found by number is as good as any other: it keeps the space, and may turn out
//! to be the last one. So a caller that holds a space for a moment must be able to end it: with no lock held,
//! outside any read section. A space that has begun to end is refused without waiting.
//!
//! # exec
//!
//! A thread runs in the space of its handle, so a new program is a new handle: the space is made and filled
//! beside the old one, under a number of its own, and the CPU goes from one to the other at once.
//!
//! ```text
//!   let new = spaces.insert(AddressSpace::new(vm, layout, path)?)?;     refused: nothing has changed
//!   map the program into `new`, fill its pages                          refused: `new` is dropped, likewise
//!   let active = new.activate(Some(active));                            no CPU state of the old one is left
//!   drop(old);                                                          the last one: the space ends
//! ```
//!
//! After vfork the child has a clone of its parent's handle, and the parent's space, until it goes through
//! this; dropping its clone is all that the parent's space sees. Other threads of the program have ended
//! before; where one has not, its handle keeps the old space until it does.

use super::{AddressSpace, Error, SpaceId, Vm};
use crate::frame::{HeldRegistry, Hold};
use crate::machine::Machine;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Deref;

/// The spaces of a system that are reached by number. Made once, at start: what it takes of the system's
/// memory for its lists is never given back.
pub struct Spaces<'v, M: Machine> {
    vm: &'v Vm<'v, M>,
    registry: HeldRegistry<'v, AddressSpace<'v, M>, M>,
}

/// A counted handle of a space. The space stays as long as there is one; dropping the last one ends it, as
/// dropping an [`AddressSpace`] does: no CPU has it loaded, the caller holds no lock and is in no read
/// section, and may wait. (Linux: a reference in `mm_users`.)
///
/// ```compile_fail,E0597
/// use interleaf::space::{SpaceHandle, SpaceId, Spaces};
/// fn outlives<'v, M: interleaf::Machine>(vm: &'v interleaf::Vm<'v, M>) -> SpaceHandle<'v, 'v, M> {
///     let spaces = Spaces::new(vm).expect("memory");
///     spaces.hold(SpaceId(1)).expect("a space")
/// }
/// ```
#[must_use = "the last handle that is dropped ends the space"]
pub struct SpaceHandle<'s, 'v, M: Machine> {
    hold: Hold<'s, 'v, AddressSpace<'v, M>, M>,
}

impl<'v, M: Machine> Spaces<'v, M> {
    /// No spaces.
    ///
    /// # Errors
    /// [`Error::NoMemory`] where memory does not suffice.
    pub fn new(vm: &'v Vm<'v, M>) -> Result<Self, Error> {
        let registry = HeldRegistry::new(&vm.memory, &vm.rcu).ok_or(Error::NoMemory)?;
        Ok(Self { vm, registry })
    }

    /// The system of the spaces.
    pub(super) fn vm(&self) -> &'v Vm<'v, M> {
        self.vm
    }

    /// Puts a space in, under its [number](AddressSpace::id).
    ///
    /// # Errors
    /// [`Error::NoMemory`] where there is none: then the space has ended.
    ///
    /// # Panics
    /// Where the space is of another system. It has ended then.
    pub fn insert(&self, space: AddressSpace<'v, M>) -> Result<SpaceHandle<'_, 'v, M>, Error> {
        assert!(core::ptr::eq(space.vm, self.vm), "a space of another system");
        let number = NonZeroU64::new(space.id().0).ok_or(Error::Invalid)?;
        let hold = match self.registry.insert(number, space) {
            Ok(hold) => hold,
            Err(_) if !self.vm.trim_for_lack() => return Err(Error::NoMemory),
            Err(refused) => self.registry.insert(number, refused).map_err(|_| Error::NoMemory)?,
        };
        // From now on it is found; an object that was truncated before has not found it.
        hold.drop_beyond_ends();
        Ok(SpaceHandle { hold })
    }

    /// A handle of the space of that number. `None` where there is none, or it has begun to end. Takes no
    /// lock and does not wait.
    pub fn hold(&self, id: SpaceId) -> Option<SpaceHandle<'_, 'v, M>> {
        let number = NonZeroU64::new(id.0)?;
        let hold = self.registry.hold(number, &self.vm.rcu.read())?;
        Some(SpaceHandle { hold })
    }
}

impl<M: Machine> SpaceHandle<'_, '_, M> {
    /// Number of handles of the space; stale at once.
    pub fn handles_racy(&self) -> u32 {
        self.hold.holds_racy()
    }
}

/// A handle more of the same space.
///
/// # Panics
/// Where there are 2^31 already.
impl<M: Machine> Clone for SpaceHandle<'_, '_, M> {
    fn clone(&self) -> Self {
        Self { hold: self.hold.try_clone().expect("as many handles as can be counted") }
    }
}

impl<'v, M: Machine> Deref for SpaceHandle<'_, 'v, M> {
    type Target = AddressSpace<'v, M>;

    #[inline(always)]
    fn deref(&self) -> &AddressSpace<'v, M> {
        &self.hold
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// The number of the space, by which [`Spaces::hold`] finds it where it was put in.
    pub fn id(&self) -> SpaceId {
        SpaceId(self.entries.tlb.id())
    }
}

impl<M: Machine> fmt::Debug for Spaces<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spaces: {:?}", self.registry)
    }
}

impl<M: Machine> fmt::Debug for SpaceHandle<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handle of {:?}", **self)
    }
}
