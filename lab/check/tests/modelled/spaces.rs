//! The model's spaces, which map the same shared memory.

use interleaf_check::calls::{Call, CallResult, MapFlags, PAGE, PageState, Prot};
use interleaf_check::model::Spaces;
use interleaf_check::setting::Setting;

#[test]
fn shared_memory_lives_until_the_last_space_unmaps_it() {
    let mut spaces = Spaces::new(&Setting::default(), 2);
    let flags = MapFlags::SHARED | MapFlags::ANONYMOUS;
    let prot = Prot::READ | Prot::WRITE;
    let CallResult::Value(addr) = spaces.call(0, &Call::Mmap { hint: 0, len: 2 * PAGE, prot, flags }) else {
        panic!("there is room")
    };
    spaces.share(0, 1, &(addr..addr + 2 * PAGE));
    assert_eq!(spaces.call(0, &Call::Write { addr, value: 7 }), CallResult::Written);
    assert_eq!(spaces.call(0, &Call::Munmap { addr, len: 2 * PAGE }), CallResult::Value(0));
    assert_eq!(spaces.page(0, addr), None);
    assert!(matches!(spaces.page(1, addr), Some(PageState::Shared(_))));
    assert_eq!(spaces.call(1, &Call::Read { addr }), CallResult::Byte(7));
    assert_eq!(spaces.call(1, &Call::Munmap { addr, len: PAGE }), CallResult::Value(0));
    assert_eq!(spaces.nr_objects(), 1);
    assert_eq!(spaces.call(1, &Call::Munmap { addr: addr + PAGE, len: PAGE }), CallResult::Value(0));
    assert_eq!(spaces.nr_objects(), 0);
}
