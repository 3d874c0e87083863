//! Padding against false sharing.

#![forbid(unsafe_code)]

use crate::units::CACHE_LINE;
use core::ops::{Deref, DerefMut};

/// A value on cache lines of its own. Two lines, because adjacent lines are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CacheAligned<T>(pub T);

impl<T> Deref for CacheAligned<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CacheAligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

const _: () = assert!(align_of::<CacheAligned<u8>>() == 2 * CACHE_LINE);
