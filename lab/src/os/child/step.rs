//! What a child may be asked to do: a closed list, each with its arguments checked.
//!
//! A child has a copy of its parent's memory and code. A caller that could write there could have it make any
//! system call, also one that writes to its parent. So steps change only the *windows*, ranges in which the
//! child has nothing of its own, or are refused by Linux for their arguments alone.

use super::{FILE, SCRATCH_BYTES};
use std::ops::Range;

/// One step. Addresses and lengths in bytes; `slot` is a place in the scratch memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// mmap(2), anonymous or refused: there is no file.
    Map {
        /// Where it should go; binding with a FIXED flag.
        hint: u64,
        /// Bytes.
        len: u64,
        /// `PROT_*`.
        prot: u32,
        /// `MAP_*`.
        flags: u32,
    },
    /// mmap(2), anonymous or of the one [file](super::FILE), mprotect(2) or madvise(2), by its number and all
    /// its words.
    Words {
        /// The number.
        number: u64,
        /// The words.
        words: [u64; 6],
    },
    /// munmap(2).
    Unmap {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// mremap(2).
    Remap {
        /// First byte.
        addr: u64,
        /// Bytes now.
        old_len: u64,
        /// Bytes afterwards.
        new_len: u64,
        /// `MREMAP_*`, or any other number.
        flags: u64,
        /// Where it goes, or might go.
        to: u64,
    },
    /// mprotect(2).
    Protect {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// `PROT_*`.
        prot: u32,
    },
    /// madvise(2).
    Advise {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// `MADV_*`, or any other number.
        advice: i32,
    },
    /// mbind(2) with a mask of 64 nodes in the scratch memory.
    Bind {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// `MPOL_*` and its flags.
        mode: u32,
        /// `MPOL_MF_*`.
        flags: u32,
        /// Where the mask lies.
        slot: u64,
    },
    /// brk(2). The heap starts in a window, grows over nothing, and shrinks to its start at most.
    Break {
        /// The new end.
        end: u64,
    },
    /// mincore(2), to the scratch memory. An unmapped page follows that, at which Linux stops.
    Resident {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// Where the answer goes.
        slot: u64,
    },
    /// ftruncate(2) of the one file.
    FileLen {
        /// Bytes.
        len: u64,
    },
    /// fallocate(2) of the one file, for a hole that leaves its length.
    FileHole {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// pread(2) of the one file, to the scratch memory.
    FileRead {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Where they go.
        slot: u64,
    },
    /// pwrite(2) to the one file, from the scratch memory.
    FileWrite {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Where they lie.
        slot: u64,
    },
    /// msync(2).
    Sync {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// `MS_*`.
        flags: u32,
    },
    /// Reads the byte.
    Read {
        /// Where.
        addr: u64,
    },
    /// Writes the byte.
    Write {
        /// Where.
        addr: u64,
        /// What.
        value: u8,
    },
}

/// The number of [`Step::Read`] and of [`Step::Write`] in the shared area, where other steps have that of
/// their system call.
pub(super) const READ: u64 = u64::MAX;
pub(super) const WRITE: u64 = u64::MAX - 1;

const PAGE: u64 = 4096;

/// The ranges that steps may change, and the bounds by which Linux refuses arguments.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) windows: [Range<u64>; 2],
    /// First byte after user space.
    pub(super) task_end: u64,
    /// First byte that may be mapped.
    pub(super) min_addr: u64,
}

impl Bounds {
    /// Whether the step changes nothing outside of the windows, whatever is mapped.
    pub(super) fn admit(&self, step: &Step) -> bool {
        match *step {
            Step::Words { .. } => step.plain().is_some_and(|step| self.admit(&step)),
            Step::Map { hint, len, flags, .. } => {
                let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u32 != 0;
                let beyond = len > self.task_end || hint > self.task_end - len || !hint.is_multiple_of(PAGE);
                !fixed || beyond || self.within(hint, len) || hint < self.min_addr
            }
            Step::Unmap { addr, len } => {
                addr > self.task_end || len > self.task_end - addr || self.harmless(addr, len)
            }
            Step::Remap { addr, old_len, new_len, flags, to } => {
                self.admit_remap([addr, old_len, new_len], flags, to)
            }
            Step::Protect { addr, len, .. } | Step::Advise { addr, len, .. } => self.harmless(addr, len),
            Step::Bind { addr, len, slot, .. } => {
                slot <= SCRATCH_BYTES as u64 - 8 && self.harmless(addr, len)
            }
            // The file has no pages but those that are stored, and no file is written back by the experiment.
            Step::Break { .. } | Step::FileLen { .. } | Step::FileHole { .. } | Step::Sync { .. } => true,
            Step::FileRead { len, slot, .. } | Step::FileWrite { len, slot, .. } => {
                slot.checked_add(len).is_some_and(|end| end <= SCRATCH_BYTES as u64)
            }
            Step::Resident { slot, .. } => slot < SCRATCH_BYTES as u64,
            Step::Read { addr } | Step::Write { addr, .. } => addr >= self.task_end || self.within(addr, 1),
        }
    }

