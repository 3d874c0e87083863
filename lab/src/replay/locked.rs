//! Memory that calls have locked: what of it is unlocked or unmapped again is forgotten page by page.

use super::ranges::Ranges;
use super::step::{has, pages};
use crate::trace::{Call, Sys};
use interleaf_linux_abi::MapFlags;

/// What is locked.
#[derive(Clone, Debug, Default)]
pub struct Locked(Ranges);

impl Locked {
    /// Whether any of the range is locked.
    pub fn overlaps(&self, addr: u64, len: u64) -> bool {
        self.0.overlap(&pages(addr, len))
    }

    /// Follows a call that returned `result`.
    pub fn note(&mut self, call: &Call, result: i64) {
        let [addr, len, _, flags, ..] = call.args;
        match call.sys {
            _ if result < 0 => {}
            Sys::Mlock | Sys::Mlock2 => self.0.add(pages(addr, len)),
            Sys::Mmap if has(flags as u32, MapFlags::LOCKED) => self.0.add(pages(result as u64, len)),
            Sys::Mlockall => self.0.add(0..u64::MAX),
            Sys::Munlockall => self.0.clear(),
            Sys::Mremap if self.overlaps(addr, len) => {
                self.0.remove(&pages(addr, len));
                self.0.add(pages(result as u64, call.args[2]));
            }
            Sys::Munlock | Sys::Munmap => self.0.remove(&pages(addr, len)),
            _ => {}
        }
    }
}
