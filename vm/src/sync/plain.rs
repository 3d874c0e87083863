//! A field of plain data that a lock or a CPU owns.

#![forbid(unsafe_code)]

use crate::machine::{AccessKind, Cpu};
use core::fmt;
use core::marker::PhantomData;

/// A field whose loads and stores are reported to the observer one by one, so that false sharing is seen too.
/// A store needs `&mut`, which only the lock's guard or the owning CPU has.
#[repr(transparent)]
pub struct Plain<T, C: Cpu>(T, PhantomData<fn() -> C>);

/// For copies of many fields at once, where nothing is observed: a copy of the field as such is not reported.
impl<T: Copy, C: Cpu> Copy for Plain<T, C> {}

impl<T: Copy, C: Cpu> Clone for Plain<T, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, C: Cpu> Plain<T, C> {
    /// A field holding `value`.
    pub const fn new(value: T) -> Self {
        Self(value, PhantomData)
    }

    #[inline(always)]
    #[track_caller]
    fn seen(&self, kind: AccessKind) {
        if C::OBSERVED {
            C::access(&raw const self.0 as usize, size_of::<T>(), kind);
        }
    }

    /// The value.
    #[inline(always)]
    #[track_caller]
    pub fn get(&self) -> T
    where
        T: Copy,
    {
        self.seen(AccessKind::Read);
        self.0
    }

    /// Stores a value.
    #[inline(always)]
    #[track_caller]
    pub fn set(&mut self, value: T) {
        self.seen(AccessKind::Write);
        self.0 = value;
    }
}

impl<T: fmt::Debug, C: Cpu> fmt::Debug for Plain<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
