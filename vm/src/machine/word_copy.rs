//! Copies of bytes of frames by relaxed atomic words: what [`Machine`](super::Machine) does where a platform
//! has no instruction of its own for it. Several CPUs may copy to and from the same bytes at once, which with
//! plain loads and stores would be a data race. All accesses are words of one size at their own alignment,
//! since atomics that overlap in part are one too.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The word that contains the byte `at`, and the byte's place in it.
///
/// # Safety
/// The whole word is memory that lives as long as the reference, in which no code has a Rust object, and
/// which Rust code reaches by such words alone meanwhile.
unsafe fn word_of<'a>(at: NonNull<u8>) -> (&'a AtomicU64, usize) {
    let place = at.addr().get() % WORD;
    // SAFETY: `at - place` is aligned for a word, and is the address of the word that the caller vouches for;
    // its provenance is that of `at`, which covers the frame.
    (unsafe { at.sub(place).cast().as_ref() }, place)
}

/// Copies `words` words; both places are aligned.
///
/// # Safety
/// As for [`copy_out`], of both places.
pub(super) unsafe fn copy_words(from: NonNull<u8>, to: NonNull<u8>, words: usize) {
    for byte in (0..words * WORD).step_by(WORD) {
        // SAFETY: the bytes up to `words * WORD` are in both places, as the caller says.
        let ((from, _), (to, _)) = unsafe { (word_of(from.add(byte)), word_of(to.add(byte))) };
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Copies from memory to a slice.
///
/// # Safety
/// `to.len()` bytes from `from` on, and the words around the first and the last one, are memory in which no
/// code has a Rust object, and which Rust code reaches through this module alone meanwhile.
pub(super) unsafe fn copy_out(from: NonNull<u8>, mut to: &mut [u8]) {
    let mut done = 0;
    while !to.is_empty() {
        // SAFETY: byte `done` is one of those that the caller speaks of.
        let (word, place) = unsafe { word_of(from.add(done)) };
        let count = to.len().min(WORD - place);
        let (now, later) = to.split_at_mut(count);
        now.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[place..place + count]);
        (to, done) = (later, done + count);
    }
}

/// Copies a slice to memory. Bytes of a word that lie outside are kept, also where other threads write them
/// meanwhile.
///
/// # Safety
/// As for [`copy_out`], of the bytes copied to.
pub(super) unsafe fn copy_in(mut from: &[u8], to: NonNull<u8>) {
    let mut done = 0;
    while !from.is_empty() {
        // SAFETY: as in `copy_out`.
        let (word, place) = unsafe { word_of(to.add(done)) };
        let (now, later) = from.split_at(from.len().min(WORD - place));
        let changed = |old: u64| {
            let mut bytes = old.to_ne_bytes();
            bytes[place..place + now.len()].copy_from_slice(now);
            u64::from_ne_bytes(bytes)
        };
        if now.len() == WORD {
            word.store(changed(0), Ordering::Relaxed);
        } else {
            word.update(Ordering::Relaxed, Ordering::Relaxed, changed);
        }
        (from, done) = (later, done + now.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_place_and_length_keep_the_bytes_around_them() {
        let model: [u8; 32] = core::array::from_fn(|at| at as u8 + 1);
        for (start, len) in (0..16).flat_map(|start| (0..=16).map(move |len| (start, len))) {
            let words = [0_u64; 4].map(AtomicU64::new);
            let memory = NonNull::from(&words).cast::<u8>();
            // SAFETY: 32 bytes of atomics that no other code uses; start and length end inside.
            unsafe { copy_in(&model[start..start + len], memory.add(start)) };
            let mut expected = [0; 32];
            expected[start..start + len].copy_from_slice(&model[start..start + len]);
            let mut all = [0; 32];
            // SAFETY: as above.
            unsafe { copy_out(memory, &mut all) };
            assert_eq!(all, expected);
            let mut part = [0; 16];
            let part = &mut part[..len];
            // SAFETY: as above.
            unsafe { copy_out(memory.add(start), part) };
            assert_eq!(*part, model[start..start + len]);
            let copies = [0_u64; 4].map(AtomicU64::new);
            let copied = NonNull::from(&copies).cast::<u8>();
            // SAFETY: as above, of two arrays.
            unsafe { copy_words(memory, copied, 4) };
            // SAFETY: as above.
            unsafe { copy_out(copied, &mut all) };
            assert_eq!(all, expected);
        }
    }
}
