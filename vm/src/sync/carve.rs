//! Memory that is allocated at start and never freed.
//!
//! An allocator returns exclusive references, so that nothing but its type has to be trusted: memory that it
//! returns is its caller's, for the lifetime in the type, whatever an implementation does. What the type does
//! not say, size and alignment, is checked here. Values in carved memory are never dropped.

use core::alloc::Layout;
use core::mem::MaybeUninit;

/// An allocator of memory that is never freed, used at start. `'m` is the life of the memory.
///
/// ```compile_fail,E0515
/// use core::{alloc::Layout, mem::MaybeUninit};
/// struct Nowhere;
/// impl<'m> interleaf::sync::Carve<'m> for Nowhere {
///     fn carve(&mut self, layout: Layout) -> Option<&'m mut [MaybeUninit<u8>]> {
///         Some(&mut [MaybeUninit::uninit(); 64])
///     }
/// }
/// ```
pub trait Carve<'m> {
    /// At least `layout.size()` bytes, aligned as `layout` says. `None` if there is not enough.
    fn carve(&mut self, layout: Layout) -> Option<&'m mut [MaybeUninit<u8>]>;
}

/// An allocator of memory that lasts as long as a machine.
///
/// # Safety
/// Where [`outlives`](Self::outlives) returns true for a machine, everything carved from it stays valid, and
/// the carver's alone, until that machine is dropped: also beyond `'m`, wherever the machine is moved.
pub unsafe trait MachineMemory<'m, M>: Carve<'m> {
    /// Whether what is carved lasts as long as `machine`.
    fn outlives(&self, machine: &M) -> bool;
}

/// Memory for `len` values. `None` if there is not enough.
///
/// # Panics
/// If the allocator returns memory that is too small or not aligned.
pub fn carve_slice<'m, T>(from: &mut impl Carve<'m>, len: usize) -> Option<&'m mut [MaybeUninit<T>]> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 && len == 0 {
        return Some(&mut []);
    }
    let bytes = from.carve(layout)?;
    let is_aligned = bytes.as_ptr().addr().is_multiple_of(layout.align());
    let fits = bytes.len() >= layout.size() && is_aligned;
    assert!(fits || mutant!("carve.layout-unchecked"), "carved memory is not as was asked for");
    // SAFETY: the bytes are ours for `'m`, and were just found to be enough and aligned for `len` values,
    // which may be uninitialised.
    Some(unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
}

/// A value in carved memory, never dropped. `None` if there is not enough.
pub fn carve_value<'m, T>(from: &mut impl Carve<'m>, value: T) -> Option<&'m mut T> {
    Some(carve_slice(from, 1)?[0].write(value))
}

/// Initialises every value of `slots`.
pub fn fill<T>(slots: &mut [MaybeUninit<T>], mut value: impl FnMut(usize) -> T) -> &mut [T] {
    slots.iter_mut().enumerate().for_each(|(at, slot)| {
        slot.write(value(at));
    });
    // SAFETY: every value was written above.
    unsafe { slots.assume_init_mut() }
}

/// Initialises as many values as `make` pushes.
///
/// # Panics
/// If it pushes more than there are slots.
pub fn fill_some<T>(slots: &mut [MaybeUninit<T>], make: impl FnOnce(&mut dyn FnMut(T))) -> &mut [T] {
    let mut len = 0;
    make(&mut |value| {
        let slot = slots.get_mut(len).expect("more values than the slice holds");
        slot.write(value);
        len += 1;
    });
    // SAFETY: a value was written to each of the first `len` slots.
    unsafe { slots[..len].assume_init_mut() }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/carve.rs"]
mod tests;
