//! Memory of kinds that the library does not have: files, what the kernel maps into each program, guards.
//!
//! Anonymous memory stands in for it. Where Linux refuses a call at such memory, a replay does what the call
//! has done before it came there, and imposes the refusal:
//!
//! ```text
//!   mprotect(rw)  |anonymous  |[vvar] r--    |     EACCES at [vvar]
//!   here          |done       |     imposed
//! ```
//!
//! What can be known is predicted, so that a call which Linux granted is a difference. Two refusals are taken
//! as they were, at the first mapping that may have given them: EACCES of a file, since how it was opened is
//! not in a trace, and EINVAL of a part of a mapping that the kernel does not cut.

use super::files::{FileNr, FileTable};
use super::spans::Spans;
use super::step::{has, pages};
use crate::trace::{Call, Image, Mapping, Sys};
use interleaf_linux_abi::{Errno, MREMAP_DONTUNMAP, MapFlags, Prot, advice};
use std::ops::Range;

/// `MADV_GUARD_INSTALL`: drops pages, and refuses each access to them with SIGSEGV.
pub const GUARD_INSTALL: i32 = 102;
/// `MADV_GUARD_REMOVE`: takes guards away.
pub const GUARD_REMOVE: i32 = 103;
/// `MADV_PAGEOUT`.
pub const PAGEOUT: i32 = 21;

const EACCES: i64 = Errno::EACCES.as_return_value();
const EINVAL: i64 = Errno::EINVAL.as_return_value();

/// Memory of such kinds in one address space.
#[derive(Clone, Debug, Default)]
pub struct Unbuilt {
    files: Spans<File>,
    special: Spans<Special>,
    guards: Spans<()>,
    /// Where a fork leaves the child no pages, and so no guards (MADV_WIPEONFORK).
    wiped: Spans<()>,
}

/// A part of a file.
#[derive(Clone, Copy, Debug)]
struct File {
    /// The offset in the file of address 0, if it were mapped: wraps.
    origin: u64,
    is_shared: bool,
    /// Rights that Linux has granted of it.
    granted: Prot,
    /// Its number; `None` for what is no file.
    number: Option<FileNr>,
}

/// A mapping of the kernel's.
#[derive(Clone, Copy, Debug)]
struct Special {
    /// Rights that mprotect may give.
    may: Prot,
    /// Whether it shows frames that are no pages of a program (VM_IO, VM_PFNMAP).
    is_of_frames: bool,
}

/// A refusal by memory of such a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where the memory begins, within the range of the call.
    pub at: u64,
    /// What the call returns.
    pub error: i64,
}

impl Unbuilt {
    /// That of a program at its exec.
    pub fn at_exec(image: &Image, files: &FileTable) -> Unbuilt {
        let mut unbuilt = Unbuilt::default();
        for mapping in &image.mappings {
            let range = mapping.start..mapping.end;
            if mapping.inode != 0 {
                let (is_shared, granted) = (mapping.is_shared(), rights_of(mapping));
                let origin = mapping.offset.wrapping_sub(mapping.start);
                let number = files.of_mapping(mapping);
                unbuilt.files.put(range, File { origin, is_shared, granted, number });
            } else if let Some(special) = special(mapping) {
                unbuilt.special.put(range, special);
            }
        }
        unbuilt
    }

    /// That of the child of a fork.
    pub fn of_child(&self) -> Unbuilt {
        let mut child = self.clone();
        for (wiped, ()) in self.wiped.parts(&(0..u64::MAX)) {
            child.guards.take(&wiped);
        }
        child
    }

