//! Steps: the action for each event, decided before the clock runs.
//!
//! A step is 24 bytes; what a call needs beyond that lies in a list of its own. The step at an index belongs
//! to the event at the same index of its [`Life`](super::life::Life).

use super::locked::Locked;
use super::refusals::granted_refusal;
use super::sealed::Sealed;
use crate::trace::{self, Call, Event, Kind, Sys};
use interleaf::space::{MapRequest, Place, Sharing};
use interleaf::units::{Access, VirtAddr};
use interleaf::vma::{HugeRefusal, VmaFlags};
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
        /// How; `None` where it was recorded without privilege: as the mapping allows.
        access: Option<Access>,
    },
    /// Carry out the call of this number.
    Call(u32),
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
}

/// How near the replay of a call is to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The library has the call.
    Carried,
    /// The library has the call, and anonymous memory stands in for a file's.
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
    Mmap { addr: u64, len: u64, prot: u32, flags: u32 },
    /// mmap of a file, as this request.
    StandIn(MapRequest),
    /// munmap, or shmdt.
    Munmap { addr: u64, len: u64 },
    /// mprotect.
    Mprotect { addr: u64, len: u64, prot: u32 },
    /// madvise.
    Madvise { addr: u64, len: u64, advice: i32 },
    /// brk.
    Brk { addr: u64 },
    /// mremap, by map and unmap.
    Mremap { addr: u64, old_len: u64, new_len: u64, flags: u64, to: u64 },
    /// prctl(PR_SET_THP_DISABLE).
    RefuseHugePages(HugeRefusal),
    /// Nothing.
    Nothing,
}

/// Marks a stand-in, so that it is not joined with anonymous memory beside it.
pub const STAND_IN: VmaFlags = VmaFlags::DONT_DUMP;

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
    /// System V segments that are attached: bytes by address.
    attached: HashMap<u64, u64>,
    /// The lowest address that Linux grants as a hint: lower ones count as this one.
    lowest_hint: u64,
}

/// The longest mapping that is replayed: all of user space with tables of four levels.
const MAPPED_MOST_BYTES: u64 = 1 << 47;
/// The longest mremap that is replayed: its pages are moved one by one.
const MOVED_MOST_BYTES: u64 = 64 << 30;

impl Steps {
    /// No step yet, where Linux takes hints below `lowest_hint` for it.
    pub fn new(lowest_hint: u64) -> Steps {
        Steps { lowest_hint, ..Steps::default() }
    }

    /// Decides what to do for the next event; where that maps a System V segment, one of `segment` bytes.
    ///
    /// # Errors
    /// One line: a call that cannot have succeeded as recorded.
    pub fn add(&mut self, event: &Event, segment: Option<u64>) -> Result<(), String> {
        let step = self.step(event, segment)?;
        self.steps.push(step);
        Ok(())
    }

    /// No step yet, of the child of a fork: it has the segments that are attached and the seals. What is
    /// locked is the parent's alone.
    pub fn of_child(&self) -> Steps {
        let (attached, sealed) = (self.attached.clone(), self.sealed.clone());
        Steps { attached, sealed, lowest_hint: self.lowest_hint, ..Steps::default() }
    }

