//! Pins of one page, and their limit.

use super::*;
use crate::frame::PinnedFrame;
use crate::machine::testing::TestCpu;
use crate::units::Pfn;
use std::boxed::Box;

pub(in crate::space) type Pins =
    PinnedPages<'static, 'static, Tests, [Option<PinnedFrame<'static, Tests>>; 1]>;

/// A limit whose word is there before there are threads.
pub(in crate::space) fn limit() -> &'static MemlockLimit<TestCpu> {
    let limit: &'static MemlockLimit<TestCpu> = Box::leak(Box::new(MemlockLimit::new(9)));
    assert_eq!(limit.locked_pages(), 0);
    limit
}

pub(in crate::space) fn pinned(pins: &Pins) -> Option<Pfn> {
    pins.frames().next().map(PinnedFrame::pfn)
}
