//! Model of the state word: identities against freezing and the stale mark.

use crate::machine::testing::TestCpu;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::units::{Vpn, VpnRange};
use crate::vma::{AnonId, Vma, VmaAttributes, VmaFlags, VmaState};
use loom::sync::Arc;

fn live() -> Vma<TestCpu> {
    let range = VpnRange::new(Vpn(16), Vpn(20));
    Vma::new(VmaAttributes::anonymous(range, VmaFlags::READ), VmaState::Live)
}

#[test]
fn loom_an_identity_that_was_given_is_seen_by_freezing_and_by_the_mark() {
    run_model(2, || {
        let vma = Arc::new(live());
        // Touched before there are threads.
        assert!(vma.anon().is_none());
        let threads: [_; 2] = core::array::from_fn(|i| {
            let vma = vma.clone();
            thread::spawn(move || vma.give_anon(AnonId::new(i as u64 + 1)))
        });
        vma.freeze();
        let decided_on = vma.anon();
        let last = vma.mark_stale();
        assert_eq!(decided_on, last, "frozen or fixed, it does not change");
        let given = threads.map(|thread| thread.join().unwrap());
        assert!(given.iter().flatten().all(|&anon| anon == last), "{given:?} but {last:?}");
        assert_eq!(last.is_none(), given == [None, None]);
        assert_eq!(vma.anon(), last);
    });
}
