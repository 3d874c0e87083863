//! The kernel's half of every address space.
//!
//! ```text
//!   0000_0000_0000_0000   nothing: a null pointer faults
//!   0000_0000_0001_0000   programs (the library's spaces)
//!   0000_7fff_ffff_f000   end of programs
//!   ffff_8000_0000_0000   the direct map: RAM alone, in the largest pages, without the image
//!   ffff_c000_0000_0000   this CPU's interrupt controller, one page
//!   ffff_d000_0000_0000   stacks of threads, each 32 KiB above an unmapped page
//!   ffff_ffff_8010_0000   the image: text r-x, rodata r--, data and bss rw-; guard pages left out
//! ```
//!
//! Each part has one slot of the root, which never changes after boot. So a space's root
//! gets the kernel's half by four stores when it is loaded.

use super::registers;
use super::segments;
use core::arch::asm;
use core::num::NonZero;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use interleaf::units::{PAGE_SIZE, Pfn, PhysAddr, VirtAddr};

/// The direct map: RAM at its physical addresses plus this offset.
pub const DIRECT_MAP: usize = 0xffff_8000_0000_0000;
/// Bytes that the direct map has room for: one slot of the root.
pub const DIRECT_BYTES: u64 = 1 << 39;
/// The local interrupt controller. Its memory type is uncached by the MTRRs, whatever the entry says.
pub const APIC_PAGE: usize = 0xffff_c000_0000_0000;
/// Where the controller is after reset.
pub const APIC_FRAME: PhysAddr = PhysAddr(0xfee0_0000);
/// Stacks of threads.
pub const STACKS: usize = 0xffff_d000_0000_0000;
/// Where the image is linked, less where it is loaded.
const IMAGE_BASE: usize = 0xffff_ffff_8000_0000;
/// The slots of a root that are the kernel's and in use.
const KERNEL_SLOTS: [usize; 4] = [256, 384, 416, 511];

/// The root of the kernel's own tables, as a physical address; 0 before there are any. Written once, at boot.
static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    static __boot_start: u8;
    static __text_start: u8;
    static __rodata_start: u8;
    static __data_start: u8;
    static __image_end: u8;
    static boot_direct: u8;
}

/// A stack above a page that is never mapped, in the image. Its bytes change without a word of Rust's.
#[repr(C, align(4096))]
pub struct GuardedStack<const BYTES: usize> {
    guard: [AtomicU8; PAGE_SIZE],
    stack: [AtomicU8; BYTES],
}

impl<const BYTES: usize> GuardedStack<BYTES> {
    pub const fn new() -> Self {
        Self { guard: [const { AtomicU8::new(0) }; PAGE_SIZE], stack: [const { AtomicU8::new(0) }; BYTES] }
    }

    /// The address of the guard page.
    pub fn guard(&self) -> usize {
        (&raw const self.guard).addr()
    }

    /// The first address above the stack.
    pub fn top(&self) -> usize {
        (&raw const self.stack).addr() + BYTES
    }
}

/// Bytes of the stack that the boot CPU starts on.
const BOOT_STACK_BYTES: usize = 64 << 10;

/// The stack of the thread that boots. `boot.s` finds it by its name.
#[unsafe(no_mangle)]
static BOOT_STACK: GuardedStack<BOOT_STACK_BYTES> = GuardedStack::new();

/// The boot thread's stack.
pub fn boot_stack() -> Range<usize> {
    BOOT_STACK.top() - BOOT_STACK_BYTES..BOOT_STACK.top()
}

/// Parts of the image by their rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImagePart {
    Text,
    Constants,
    Data,
}

/// Stores into a guard page, as a full stack does: the machine ends.
pub fn fill_a_stack() {
    BOOT_STACK.guard[PAGE_SIZE - 1].store(0, Relaxed);
}

/// The parts of the image and their pages.
pub fn image_parts() -> [(ImagePart, Range<usize>); 3] {
    let (text, constants) = ((&raw const __text_start).addr(), (&raw const __rodata_start).addr());
    let (data, end) = ((&raw const __data_start).addr(), (&raw const __image_end).addr());
    [
        (ImagePart::Text, text..constants),
        (ImagePart::Constants, constants..data),
        (ImagePart::Data, data..end),
    ]
}

/// Where an address of the image was loaded.
pub fn image_frame(at: usize) -> Pfn {
    PhysAddr((at - IMAGE_BASE) as u64).pfn()
}

/// The physical memory of boot code and image.
pub fn image_memory() -> Range<u64> {
    (&raw const __boot_start).addr() as u64..((&raw const __image_end).addr() - IMAGE_BASE) as u64
}

/// Whether the page of the image is a guard, to be left out.
pub fn is_guard(page: usize) -> bool {
    page == BOOT_STACK.guard() || segments::is_guard(page)
}

/// The address of the byte at `at` in the direct map. Any address may be passed; only RAM is mapped there.
#[inline(always)]
pub fn window(at: PhysAddr) -> NonNull<u8> {
    const BASE: NonZero<usize> = NonZero::new(DIRECT_MAP).expect("the direct map is in the upper half");
    NonNull::with_exposed_provenance(BASE | at.0 as usize)
}

/// Bytes of physical memory, as the loader and the firmware left them.
///
/// # Safety
/// The range is mapped, and is not written as long as the machine runs.
pub unsafe fn firmware_bytes(at: PhysAddr, len: usize) -> &'static [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(window(at).as_ptr(), len) }
}