    /// Follows a call that returned `result`.
    pub fn follow(&mut self, call: &Call, result: i64, files: &FileTable) {
        let [addr, len, third, flags, _, offset] = call.args;
        let Ok(result) = u64::try_from(result) else { return };
        match call.sys {
            Sys::Munmap => self.forget(&pages(addr, len)),
            Sys::Mmap => {
                let range = pages(result, len);
                self.forget(&range);
                if !has(flags as u32, MapFlags::ANONYMOUS) {
                    let granted = Prot::from_bits_truncate(third as u32);
                    let origin = offset.wrapping_sub(result);
                    let is_shared =
                        MapFlags::from_bits_retain(flags as u32) & MapFlags::TYPE != MapFlags::PRIVATE;
                    let number = files.of_call(call);
                    self.files.put(range, File { origin, is_shared, granted, number });
                }
            }
            Sys::Mprotect | Sys::PkeyMprotect => {
                let given = Prot::from_bits_truncate(third as u32);
                self.files.change(&pages(addr, len), |file| file.granted |= given);
            }
            Sys::Mremap => self.mremap(call, result),
            Sys::Madvise => self.advise(third as i32, pages(addr, len)),
            _ => {}
        }
    }

    fn advise(&mut self, number: i32, range: Range<u64>) {
        match number {
            GUARD_INSTALL => self.guards.put(range, ()),
            GUARD_REMOVE => drop(self.guards.take(&range)),
            advice::WIPEONFORK => self.wiped.put(range, ()),
            advice::KEEPONFORK => drop(self.wiped.take(&range)),
            _ => {}
        }
    }

    /// Whether a guard refuses accesses to the address.
    pub fn is_guarded(&self, addr: u64) -> bool {
        self.guards.at(addr).is_some()
    }

    /// The offset in its file of what is mapped at the address.
    pub fn file_offset(&self, addr: u64) -> Option<u64> {
        self.files.at(addr).map(|(_, file)| file.origin.wrapping_add(addr))
    }

    /// The file that is mapped at the address, where it is one, and what of the addresses around shows it.
    pub fn file_at(&self, addr: u64) -> Option<(Range<u64>, FileNr)> {
        let (range, file) = self.files.at(addr)?;
        file.number.map(|number| (range, number))
    }

    /// The refusal of a call, which returned `result`, by memory of such a kind in its range.
    pub fn refusal(&self, call: &Call, result: i64) -> Option<Refusal> {
        let [addr, len, third, ..] = call.args;
        let range = pages(addr, len);
        match call.sys {
            _ if !addr.is_multiple_of(4096) || range.end < addr.saturating_add(len) => None,
            Sys::PkeyMprotect if result != EACCES => None,
            Sys::Mprotect | Sys::PkeyMprotect => self.refusal_of_rights(third as u32, &range, result),
            Sys::Madvise => self.refusal_of_advice(third as i32, &range, result),
            Sys::Munmap => self.cut(&range, result).map(|refusal| Refusal { at: addr, ..refusal }),
            _ => None,
        }
    }

    fn refusal_of_rights(&self, prot: u32, range: &Range<u64>, result: i64) -> Option<Refusal> {
        let asked = Prot::from_bits_retain(prot) & (Prot::READ | Prot::WRITE | Prot::EXEC);
        let known = Prot::READ | Prot::WRITE | Prot::EXEC | Prot::SEM;
        if !known.contains(Prot::from_bits_retain(prot)) {
            return None;
        }
        let is_refused = |file: &File| {
            // Private pages of a file may be written however it was opened.
            let limited = if file.is_shared { asked } else { asked & Prot::EXEC };
            result == EACCES && !file.granted.contains(limited)
        };
        let special = self.special.parts(range).find(|(_, special)| !special.may.contains(asked));
        let file = self.files.parts(range).find(|(_, file)| is_refused(file));
        let starts = [special.map(|(part, _)| part.start), file.map(|(part, _)| part.start)];
        let first = starts.into_iter().flatten().min().map(|at| Refusal { at, error: EACCES });
        first.or_else(|| self.cut(range, result))
    }

