//! Locks: guards that are forgotten or dropped in any order, ranks that are none, locks of other sets, and
//! words that no correct caller would write.

use crate::world::{Lab, on_cpu, on_lost_cpu};
use crate::{call, called};
use interleaf::machine::Rank;
use interleaf::sync::atomic::{AtomicU32, Ordering::SeqCst};
use interleaf::sync::{AsymmetricLocks, RawSpinLock, RwLock, RwWriteGuard, SpinLock, lockdep};
use interleaf::sync::{PreemptGuard, with_interrupts_off};
use interleaf_lab::machine::host::Host;
use std::mem::forget;

/// Calls every function of the module.
pub fn run() {
    on_cpu(|_| raw_locks());
    on_cpu(|_| values());
    on_cpu(|_| sleeping_locks());
    on_cpu(asymmetric_locks);
    on_lost_cpu(forgotten);
    on_cpu(|_| preemption());
}

fn raw_locks() {
    for rank in [0, 24, 62, 63, 64, 128, 255].map(Rank) {
        let lock: RawSpinLock<Host> = call!(RawSpinLock::new).expect("a lock");
        let guard = call!(RawSpinLock::lock, &lock, rank);
        let again = call!(RawSpinLock::try_lock, &lock, rank).flatten();
        assert!(guard.is_none() || again.is_none(), "a lock is held twice");
        call!(RawSpinLock::is_held_racy, &lock);
        drop((again, guard));
        assert!(!lock.is_held_racy(), "a guard that is dropped frees the lock");
    }
    for value in [0, 1, 77, u32::MAX] {
        let word = AtomicU32::<Host>::new(value);
        let lock = call!(RawSpinLock::from_word, &word).expect("any word is a lock");
        let guard = call!(RawSpinLock::try_lock, lock, Rank(1)).flatten();
        // The word of a lock that is held, changed by the owner of the word.
        word.store(3, SeqCst);
        drop(guard);
    }
    let (one, two) = (RawSpinLock::<Host>::new(), RawSpinLock::<Host>::new());
    let first = one.lock(Rank(1));
    // Against the ladder: debug builds refuse.
    let second = call!(RawSpinLock::lock, &two, Rank(0));
    drop(first);
    drop(second);
    assert!(!one.is_held_racy() && !two.is_held_racy());
}

fn values() {
    let mut lock: SpinLock<Vec<u64>, Host, 50> = call!(SpinLock::new, vec![1, 2, 3]).expect("a lock");
    called!(SpinLock::lock => lock.lock().push(4));
    called!(SpinLock::lock => {
        let _held = lock.lock();
        panic!("a holder that panics");
    });
    let held = lock.lock();
    assert!(call!(SpinLock::try_lock, &lock).flatten().is_none(), "a lock is held twice");
    drop(held);
    assert_eq!(call!(SpinLock::try_lock, &lock).flatten().map(|held| held.len()), Some(4));
    call!(SpinLock::get_mut, &mut lock).expect("a reference").clear();
    let no_rank: SpinLock<u32, Host, 255> = SpinLock::new(7);
    let _ = called!(SpinLock::lock => *no_rank.lock());
    for level in crate::odd::LEVELS {
        call!(lockdep::table, level);
    }
}

fn sleeping_locks() {
    let lock: RwLock<Host, 3> = call!(RwLock::new).expect("a lock");
    let readers: Vec<_> = (0..100).map(|_| call!(RwLock::try_read, &lock)).collect();
    drop(readers);
    let writer = call!(RwLock::write, &lock).expect("nobody holds it");
    assert!(call!(RwLock::try_read, &lock).flatten().is_none(), "a reader beside a writer");
    let reader = call!(RwWriteGuard::downgrade, writer);
    drop(reader);
    called!(RwLock::write => {
        let _held = lock.write();
        panic!("a writer that panics");
    });
    called!(RwLock::read => {
        let _held = lock.read();
        panic!("a reader that panics");
    });
    drop(call!(RwLock::write, &lock).expect("whoever panicked has left"));
    assert_eq!(call!(RwLock::longest_waits, &lock).expect("nobody holds its queue").writers_before_reader, 0);
    let no_rank: RwLock<Host, 200> = RwLock::new();
    drop(call!(RwLock::read, &no_rank));
    // A reader that is forgotten: the lock is read for ever, and never written.
    let leaked: RwLock<Host, 4> = RwLock::new();
    forget(call!(RwLock::try_read, &leaked));
    drop(call!(RwLock::try_read, &leaked));
}

