//! The setting of an experiment: the part of an address space that calls may touch, and the host's limits.
//!
//! Random calls must not destroy the process that carries them out, and where Linux puts a mapping must not
//! depend on what else that process has. So all of the address space except two *windows* is filled with
//! inaccessible foreign mappings, and a call is admitted only if it stays within a window or is refused
//! before it does anything:
//!
//! ```text
//!  0      1 GiB            2 GiB         16 TiB                        17 TiB          2^47
//!  |######|#[ low window ]##|#############[ main window        [arena] ]################|
//!                                                        heap ^
//! ```
//!
//! The arena, the last pages of the main window, is where most calls go, and where Linux puts what it may
//! place freely.

use super::calls::{Call, HUGE_BYTES, MapFlags, PAGE, advice, number};
use super::huge_rules::HugeSetting;
use interleaf::vma::HugePolicy;
use interleaf_linux_abi::MREMAP_FIXED;
use std::ops::Range;

/// What an experiment may touch, and what bounds it. Addresses are in bytes.
#[derive(Clone, Debug)]
pub struct Setting {
    /// First byte after user space.
    pub task_end: u64,
    /// First byte that may be mapped.
    pub min_addr: u64,
    /// The highest free address that Linux may choose ends here.
    pub mmap_base: u64,
    /// Where it starts when it has to choose upwards.
    pub legacy_base: u64,
    /// Where MAP_32BIT is placed.
    pub low: Range<u64>,
    /// RAM and swap in pages: the largest commit.
    pub memory_pages: u64,
    /// `vm.max_map_count`.
    pub max_mappings: usize,
    /// Mappings outside the windows, which count towards `max_mappings`.
    pub foreign_mappings: usize,
    /// Where the heap starts.
    pub start_brk: u64,
    /// The two windows, upwards.
    pub windows: [Range<u64>; 2],
    /// Which zero pages are resident in a child.
    pub zero_pages: InheritedZeroPages,
    /// What a longer file shows of what was stored beyond its end.
    pub beyond_end: StoredBeyondEnd,
    /// Whether reading the file fills holes with pages: one on a disk, and not in memory.
    pub reads_fill: bool,
    /// Whether a store to private memory that finds no page to copy counts as a first copy for its mapping,
    /// which gets the identity of copies: Linux, and not the library.
    pub failed_copy_counts: bool,
    /// Huge pages.
    pub huge: HugeSetting,
}

/// Which zero pages, of those that a process has read, are resident in its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InheritedZeroPages {
    /// Linux: those of mappings that have an anon identity, whose tables it copies.
    BesideCopies,
    /// The library: those of all private mappings.
    Everywhere,
}

/// What becomes of bytes that a program stored beyond the end of a file, in its last page, as the file
/// becomes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredBeyondEnd {
    /// They are the file's: Linux, of a file in memory.
    Kept,
    /// They are zeros, as POSIX has it: the library, and file systems of Linux.
    Zeroed,
}

/// A tebibyte.
const TIB: u64 = 1 << 40;
/// Pages in the arena.
pub const ARENA_PAGES: u64 = 64;
/// Huge pages that the arena of huge pages has room for.
pub const HUGE_REGIONS: u64 = 3;
/// Largest number of pages that one call may make resident or ask about.
pub const MANY_PAGES: u64 = 512;

impl Default for Setting {
    /// A machine of 16 GiB.
    fn default() -> Self {
        let task_end = (1 << 47) - PAGE;
        Self {
            task_end,
            min_addr: 0x1_0000,
            mmap_base: task_end,
            legacy_base: task_end / 3 / PAGE * PAGE,
            low: 0x4000_0000..0x8000_0000,
            memory_pages: 16 << 30 >> 12,
            max_mappings: 65530,
            foreign_mappings: 0,
            start_brk: 17 * TIB - 40 * PAGE,
            windows: [0x4200_0000..0x4300_0000, 16 * TIB..17 * TIB],
            zero_pages: InheritedZeroPages::BesideCopies,
            beyond_end: StoredBeyondEnd::Kept,
            reads_fill: false,
            failed_copy_counts: true,
            huge: HugeSetting::linux(HugePolicy::Never),
        }
    }
}

impl Setting {
    /// The busiest part of the main window.
    #[must_use]
    pub fn arena(&self) -> Range<u64> {
        self.windows[1].end - ARENA_PAGES * PAGE..self.windows[1].end
    }

    /// The part of the main window in which huge pages are looked for.
    #[must_use]
    pub fn huge_arena(&self) -> Range<u64> {
        let end = self.windows[1].end / HUGE_BYTES * HUGE_BYTES;
        end - HUGE_REGIONS * HUGE_BYTES..end
    }

