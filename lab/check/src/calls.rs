//! Memory calls as values, and their results.
//!
//! One language for three systems: the host's Linux ([`super::oracle`]), the obvious model
//! ([`crate::model`]) and the library. A [`Call`] is what a program does to its memory, system call or
//! plain access; a [`CallResult`] is its result; an [`Outcome`] is all the answers of a sequence and the
//! state that it left. Numbers are those of Linux x86-64, taken as they come: unaligned, overflowing and
//! senseless arguments are part of the language.

pub use super::file_calls::FileCall;
use interleaf_lab::os::child::{FILE, FILE_BYTES};
pub use interleaf_linux_abi::{Errno, MapFlags, Prot, REMOVE, advice, number};
use std::fmt;

/// Pages of the one file that may be mapped: zeros at first.
pub const FILE_PAGES: u64 = FILE_BYTES / PAGE;
/// Bytes in a page.
pub const PAGE: u64 = 4096;
/// Bytes in a huge page.
pub const HUGE_BYTES: u64 = 512 * PAGE;

/// One thing a program does to its memory. Addresses and lengths are in bytes, raw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Call {
    /// `mmap(hint, len, prot, flags, -1, 0)`.
    Mmap {
        /// Where it should go; binding with a FIXED flag.
        hint: u64,
        /// Bytes.
        len: u64,
        /// Rights.
        prot: Prot,
        /// Kind and manner.
        flags: MapFlags,
    },
    /// `mmap`, `mprotect` or `madvise` by its number, with all words as registers hold them: also those and
    /// the bits for which the calls beside it have no place, and `mmap` of the file
    /// ([`map_file`](Self::map_file)).
    Words {
        /// The number of the system call.
        number: u64,
        /// What the registers hold.
        words: [u64; 6],
    },
    /// `munmap(addr, len)`.
    Munmap {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// `mremap(addr, old_len, new_len, flags, to)`.
    Mremap {
        /// First byte.
        addr: u64,
        /// Bytes now.
        old_len: u64,
        /// Bytes afterwards.
        new_len: u64,
        /// Whether it may move, and what else, any number.
        flags: u64,
        /// Where it goes, or might go.
        to: u64,
    },
    /// `mprotect(addr, len, prot)`.
    Mprotect {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// The new rights.
        prot: Prot,
    },
    /// `madvise(addr, len, advice)`.
    Madvise {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// The advice, any number.
        advice: i32,
    },
    /// `mbind(addr, len, mode, &nodes, 65, flags)`.
    Mbind {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// The mode and its flags, any number.
        mode: u32,
        /// The nodes, as bits.
        nodes: u64,
        /// What happens to pages that are present.
        flags: u32,
    },
    /// `brk(addr)`, the system call: it answers where the break is afterwards.
    Brk {
        /// The wanted end of the heap.
        addr: u64,
    },
    /// `mincore(addr, len, vec)`.
    Mincore {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// `msync(addr, len, flags)`.
    Msync {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// `MS_*`.
        flags: u32,
    },
    /// A call about the file itself.
    File(FileCall),
    /// Read one byte.
    Read {
        /// Where.
        addr: u64,
    },
    /// Write one byte.
    Write {
        /// Where.
        addr: u64,
        /// What.
        value: u8,
    },
}

impl Call {
    /// `mmap` of the file from a page on.
    #[must_use]
    pub fn map_file(hint: u64, len: u64, prot: Prot, flags: MapFlags, page: u64) -> Self {
        let words = [hint, len, prot.bits().into(), flags.bits().into(), FILE, page * PAGE];
        Self::Words { number: number::MMAP, words }
    }

    /// Whether it maps the file.
    #[must_use]
    pub fn maps_file(&self) -> bool {
        let anonymous = u64::from(MapFlags::ANONYMOUS.bits());
        matches!(*self, Self::Words { number, words: [_, _, _, flags, file, _] }
            if number == number::MMAP && file == FILE && flags & anonymous == 0)
    }

    /// The call that [`Words`](Self::Words) of this number make where no word has more than the call reads;
    /// itself for any other.
    #[must_use]
    pub fn plain(self) -> Self {
        let Self::Words { number, words: [addr, len, third, fourth, ..] } = self else { return self };
        match number {
            number::MMAP => Self::Mmap {
                hint: addr,
                len,
                prot: Prot::from_bits_retain(third as u32),
                flags: MapFlags::from_bits_retain(fourth as u32),
            },
            number::MPROTECT => Self::Mprotect { addr, len, prot: Prot::from_bits_retain(third as u32) },
            _ => Self::Madvise { addr, len, advice: third as i32 },
        }
    }
}

/// Why an access was answered with SIGSEGV.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Segv {
    /// Nothing is mapped there.
    Unmapped,
    /// The mapping does not grant the right.
    Rights,
}