/// Before the kernel's own tables: the direct map of the boot tables reaches up to 4 GiB. Extends it to
/// `end`, if the CPU has pages of 1 GiB. Returns where it ends then.
pub fn extend_boot_map(end: u64) -> u64 {
    if end <= BOOT_LIMIT || !registers::Features::of_this_cpu().giant_pages {
        return BOOT_LIMIT;
    }
    let end = end.min(DIRECT_BYTES).next_multiple_of(1 << 30);
    for (slot, address) in (BOOT_LIMIT..end).step_by(1 << 30).enumerate() {
        // A slot that was absent becomes present, which needs no flush.
        boot_table()[4 + slot].store(address | 0x83, Relaxed);
    }
    REACH.fetch_max(end, Relaxed);
    end
}

/// The end of the physical memory that the boot tables map.
pub(super) fn reach() -> u64 {
    REACH.load(Relaxed)
}

/// What the boot tables map at first.
const BOOT_LIMIT: u64 = 4 << 30;
static REACH: AtomicU64 = AtomicU64::new(BOOT_LIMIT);

/// The table of the direct map in the boot tables. They lie in the boot part, which is linked where it is
/// loaded: seen through the direct map.
fn boot_table() -> &'static [AtomicU64; 512] {
    let table = window(PhysAddr((&raw const boot_direct).addr() as u64)).cast();
    // SAFETY: `boot.s` has 512 aligned words there, which Rust reaches here alone, and as atomic words. The
    // boot part stays mapped, and `Loader::boot_map` keeps it from the library.
    unsafe { table.as_ref() }
}

/// Translates through the kernel's own tables from now on.
///
/// # Safety
/// The tables map image, stacks and direct map as this module's drawing says, and do so for good.
pub(super) unsafe fn adopt(root: Pfn) {
    let here = (&raw const KERNEL_ROOT).addr();
    KERNEL_ROOT.store(root.addr().0, Relaxed);
    // A table that lacks even this word cannot be the one.
    let mut deepest = 0;
    walk_from(root, VirtAddr(here as u64), |_, word| deepest = word);
    assert_eq!(PhysAddr(deepest & FRAME).pfn(), image_frame(here), "the new tables do not map the kernel");
    // SAFETY: by the caller's promise they map the kernel where the boot tables do.
    unsafe { registers::set_root(root) };
}

/// The bits of an entry that name a frame.
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// The root of the kernel's own tables.
pub fn kernel_root() -> Pfn {
    PhysAddr(KERNEL_ROOT.load(Relaxed)).pfn()
}

/// Loads `root`, with the kernel's half in it.
///
/// # Safety
/// The root is a table of the library that stays one as long as it is loaded here; its user half maps frames
/// for programs alone.
pub unsafe fn load(root: Option<Pfn>) {
    let kernel = kernel_root();
    let root = root.unwrap_or(kernel);
    if root != kernel {
        for slot in KERNEL_SLOTS {
            // SAFETY: the kernel's root stays a table for good.
            let word = unsafe { word_of(kernel, slot) }.load(Relaxed);
            // SAFETY: the caller's promise for this root.
            let own = unsafe { word_of(root, slot) };
            if own.load(Relaxed) != word {
                own.store(word, Relaxed);
            }
        }
    }
    // SAFETY: the root has the kernel's half, as just copied; the kernel's code does not depend on the other
    // half.
    unsafe { registers::set_root(root) };
}

/// A word of a table, which other CPUs may read and write.
///
/// # Safety
/// The frame is a table's as long as the result is used; `slot` is below 512.
unsafe fn word_of<'t>(table: Pfn, slot: usize) -> &'t AtomicU64 {
    debug_assert!(slot < 512);
    let word = window(PhysAddr(table.addr().0 + 8 * slot as u64)).cast::<AtomicU64>();
    // SAFETY: by the caller's promise it lies in a table: in RAM, seen through the window, aligned, and
    // reached as atomic words only.
    unsafe { word.as_ref() }
}

/// Whether the kernel's tables map each page of the range.
pub fn is_mapped(range: Range<usize>) -> bool {
    let mut words = [0; 4];
    range.step_by(PAGE_SIZE).all(|at| {
        walk_from(kernel_root(), VirtAddr(at as u64), |level, word| words[level] = word);
        let is_leaf = |level: usize| words[level] & 1 == 1 && (level == 0 || words[level] & 0x80 != 0);
        let found = (0..3).any(is_leaf);
        words = [0; 4];
        found
    })
}

/// The entries of the loaded tables for an address, level by level: for reports.
pub fn walk(at: VirtAddr, tell: impl FnMut(usize, u64)) {
    walk_from(registers::root(), at, tell);
}

fn walk_from(root: Pfn, at: VirtAddr, mut tell: impl FnMut(usize, u64)) {
    let mut table = root;
    for level in (0..4).rev() {
        let slot = at.0 >> (12 + 9 * level) & 511;
        let word = peek(PhysAddr(table.addr().0 + 8 * slot));
        tell(level as usize, word);
        if word & 1 == 0 || word & 0x80 != 0 {
            return;
        }
        table = PhysAddr(word & FRAME).pfn();
        if table.addr().0 >= DIRECT_BYTES {
            return;
        }
    }
}

/// A word of RAM, whatever it is used for.
fn peek(at: PhysAddr) -> u64 {
    let word;
    // SAFETY: one load from the direct map, which maps RAM alone: it changes nothing, or faults, which ends
    // the machine. The compiler knows nothing of it, so it races with no access of Rust's.
    unsafe {
        asm!("mov {}, [{}]", out(reg) word, in(reg) window(at).as_ptr(),
             options(nostack, preserves_flags, readonly));
    }
    word
}
