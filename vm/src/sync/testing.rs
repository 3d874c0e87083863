//! Memory for tests: allocated from the host, never freed.

use super::Carve;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed};

/// Carves from the host's heap.
#[derive(Debug)]
pub struct Heap;

impl Carve for Heap {
    fn carve(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes.max(1), align).ok()?;
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }
}