    fn step(&mut self, event: &Event, segment: Option<u64>) -> Result<Step, String> {
        match &event.kind {
            Kind::Fault(fault) => {
                let access = match fault.access {
                    trace::Access::Read => Some(Access::Read),
                    trace::Access::Write => Some(Access::Write),
                    trace::Access::Execute => Some(Access::Execute),
                    trace::Access::Unknown => None,
                };
                Ok(Step::Touch { addr: VirtAddr(fault.address), access })
            }
            Kind::Call(call) => {
                let Some(expected) = call.result else { return Ok(Step::Nothing) };
                check_length(call, expected)?;
                let attached = self.attach(call, expected, segment);
                let (act, way) = match attached {
                    Some(step) => step,
                    None if self.sealed.refuse(call, expected) => (Act::Nothing, Way::Imposed),
                    None => act(&self.with_granted_hint(call), expected, &self.locked),
                };
                self.locked.note(call, expected);
                self.sealed.note(call, expected);
                self.calls.push(CallStep { sys: call.sys, act, way, expected });
                u32::try_from(self.calls.len() - 1).map(Step::Call).map_err(|_| "too many calls".to_string())
            }
            _ => Ok(Step::Nothing),
        }
    }
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

/// Shared memory in the place of a System V segment, at `at` or, where that is 0, anywhere.
fn segment_request(at: u64, len_bytes: u64, flags: u64) -> MapRequest {
    const READ_ONLY: u64 = 0o10000;
    const EXECUTE: u64 = 0o100_000;
    let mut access = VmaFlags::READ;
    access.set(VmaFlags::WRITE, flags & READ_ONLY == 0);
    access.set(VmaFlags::EXECUTE, flags & EXECUTE != 0);
    MapRequest {
        place: if at == 0 { Place::Hint(VirtAddr(0)) } else { Place::Fixed(VirtAddr(at & !0xfff)) },
        len_bytes: round_up(len_bytes, 4096),
        flags: access | STAND_IN | VmaFlags::NORESERVE,
        sharing: Sharing::Shared,
        populate: false,
    }
}

/// Refuses a call that was answered though it asks for more than there is.
fn check_length(call: &Call, result: i64) -> Result<(), String> {
    let (len, most) = match call.sys {
        Sys::Mmap | Sys::MapShadowStack => (call.args[1], MAPPED_MOST_BYTES),
        Sys::Mremap => (call.args[1].max(call.args[2]), MOVED_MOST_BYTES),
        _ => return Ok(()),
    };
    if result >= 0 && len > most {
        return Err(format!("{} of {len:#x} bytes, granted, cannot be replayed", call.sys));
    }
    Ok(())
}

/// What is done for a call that returned `result`.
fn act(call: &Call, result: i64, locked: &Locked) -> (Act, Way) {
    let [addr, len, third, fourth, fifth, _] = call.args;
    let failed = result < 0;
    match call.sys {
        Sys::Mmap if is_anonymous(fourth) => map_anonymous(call, result),
        // What Linux found wrong with the file cannot be found here.
        Sys::Mmap if failed => (Act::Nothing, Way::Left),
        Sys::Mmap => (Act::StandIn(stand_in(call)), Way::StandIn),
        Sys::MapShadowStack if !failed => {
            let place = Place::Fixed(VirtAddr(result as u64));
            (Act::StandIn(MapRequest { place, ..MapRequest::anonymous(len) }), Way::Imposed)
        }
        Sys::Munmap => (Act::Munmap { addr, len }, Way::Carried),
        Sys::Mprotect => (Act::Mprotect { addr, len, prot: third as u32 }, Way::Carried),
        Sys::PkeyMprotect if !failed => (Act::Mprotect { addr, len, prot: third as u32 }, Way::Imposed),
        // Locked memory keeps its pages, which Linux says; the library locks none.
        Sys::Madvise if result == EINVAL && locked.overlaps(addr, len) => (Act::Nothing, Way::Imposed),
        // Whether it is refused depends on the blocks that were free, and on pages that no event tells.
        Sys::Madvise if third as i32 == advice::COLLAPSE && failed => (Act::Nothing, Way::Left),
        Sys::Madvise if third as i32 == advice::COLLAPSE => {
            (Act::Madvise { addr, len, advice: advice::COLLAPSE }, Way::Imposed)
        }
        Sys::Madvise if advice::advice(third as i32).is_some() => {
            (Act::Madvise { addr, len, advice: third as i32 }, Way::Carried)
        }
        Sys::Brk => (Act::Brk { addr }, Way::Carried),
        Sys::Mremap if !failed => {
            (Act::Mremap { addr, old_len: len, new_len: third, flags: fourth, to: fifth }, Way::Imposed)
        }
        Sys::Prctl if !failed => match granted_refusal(call) {
            Some(refusal) => (Act::RefuseHugePages(refusal), Way::Carried),
            None => (Act::Nothing, Way::Imposed),
        },
        sys if !failed && is_unbuilt(sys) => (Act::Nothing, Way::Imposed),
        _ => (Act::Nothing, Way::Left),
    }
}

const EINVAL: i64 = -22;

/// Calls that change how memory behaves, which is assumed and not done.
fn is_unbuilt(sys: Sys) -> bool {
    use Sys::{Madvise, Mbind, Mlock, Mlock2, Mlockall, Mseal, Munlock, Munlockall};
    matches!(sys, Madvise | Mbind | Mlock | Mlock2 | Mlockall | Mseal | Munlock | Munlockall)
}

fn is_anonymous(flags: u64) -> bool {
    MapFlags::from_bits_retain(flags as u32).contains(MapFlags::ANONYMOUS)
}

/// Flags with which the library's mmap does not do all that Linux does.
const UNBUILT: MapFlags = MapFlags::HUGETLB.union(MapFlags::GROWSDOWN).union(MapFlags::LOCKED);
/// `MAP_DROPPABLE` of Linux: private memory that reclaim may discard.
const DROPPABLE: u32 = 8;

/// mmap without a file. What is not built is imposed by the nearest mapping there is.
fn map_anonymous(call: &Call, result: i64) -> (Act, Way) {
    let [addr, len, prot, flags, ..] = call.args;
    let (prot, word) = (prot as u32, flags as u32);
    let flags = MapFlags::from_bits_retain(word);
    let is_droppable = word & MapFlags::TYPE.bits() == DROPPABLE;
    if !flags.intersects(UNBUILT) && !is_droppable {
        return (Act::Mmap { addr, len, prot, flags: word }, Way::Carried);
    }
    if result < 0 {
        return (Act::Nothing, Way::Left);
    }
    if !is_droppable && flags & UNBUILT == MapFlags::LOCKED {
        let flags = (flags - MapFlags::LOCKED) | MapFlags::POPULATE;
        return (Act::Mmap { addr, len, prot, flags: flags.bits() }, Way::Imposed);
    }
    let private = if is_droppable { (word & !DROPPABLE) | MapFlags::PRIVATE.bits() } else { word };
    let (mut request, _) = map_request(addr, len, prot, private);
    request.flags.set(VmaFlags::GROWS_DOWN, flags.contains(MapFlags::GROWSDOWN));
    if is_droppable {
        request.flags |= VmaFlags::WIPE_ON_FORK | VmaFlags::DONT_DUMP | VmaFlags::NORESERVE;
    }
    if flags.contains(MapFlags::HUGETLB) {
        request.flags |= STAND_IN | VmaFlags::NORESERVE;
    }
    request.len_bytes = round_up(len, if flags.contains(MapFlags::HUGETLB) { 2 << 20 } else { 4096 });
    let place = Place::Fixed(VirtAddr(result as u64));
    (Act::StandIn(MapRequest { place, ..request }), Way::Imposed)
}

/// The next multiple; the highest if there is none.
pub(super) fn round_up(len: u64, unit: u64) -> u64 {
    len.checked_next_multiple_of(unit).unwrap_or(u64::MAX / unit * unit)
}

/// The pages that hold a range.
pub(super) fn pages(addr: u64, len: u64) -> Range<u64> {
    addr & !0xfff..round_up(addr.saturating_add(len), 4096)
}

fn stand_in(call: &Call) -> MapRequest {
    let [addr, len_bytes, prot, flags, ..] = call.args;
    let (request, _) = map_request(addr, len_bytes, prot as u32, flags as u32);
    let private = MapFlags::from_bits_retain(flags as u32) & MapFlags::TYPE == MapFlags::PRIVATE;
    let sharing = if private { Sharing::Private } else { Sharing::Shared };
    let access = request.flags & VmaFlags::ACCESS;
    // Memory of a file has no huge pages of its own.
    let stands_in = STAND_IN | VmaFlags::NORESERVE | VmaFlags::NO_HUGE_PAGE;
    MapRequest { flags: access | stands_in, sharing, ..request }
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
            Act::StandIn(request) => request.len_bytes,
            Act::Mremap { new_len, .. } => new_len,
            _ => 0,
        };
        let start = u64::try_from(self.expected).unwrap_or(0);
        start.saturating_add(len).checked_next_multiple_of(4096).unwrap_or(0)
    }

    /// Pages of the range of which the call makes huge pages; none if it does not.
    pub fn collapsed_pages(&self) -> u64 {
        match self.act {
            Act::Madvise { len, advice: advice::COLLAPSE, .. } => len.div_ceil(4096),
            _ => 0,
        }
    }

    /// Pages that the call itself made present; none if it failed.
    pub fn populated_pages(&self) -> u64 {
        if self.expected < 0 { 0 } else { self.act.populated_pages() }
    }
}

impl Act {
    /// Pages that the call itself makes present if it is granted.
    fn populated_pages(&self) -> u64 {
        let bytes = match *self {
            Act::Mmap { len, flags, .. } if has(flags, MapFlags::POPULATE) => len,
            Act::StandIn(request) if request.populate => request.len_bytes,
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
            Act::StandIn(request) => matches!(request.place, Place::Hint(_) | Place::Low(_)),
            Act::Mremap { flags, .. } => flags & MREMAP_FIXED == 0,
            _ => false,
        }
    }
}