/// What a call gave back.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum CallResult {
    /// Success; the system call's value (an address for mmap and brk).
    Value(u64),
    /// Failure.
    Error(Errno),
    /// `mincore`: the bytes it wrote, one per page and 1 for resident, and the error that ended it.
    Resident(Vec<u8>, Option<Errno>),
    /// `pread`: how many bytes, and their fingerprint.
    Data(usize, u64),
    /// The byte read.
    Byte(u8),
    /// The byte was written.
    Written,
    /// The access was refused.
    Segv(Segv),
    /// The object that is mapped there has no such page.
    Bus,
}

/// One line of the merged map.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapLine {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Rights.
    pub prot: Prot,
    /// For shared memory: which object, counted from 0 by first appearance in the map, and the byte within
    /// it.
    pub object: Option<(u32, u64)>,
}

impl fmt::Debug for MapLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, prot, object } = *self;
        let pages = (end - start) / PAGE;
        write!(f, "{start:#x}..{end:#x} ({pages} pages) {}", rights(prot))?;
        match object {
            Some((number, offset)) => write!(f, " shared object {number} + {offset:#x}"),
            None => write!(f, " private"),
        }
    }
}

/// What a resident page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PageState {
    /// Private, never written: the zero page.
    Zero,
    /// Private, with contents of this [`fingerprint`].
    Own(u64),
    /// A page of a shared object, with contents of this [`fingerprint`].
    Shared(u64),
}

/// What maps 2 MiB with one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum HugeLeaf {
    /// The huge zero page.
    Zero,
    /// A huge page of private memory.
    Own,
}

/// The huge leaves of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HugeLeaves {
    /// Where they begin, upwards.
    pub leaves: Vec<(u64, HugeLeaf)>,
    /// Of each line of the map: the bytes in huge pages of private memory (`AnonHugePages` of smaps).
    pub anon_bytes: Vec<u64>,
}

impl HugeLeaves {
    /// As `leaves` say, for these lines of a map.
    #[must_use]
    pub fn new(leaves: Vec<(u64, HugeLeaf)>, map: &[MapLine]) -> Self {
        let own = leaves.iter().filter(|(_, leaf)| *leaf == HugeLeaf::Own);
        let within = |line: &MapLine| {
            let part = |&(start, _): &(u64, HugeLeaf)| {
                (start + HUGE_BYTES).min(line.end).saturating_sub(start.max(line.start))
            };
            own.clone().map(part).sum()
        };
        Self { anon_bytes: map.iter().map(within).collect(), leaves }
    }
}

/// All that is seen of a sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// One per call.
    pub answers: Vec<CallResult>,
    /// The map afterwards, within the windows of the experiment, upwards.
    pub map: Vec<MapLine>,
    /// The resident pages afterwards, within the looked-at ranges: address and state, upwards.
    pub pages: Vec<(u64, PageState)>,
    /// Its huge leaves.
    pub huge: HugeLeaves,
}

