//! Pages that may be executed: they hold the instruction that returns, in every byte and for good.
//!
//! They are statics of this module, so no [`Region`](super::Region) contains one, and what is written to them
//! here is what they hold. So to execute one returns, whatever any thread or handler does meanwhile, or
//! faults on the fetch.

use super::{Errno, PAGE, Rights, call, nr};
use core::arch::asm;
use core::sync::atomic::AtomicU8;

/// The instruction `ret`.
const RET: u8 = 0xc3;
/// Number of the pages.
const COUNT: usize = 16;

#[repr(C, align(4096))]
struct Pages([[AtomicU8; PAGE]; COUNT]);

static PAGES: Pages = Pages([const { [const { AtomicU8::new(RET) }; PAGE] }; COUNT]);

/// A page of `ret`s. It may be written, which changes nothing, until its rights are changed.
#[derive(Clone, Copy, Debug)]
pub struct CodePage(usize);

impl CodePage {
    /// One of them for each number below 16, and so on again.
    pub fn nth(number: usize) -> CodePage {
        CodePage((&raw const PAGES.0[number % COUNT]).addr())
    }

    /// The page that the address lies in.
    pub fn at(address: usize) -> Option<CodePage> {
        (0..COUNT).map(CodePage::nth).find(|page| (page.0..page.0 + PAGE).contains(&address))
    }

    /// Its first address.
    pub fn start(&self) -> usize {
        self.0
    }

    /// Changes its rights.
    pub fn protect(&self, rights: Rights) -> Result<(), Errno> {
        // SAFETY: only this module reaches the page, and only by single instructions.
        unsafe { call(nr::MPROTECT, [self.0, PAGE, rights.bits(), 0, 0, 0]) }.map(drop)
    }

    /// Writes what it holds to word `word` (of 8 bytes).
    pub fn write(&self, word: usize) {
        assert!(word < PAGE / 8);
        let at = self.0 + word * 8;
        // SAFETY: one store to the page, of the bytes that are there, which may fault.
        unsafe {
            asm!("mov [{}], {}", in(reg) at, in(reg) u64::from_ne_bytes([RET; 8]),
                options(nostack, preserves_flags));
        }
    }

    /// Executes its first byte.
    pub fn execute(&self) {
        // SAFETY: every byte is `ret`; the fetch may fault.
        unsafe { asm!("call {}", in(reg) self.0, clobber_abi("C")) };
    }
}
