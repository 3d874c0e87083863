//! What the tests share: a space, dice, and memory of it touched from kernel threads, where every access
//! faults for real.

use crate::arch::space;
use crate::arch::spaces::SpaceHandle;
use crate::arch::user::{self, BadAddress};
use crate::memory;
use crate::task::program;
use interleaf::space::{AddressSpace, Advice, Layout, MapRequest};
use interleaf::table::format::X86_64;
use interleaf::units::{PAGE_SIZE, PageSize, VirtAddr};
use interleaf::vma::{FlagAdvice, HugePolicy};
use interleaf_kernel::core::options::Options;

/// A seed's sequence of numbers: xorshift.
pub struct Dice(u64);

impl Dice {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// Runs `test` in a fresh space, ends the space, and looks whether every frame came back and the index of
/// mappings is sound.
pub fn with_space(options: &Options<'_>, test: impl FnOnce(&SpaceHandle) -> bool) -> bool {
    let before = program::frames_in_use();
    let passed = in_fresh_space(options, |space| test(space) && is_sound(space));
    passed && program::is_conserved(before)
}

/// Runs `test` with a fresh space, and ends the space.
pub fn in_fresh_space(options: &Options<'_>, test: impl FnOnce(&SpaceHandle) -> bool) -> bool {
    fresh_space(options).is_some_and(|space| test(&space))
}

/// A fresh space, which ends with its last handle.
pub fn fresh_space(options: &Options<'_>) -> Option<SpaceHandle> {
    let space = AddressSpace::new(memory::vm(), Layout::linux::<X86_64>(), options.path);
    let space = space.and_then(|space| memory::spaces().insert(space));
    space.inspect_err(|why| _ = fail(format_args!("there is no space: {why}"))).ok()
}

fn is_sound(space: &SpaceHandle) -> bool {
    match space.inspect().check_index() {
        Ok(_) => true,
        Err(why) => fail(format_args!("the index of mappings is unsound: {why}")),
    }
}

/// Prints what is wrong, and returns that the test failed.
pub fn fail(what: core::fmt::Arguments<'_>) -> bool {
    crate::println!("WRONG: {what}");
    false
}

/// Maps `pages` pages anywhere.
pub fn map(space: &SpaceHandle, pages: u64) -> VirtAddr {
    let request = MapRequest::anonymous(pages * PAGE_SIZE as u64);
    space.map(&request).expect("there is room for a few pages")
}

/// Base pages of a huge one.
pub const HUGE_PAGES: u64 = PageSize::Huge.pages();

/// Whether the policy that the machine was booted with gives [`region`]s huge pages.
pub fn wants_huge(options: &Options<'_>) -> bool {
    options.huge.is_ever()
}

/// Maps memory with room for so many huge pages, the first of which begins at the address that is returned;
/// advised to be huge, unless the policy needs no advice.
pub fn region(space: &SpaceHandle, options: &Options<'_>, huge_pages: u64) -> VirtAddr {
    let bytes = (huge_pages + 1) * PageSize::Huge.bytes();
    let at = space.map(&MapRequest::anonymous(bytes)).expect("there is room for some huge pages");
    if options.huge != HugePolicy::Always {
        let advised = space.advise(at, bytes, Advice::Flag(FlagAdvice::HugePage));
        advised.expect("it is mapped");
    }
    VirtAddr(at.0.next_multiple_of(PageSize::Huge.bytes()))
}

/// Whether the loaded tables map the address by a huge leaf, and whether that allows stores. `None` where it
/// is mapped otherwise, or not at all.
pub fn is_mapped_huge(at: VirtAddr) -> Option<bool> {
    const PRESENT: u64 = 1;
    const WRITABLE: u64 = 1 << 1;
    const LEAF: u64 = 1 << 7;
    let mut found = None;
    space::walk(at, |level, word| {
        let is_leaf = level == 1 && word & (PRESENT | LEAF) == PRESENT | LEAF;
        found = found.or(is_leaf.then_some(word & WRITABLE != 0));
    });
    found
}

/// The word at an address.
pub fn load(at: VirtAddr) -> Result<u64, BadAddress> {
    let mut bytes = [0; 8];
    user::read(at, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Stores a word.
pub fn store(at: VirtAddr, word: u64) -> Result<(), BadAddress> {
    user::write(at, &word.to_le_bytes())
}

/// The address of a page behind another.
pub fn page(base: VirtAddr, n: u64) -> VirtAddr {
    VirtAddr(base.0 + n * PAGE_SIZE as u64)
}
