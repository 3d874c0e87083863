//! Steps: the action for each event, decided before the clock runs.
//!
//! A step is 24 bytes; what a call needs beyond that lies in a list of its own. The step at an index belongs
//! to the event at the same index of its [`Life`](super::life::Life).

use super::act::{act, check_length, map_file, segment_request};
use super::files::{FileNr, FileTable};
use super::locked::Locked;
use super::sealed::Sealed;
use super::signals::{is_beyond_end, is_of_key};
use super::unbuilt::{Refusal, Unbuilt};
use crate::trace::{self, Call, Event, Fault, Image, Kind, Signal, Sys};
use interleaf::space::{MapRequest, Place, SyncMode};
use interleaf::units::{Access, PageSize, VirtAddr};
use interleaf::vma::{ThpDisable, VmaFlags};
use interleaf_linux_abi::{MREMAP_FIXED, MapFlags, advice, map_request};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;

/// What to do for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the event does not touch memory.
    Nothing,
    /// Touch a byte, as the program did when Linux took a fault.
    Touch {
        /// Which.
        addr: VirtAddr,
        /// How.
        tried: Tried,
    },
    /// Load a byte of a file of which the page cache had these pages: page `15 + n` from that of the byte on
    /// by bit `n`, less 30.
    TouchFile {
        /// Which.
        addr: VirtAddr,
        /// How.
        tried: Tried,
        /// Which pages.
        cached: u32,
    },
    /// Touch a byte beyond the end of its file, for which Linux sent SIGBUS.
    TouchBeyond {
        /// Which.
        addr: VirtAddr,
        /// How.
        tried: Tried,
    },
    /// Nothing: Linux refuses the access for what the library does not have.
    Barred {
        /// Which byte.
        addr: VirtAddr,
        /// For what.
        by: Bar,
    },
    /// Carry out the call of this number.
    Call(u32),
}

/// What a fault tried, as far as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// This.
    As(Access),
    /// Recorded without privilege: the most that the mapping allows.
    AsAllowed,
    /// The same, but a signal says that Linux refused it: what the mapping does not allow.
    AsForbidden,
}

/// What the library does not have, and what refuses accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// A guard (MADV_GUARD_INSTALL).
    Guard,
    /// A protection key.
    Key,
}

/// A call, and what Linux answered.
#[derive(Clone, Debug)]
pub struct CallStep {
    /// Which.
    pub sys: Sys,
    /// What is done for it.
    pub act: Act,
    /// How near that is to the call.
    pub way: Way,
    /// What Linux returned.
    pub expected: i64,
    /// The refusal that is imposed after what is done.
    pub refused: Option<i64>,
    /// The offset in its file of what is mapped, if it is a file.
    pub file_offset: Option<u64>,
}

/// What the events around one tell of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Bytes of the System V segment that it maps.
    pub segment: Option<u64>,
    /// The signal in which the fault ended.
    pub signal: Option<Signal>,
}

/// How near the replay of a call is to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The library has the call.
    Carried,
    /// The library has the call, and anonymous memory stands in for what is no file: a device's, a segment's.
    StandIn,
    /// The library has not got the call, or not on this memory; its effect is imposed by others, or assumed.
    Imposed,
    /// Nothing is done: it failed where the library cannot tell why, or it changes no page.
    Left,
}

/// What is done for a call. Numbers are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// mmap of anonymous memory.
    Mmap { addr: u64, len: u64, prot: u32, flags: u32, offset: u64 },
    /// mmap of a file, from this page of it on, as this request says beyond that.
    MapFile { file: FileNr, first: u64, request: MapRequest<'static> },
    /// mmap of what is no file, or shmat, as this request.
    StandIn(MapRequest<'static>),
    /// munmap, or shmdt.
    Munmap { addr: u64, len: u64 },
    /// mprotect.
    Mprotect { addr: u64, len: u64, prot: u64 },
    /// msync.
    Msync { addr: u64, len: u64, mode: SyncMode },
    /// madvise.
    Madvise { addr: u64, len: u64, advice: i32 },
    /// brk.
    Brk { addr: u64 },
    /// mremap, by map and unmap.
    Mremap { addr: u64, old_len: u64, new_len: u64, flags: u64, to: u64 },
    /// prctl(PR_SET_THP_DISABLE).
    SetThpDisable(ThpDisable),
    /// Nothing.
    Nothing,
}

/// Marks a stand-in, so that it is not joined with anonymous memory beside it.
pub const STAND_IN: VmaFlags = VmaFlags::DONT_DUMP;

/// Flags of a stand-in for what is no file, of which offset 0 is, or would be, mapped at `origin`: no huge
/// pages, no commitment. Linux joins neighbours where their offsets go on; so that the limit on mappings is
/// met when it was for Linux, stand-ins of other origins differ in flags that mean nothing here, mostly.
pub fn stand_in_flags(origin: u64) -> VmaFlags {
    let colours = [VmaFlags::empty(), VmaFlags::SEQUENTIAL_READ, VmaFlags::RANDOM_READ];
    let colour = colours[(origin / 4096 % colours.len() as u64) as usize];
    STAND_IN | VmaFlags::NORESERVE | VmaFlags::NO_HUGE_PAGE | colour
}

/// The steps of a life.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// One for each event.
    pub steps: Vec<Step>,
    /// Those that are calls.
    pub calls: Vec<CallStep>,
    /// Memory that calls have locked so far.
    locked: Locked,
    /// What `mseal` has sealed.
    sealed: Sealed,
    /// Memory of kinds that the library does not have.
    pub(super) unbuilt: Unbuilt,
    /// System V segments that are attached: bytes by address.
    attached: HashMap<u64, u64>,
    /// The lowest address that Linux grants as a hint: lower ones count as this one.
    lowest_hint: u64,
}

