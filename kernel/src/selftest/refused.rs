//! An access of ring 3 that is refused is one fault, and one signal.

use super::world::{fail, map, page, with_space};
use crate::arch::spaces::{self, SpaceHandle};
use crate::arch::trap::Frame;
use crate::arch::user;
use crate::memory;
use crate::task::program;
use crate::task::signal::Action;
use interleaf::space::Counter;
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_kernel::core::options::Options;

/// Stores r13 at r13, as often as r12 says: the signal's handler tries again.
const CODE: [u8; 22] = [
    0x4d, 0x89, 0x6d, 0x00, // mov  %r13, (%r13)
    0x0f, 0x0b, // ud2
    0x66, 0x90, // nop
    0x49, 0xff, 0xcc, // dec  %r12, where the handler begins
    0x75, 0xf3, // jnz  to the store
    0xb8, 0x3c, 0x00, 0x00, 0x00, // mov  $60, %eax
    0x0f, 0x05, // syscall: exit
    0x0f, 0x0b, // ud2
];
/// Where the handler begins in [`CODE`].
const HANDLER: u64 = 8;
/// Stores that are refused.
const REFUSED: u64 = 3;
/// Pages: code, then the stack.
const PAGES: u64 = 3;

/// Counts refused stores: where nothing is mapped, and where the mapping does not allow them.
pub fn once_each(options: &Options<'_>) -> bool {
    with_space(options, |space| {
        let base = map(space, PAGES);
        let code_written = spaces::in_space(space, || user::write(base, &CODE)).is_ok();
        let rights = VmaFlags::READ | VmaFlags::EXECUTE;
        let ready = code_written && space.protect(base, PAGE_SIZE as u64, rights).is_ok();
        let counted = [VirtAddr(0), base].map(|at| refused(space, base, at));
        let right = ready && counted == [Some(REFUSED); 2];
        right || fail(format_args!("{REFUSED} refused stores, twice, counted as {counted:?}"))
    })
}

/// Runs the code in ring 3 with stores to `at`; how many faults were counted as refused.
fn refused(space: &SpaceHandle, base: VirtAddr, at: VirtAddr) -> Option<u64> {
    let counted = || memory::vm().totals().get(Counter::PgFaultError);
    let before = counted();
    let mut frame = Frame::at_start(base, page(base, PAGES));
    (frame.r12, frame.r13) = (REFUSED, at.0);
    program::run_first(space.clone(), &frame, Action::nested(base.0 + HANDLER))?;
    Some(counted() - before)
}