    fn refusal_of_advice(&self, number: i32, range: &Range<u64>, result: i64) -> Option<Refusal> {
        let invalid = |part: Range<u64>| Refusal { at: part.start, error: EINVAL };
        let special = |is_meant: fn(&Special) -> bool| {
            let found = self.special.parts(range).find(|(_, special)| is_meant(special));
            found.map(|(part, _)| invalid(part))
        };
        let of_frames = || special(|special| special.is_of_frames);
        // Private memory of /dev/zero takes MADV_FREE.
        let file =
            || self.files.parts(range).next().filter(|_| result == EINVAL).map(|(part, _)| invalid(part));
        let found = match number {
            advice::DONTNEED | advice::DONTNEED_LOCKED | advice::COLD | PAGEOUT => [of_frames(), None],
            advice::DOFORK | advice::DODUMP => [special(|_| true), None],
            advice::FREE => [special(|_| true), file()],
            advice::WIPEONFORK => [None, file()],
            advice::POPULATE_READ | advice::POPULATE_WRITE => {
                let guard = self.guards.parts(range).next();
                let error = Errno::EFAULT.as_return_value();
                [of_frames(), guard.map(|(part, ())| Refusal { at: part.start, error })]
            }
            _ => [None, None],
        };
        found.into_iter().flatten().min_by_key(|refusal| refusal.at)
    }

    /// EINVAL where the range ends inside a mapping of the kernel's.
    fn cut(&self, range: &Range<u64>, result: i64) -> Option<Refusal> {
        let whole = |at: u64| self.special.at(at).map(|(whole, _)| whole);
        let is_cut = |whole: &Range<u64>| whole.start < range.start || whole.end > range.end;
        let ends = [whole(range.start), whole(range.end.saturating_sub(1))];
        let cut = ends.into_iter().flatten().find(|whole| result == EINVAL && is_cut(whole))?;
        Some(Refusal { at: cut.start.max(range.start), error: EINVAL })
    }

    fn mremap(&mut self, call: &Call, to: u64) {
        let [from, old_len, new_len, flags, ..] = call.args;
        let (old, new) = (pages(from, old_len), pages(to, new_len));
        let delta = to.wrapping_sub(from);
        let kept = old.start..old.end.min(old.start.saturating_add(new.end - new.start));
        let file = self.files.at(from).map(|(_, file)| *file);
        let files = self.files.parts(&old).map(|(range, file)| (range, *file)).collect::<Vec<_>>();
        let guards: Vec<_> = self.guards.parts(&kept).map(|(range, ())| range).collect();
        let special: Vec<_> = self.special.parts(&kept).map(|(range, it)| (range, *it)).collect();
        self.forget(&old);
        self.forget(&new);
        if flags & MREMAP_DONTUNMAP != 0 && to != from {
            files.into_iter().for_each(|(range, file)| self.files.put(range, file));
        }
        if let Some(file) = file {
            self.files.put(new, File { origin: file.origin.wrapping_sub(delta), ..file });
        }
        let moved = |range: Range<u64>| range.start.wrapping_add(delta)..range.end.wrapping_add(delta);
        guards.into_iter().for_each(|range| self.guards.put(moved(range), ()));
        special.into_iter().for_each(|(range, special)| self.special.put(moved(range), special));
    }

    fn forget(&mut self, range: &Range<u64>) {
        self.files.take(range);
        self.special.take(range);
        self.guards.take(range);
        self.wiped.take(range);
    }
}

/// What the kernel maps into each program, by Linux's word for it: VM_IO, VM_PFNMAP, VM_DONTEXPAND.
fn special(mapping: &Mapping) -> Option<Special> {
    let says = |word: &str| mapping.flags.split(' ').any(|flag| flag == word);
    let is_of_frames = says("io") || says("pf");
    let may = [("mr", Prot::READ), ("mw", Prot::WRITE), ("me", Prot::EXEC)];
    let may =
        may.into_iter().filter(|(word, _)| says(word)).fold(Prot::empty(), |all, (_, right)| all | right);
    (is_of_frames || says("de")).then_some(Special { may, is_of_frames })
}

fn rights_of(mapping: &Mapping) -> Prot {
    let mut rights = Prot::empty();
    rights.set(Prot::READ, mapping.is_readable());
    rights.set(Prot::WRITE, mapping.is_writable());
    rights.set(Prot::EXEC, mapping.is_executable());
    rights
}