/// A system that executes memory calls.
pub trait System {
    /// A word for reports.
    fn name(&self) -> &str;
    /// Executes `calls` on an empty address space and returns their outcome.
    fn run(&mut self, calls: &[Call]) -> Outcome;
}

/// A number for the contents of a page, equal for equal contents: 64-bit FNV-1a over its words, four of them
/// side by side. Tests spend a good part of their time here.
#[must_use]
pub fn fingerprint(contents: &[u8]) -> u64 {
    let mix = |hash: u64, word: [u8; 8]| (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
    let mut lanes = [0xcbf2_9ce4_8422_2325; 4];
    let mut add = |&[one, two, three, four]: &[[u8; 8]; 4]| {
        lanes = [mix(lanes[0], one), mix(lanes[1], two), mix(lanes[2], three), mix(lanes[3], four)];
    };
    let (words, _) = contents.as_chunks::<8>();
    let (fours, _) = words.as_chunks::<4>();
    fours.iter().for_each(&mut add);
    let rest = &contents[fours.as_flattened().as_flattened().len()..];
    if !rest.is_empty() {
        let mut padded = [[0; 8]; 4];
        padded.as_flattened_mut()[..rest.len()].copy_from_slice(rest);
        add(&padded);
    }
    lanes.into_iter().fold(0, |hash, lane| mix(hash, lane.to_le_bytes()))
}

/// Rights as `/proc/self/maps` writes them.
fn rights(prot: Prot) -> String {
    [(Prot::READ, 'r'), (Prot::WRITE, 'w'), (Prot::EXEC, 'x')]
        .map(|(right, letter)| if prot.contains(right) { letter } else { '-' })
        .iter()
        .collect()
}

/// `value` as hexadecimal flags with the names of those that have one.
fn flag_names<F: bitflags::Flags<Bits = u32> + Copy>(flags: F) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut left = flags.bits();
    for (name, flag) in flags.iter_names() {
        names.push(name.to_string());
        left &= !flag.bits();
    }
    if left != 0 {
        names.push(format!("{left:#x}"));
    }
    if names.is_empty() { "NONE".into() } else { names.join("|") }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Mmap { hint, len, prot, flags } => {
                write!(f, "mmap({hint:#x}, {len:#x}, {}, {});", flag_names(prot), flag_names(flags))
            }
            Self::Words { number, words } => {
                let name = interleaf_linux_abi::call_name(number).unwrap_or("?");
                let words = words.map(|word| format!("{word:#x}"));
                write!(f, "{name}({});", words.join(", "))
            }
            Self::Munmap { addr, len } => write!(f, "munmap({addr:#x}, {len:#x});"),
            Self::Mremap { addr, old_len, new_len, flags, to } => {
                write!(f, "mremap({addr:#x}, {old_len:#x}, {new_len:#x}, {flags:#x}, {to:#x});")
            }
            Self::Mprotect { addr, len, prot } => {
                write!(f, "mprotect({addr:#x}, {len:#x}, {});", flag_names(prot))
            }
            Self::Madvise { addr, len, advice } => {
                let known = advice::NAMES.iter().find(|(number, _)| *number == advice);
                let name = known.map_or(advice.to_string(), |(_, name)| (*name).into());
                write!(f, "madvise({addr:#x}, {len:#x}, {name});")
            }
            Self::Mbind { addr, len, mode, nodes, flags } => {
                write!(f, "mbind({addr:#x}, {len:#x}, {mode:#x}, {nodes:#x}, {flags:#x});")
            }
            Self::Brk { addr } => write!(f, "brk({addr:#x});"),
            Self::Mincore { addr, len } => write!(f, "mincore({addr:#x}, {len:#x});"),
            Self::Msync { addr, len, flags } => write!(f, "msync({addr:#x}, {len:#x}, {flags:#x});"),
            Self::File(call) => write!(f, "{call}"),
            Self::Read { addr } => write!(f, "read *{addr:#x};"),
            Self::Write { addr, value } => write!(f, "*{addr:#x} = {value};"),
        }
    }
}
