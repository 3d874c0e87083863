//! Flags: rights, commit accounting, advice.

use crate::units::Rights;
use crate::vma::{FlagAdvice, VmaFlags};

#[test]
fn any_access_right_makes_a_page_readable_and_no_right_makes_it_inaccessible() {
    assert_eq!(VmaFlags::empty().rights(), Rights::USER);
    assert_eq!(VmaFlags::WRITE.rights(), Rights::USER | Rights::READ | Rights::WRITE);
    assert_eq!(VmaFlags::EXECUTE.rights(), Rights::USER | Rights::READ | Rights::EXECUTE);
}

#[test]
fn only_new_private_writable_memory_without_noreserve_is_committed() {
    let committed = |asked| VmaFlags::new_anonymous(asked).contains(VmaFlags::ACCOUNT);
    assert!(committed(VmaFlags::WRITE));
    assert!(committed(VmaFlags::READ | VmaFlags::WRITE));
    assert!(!committed(VmaFlags::READ));
    assert!(!committed(VmaFlags::WRITE | VmaFlags::NORESERVE));
    assert!(!VmaFlags::new_shared(VmaFlags::WRITE | VmaFlags::ACCOUNT).contains(VmaFlags::ACCOUNT));
}

#[test]
fn flags_that_a_request_may_not_say_are_dropped() {
    let odd = VmaFlags::from_bits_retain(!VmaFlags::REQUESTABLE.bits());
    assert_eq!(VmaFlags::new_anonymous(odd), VmaFlags::MAY_ACCESS);
    assert_eq!(VmaFlags::new_shared(odd), VmaFlags::MAY_ACCESS | VmaFlags::SHARED);
    let private_only = VmaFlags::GROWS_DOWN | VmaFlags::WIPE_ON_FORK;
    assert_eq!(VmaFlags::new_shared(private_only), VmaFlags::MAY_ACCESS | VmaFlags::SHARED);
    assert!(VmaFlags::new_anonymous(private_only).contains(private_only));
}

#[test]
fn access_beyond_what_may_be_allowed_is_refused() {
    let flags = VmaFlags::READ | VmaFlags::MAY_READ | VmaFlags::MAY_EXECUTE | VmaFlags::SHARED;
    assert_eq!(flags.with_access(VmaFlags::WRITE), None);
    assert_eq!(
        flags.with_access(VmaFlags::EXECUTE),
        Some(VmaFlags::EXECUTE | VmaFlags::MAY_READ | VmaFlags::MAY_EXECUTE | VmaFlags::SHARED)
    );
    assert_eq!(flags.with_access(VmaFlags::empty()), Some(flags - VmaFlags::READ));
}

#[test]
fn opposite_advice_undoes_the_first() {
    use FlagAdvice::*;
    let start = VmaFlags::READ;
    for (one, other) in [
        (DontFork, DoFork),
        (WipeOnFork, KeepOnFork),
        (DontDump, DoDump),
        (Random, Normal),
        (Sequential, Normal),
    ] {
        assert_ne!(start.advised(one), start);
        assert_eq!(start.advised(one).advised(other), start);
    }
    assert_eq!(start.advised(Random).advised(Sequential), start | VmaFlags::SEQUENTIAL_READ);
    assert_eq!(start.advised(HugePage).advised(NoHugePage), start | VmaFlags::NO_HUGE_PAGE);
    assert_eq!(start.advised(NoHugePage).advised(HugePage), start | VmaFlags::HUGE_PAGE);
}
