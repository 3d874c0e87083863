//! The stack that a program starts on: arguments, no environment, and Linux's auxiliary vector.
//!
//! ```text
//!   top      strings: argv[0] argv[1] ...   16 bytes that pass for random
//!            auxv: (AT_PHDR, ..) (AT_PHNUM, ..) ... (AT_NULL, 0)
//!            0                              end of the environment
//!            0                              end of argv
//!            argv[n - 1] ... argv[0]
//!   start    argc                           aligned to 16, where rsp points
//! ```
//! Source: System V ABI, AMD64 supplement, section 3.4.1.

use super::options::Argument;
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf_linux_abi::elf::Program;

/// Most bytes of the image of a stack.
pub const MAX_BYTES: usize = 2048;
/// Most arguments.
pub const MAX_ARGUMENTS: usize = 32;

const AT_NULL: u64 = 0;
const AT_PHDR: u64 = 3;
const AT_PHENT: u64 = 4;
const AT_PHNUM: u64 = 5;
const AT_PAGESZ: u64 = 6;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_SECURE: u64 = 23;
const AT_RANDOM: u64 = 25;

/// The bytes at the top of a stack.
#[derive(Debug)]
pub struct StackImage {
    bytes: [u8; MAX_BYTES],
    /// Bytes from here on are used.
    start: usize,
    top: VirtAddr,
}

/// The arguments do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl StackImage {
    /// The stack of `program`, which ends at `top`, a multiple of 16.
    ///
    /// # Errors
    /// Where the arguments are too many or too long.
    pub fn new<'a>(
        program: &Program<'_>,
        argv: impl Iterator<Item = Argument<'a>>,
        top: VirtAddr,
    ) -> Result<Self, TooLong> {
        let mut image = Self { bytes: [0; MAX_BYTES], start: MAX_BYTES, top };
        let mut at = [0; MAX_ARGUMENTS];
        let mut argc = 0;
        for argument in argv {
            *at.get_mut(argc).ok_or(TooLong)? = image.push_argument(argument)?;
            argc += 1;
        }
        let random = image.push(&0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835u128.to_le_bytes())?;
        image.start &= !15;
        let auxv = [
            (AT_PHDR, program.headers_at.0),
            (AT_PHENT, 56),
            (AT_PHNUM, program.nr_headers.into()),
            (AT_PAGESZ, PAGE_SIZE as u64),
            // No interpreter was loaded, wherever the program lies.
            (AT_BASE, 0),
            (AT_ENTRY, program.entry.0),
            (AT_SECURE, 0),
            (AT_RANDOM, random),
            (AT_NULL, 0),
        ];
        // argc, argv, two ends and an even number of words in auxv: an odd argc keeps the start aligned.
        if argc % 2 == 0 {
            image.push_word(0)?;
        }
        for (key, value) in auxv.into_iter().rev() {
            image.push_word(value)?;
            image.push_word(key)?;
        }
        image.push_word(0)?;
        image.push_word(0)?;
        at[..argc].iter().rev().try_for_each(|&at| image.push_word(at).map(drop))?;
        image.push_word(argc as u64)?;
        debug_assert!(image.start_addr().0.is_multiple_of(16));
        Ok(image)
    }

    /// Where the stack pointer starts, and the bytes from there to the top.
    pub fn start_addr(&self) -> VirtAddr {
        VirtAddr(self.top.0 - (MAX_BYTES - self.start) as u64)
    }

    /// The bytes from the start to the top.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn push_argument(&mut self, argument: Argument<'_>) -> Result<u64, TooLong> {
        self.push(&[0])?;
        argument.bytes_backwards().try_for_each(|byte| self.push(&[byte]).map(drop))?;
        Ok(self.start_addr().0)
    }

    fn push_word(&mut self, word: u64) -> Result<u64, TooLong> {
        self.push(&word.to_le_bytes())
    }

    fn push(&mut self, bytes: &[u8]) -> Result<u64, TooLong> {
        self.start = self.start.checked_sub(bytes.len()).ok_or(TooLong)?;
        self.bytes[self.start..self.start + bytes.len()].copy_from_slice(bytes);
        Ok(self.start_addr().0)
    }
}

#[cfg(test)]
#[path = "tests/stack.rs"]
mod tests;