    /// Where huge leaves can be: the arena, and what Linux places below it.
    #[must_use]
    pub fn huge_window(&self) -> Range<u64> {
        let Range { start, end } = self.huge_arena();
        start - 128 * HUGE_BYTES..end
    }

    /// The ranges whose pages are looked at one by one after a sequence.
    #[must_use]
    pub fn looked_at(&self) -> [Range<u64>; 3] {
        let [low, main] = &self.windows;
        let pages = |start, count| start..start + count * PAGE;
        let near_the_end =
            if self.huge.is_never() { pages(main.end - 256 * PAGE, 256) } else { self.huge_arena() };
        [pages(low.start, 32), pages(main.start, 32), near_the_end]
    }

    /// Whether `call` leaves everything outside the windows alone, whatever is mapped.
    #[must_use]
    pub fn admits(&self, call: &Call) -> bool {
        match *call {
            // Of a file that is open nothing is known, but for the experiment's.
            Call::Words { number, words: [.., flags, _, _] } if number == number::MMAP => {
                let is_anonymous = flags & u64::from(MapFlags::ANONYMOUS.bits()) != 0;
                (is_anonymous || call.maps_file()) && self.admits(&call.plain())
            }
            Call::Words { .. } => self.admits(&call.plain()),
            Call::Mmap { hint, len, flags, .. } => {
                let fixed = flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
                let tame = !flags.contains(MapFlags::POPULATE) || len <= MANY_PAGES * PAGE;
                let beyond = len > self.task_end || hint > self.task_end - len || !hint.is_multiple_of(PAGE);
                tame && (!fixed || beyond || self.within(hint, len) || hint < self.min_addr)
            }
            Call::Munmap { addr, len } => {
                let refused = addr > self.task_end || len > self.task_end - addr;
                refused || self.harmless(addr, len)
            }
            Call::Mremap { addr, old_len, new_len, flags, to } => {
                self.admits_remap([addr, old_len, new_len], flags, to)
            }
            Call::Mprotect { addr, len, .. } | Call::Mbind { addr, len, .. } => self.harmless(addr, len),
            Call::Madvise { addr, len, advice } => {
                let populate = matches!(advice, advice::POPULATE_READ | advice::POPULATE_WRITE);
                self.harmless(addr, len) && (!populate || len <= MANY_PAGES * PAGE || addr >= self.task_end)
            }
            Call::Msync { addr, len, .. } => self.harmless(addr, len),
            Call::File(call) => call.is_small(),
            Call::Brk { .. } => true,
            Call::Mincore { addr, len } => {
                // Whether an empty range outside user space is refused depends on the CPU's tagged addresses.
                let outside = addr.checked_add(len).is_none_or(|end| end > self.task_end);
                (outside && len > 0)
                    || !addr.is_multiple_of(PAGE)
                    || (self.within(addr, len) && len <= MANY_PAGES * PAGE)
            }
            Call::Read { addr } | Call::Write { addr, .. } => addr >= self.task_end || self.within(addr, 1),
        }
    }

    /// Whether an mremap takes pages of a window alone, and puts them there, or nowhere.
    fn admits_remap(&self, [addr, old_len, new_len]: [u64; 3], flags: u64, to: u64) -> bool {
        let whole = |len: u64| len.checked_next_multiple_of(PAGE).unwrap_or(0);
        let (old_len, new_len) = (whole(old_len), whole(new_len));
        let is_odd = !addr.is_multiple_of(PAGE) || addr >= self.task_end || new_len > self.task_end;
        let leaves = old_len > self.task_end || addr > self.task_end - old_len;
        let from = is_odd || self.within(addr, if leaves { 0 } else { old_len });
        let is_beyond = new_len > self.task_end || to > self.task_end - new_len;
        let is_low = to < self.min_addr && new_len <= self.min_addr - to;
        let goes = is_beyond || !to.is_multiple_of(PAGE) || self.within(to, new_len) || is_low;
        from && (is_odd || flags & MREMAP_FIXED == 0 || goes)
    }

    /// Whether a call on `[addr, addr + len)` stays in a window or is refused for its arguments alone.
    fn harmless(&self, addr: u64, len: u64) -> bool {
        let wraps = len.checked_next_multiple_of(PAGE).and_then(|len| addr.checked_add(len)).is_none();
        wraps || !addr.is_multiple_of(PAGE) || addr >= self.task_end || self.within(addr, len)
    }

    /// Whether `[addr, addr + len)`, in whole pages, lies in one window.
    fn within(&self, addr: u64, len: u64) -> bool {
        self.windows.iter().any(|window| {
            window.contains(&addr) && len <= window.end - addr && window.end.is_multiple_of(PAGE)
        })
    }
}
