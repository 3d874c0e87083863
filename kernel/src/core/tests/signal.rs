//! Tests of signals' frames, places, masks and alternate stacks.

use super::*;

const STACK: AlternateStack = AlternateStack { at: 0x10_0000, len_bytes: 0x4000, flags: 0 };
const NONE: AlternateStack = AlternateStack { at: 0, len_bytes: 0, flags: 0 };

#[test]
fn a_frame_lies_below_the_red_zone_as_after_a_call() {
    for pointer in 0x20_0000..0x20_0040 {
        let places = Places::below(pointer, NONE, true).unwrap();
        assert!(places.state + STATE_BYTES <= pointer - RED_ZONE && places.state.is_multiple_of(64));
        assert!(places.frame + FRAME_BYTES as u64 <= places.state && places.frame % 16 == 8);
    }
}

#[test]
fn the_alternate_stack_is_used_where_it_is_asked_for() {
    let end = STACK.at + STACK.len_bytes;
    let on_it = Places::below(0x20_0000, STACK, true).unwrap();
    assert!(on_it.state + STATE_BYTES <= end && on_it.frame > STACK.at);
    assert!(Places::below(0x20_0000, STACK, false).unwrap().frame > end);
    // A thread that runs there goes on below, whether it is asked for or not, as long as there is room.
    for asks in [false, true] {
        assert!(Places::below(STACK.at + 0x2000, STACK, asks).unwrap().frame < STACK.at + 0x2000);
        assert_eq!(Places::below(STACK.at + 0x400, STACK, asks), None);
    }
    let small = AlternateStack { len_bytes: 512, ..STACK };
    assert_eq!(Places::below(0x20_0000, small, true), None);
}

#[test]
fn no_stack_pointer_panics() {
    for pointer in [0, 1, RED_ZONE, 1 << 47, u64::MAX] {
        for at in [0, 1, u64::MAX - 100, u64::MAX] {
            let stack = AlternateStack { at, len_bytes: u64::MAX, flags: 0 };
            let _ =
                (Places::below(pointer, stack, true), stack.told(pointer), stack.changed_to(NONE, pointer));
        }
    }
}

#[test]
fn what_a_frame_says_is_what_was_put_into_it() {
    let registers = core::array::from_fn(|register| 0x1111 * register as u64);
    let stack = AlternateStack { flags: SS_AUTODISARM, ..STACK };
    let context = Context { registers, state_at: 0x7000, stack, mask: 0x8000_0000_0000_0401 };
    let info = Info { signal: SIGSEGV, code: SI_KERNEL, address: 0xaaaa };
    let bytes = context.frame(0x4711, &info);
    assert_eq!(Context::of_frame(&bytes), context);
    let word = |at: u64| u64::from_le_bytes(bytes[at as usize..][..8].try_into().unwrap());
    assert_eq!(word(0), 0x4711);
    // Where C's structures have them: ucontext, its registers, fpregs and mask; siginfo's parts.
    assert_eq!((word(CONTEXT_AT), word(CONTEXT_AT + 40)), (6, 0));
    assert_eq!((word(CONTEXT_AT + 40 + 8 * 16), word(CONTEXT_AT + 224)), (0x1111 * 16, 0x7000));
    assert_eq!(word(CONTEXT_AT + 296), context.mask);
    assert_eq!((word(INFO_AT), word(INFO_AT + 8), word(INFO_AT + 16)), (11, 0x80, 0xaaaa));
}

#[test]
fn masks_never_block_what_cannot_be_blocked() {
    assert_eq!(blocked_after(bit(1), SIG_BLOCK, !0), Ok(!UNBLOCKABLE));
    assert_eq!(blocked_after(bit(1) | bit(2), SIG_UNBLOCK, bit(2)), Ok(bit(1)));
    assert_eq!(blocked_after(bit(1), SIG_SETMASK, bit(SIGKILL) | bit(7)), Ok(bit(7)));
    assert_eq!(blocked_after(0, 3, 0), Err(Errno::EINVAL));
}

#[test]
fn an_alternate_stack_is_changed_as_linux_changes_it() {
    let elsewhere = 0x20_0000;
    let small = AlternateStack { len_bytes: LEAST_STACK - 1, ..STACK };
    let odd = AlternateStack { flags: 4, ..STACK };
    let off = AlternateStack { flags: SS_DISABLE, ..STACK };
    assert_eq!(NONE.changed_to(STACK, elsewhere), Ok(STACK));
    assert_eq!(NONE.changed_to(small, elsewhere), Err(Errno::ENOMEM));
    assert_eq!(NONE.changed_to(odd, elsewhere), Err(Errno::EINVAL));
    assert_eq!(STACK.changed_to(off, elsewhere), Ok(AlternateStack { flags: SS_DISABLE, ..NONE }));
    assert_eq!(STACK.changed_to(NONE, STACK.at + 8), Err(Errno::EPERM));
    assert_eq!(NONE.changed_to(NONE, elsewhere), Ok(NONE));
    assert_eq!(NONE.told(elsewhere).flags, SS_DISABLE);
    assert_eq!((STACK.told(elsewhere).flags, STACK.told(STACK.at + 8).flags), (0, SS_ONSTACK));
    let given_up = AlternateStack { flags: SS_AUTODISARM, ..STACK };
    assert_eq!(given_up.told(STACK.at + 8).flags, SS_AUTODISARM);
    assert_eq!(given_up.in_handler().len_bytes, 0);
    assert_eq!(STACK.in_handler(), STACK);
}
