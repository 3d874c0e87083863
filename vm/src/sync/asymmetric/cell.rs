//! A value of one CPU that another CPU may use in an emergency, at no cost to its owner.
//!
//! A CPU's cache must be reachable for other CPUs when memory runs out: the frames in it are free. So a
//! revoker marks the caches of all CPUs, waits for their owners once, and uses every cache in turn while its
//! owner goes elsewhere.
//!
//! The subtle case: the owner is in a section, and code that it calls enters again on the same CPU. It finds
//! the count 1, leaves it unchanged and goes elsewhere, as if revoked. An owner moves objects between a
//! shared list and its value inside a section only: so a revoker finds each of them in a value or in the
//! shared list.

use super::{OwnerCount, wait_for_owners};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::percpu::part_of;
use crate::sync::{CpuGuard, PerCpu};
use core::cell::{Cell, UnsafeCell};
use core::fmt;

/// A value of one CPU that a revoker may use instead. The words that every use touches come first, so that
/// they can share a line with the field before the cell.
#[repr(C)]
pub struct AsymmetricCell<T, C: Cpu> {
    /// 1 while the owner uses the value.
    count: OwnerCount<C>,
    /// The mark: 1 while a revoker keeps the owner out. Release on clearing, pairs with the owner's load.
    pub(super) revoked: AtomicU32<C>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by `with` and `revoke_all` only, which use it one at a time, from any thread:
// so it is `Send`. Count and mark are atomics.
unsafe impl<T: Send, C: Cpu> Sync for AsymmetricCell<T, C> {}

impl<T, C: Cpu> AsymmetricCell<T, C> {
    /// A cell holding `value`.
    pub const fn new(value: T) -> Self {
        Self { count: OwnerCount::new(), revoked: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Owner: uses `part` of its slot. `None` while it is revoked, or in use by a caller on this stack. `f`
    /// waits for nothing but spin locks.
    ///
    /// # Panics
    /// If `part` chooses something outside of the slot.
    #[inline(always)]
    pub fn with<S, R>(
        slot: &CpuGuard<'_, S, C>,
        part: fn(&S) -> &Self,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let this = slot.part(part);
        let nested = this.count.get();
        if !this.count.enter(nested, 1, || nested | this.revoked.load(Acquire) != 0) {
            return None;
        }
        let _section = Section(&this.count);
        // SAFETY: the cell lies in the slot of this CPU, as `part` has checked, and `slot` keeps the thread
        // there; the count was 0, so nothing else on this CPU uses the value, until `_section` is dropped. No
        // revoker does: its mark was not seen after the count was set, so its barrier comes after that store,
        // and it waits until the count is 0.
        Some(f(unsafe { &mut *this.value.get() }))
    }

    /// Owner: whether a caller on this stack uses `part` of its slot.
    pub fn is_in_use<S>(slot: &CpuGuard<'_, S, C>, part: fn(&S) -> &Self) -> bool {
        slot.part(part).count.get() != 0
    }
}

/// The owner's section; ends when dropped, also by unwinding.
struct Section<'a, C: Cpu>(&'a OwnerCount<C>);

impl<C: Cpu> Drop for Section<'_, C> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.leave(0);
    }
}

/// Revoker: uses the value of every CPU in turn, in place of its owner, and calls `then` while all owners are
/// still kept out. The caller is in no section itself, which it would wait for.
///
/// # Panics
/// If another revoker of these cells is under way, or `part` chooses something outside of its slot, or not
/// the same part each time; on a CPU of another machine, or one that uses its own cell.
pub fn revoke_all<S, T, R, M: Machine>(
    slots: &PerCpu<S, M::Cpu>,
    machine: &M,
    part: fn(&S) -> &AsymmetricCell<T, M::Cpu>,
    mut f: impl FnMut(&S, &mut T),
    then: impl FnOnce() -> R,
) -> R {
    // The barrier is one of the slots' machine.
    let own = slots.get_cpu();
    assert!(!AsymmetricCell::is_in_use(&own, part), "the value is revoked by the CPU that uses it");
    drop(own);
    let offset = Cell::new(None);
    let cell = |slot| {
        let cell = part_of(slot, part);
        let at = (&raw const *cell).addr() - (&raw const *slot).addr();
        assert!(offset.replace(Some(at)).is_none_or(|before| before == at), "not always the same part");
        cell
    };
    for (_, slot) in slots.iter() {
        // Acquire: pairs with the release below, of the revoker before.
        let was = cell(slot).revoked.swap(1, Acquire);
        assert!(was == 0 || mutant!("asymmetric.two-revokers"), "two revokers");
    }
    wait_for_owners(machine, slots.iter().map(|(_, slot)| &cell(slot).count));
    for (_, slot) in slots.iter() {
        // SAFETY: the cell lies in this slot, so it is none that was used before, and it is the one that was
        // marked above, as `cell` has checked. Its mark was clear and was set here, so no other revoker uses
        // the value before it is cleared below. It was set before `wait_for_owners`: an owner that enters
        // after its barrier sees the mark and stays out; one that was in a section has left it.
        f(slot, unsafe { &mut *cell(slot).value.get() });
    }
    let result = then();
    slots.iter().for_each(|(_, slot)| cell(slot).revoked.store(0, Release));
    result
}

impl<T, C: Cpu> fmt::Debug for AsymmetricCell<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsymmetricCell, revoked {:?}", self.revoked)
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_cell.rs"]
mod loom_tests;
