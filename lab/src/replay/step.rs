//! Steps: the action for each event, decided before the clock runs.
//!
//! A step is 24 bytes; what a call needs beyond that lies in a list of its own. The step at an index belongs
//! to the event at the same index of its [`Life`](super::life::Life).

use crate::trace::{self, Call, Event, Kind, Sys};
use interleaf::space::{MapRequest, Place, Sharing};
use interleaf::units::{Access, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_linux_abi::{MREMAP_FIXED, MapFlags, advice, map_request};
use serde::Serialize;

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
        access: Access,
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
    /// The library has not got the call; its effect is imposed by others.
    Imposed,
    /// Nothing is done: it changes no page, or it is not built.
    Left,
}

/// What is done for a call. Numbers are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// mmap of anonymous memory.
    Mmap { addr: u64, len: u64, prot: u32, flags: u32 },
    /// mmap of a file, as this request.
    StandIn(MapRequest),
    /// munmap.
    Munmap { addr: u64, len: u64 },
    /// mprotect.
    Mprotect { addr: u64, len: u64, prot: u32 },
    /// madvise.
    Madvise { addr: u64, len: u64, advice: i32 },
    /// brk.
    Brk { addr: u64 },
    /// mremap, by map and unmap.
    Mremap { addr: u64, old_len: u64, new_len: u64, flags: u64, to: u64 },
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
}

impl Steps {
    /// Decides what to do for each event. Refuses a fault whose access is not known.
    pub fn of(events: &[Event]) -> Result<Steps, String> {
        let mut all = Steps { steps: Vec::with_capacity(events.len()), calls: Vec::new() };
        for event in events {
            let step = all.step(event)?;
            all.steps.push(step);
        }
        Ok(all)
    }

    fn step(&mut self, event: &Event) -> Result<Step, String> {
        match &event.kind {
            Kind::Fault(fault) => {
                let access = match fault.access {
                    trace::Access::Read => Access::Read,
                    trace::Access::Write => Access::Write,
                    trace::Access::Execute => Access::Execute,
                    trace::Access::Unknown => return Err("a fault whose access is not known".to_string()),
                };
                Ok(Step::Touch { addr: VirtAddr(fault.address), access })
            }
            Kind::Call(call) => {
                let Some(expected) = call.result else { return Ok(Step::Nothing) };
                let (act, way) = act(call, expected);
                self.calls.push(CallStep { sys: call.sys, act, way, expected });
                u32::try_from(self.calls.len() - 1).map(Step::Call).map_err(|_| "too many calls".to_string())
            }
            _ => Ok(Step::Nothing),
        }
    }
}

/// What is done for a call that returned `result`.
fn act(call: &Call, result: i64) -> (Act, Way) {
    let [addr, len, third, fourth, fifth, _] = call.args;
    let failed = result < 0;
    match call.sys {
        Sys::Mmap if is_plain(fourth) => {
            (Act::Mmap { addr, len, prot: third as u32, flags: fourth as u32 }, Way::Carried)
        }
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
        Sys::Madvise if advice::advice(third as i32).is_some() => {
            (Act::Madvise { addr, len, advice: third as i32 }, Way::Carried)
        }
        Sys::Brk => (Act::Brk { addr }, Way::Carried),
        Sys::Mremap if !failed => {
            (Act::Mremap { addr, old_len: len, new_len: third, flags: fourth, to: fifth }, Way::Imposed)
        }
        _ => (Act::Nothing, Way::Left),
    }
}

/// Whether the library's own mmap has all that the flags ask for.
fn is_plain(flags: u64) -> bool {
    let flags = MapFlags::from_bits_retain(flags as u32);
    flags.contains(MapFlags::ANONYMOUS) && !flags.intersects(MapFlags::HUGETLB | MapFlags::GROWSDOWN)
}

fn stand_in(call: &Call) -> MapRequest {
    let [addr, len_bytes, prot, flags, ..] = call.args;
    let (request, _) = map_request(addr, len_bytes, prot as u32, flags as u32);
    let private = MapFlags::from_bits_retain(flags as u32) & MapFlags::TYPE == MapFlags::PRIVATE;
    let sharing = if private { Sharing::Private } else { Sharing::Shared };
    let access = request.flags & VmaFlags::ACCESS;
    MapRequest { flags: access | STAND_IN | VmaFlags::NORESERVE, sharing, ..request }
}

/// Whether a flag word has one of these.
fn has(flags: u32, wanted: MapFlags) -> bool {
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
}

impl Act {
    /// Pages that the call itself makes present.
    pub fn populated_pages(&self) -> u64 {
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