impl Steps {
    /// No step yet, of a program that starts with this image, where Linux takes hints below `lowest_hint` for
    /// it.
    pub fn at_exec(image: &Image, files: &FileTable, lowest_hint: u64) -> Steps {
        Steps { lowest_hint, unbuilt: Unbuilt::at_exec(image, files), ..Steps::default() }
    }

    /// Decides what to do for the next event.
    ///
    /// # Errors
    /// One line: a call that cannot have succeeded as recorded.
    pub fn add(&mut self, event: &Event, told: Told, files: &FileTable) -> Result<(), String> {
        let step = match &event.kind {
            Kind::Fault(fault) => {
                let step = self.touch(fault, told.signal);
                self.with_cached(step, files.met_ns(event.tid, event.time_ns), files)
            }
            Kind::Call(call) => self.call(call, told.segment, files)?,
            _ => Step::Nothing,
        };
        self.steps.push(step);
        Ok(())
    }

    /// No step yet, of the child of a fork: it has the segments that are attached, the seals and the guards.
    /// What is locked is the parent's alone.
    pub fn of_child(&self) -> Steps {
        let Steps { attached, sealed, unbuilt, lowest_hint, .. } = self;
        let (attached, sealed, unbuilt) = (attached.clone(), sealed.clone(), unbuilt.of_child());
        Steps { attached, sealed, unbuilt, lowest_hint: *lowest_hint, ..Steps::default() }
    }

    fn touch(&self, fault: &Fault, signal: Option<Signal>) -> Step {
        let addr = VirtAddr(fault.address);
        if self.unbuilt.is_guarded(addr.0) {
            return Step::Barred { addr, by: Bar::Guard };
        }
        if signal.is_some_and(|signal| is_of_key(&signal)) {
            return Step::Barred { addr, by: Bar::Key };
        }
        let tried = match fault.access {
            trace::Access::Read => Tried::As(Access::Read),
            trace::Access::Write => Tried::As(Access::Write),
            trace::Access::Execute => Tried::As(Access::Execute),
            trace::Access::Unknown if signal.is_some() => Tried::AsForbidden,
            trace::Access::Unknown => Tried::AsAllowed,
        };
        if signal.is_some_and(|signal| is_beyond_end(&signal)) && self.unbuilt.file_offset(addr.0).is_some() {
            return Step::TouchBeyond { addr, tried };
        }
        Step::Touch { addr, tried }
    }

    fn call(&mut self, call: &Call, segment: Option<u64>, files: &FileTable) -> Result<Step, String> {
        let Some(expected) = call.result else { return Ok(Step::Nothing) };
        check_length(call, expected)?;
        let attached = self.attach(call, expected, segment).or_else(|| map_file(call, files));
        let refusal = self.refusal(call, expected);
        let (act, way) = match (attached, refusal) {
            (Some(step), _) => step,
            (None, Some(refusal)) => act_before(call, refusal),
            _ if self.sealed.refuse(call, expected) => (Act::Nothing, Way::Imposed),
            _ => act(&self.with_granted_hint(call), expected),
        };
        let refused = refusal.map(|refusal| refusal.error).filter(|_| way == Way::Imposed);
        let file_offset = self.file_offset(call);
        self.locked.note(call, expected);
        self.sealed.note(call, expected);
        self.unbuilt.follow(call, expected, files);
        self.calls.push(CallStep { sys: call.sys, act, way, expected, refused, file_offset });
        u32::try_from(self.calls.len() - 1).map(Step::Call).map_err(|_| "too many calls".to_string())
    }

    /// Where a call that goes mapping by mapping came to memory that refuses it.
    fn refusal(&self, call: &Call, result: i64) -> Option<Refusal> {
        let others = [self.unbuilt.refusal(call, result), self.locked.refusal(call, result)];
        let first = || others.into_iter().flatten().min_by_key(|refusal| refusal.at);
        self.sealed.refusal(call, result).or_else(first)
    }

    fn file_offset(&self, call: &Call) -> Option<u64> {
        match call.sys {
            Sys::Mmap if !has(call.args[3] as u32, MapFlags::ANONYMOUS) => Some(call.args[5]),
            Sys::Shmat => Some(0),
            Sys::Mremap => self.unbuilt.file_offset(call.args[0]),
            _ => None,
        }
    }
}

