use super::*;

#[test]
fn registering_twice_is_as_good_as_once() {
    let (Ok(first), Ok(second)) = (Membarrier::register(), Membarrier::register()) else {
        return crate::os::lacking::note("registering_twice_is_as_good_as_once", "membarrier(2)");
    };
    first.all_threads();
    second.all_threads();
}