    /// Whether an mremap takes pages of a window alone, and puts them where nothing is, or into a window. It
    /// unmaps the end of the old range, and with a fixed place what is there.
    fn admit_remap(&self, [addr, old_len, new_len]: [u64; 3], flags: u64, to: u64) -> bool {
        let whole = |len: u64| len.checked_next_multiple_of(PAGE).unwrap_or(0);
        let (old_len, new_len) = (whole(old_len), whole(new_len));
        if !addr.is_multiple_of(PAGE) || addr >= self.task_end || new_len > self.task_end {
            return true;
        }
        // munmap refuses what leaves user space.
        let leaves = old_len > self.task_end || addr > self.task_end - old_len;
        let is_fixed = flags & libc::MREMAP_FIXED as u64 != 0;
        let is_refused = !to.is_multiple_of(PAGE) || to > self.task_end - new_len;
        let is_low = to < self.min_addr && new_len <= self.min_addr - to;
        self.within(addr, if leaves { 0 } else { old_len })
            && (!is_fixed || is_refused || is_low || self.within(to, new_len))
    }

    /// Whether a call on `[addr, addr + len)` stays in a window or is refused for its arguments alone.
    fn harmless(&self, addr: u64, len: u64) -> bool {
        let wraps = len.checked_next_multiple_of(PAGE).and_then(|len| addr.checked_add(len)).is_none();
        wraps || !addr.is_multiple_of(PAGE) || addr >= self.task_end || self.within(addr, len)
    }

    /// Whether `[addr, addr + len)`, in whole pages, lies in one window.
    pub(super) fn within(&self, addr: u64, len: u64) -> bool {
        let lies_in = |window: &Range<u64>| {
            window.contains(&addr) && len <= window.end - addr && window.end.is_multiple_of(PAGE)
        };
        self.windows.iter().any(lies_in)
    }
}

impl Step {
    /// The step that changes the same as one of all words; `None` where there is none, or it names a file
    /// that is not the experiment's.
    fn plain(&self) -> Option<Step> {
        let Step::Words { number, words: [addr, len, third, fourth, file, _] } = *self else {
            return Some(*self);
        };
        let (prot, flags) = (third as u32, fourth as u32);
        match number as libc::c_long {
            libc::SYS_mmap if flags & libc::MAP_ANONYMOUS as u32 != 0 || file == FILE => {
                Some(Step::Map { hint: addr, len, prot, flags })
            }
            libc::SYS_mprotect => Some(Step::Protect { addr, len, prot }),
            libc::SYS_madvise => Some(Step::Advise { addr, len, advice: third as i32 }),
            _ => None,
        }
    }

    /// The number and the arguments, for scratch memory at `scratch`.
    pub(super) fn encode(&self, scratch: u64) -> [u64; 7] {
        let call = |number: libc::c_long, [a, b, c, d, e]: [u64; 5]| [number as u64, a, b, c, d, e, 0];
        match *self {
            Step::Map { hint, len, prot, flags } => {
                call(libc::SYS_mmap, [hint, len, prot.into(), flags.into(), u64::MAX])
            }
            Step::Words { number, words: [a, b, c, d, e, f] } => [number, a, b, c, d, e, f],
            Step::Unmap { addr, len } => call(libc::SYS_munmap, [addr, len, 0, 0, 0]),
            Step::Remap { addr, old_len, new_len, flags, to } => {
                call(libc::SYS_mremap, [addr, old_len, new_len, flags, to])
            }
            Step::Protect { addr, len, prot } => call(libc::SYS_mprotect, [addr, len, prot.into(), 0, 0]),
            Step::Advise { addr, len, advice } => {
                call(libc::SYS_madvise, [addr, len, advice.cast_unsigned().into(), 0, 0])
            }
            Step::Bind { addr, len, mode, flags, slot } => {
                [libc::SYS_mbind as u64, addr, len, mode.into(), scratch + slot, 65, flags.into()]
            }
            Step::Break { end } => call(libc::SYS_brk, [end, 0, 0, 0, 0]),
            Step::Resident { addr, len, slot } => call(libc::SYS_mincore, [addr, len, scratch + slot, 0, 0]),
            Step::FileLen { len } => call(libc::SYS_ftruncate, [FILE, len, 0, 0, 0]),
            Step::FileHole { offset, len } => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                call(libc::SYS_fallocate, [FILE, mode.cast_unsigned().into(), offset, len, 0])
            }
            Step::FileRead { offset, len, slot } => {
                call(libc::SYS_pread64, [FILE, scratch + slot, len, offset, 0])
            }
            Step::FileWrite { offset, len, slot } => {
                call(libc::SYS_pwrite64, [FILE, scratch + slot, len, offset, 0])
            }
            Step::Sync { addr, len, flags } => call(libc::SYS_msync, [addr, len, flags.into(), 0, 0]),
            Step::Read { addr } => [READ, addr, 0, 0, 0, 0, 0],
            Step::Write { addr, value } => [WRITE, addr, value.into(), 0, 0, 0, 0],
        }
    }
}

#[cfg(test)]
#[path = "../tests/child_step.rs"]
mod tests;
