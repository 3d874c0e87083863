//! Zeroed memory of the host for test machines.
//!
//! The host's allocator gives memory of some megabytes back to the kernel as soon as it is freed, and faults
//! it in anew: a loom model makes a machine for each execution, and spent two thirds of its time on those
//! faults. So memory is kept for the next machine of the same size, and zeroed then.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Mutex;
use std::vec::Vec;

/// Most bytes that are kept.
const KEPT_BYTES: usize = 64 << 20;

/// Memory that was dropped, newest last.
static KEPT: Mutex<Vec<Allocation>> = Mutex::new(Vec::new());

/// Memory of a size and an alignment, zeroed when it was made.
pub struct ZeroedMemory(Option<Allocation>);

/// One allocation.
struct Allocation {
    /// The first byte that is aligned as was asked for.
    start: NonNull<u8>,
    asked: Layout,
    /// Where the allocation begins.
    whole: NonNull<u8>,
}

// SAFETY: the value owns its memory.
unsafe impl Send for Allocation {}

impl ZeroedMemory {
    /// New memory, or kept memory of the same layout, zeroed.
    ///
    /// # Panics
    /// If the layout is empty.
    pub fn new(asked: Layout) -> Self {
        assert!(asked.size() > 0, "no memory was asked for");
        let mut kept = KEPT.lock().unwrap();
        let found = kept.iter().rposition(|other| other.asked == asked);
        let found = found.map(|at| kept.remove(at));
        drop(kept);
        let Some(memory) = found else { return Self(Some(Allocation::new(asked))) };
        // SAFETY: the allocation has as many bytes from there on, initialised when it was made, and it was
        // taken out of the list, so nothing else refers to it.
        zero_written(unsafe { core::slice::from_raw_parts_mut(memory.start.as_ptr(), asked.size()) });
        Self(Some(memory))
    }

    fn allocation(&self) -> &Allocation {
        self.0.as_ref().expect("only drop takes it")
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.allocation().start
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.allocation().asked.size()
    }
}

/// Zeroes what is not zero, by pieces. A model writes to few of its pages in each of its executions, and
/// looking at a page takes a fraction of the time of writing it.
fn zero_written(bytes: &mut [u8]) {
    const ZEROS: [u8; 4096] = [0; 4096];
    for piece in bytes.chunks_mut(ZEROS.len()) {
        if *piece != ZEROS[..piece.len()] {
            piece.fill(0);
        }
    }
}

/// Number of the oldest allocations, of these sizes, without which the others are no more than is kept. If
/// the newest were refused instead, those of a size that is used no more would stay for ever.
fn too_many(sizes: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator) -> usize {
    let all = sizes.len();
    let sums = sizes.rev().scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    all - sums.take_while(|sum| *sum <= KEPT_BYTES).count()
}

impl Drop for ZeroedMemory {
    fn drop(&mut self) {
        let Some(memory) = self.0.take() else { return };
        let mut kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if memory.asked.size() <= KEPT_BYTES {
            kept.push(memory);
            let gone = too_many(kept.iter().map(|other| other.asked.size()));
            kept.drain(..gone);
        }
    }
}

impl Allocation {
    /// Aligned here: for an alignment of its own the host's allocator would write all bytes.
    fn new(asked: Layout) -> Self {
        let layout = Self::whole_layout(asked);
        // SAFETY: the layout is not empty, as `asked` is not.
        let whole =
            NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let offset = whole.addr().get().next_multiple_of(asked.align()) - whole.addr().get();
        // SAFETY: the offset is less than the alignment, by which the allocation is longer than `asked`.
        Self { start: unsafe { whole.add(offset) }, asked, whole }
    }

    /// Long enough for `asked` at any address.
    fn whole_layout(asked: Layout) -> Layout {
        Layout::from_size_align(asked.size() + asked.align(), 1).expect("a layout of a test's size")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.whole.as_ptr(), Self::whole_layout(self.asked)) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_not_used_for_longest_is_given_back() {
        let most = KEPT_BYTES;
        let half = most / 2;
        let cases: [(&[usize], usize); 5] =
            [(&[], 0), (&[most], 0), (&[half, half], 0), (&[half, 1, half], 1), (&[1, most], 1)];
        for (sizes, gone) in cases {
            assert_eq!(too_many(sizes.iter().copied()), gone, "{sizes:?}");
        }
    }
}
