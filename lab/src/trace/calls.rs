//! The system calls that a trace keeps: those that change an address space, make or end one, or ask about it.
//!
//! One table says everything there is to say about a call: its number on x86-64, its name, how many arguments
//! it takes, and what its first two arguments mean when they are a range. A number that is not in the table
//! is not in a trace; the reader refuses it.

use serde::{Serialize, Serializer};
use std::fmt;

/// What a call says about memory by its first two arguments and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Arguments 0 and 1 are an address and a length in bytes, and what was there may change or go.
    Changes,
    /// The result is an address: something new is there (`mmap`, `mremap`, `shmat`, `brk`).
    Gives,
    /// Arguments 0 and 1 are a range that is only looked at, filled or locked.
    Uses,
    /// A task is made or ends, or the whole image is replaced; said exactly by an event of its own.
    Task,
    /// None of these.
    Other,
}

macro_rules! calls {
    ($($variant:ident $number:literal $name:literal $arity:literal $shape:ident,)*) => {
        /// A system call that a trace keeps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Sys {
            $(#[doc = concat!("`", $name, "`, number ", stringify!($number), ".")] $variant = $number,)*
        }

        impl Sys {
            /// Every call there is, by rising number.
            pub const ALL: &'static [Sys] = &[$(Sys::$variant,)*];

            /// The call of this number on x86-64, if a trace keeps it.
            pub fn from_number(number: u64) -> Option<Sys> {
                match number { $($number => Some(Sys::$variant),)* _ => None }
            }

            /// Its name, as Linux has it.
            pub fn name(self) -> &'static str {
                match self { $(Sys::$variant => $name,)* }
            }

            /// How many arguments it takes, 0 to 6.
            pub fn arity(self) -> usize {
                match self { $(Sys::$variant => $arity,)* }
            }

            /// What it says about memory.
            pub fn shape(self) -> Shape {
                match self { $(Sys::$variant => Shape::$shape,)* }
            }
        }
    };
}

calls! {
    Mmap 9 "mmap" 6 Gives,
    Mprotect 10 "mprotect" 3 Changes,
    Munmap 11 "munmap" 2 Changes,
    Brk 12 "brk" 1 Gives,
    Mremap 25 "mremap" 5 Gives,
    Msync 26 "msync" 3 Uses,
    Mincore 27 "mincore" 3 Uses,
    Madvise 28 "madvise" 3 Changes,
    Shmat 30 "shmat" 3 Gives,
    Clone 56 "clone" 5 Task,
    Fork 57 "fork" 0 Task,
    Vfork 58 "vfork" 0 Task,
    Execve 59 "execve" 3 Task,
    Exit 60 "exit" 1 Task,
    Shmdt 67 "shmdt" 1 Other,
    Personality 135 "personality" 1 Other,
    Mlock 149 "mlock" 2 Uses,
    Munlock 150 "munlock" 2 Uses,
    Mlockall 151 "mlockall" 1 Other,
    Munlockall 152 "munlockall" 0 Other,
    Prctl 157 "prctl" 5 Other,
    RemapFilePages 216 "remap_file_pages" 5 Changes,
    ExitGroup 231 "exit_group" 1 Task,
    Mbind 237 "mbind" 6 Uses,
    Unshare 272 "unshare" 1 Other,
    Execveat 322 "execveat" 5 Task,
    Userfaultfd 323 "userfaultfd" 1 Other,
    Mlock2 325 "mlock2" 3 Uses,
    PkeyMprotect 329 "pkey_mprotect" 4 Changes,
    PkeyAlloc 330 "pkey_alloc" 2 Other,
    PkeyFree 331 "pkey_free" 1 Other,
    Clone3 435 "clone3" 2 Task,
    ProcessMadvise 440 "process_madvise" 5 Other,
    ProcessMrelease 448 "process_mrelease" 2 Other,
    MapShadowStack 453 "map_shadow_stack" 3 Gives,
    Mseal 462 "mseal" 3 Changes,
}

/// `prctl` operations that speak of memory; the others are not recorded.
pub const PRCTL_KEPT: [u64; 5] =
    [PR_SET_MM, PR_SET_THP_DISABLE, PR_SET_MDWE, PR_SET_MEMORY_MERGE, PR_SET_VMA];
const PR_SET_MM: u64 = 35;
const PR_SET_THP_DISABLE: u64 = 41;
const PR_SET_MDWE: u64 = 65;
const PR_SET_MEMORY_MERGE: u64 = 67;
const PR_SET_VMA: u64 = 0x5356_4d41;

impl fmt::Display for Sys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Sys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_its_call_and_no_other() {
        for &call in Sys::ALL {
            assert_eq!(Sys::from_number(call as u64), Some(call));
            assert!(call.arity() <= 6);
        }
        assert_eq!(Sys::from_number(0), None);
    }

    #[test]
    fn numbers_are_those_of_the_host() {
        assert_eq!(Sys::Mmap as i64, libc::SYS_mmap);
        assert_eq!(Sys::Clone3 as i64, libc::SYS_clone3);
        assert_eq!(Sys::Mremap as i64, libc::SYS_mremap);
        assert_eq!(Sys::ProcessMadvise as i64, libc::SYS_process_madvise);
        assert_eq!(Sys::ExitGroup as i64, libc::SYS_exit_group);
        assert_eq!(Sys::Execveat as i64, libc::SYS_execveat);
        assert_eq!(Sys::PkeyMprotect as i64, libc::SYS_pkey_mprotect);
    }
}
