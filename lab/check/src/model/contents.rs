//! The contents of a page.

use crate::calls::{PAGE, fingerprint};
use std::sync::LazyLock;

/// The bytes of one page; none are kept while all are zero and none was written: a huge page has 512.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents(Option<Box<[u8]>>);

static ZEROS: LazyLock<u64> = LazyLock::new(|| fingerprint(&[0; PAGE as usize]));

impl Contents {
    /// The byte at an offset.
    pub(super) fn byte(&self, at: u64) -> u8 {
        self.0.as_ref().map_or(0, |bytes| bytes[at as usize])
    }

    /// Writes a byte.
    pub(super) fn set(&mut self, at: u64, value: u8) {
        self.0.get_or_insert_with(|| vec![0; PAGE as usize].into_boxed_slice())[at as usize] = value;
    }

    /// Whether all bytes are zero.
    pub(super) fn is_zero(&self) -> bool {
        self.0.as_ref().is_none_or(|bytes| bytes.iter().all(|&byte| byte == 0))
    }

    /// A number that tells them from others.
    pub(super) fn print(&self) -> u64 {
        self.0.as_ref().map_or(*ZEROS, |bytes| fingerprint(bytes))
    }
}
