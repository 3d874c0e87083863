//! Memory to measure on: present and dirty before the clock starts.
//!
//! Linux gives out memory at the first touch, zeroed. A benchmark that touched its memory first while the
//! clock ran would measure Linux; one that zeroed memory that is still zero would find it in whatever cache
//! Linux left it. So an arena is written once, with something else than zeroes, when it is made.

use crate::os::memory::prefer_huge_pages;

/// The bytes of a frame.
pub const FRAME_BYTES: usize = 4096;

/// One frame of an arena.
#[derive(Clone)]
#[repr(C, align(4096))]
pub struct Frame(pub [u8; FRAME_BYTES]);

impl Frame {
    /// Frames that are present and dirty, in memory like that of the machines that ours are timed on.
    pub fn dirty(nr_frames: usize) -> Vec<Frame> {
        let mut frames = Vec::with_capacity(nr_frames);
        prefer_huge_pages(frames.spare_capacity_mut());
        frames.resize(nr_frames, Frame([0xA5; FRAME_BYTES]));
        frames
    }

    /// Zeroes the frame, by the same `memset` for every figure.
    #[inline]
    pub fn zero(&mut self) {
        std::hint::black_box(&mut self.0).fill(0);
    }
}

/// Frames, all of them present and dirty.
pub struct Arena {
    frames: Vec<Frame>,
    next: usize,
}

impl Arena {
    /// An arena of `bytes`, rounded up to whole frames, at least one.
    pub fn new(bytes: usize) -> Arena {
        Arena { frames: Frame::dirty(bytes.div_ceil(FRAME_BYTES).max(1)), next: 0 }
    }

    /// The frames.
    pub fn frames(&mut self) -> &mut [Frame] {
        &mut self.frames
    }

    /// How many frames there are.
    pub fn nr_frames(&self) -> usize {
        self.frames.len()
    }

    /// The next frame, in the order of their addresses, from the first again after the last: in an arena far
    /// larger than the caches a cold one.
    pub fn next_frame(&mut self) -> &mut Frame {
        let index = self.next;
        self.next = (index + 1) % self.frames.len();
        &mut self.frames[index]
    }
}

#[cfg(test)]
#[path = "tests/arena.rs"]
mod tests;
