//! The system calls that a trace keeps: those that change an address space, make or end one, or ask about it.
//!
//! One table describes a call completely: its number on x86-64, its name, how many arguments
//! it takes, and what its first two arguments mean when they are a range. A number that is not in the table
//! is not in a trace; the reader refuses it.

use interleaf_linux_abi::number;
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
    ($($variant:ident $number:ident $name:literal $arity:literal $shape:ident,)*) => {
        /// A system call that a trace keeps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Sys {
            $(#[doc = concat!("`", $name, "`.")] $variant = number::$number as u16,)*
        }

        impl Sys {
            /// Every call there is, by rising number.
            pub const ALL: &'static [Sys] = &[$(Sys::$variant,)*];

            /// The call of this number on x86-64, if a trace keeps it.
            pub fn from_number(number: u64) -> Option<Sys> {
                match number { $(number::$number => Some(Sys::$variant),)* _ => None }
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
    Mmap MMAP "mmap" 6 Gives,
    Mprotect MPROTECT "mprotect" 3 Changes,
    Munmap MUNMAP "munmap" 2 Changes,
    Brk BRK "brk" 1 Gives,
    Mremap MREMAP "mremap" 5 Gives,
    Msync MSYNC "msync" 3 Uses,
    Mincore MINCORE "mincore" 3 Uses,
    Madvise MADVISE "madvise" 3 Changes,
    Shmget SHMGET "shmget" 3 Other,
    Shmat SHMAT "shmat" 3 Gives,
    Clone CLONE "clone" 5 Task,
    Fork FORK "fork" 0 Task,
    Vfork VFORK "vfork" 0 Task,
    Execve EXECVE "execve" 3 Task,
    Exit EXIT "exit" 1 Task,
    Shmdt SHMDT "shmdt" 1 Other,
    Personality PERSONALITY "personality" 1 Other,
    Mlock MLOCK "mlock" 2 Uses,
    Munlock MUNLOCK "munlock" 2 Uses,
    Mlockall MLOCKALL "mlockall" 1 Other,
    Munlockall MUNLOCKALL "munlockall" 0 Other,
    Prctl PRCTL "prctl" 5 Other,
    Setrlimit SETRLIMIT "setrlimit" 2 Other,
    RemapFilePages REMAP_FILE_PAGES "remap_file_pages" 5 Changes,
    ExitGroup EXIT_GROUP "exit_group" 1 Task,
    Mbind MBIND "mbind" 6 Uses,
    Unshare UNSHARE "unshare" 1 Other,
    Prlimit64 PRLIMIT64 "prlimit64" 4 Other,
    Execveat EXECVEAT "execveat" 5 Task,
    Userfaultfd USERFAULTFD "userfaultfd" 1 Other,
    Mlock2 MLOCK2 "mlock2" 3 Uses,
    PkeyMprotect PKEY_MPROTECT "pkey_mprotect" 4 Changes,
    PkeyAlloc PKEY_ALLOC "pkey_alloc" 2 Other,
    PkeyFree PKEY_FREE "pkey_free" 1 Other,
    Clone3 CLONE3 "clone3" 2 Task,
    ProcessMadvise PROCESS_MADVISE "process_madvise" 5 Other,
    ProcessMrelease PROCESS_MRELEASE "process_mrelease" 2 Other,
    MapShadowStack MAP_SHADOW_STACK "map_shadow_stack" 3 Gives,
    Mseal MSEAL "mseal" 3 Changes,
}

/// Whether a call with these arguments belongs in a trace: of `prctl` operations those about memory, of calls
/// that set a limit those of an address space. The limit itself is behind a pointer, which is not followed.
pub fn is_kept(sys: Sys, args: &[u64; 6]) -> bool {
    match sys {
        Sys::Prctl => PRCTL_KEPT.contains(&args[0]),
        Sys::Setrlimit => RLIMITS_KEPT.contains(&(args[0] as u32)),
        Sys::Prlimit64 => RLIMITS_KEPT.contains(&(args[1] as u32)) && args[2] != 0,
        _ => true,
    }
}

/// `RLIMIT_DATA` and `RLIMIT_AS`.
const RLIMITS_KEPT: [u32; 2] = [2, 9];
/// `prctl` operations about memory.
const PRCTL_KEPT: [u64; 5] = [PR_SET_MM, PR_SET_THP_DISABLE, PR_SET_MDWE, PR_SET_MEMORY_MERGE, PR_SET_VMA];
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
#[path = "tests/calls.rs"]
mod tests;
