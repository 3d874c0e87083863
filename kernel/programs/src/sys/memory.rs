//! Memory outside of Rust's: mapped, touched by single instructions, unmapped.

use super::{EAGAIN, Errno, call, nr};
use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Rights of pages: Linux's PROT bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(usize);

impl Rights {
    /// Nothing.
    pub const NONE: Rights = Rights(0);
    /// Reading.
    pub const READ: Rights = Rights(1);
    /// Reading and writing.
    pub const WRITE: Rights = Rights(3);
    /// Reading and executing.
    pub const EXECUTE: Rights = Rights(5);

    pub(super) const fn bits(self) -> usize {
        self.0
    }
}

/// MAP_PRIVATE | MAP_ANONYMOUS, and MAP_FIXED.
const PRIVATE: usize = 0x22;
/// MAP_SHARED | MAP_ANONYMOUS.
const SHARED: usize = 0x21;
const FIXED: usize = 0x10;
/// MAP_HUGETLB and MAP_NORESERVE.
const HUGETLB: usize = 0x40000;
const NORESERVE: usize = 0x4000;
const DONTNEED: usize = 4;
/// MREMAP_MAYMOVE.
pub const MAY_MOVE: usize = 1;
/// MREMAP_FIXED and MREMAP_MAYMOVE.
pub const MOVE_TO: usize = 3;
/// MREMAP_DONTUNMAP and MREMAP_MAYMOVE.
pub const LEAVE: usize = 5;
/// MADV_HUGEPAGE.
pub const HUGEPAGE: usize = 14;
/// MADV_NOHUGEPAGE.
pub const NOHUGEPAGE: usize = 15;
/// FUTEX_WAIT, private.
pub(super) const FUTEX_WAIT: usize = 128;

/// Pages that were mapped once. They may have been unmapped, protected or replaced since: then touching them
/// faults, which the programs test. Copies are the same pages.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    start: usize,
    pages: usize,
}

impl Region {
    /// Maps `pages` pages of private anonymous memory, at an address of the kernel's choice.
    pub fn map(pages: usize, rights: Rights) -> Result<Region, Errno> {
        // SAFETY: without MAP_FIXED nothing that is mapped is replaced.
        let start = unsafe { call(nr::MMAP, [0, pages * PAGE, rights.0, PRIVATE, usize::MAX, 0]) }?;
        Ok(Region { start, pages })
    }

    /// As [`map`](Self::map), of memory that is not committed: it may be more than the machine has.
    pub fn map_uncommitted(pages: usize, rights: Rights) -> Result<Region, Errno> {
        let flags = PRIVATE | NORESERVE;
        // SAFETY: without MAP_FIXED nothing that is mapped is replaced.
        let start = unsafe { call(nr::MMAP, [0, pages * PAGE, rights.0, flags, usize::MAX, 0]) }?;
        Ok(Region { start, pages })
    }

    /// As [`map`](Self::map), of memory that children share.
    pub fn map_shared(pages: usize, rights: Rights) -> Result<Region, Errno> {
        // SAFETY: without MAP_FIXED nothing that is mapped is replaced.
        let start = unsafe { call(nr::MMAP, [0, pages * PAGE, rights.0, SHARED, usize::MAX, 0]) }?;
        Ok(Region { start, pages })
    }

    /// Maps `pages` base pages of huge pages of the hugetlb pool, which are set aside if `is_reserved`;
    /// children share them if `is_shared`.
    pub fn map_huge_pool(pages: usize, is_shared: bool, is_reserved: bool) -> Result<Region, Errno> {
        let kind = if is_shared { SHARED } else { PRIVATE };
        let flags = kind | HUGETLB | if is_reserved { 0 } else { NORESERVE };
        // SAFETY: without MAP_FIXED nothing that is mapped is replaced.
        let start = unsafe { call(nr::MMAP, [0, pages * PAGE, Rights::WRITE.0, flags, usize::MAX, 0]) }?;
        Ok(Region { start, pages })
    }