/// What a call that memory in its range refuses has done before it came there.
fn act_before(call: &Call, refusal: Refusal) -> (Act, Way) {
    let [addr, _, third, ..] = call.args;
    let len = refusal.at - addr;
    let act = match call.sys {
        Sys::Mprotect | Sys::PkeyMprotect => Act::Mprotect { addr, len, prot: third },
        Sys::Madvise if advice::advice(third as i32).is_some() => {
            Act::Madvise { addr, len, advice: third as i32 }
        }
        _ => Act::Nothing,
    };
    (act, Way::Imposed)
}

impl Steps {
    /// The call with the hint that Linux takes a very low one for.
    fn with_granted_hint(&self, call: &Call) -> Call {
        let mut call = call.clone();
        let [addr, _, _, flags, ..] = call.args;
        let is_hint =
            call.sys == Sys::Mmap && !has(flags as u32, MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
        if is_hint && addr >= 4096 {
            call.args[0] = addr.max(self.lowest_hint);
        }
        call
    }

    /// What is done for a granted shmat of `segment` bytes, or for the shmdt of such a segment.
    fn attach(&mut self, call: &Call, result: i64, segment: Option<u64>) -> Option<(Act, Way)> {
        let [first, at, flags, ..] = call.args;
        if result < 0 {
            return None;
        }
        match (call.sys, segment) {
            (Sys::Shmat, Some(len_bytes)) => {
                self.attached.insert(result as u64, len_bytes);
                Some((Act::StandIn(segment_request(at, len_bytes, flags)), Way::StandIn))
            }
            (Sys::Shmdt, _) => {
                let len = self.attached.remove(&first)?;
                Some((Act::Munmap { addr: first, len }, Way::StandIn))
            }
            _ => None,
        }
    }
}

/// The next multiple; the highest if there is none.
pub(super) fn round_up(len: u64, unit: u64) -> u64 {
    len.checked_next_multiple_of(unit).unwrap_or(u64::MAX / unit * unit)
}

/// The pages that hold a range.
pub(super) fn pages(addr: u64, len: u64) -> Range<u64> {
    addr & !0xfff..round_up(addr.saturating_add(len), 4096)
}

/// Whether a flag word has one of these.
pub(super) fn has(flags: u32, wanted: MapFlags) -> bool {
    MapFlags::from_bits_retain(flags).intersects(wanted)
}

impl CallStep {
    /// Where the mapping ends that Linux gave; 0 if it gave none.
    pub fn chosen_end(&self) -> u64 {
        let len = match self.act {
            Act::Mmap { len, .. } => len,
            Act::MapFile { request, .. } | Act::StandIn(request) => request.len_bytes,
            Act::Mremap { new_len, .. } => new_len,
            _ => 0,
        };
        let start = u64::try_from(self.expected).unwrap_or(0);
        start.saturating_add(len).checked_next_multiple_of(4096).unwrap_or(0)
    }

    /// Whether Linux put a file of 2 MiB or more where it meets a huge-page boundary, as file systems ask
    /// for.
    pub fn is_aligned_file(&self) -> bool {
        let (huge, start) = (PageSize::Huge.bytes(), self.expected.max(0) as u64);
        let is_aligned = |offset| start.wrapping_sub(offset).is_multiple_of(huge);
        start > 0
            && self.chosen_end() >= start.saturating_add(huge)
            && self.file_offset.is_some_and(is_aligned)
    }

    /// Pages of the range of which the call makes huge pages; none if it does not.
    pub fn collapsed_pages(&self) -> u64 {
        match self.act {
            Act::Madvise { len, advice: advice::COLLAPSE, .. } => len.div_ceil(4096),
            _ => 0,
        }
    }

    /// Pages that the call itself made present; none if it failed, but for those before the memory that
    /// refused it.
    pub fn populated_pages(&self) -> u64 {
        if self.expected < 0 && self.refused.is_none() { 0 } else { self.act.populated_pages() }
    }
}

impl Act {
    /// Pages that the call itself makes present if it is granted.
    pub fn populated_pages(&self) -> u64 {
        let bytes = match *self {
            Act::Mmap { len, flags, .. } if map_request(0, len, 0, flags).0.populate => len,
            Act::MapFile { request, .. } | Act::StandIn(request) if request.populate => request.len_bytes,
            Act::Madvise { len, advice: advice::POPULATE_READ | advice::POPULATE_WRITE, .. } => len,
            Act::Mremap { old_len, .. } => old_len,
            _ => 0,
        };
        bytes.div_ceil(4096)
    }

    /// Whether Linux was free to choose the place.
    pub fn is_free_choice(&self) -> bool {
        match self {
            Act::Mmap { flags, .. } => !has(*flags, MapFlags::FIXED | MapFlags::FIXED_NOREPLACE),
            Act::MapFile { request, .. } | Act::StandIn(request) => {
                matches!(request.place, Place::Hint(_) | Place::Low(_))
            }
            Act::Mremap { flags, .. } => flags & MREMAP_FIXED == 0,
            _ => false,
        }
    }
}
