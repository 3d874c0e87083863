//! Memory that `mseal` has sealed: Linux refuses to unmap it, to change its rights, to move it, to discard
//! what it holds. The library seals nothing, so such a refusal is imposed.

use super::ranges::Ranges;
use super::step::pages;
use super::unbuilt::Refusal;
use crate::trace::{Call, Sys};
use interleaf_linux_abi::{Errno, MapFlags};

/// EPERM, as a call returns it.
const EPERM: i64 = Errno::EPERM.as_return_value();

/// Ranges that are sealed; a seal is never taken off, and a fork copies it.
#[derive(Clone, Debug, Default)]
pub struct Sealed(Ranges);

impl Sealed {
    /// Follows a call that returned `result`.
    pub fn note(&mut self, call: &Call, result: i64) {
        if call.sys == Sys::Mseal && result >= 0 {
            self.0.add(pages(call.args[0], call.args[1]));
        }
    }

    /// Whether Linux refused the call, which returned `result`, for a seal.
    pub fn refuse(&self, call: &Call, result: i64) -> bool {
        let [addr, len, _, flags, to, _] = call.args;
        let replaces = MapFlags::from_bits_retain(flags as u32).contains(MapFlags::FIXED);
        result == EPERM
            && match call.sys {
                Sys::Munmap => self.overlaps(addr, len),
                Sys::Mmap => replaces && self.overlaps(addr, len),
                Sys::Mremap => self.overlaps(addr, len.max(1)) || self.overlaps(to, call.args[2]),
                _ => false,
            }
    }

    /// The refusal of a call that goes mapping by mapping, which returned `result`.
    pub fn refusal(&self, call: &Call, result: i64) -> Option<Refusal> {
        let goes_on = matches!(call.sys, Sys::Mprotect | Sys::PkeyMprotect | Sys::Madvise);
        let [addr, len, ..] = call.args;
        if !goes_on || result != EPERM || !addr.is_multiple_of(4096) {
            return None;
        }
        self.0.first_in(&pages(addr, len)).map(|at| Refusal { at, error: EPERM })
    }

    fn overlaps(&self, addr: u64, len: u64) -> bool {
        self.0.overlap(&pages(addr, len))
    }
}