fn asymmetric_locks(machine: &Lab) {
    let foreign = Lab::new(&interleaf_lab::machine::soft::MachineConfig::small(1, 64)).expect("a machine");
    let owned: AsymmetricLocks<Host> = call!(AsymmetricLocks::new).expect("locks");
    let unowned: AsymmetricLocks<Host> = call!(AsymmetricLocks::unowned).expect("locks");
    let [one, two] = [RawSpinLock::new(), RawSpinLock::new()];
    for locks in [&owned, &unowned] {
        for (rank, machine) in [(Rank(20), machine), (Rank(255), &foreign)] {
            let above = call!(AsymmetricLocks::lock, locks, &one, rank, machine);
            call!(AsymmetricLocks::release_ownership, locks);
            if let Some(above) = &above {
                let below = called!(AsymmetricLocks::lock_below => locks.lock_below(above, &two, Rank(21)));
                drop(below);
            }
            drop(above);
            call!(AsymmetricLocks::release_ownership, locks);
        }
    }
    // A lock of no set, and one of another set, above one of a set that a CPU owns.
    let alone = RawSpinLock::new();
    let above = alone.lock(Rank(20));
    assert!(called!(AsymmetricLocks::lock_below => owned.lock_below(&above, &two, Rank(21))).is_none());
    drop(above);
    let above = unowned.lock(&one, Rank(20), machine);
    assert!(called!(AsymmetricLocks::lock_below => owned.lock_below(&above, &two, Rank(21))).is_none());
    drop(above);
    assert!(!one.is_held_racy() && !two.is_held_racy() && !alone.is_held_racy());
}

/// Guards that are forgotten: the lock stays held, and nothing else is harmed.
fn forgotten(machine: &Lab) {
    let raw = RawSpinLock::<Host>::new();
    forget(call!(RawSpinLock::lock, &raw, Rank(1)));
    assert!(call!(RawSpinLock::try_lock, &raw, Rank(2)).flatten().is_none());
    let value = SpinLock::<String, Host, 5>::new("held for ever".into());
    forget(called!(SpinLock::lock => value.lock()));
    assert!(value.try_lock().is_none());
    let locks = AsymmetricLocks::<Host>::new();
    forget(called!(AsymmetricLocks::lock => locks.lock(&raw, Rank(20), machine)));
    locks.release_ownership();
    // The owner may take another lock of the set: it is the only one that can.
    let other = RawSpinLock::new();
    drop(called!(AsymmetricLocks::lock => locks.lock(&other, Rank(21), machine)));
}

fn preemption() {
    let (first, second): (PreemptGuard<Host>, PreemptGuard<Host>) =
        (call!(PreemptGuard::new).expect("a guard"), PreemptGuard::new());
    drop(first);
    drop(second);
    called!(sync::with_interrupts_off => {
        with_interrupts_off::<Host, ()>(|| panic!("a callback that panics"))
    });
    let nested = with_interrupts_off::<Host, _>(|| with_interrupts_off::<Host, _>(|| 7));
    assert_eq!(nested, 7);
    called!(sync::wait_until => interleaf::sync::wait_until::<Host>(|| panic!("a condition that panics")));
    let mut left = 1000;
    interleaf::sync::wait_until::<Host>(|| {
        left -= 1;
        left == 0
    });
}