    /// A part of it.
    pub fn part(&self, first: usize, pages: usize) -> Region {
        assert!(first + pages <= self.pages);
        Region { start: self.start + first * PAGE, pages }
    }

    /// Its first address.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Number of its pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Maps new pages over all of it.
    pub fn replace(&self, rights: Rights) -> Result<(), Errno> {
        let flags = PRIVATE | FIXED;
        // SAFETY: only the region is replaced, which is not Rust's memory (see the module's parent).
        let at = unsafe { call(nr::MMAP, [self.start, self.bytes(), rights.0, flags, usize::MAX, 0]) }?;
        assert_eq!(at, self.start);
        Ok(())
    }

    /// Unmaps all of it.
    pub fn unmap(&self) -> Result<(), Errno> {
        // SAFETY: the region is not Rust's memory.
        unsafe { call(nr::MUNMAP, [self.start, self.bytes(), 0, 0, 0, 0]) }.map(drop)
    }

    /// Gives all of it another length, and may move it: Linux's mremap, with its flags and the place that
    /// those may want. The answer are the same pages.
    ///
    /// `place` must have no page of Rust's memory.
    pub fn remap(&self, pages: usize, flags: usize, place: usize) -> Result<Region, Errno> {
        let words = [self.start, self.bytes(), pages * PAGE, flags, place, 0];
        // SAFETY: the region is not Rust's memory, nor what is at the place.
        let start = unsafe { call(nr::MREMAP, words) }?;
        Ok(Region { start, pages })
    }

    /// Changes the rights of all of it.
    pub fn protect(&self, rights: Rights) -> Result<(), Errno> {
        // SAFETY: the region is not Rust's memory.
        unsafe { call(nr::MPROTECT, [self.start, self.bytes(), rights.0, 0, 0, 0]) }.map(drop)
    }

    /// Drops what its pages hold: they read zero again.
    pub fn dont_need(&self) -> Result<(), Errno> {
        // SAFETY: the region is not Rust's memory.
        unsafe { call(nr::MADVISE, [self.start, self.bytes(), DONTNEED, 0, 0, 0]) }.map(drop)
    }

    /// Gives advice about all of it, by a number of Linux's that changes no contents.
    pub fn advise(&self, advice: usize) -> Result<(), Errno> {
        // SAFETY: the region is not Rust's memory.
        unsafe { call(nr::MADVISE, [self.start, self.bytes(), advice, 0, 0, 0]) }.map(drop)
    }

    /// Sets the policy of all of it: a mode, the nodes that it names, and flags, as Linux has them. The
    /// kernel gets `bits` bits of the mask.
    pub fn bind(&self, mode: usize, nodes: &[u64; 16], bits: usize, flags: usize) -> Result<(), Errno> {
        assert!(bits <= 64 * nodes.len());
        let (mask, max_node) = (nodes.as_ptr() as usize, bits + 1);
        // SAFETY: the kernel reads `bits` bits of the array. The region is not Rust's memory.
        unsafe { call(nr::MBIND, [self.start, self.bytes(), mode, mask, max_node, flags]) }.map(drop)
    }

    /// Asks which of its pages are resident; the kernel writes a byte for each to the start of `answer`.
    pub fn resident(&self, answer: &Region) -> Result<(), Errno> {
        assert!(self.pages <= answer.bytes());
        // SAFETY: the kernel writes into `answer`, which is not Rust's memory.
        unsafe { call(nr::MINCORE, [self.start, self.bytes(), answer.start, 0, 0, 0]) }.map(drop)
    }

