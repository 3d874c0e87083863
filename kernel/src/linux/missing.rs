//! System calls that are not there, and what is not there of others: each is named on the console, once.

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

/// What calls that are there can be asked for, and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFeature {
    /// Anything but SIG_DFL about SIGCHLD.
    ChildSignal,
    /// What a futex is asked for.
    Futex,
    /// What a child shares with its parent, or what it is told by.
    Clone,
}

/// A bit for each feature that was named.
static NAMED_FEATURES: AtomicU64 = AtomicU64::new(0);

/// The answer to a call that asks for a missing feature.
#[cold]
pub fn refuse_feature(feature: MissingFeature) -> Errno {
    let bit = 1 << feature as u32;
    let what = match feature {
        MissingFeature::ChildSignal => "to be told of children by SIGCHLD, which is not sent",
        MissingFeature::Futex => "what a futex is not built for: waits and wake-ups of all alone",
        MissingFeature::Clone => "a child of another kind than fork's, vfork's and a thread",
    };
    if NAMED_FEATURES.fetch_or(bit, Relaxed) & bit == 0 {
        crate::println!("the program wants {what}: ENOSYS");
    }
    Errno::ENOSYS
}
