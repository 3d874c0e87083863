//! Two writers that unlink from one structure at once, as below two tables of one tree.

use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::Rcu;
use crate::sync::testing::thread;
use crate::sync::testing::{Heap, UNBOUNDED, run_model};
use std::sync::Arc;

/// One unlinks once. The other does so twice, and its CPU caches in between a hit that the second
/// unlinking makes invalid.
#[test]
fn loom_two_invalidations_at_once_leave_no_hit_of_before() {
    run_model(UNBOUNDED, || {
        let rcu = Rcu::<TestCpu>::carve(&mut Heap, 2).unwrap();
        let world = Arc::new((rcu, HitSource::new()));
        // Touches the words before there are threads.
        let first = world.1.version().version;
        let other = thread::spawn({
            let world = world.clone();
            move || world.1.invalidate()
        });
        let (rcu, source) = &*world;
        let look = || LastHit::get(&rcu.read(), LastHits::item, source.version());
        source.invalidate();
        {
            let section = rcu.read();
            // SAFETY: the word names nothing.
            unsafe { LastHit::set(&section, LastHits::item, source.version(), [7]) };
        }
        source.invalidate();
        assert_eq!(look(), None, "a hit of before");
        other.join().unwrap();
        assert_eq!(look(), None, "a hit of before");
        assert_eq!(source.version().version, first + 3, "an invalidation is lost");
    });
}