    /// Has the kernel read its first 4 bytes, as a futex that does not hold `other`: `Ok` if it could and
    /// they differ.
    pub fn read_by_kernel(&self, other: u32) -> Result<(), Errno> {
        // SAFETY: the kernel only reads. (A wait that is not refused would end by a wake-up, and there is
        // none.)
        match unsafe { call(nr::FUTEX, [self.start, FUTEX_WAIT, other as usize, 0, 0, 0]) } {
            Err(EAGAIN) | Ok(_) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Reads word `word` (of 8 bytes) of page `page`.
    #[inline(always)]
    pub fn read(&self, page: usize, word: usize) -> u64 {
        let at = self.at(page, word);
        let value;
        // SAFETY: one load of memory that is not Rust's, which may fault.
        unsafe {
            asm!("mov {}, [{}]", out(reg) value, in(reg) at, options(nostack, readonly, preserves_flags))
        };
        value
    }

    /// Writes word `word` of page `page`.
    #[inline(always)]
    pub fn write(&self, page: usize, word: usize, value: u64) {
        let at = self.at(page, word);
        // SAFETY: one store to memory that is not Rust's, which may fault.
        unsafe { asm!("mov [{}], {}", in(reg) at, in(reg) value, options(nostack, preserves_flags)) };
    }

    /// Touches page `page` by a load.
    #[inline(never)]
    pub fn read_page(&self, page: usize) {
        self.read(page, 0);
    }

    /// Touches page `page` by a store.
    #[inline(never)]
    pub fn write_page(&self, page: usize) {
        self.write(page, 0, 1);
    }

    /// Fills `words` words from the start of page `page` on with zeroes, by one step for each, as a kernel
    /// does before it hands a frame out.
    #[inline(never)]
    pub fn zero(&self, page: usize, words: usize) {
        assert!(page < self.pages && words <= (self.pages - page) * (PAGE / 8));
        let at = self.at(page, 0);
        // SAFETY: stores to pages of the region, which is not Rust's memory.
        unsafe {
            asm!("rep stosq", inout("rcx") words => _, inout("rdi") at => _, in("rax") 0, options(nostack));
        }
    }

    /// Copies page `page` onto itself by so many steps of `width` bytes, 1 or 8, as a kernel copies a frame.
    #[inline(never)]
    pub fn copy_to_itself(&self, page: usize, steps: usize, width: usize) {
        assert!(steps * width <= PAGE);
        let at = self.at(page, 0);
        // SAFETY: loads and stores of one page of memory that is not Rust's, each to where it was loaded.
        unsafe {
            if width == 1 {
                asm!("rep movsb", inout("rcx") steps => _, inout("rsi") at => _, inout("rdi") at => _,
                    options(nostack, preserves_flags));
            } else {
                assert!(width == 8);
                asm!("rep movsq", inout("rcx") steps => _, inout("rsi") at => _, inout("rdi") at => _,
                    options(nostack, preserves_flags));
            }
        }
    }

    fn bytes(&self) -> usize {
        self.pages * PAGE
    }

    #[inline(always)]
    fn at(&self, page: usize, word: usize) -> usize {
        assert!(page < self.pages && word < PAGE / 8);
        self.start + page * PAGE + word * 8
    }
}

/// The end of the program's heap; grown or shrunk to `end` if that is not 0. A kernel that refuses returns
/// the old end.
pub fn heap_end(end: usize) -> usize {
    // SAFETY: the programs keep nothing on the heap.
    unsafe { call(nr::BRK, [end, 0, 0, 0, 0, 0]) }.unwrap_or(0)
}

/// A place for a region that threads and handlers find. Relaxed: it is set before they start.
#[derive(Debug)]
pub struct Shared {
    start: AtomicUsize,
    pages: AtomicUsize,
}

impl Shared {
    /// A place that holds no page yet.
    pub const fn new() -> Shared {
        Shared { start: AtomicUsize::new(0), pages: AtomicUsize::new(0) }
    }

    /// Puts a region there.
    pub fn set(&self, region: Region) {
        self.start.store(region.start, Relaxed);
        self.pages.store(region.pages, Relaxed);
    }

    /// The region that was put there last.
    pub fn get(&self) -> Region {
        Region { start: self.start.load(Relaxed), pages: self.pages.load(Relaxed) }
    }
}

impl Default for Shared {
    fn default() -> Shared {
        Shared::new()
    }
}
