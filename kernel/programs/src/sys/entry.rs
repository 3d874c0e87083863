//! The entry of a program, and its arguments.

use core::ffi::{CStr, c_char};
#[cfg(metal)]
use core::panic::PanicInfo;

/// The words of the command line, the program's name first.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    words: &'static [*const c_char],
}

impl Args {
    /// The word at `index`, if it is there and is text.
    pub fn word(&self, index: usize) -> Option<&'static str> {
        // SAFETY: the System V ABI puts terminated strings there, which live and stay as they are as long as
        // the program.
        unsafe { CStr::from_ptr(*self.words.get(index)?) }.to_str().ok()
    }

    /// The number at `index`, or `default` where there is no word.
    pub fn number(&self, index: usize, default: usize) -> usize {
        let Some(word) = self.word(index) else { return default };
        match word.parse() {
            Ok(number) => number,
            Err(_) => crate::say::broken(format_args!("{word} is no number")),
        }
    }
}

/// Calls `main` with the words that the kernel put on the stack, and ends with its code.
///
/// # Safety
///
/// `stack` must be the stack pointer with which a kernel starts a program.
#[doc(hidden)]
pub unsafe fn start(stack: *const usize, main: fn(Args) -> u8) -> ! {
    // SAFETY: the System V ABI has the number of words on top of the stack, and pointers to them above it.
    let words = unsafe { core::slice::from_raw_parts(stack.add(1).cast(), *stack) };
    super::exit_group(main(Args { words }))
}

/// Names the function that a program consists of: `fn(Args) -> u8`.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        #[cfg(not(metal))]
        fn main() {
            let _: fn($crate::sys::Args) -> u8 = $main;
            eprintln!("this program is built with `--profile kernel`");
            std::process::exit(2);
        }

        /// The entry: the arguments are on the stack, whose pointer is aligned as before a call.
        #[cfg(metal)]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn _start() -> ! {
            extern "C" fn on_stack(stack: *const usize) -> ! {
                // SAFETY: `_start` hands over the stack pointer that it was started with.
                unsafe { $crate::sys::start(stack, $main) }
            }
            core::arch::naked_asm!(
                "xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {}", "ud2", sym on_stack
            )
        }
    };
}

#[cfg(metal)]
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    crate::say!("WRONG: {info}");
    super::exit_group(crate::WRONG)
}

/// `core` was built to unwind and names this; nothing here unwinds.
// SAFETY: nothing else in a program bears the name.
#[cfg(metal)]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
