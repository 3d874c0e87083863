//! Memory that calls have locked: what of it is unlocked or unmapped again is forgotten page by page.

use super::ranges::Ranges;
use super::step::{has, pages};
use super::unbuilt::{PAGEOUT, Refusal};
use crate::trace::{Call, Sys};
use interleaf_linux_abi::{Errno, MapFlags, advice};

const EINVAL: i64 = Errno::EINVAL.as_return_value();

/// What is locked.
#[derive(Clone, Debug, Default)]
pub struct Locked {
    ranges: Ranges,
    /// Whether new mappings are (MCL_FUTURE).
    future: bool,
}

/// The flags of mlockall for what is mapped, and for what will be.
const MCL_CURRENT: u64 = 1;
const MCL_FUTURE: u64 = 2;

impl Locked {
    /// The refusal of advice, which returned `result`, by locked memory: it keeps its pages. The library
    /// locks none.
    pub fn refusal(&self, call: &Call, result: i64) -> Option<Refusal> {
        let [addr, len, third, ..] = call.args;
        let keeps = [advice::DONTNEED, advice::FREE, advice::COLD, PAGEOUT].contains(&(third as i32));
        if call.sys != Sys::Madvise || !keeps || result != EINVAL || !addr.is_multiple_of(4096) {
            return None;
        }
        self.ranges.first_in(&pages(addr, len)).map(|at| Refusal { at, error: EINVAL })
    }

    /// Follows a call that returned `result`.
    pub fn note(&mut self, call: &Call, result: i64) {
        let [addr, len, _, flags, ..] = call.args;
        match call.sys {
            _ if result < 0 => {}
            Sys::Mlock | Sys::Mlock2 => self.ranges.add(pages(addr, len)),
            Sys::Mmap if self.future || has(flags as u32, MapFlags::LOCKED) => {
                self.ranges.add(pages(result as u64, len));
            }
            // It may lie over locked memory, or where all that was mapped was locked.
            Sys::Mmap => self.ranges.remove(&pages(result as u64, len)),
            Sys::Mlockall => {
                self.future = addr & MCL_FUTURE != 0;
                if addr & MCL_CURRENT != 0 {
                    self.ranges.clear();
                    self.ranges.add(0..u64::MAX);
                }
            }
            Sys::Munlockall => *self = Self::default(),
            Sys::Mremap if self.ranges.overlap(&pages(addr, len)) => {
                self.ranges.remove(&pages(addr, len));
                self.ranges.add(pages(result as u64, call.args[2]));
            }
            Sys::Munlock | Sys::Munmap => self.ranges.remove(&pages(addr, len)),
            _ => {}
        }
    }
}
