//! Data of one CPU that another may take over in need, at no cost to the one.
//!
//! A CPU's cache must be reachable for others when memory runs out: frames there are free. But its owner uses
//! it in every allocation and must not pay for that: no read-modify-write, no fence. So the lock is biased to
//! the owner, and the claimant pays with a barrier on all CPUs.
//!
//! ```text
//!   owner (preemption off)              claimant (one at a time)
//!
//!   inside := 1                         claimed := 1
//!   light fence            ◄────────►   barrier_all
//!   claimed? ── yes: inside := 0,       wait until inside = 0
//!      │             go elsewhere
//!     no: use the data                  use the data
//!   inside := 0 (release)               claimed := 0 (release)
//! ```
//!
//! Either the owner sees the claim, or the claimant sees it inside: the two fences between store and load
//! forbid that both miss. The release stores pair with the other side's acquire loads, so what one did is
//! seen by the other.
//!
//! The subtle case: the owner is inside and something runs that comes here again on the same CPU. It finds
//! `inside` 1, leaves it so and goes elsewhere, as if claimed. An owner inside waits for nothing but spin
//! locks whose holders wait for nothing, so the claimant's wait is short. What an owner takes from a shared
//! stock for its data it takes inside: so whoever claims all data finds all of it there or in the shared
//! stock, and nothing on the way.

use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, Ordering::*, light_fence};
use crate::sync::{CpuGuard, PerCpu, wait_until};
use core::cell::UnsafeCell;
use core::fmt;

/// Data of one CPU that a claimant may use instead. What every use touches comes first, so that it can share
/// a line with what lies before it.
#[repr(C)]
pub struct AsymmetricCell<T, C: Cpu> {
    /// 1 while the owner uses the data. Written by the owner only. Release on leaving, pairs with the
    /// claimant's wait.
    inside: AtomicU32<C>,
    /// 1 while somebody claims the data. Release on giving up, pairs with the owner's look.
    claimed: AtomicU32<C>,
    value: UnsafeCell<T>,
}

// SAFETY: owner and claimant use the value one at a time, by the protocol above.
unsafe impl<T: Send, C: Cpu> Sync for AsymmetricCell<T, C> {}

impl<T, C: Cpu> AsymmetricCell<T, C> {
    /// Data holding `value`.
    pub const fn new(value: T) -> Self {
        Self { inside: AtomicU32::new(0), claimed: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// The owner's use of `part` of its slot. `None` while it is claimed, or in use further up this very
    /// stack. `f` waits for nothing but spin locks.
    #[inline(always)]
    pub fn with<S, R>(
        own: &CpuGuard<'_, S, C>,
        part: fn(&S) -> &Self,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let this = part(own);
        let nested = this.inside.load(Relaxed);
        this.inside.store(1, Relaxed);
        light_fence::<C>();
        if nested | this.claimed.load(Acquire) != 0 {
            // As it was: an owner further up this stack is still inside.
            this.inside.store(nested, Release);
            return None;
        }
        // SAFETY: `own` says that this is the CPU whose slot it is and stays so, and `inside` was 0, so
        // nobody else on this CPU uses the value. No claimant does: its claim was not seen after `inside` was
        // set, so its barrier comes after that store, and it waits until `inside` is 0.
        let result = f(unsafe { &mut *this.value.get() });
        this.inside.store(0, Release);
        Some(result)
    }
}

/// Uses the data of every CPU in turn, in place of its owner, and calls `then` while all owners are still
/// kept out. The caller makes sure that it is the only claimant, and is not an owner inside.
pub fn revoke_all<S, T, R, M: Machine>(
    slots: &PerCpu<S, M::Cpu>,
    machine: &M,
    part: fn(&S) -> &AsymmetricCell<T, M::Cpu>,
    mut f: impl FnMut(&S, &mut T),
    then: impl FnOnce() -> R,
) -> R {
    slots.iter().for_each(|(_, slot)| part(slot).claimed.store(1, Relaxed));
    machine.barrier_all();
    for (_, slot) in slots.iter() {
        let this = part(slot);
        wait_until::<M::Cpu>(|| this.inside.load(Acquire) == 0);
        // SAFETY: the claim was set before the barrier, so an owner that enters after it sees the claim and
        // stays out; one that was inside has left, as the loop saw. The caller is the only claimant.
        f(slot, unsafe { &mut *this.value.get() });
    }
    let result = then();
    slots.iter().for_each(|(_, slot)| part(slot).claimed.store(0, Release));
    result
}

impl<T, C: Cpu> fmt::Debug for AsymmetricCell<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsymmetricCell, claimed {:?}", self.claimed)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::machine::testing::{TestCpu, TestMachine};
    use crate::sync::Carve;
    use loom::cell::UnsafeCell as Watched;
    use loom::sync::Arc;
    use std::boxed::Box;

    type Slots = PerCpu<AsymmetricCell<Watched<u32>, TestCpu>, TestCpu>;

    struct Heap;

    impl Carve for Heap {
        fn carve(&mut self, bytes: usize, _align: usize) -> Option<core::ptr::NonNull<u8>> {
            #[repr(align(128))]
            struct Line(#[allow(dead_code)] [u8; 128]);
            let lines = Box::leak((0..bytes.div_ceil(128)).map(|_| Line([0; 128])).collect::<Box<[_]>>());
            let start = lines.as_ptr().addr();
            crate::sync::forget(start..start + bytes);
            core::ptr::NonNull::new(lines.as_mut_ptr().cast())
        }
    }

    fn add(cell: &mut Watched<u32>) {
        // SAFETY: the protocol under test says that nobody else has the cell; loom checks it.
        cell.with_mut(|value| unsafe { *value += 1 });
    }

    #[test]
    fn loom_asymmetric_cell_owner_and_claimant_never_meet() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let machine = Arc::new(TestMachine::with_cpus(1, 2));
            let slots: Slots = PerCpu::carve(&mut Heap, 2, |_| AsymmetricCell::new(Watched::new(0))).unwrap();
            // A word's shadow is made by who touches it first, and must be there before the threads are.
            slots.iter().for_each(|(_, s)| assert!(s.inside.load(Relaxed) == s.claimed.load(Relaxed)));
            let slots = Arc::new(slots);
            let other = slots.clone();
            let owner = loom::thread::spawn(move || {
                TestCpu::become_cpu(1);
                let enter = || AsymmetricCell::with(&other.get_cpu(), |slot| slot, add).map_or(0, |()| 1);
                enter() + enter()
            });
            let mut seen = 0;
            revoke_all(
                &slots,
                &*machine,
                |slot| slot,
                |_, cell| {
                    // SAFETY: as in `add`.
                    seen += cell.with(|value| unsafe { *value });
                    add(cell);
                },
                || (),
            );
            let entered = owner.join().unwrap();
            let mut total = 0;
            revoke_all(
                &slots,
                &*machine,
                |slot| slot,
                |_, cell| {
                    // SAFETY: as in `add`.
                    total += cell.with(|value| unsafe { *value });
                },
                || (),
            );
            assert_eq!(total, entered + 2);
            assert!(seen <= entered);
        });
    }
}
