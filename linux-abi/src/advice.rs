//! The advice numbers of `madvise`.

use interleaf::space::Advice;
use interleaf::vma::FlagAdvice;
use linux_raw_sys::general as raw;

macro_rules! numbers {
    ($($name:ident = $raw:ident, $advice:expr;)+) => {
        $(#[doc = concat!("`", stringify!($raw), "` of Linux.")] pub const $name: i32 = raw::$raw as i32;)+

        /// Every number named here with its name.
        pub const NAMES: &[(i32, &str)] = &[$(($name, stringify!($name))),+];

        /// The advice of a number; `None` where the library does not support it.
        pub fn advice(number: i32) -> Option<Advice> {
            match number {
                $($name => Some($advice),)+
                _ => None,
            }
        }
    };
}

numbers! {
    NORMAL = MADV_NORMAL, Advice::Flag(FlagAdvice::Normal);
    RANDOM = MADV_RANDOM, Advice::Flag(FlagAdvice::Random);
    SEQUENTIAL = MADV_SEQUENTIAL, Advice::Flag(FlagAdvice::Sequential);
    WILLNEED = MADV_WILLNEED, Advice::WillNeed;
    DONTNEED = MADV_DONTNEED, Advice::DontNeed;
    DONTNEED_LOCKED = MADV_DONTNEED_LOCKED, Advice::DontNeedLocked;
    FREE = MADV_FREE, Advice::Free;
    DONTFORK = MADV_DONTFORK, Advice::Flag(FlagAdvice::DontFork);
    DOFORK = MADV_DOFORK, Advice::Flag(FlagAdvice::DoFork);
    HUGEPAGE = MADV_HUGEPAGE, Advice::Flag(FlagAdvice::HugePage);
    NOHUGEPAGE = MADV_NOHUGEPAGE, Advice::Flag(FlagAdvice::NoHugePage);
    DONTDUMP = MADV_DONTDUMP, Advice::Flag(FlagAdvice::DontDump);
    DODUMP = MADV_DODUMP, Advice::Flag(FlagAdvice::DoDump);
    WIPEONFORK = MADV_WIPEONFORK, Advice::Flag(FlagAdvice::WipeOnFork);
    KEEPONFORK = MADV_KEEPONFORK, Advice::Flag(FlagAdvice::KeepOnFork);
    COLD = MADV_COLD, Advice::Cold;
    POPULATE_READ = MADV_POPULATE_READ, Advice::PopulateRead;
    POPULATE_WRITE = MADV_POPULATE_WRITE, Advice::PopulateWrite;
    COLLAPSE = MADV_COLLAPSE, Advice::Collapse;
}
