//! System calls that are not there: each is named on the console, once.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interleaf_linux_abi::{Errno, call_name};

/// Numbers of calls that are noted one by one; Linux has none beyond.
const NOTED: usize = 512;

/// A bit for each number that was named.
static NAMED: [AtomicU64; NOTED / 64] = [const { AtomicU64::new(0) }; NOTED / 64];

/// The answer to a call that is missing.
#[cold]
pub fn refuse(number: u64) -> Errno {
    let word = usize::try_from(number).ok().and_then(|number| NAMED.get(number / 64));
    let bit = 1 << (number % 64);
    if let (Some(word), Some(name)) = (word, call_name(number))
        && word.fetch_or(bit, Relaxed) & bit == 0
    {
        crate::println!(
            "the program calls {name} (number {number}), which this kernel does not have: ENOSYS"
        );
    }
    Errno::ENOSYS
}
