//! Plays a life step by step and holds each answer against the recorded one.

use super::difference::{DifferenceKind as Kind, Differences};
use super::final_map::{self, Gap};
use super::life::{End, Life};
use super::moves::Moves;
use super::player::Player;
use super::setup::ReplayMachine;
use super::step::{Act, CallStep, STAND_IN, Step, Steps, Way, pages};
use crate::trace::{Call, Cause, Event, Fault, Kind as EventKind, Limits, Mode, Sys};
use interleaf::space::AddressSpace;
use interleaf::units::{Access, CpuId, PageSize, Pfn, VirtAddr, Vpn};
use interleaf::vma::VmaFlags;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// A fault by another thread so shortly before has the same cause: both touched the page while it was absent.
const SAME_MOMENT_NS: u64 = 20_000_000;
/// Number of events between two checks of the TLB against the tables.
const INSPECT_EVERY: usize = 4096;

/// What was compared in a life.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Recorded faults that were performed as accesses.
    pub performed: u64,
    /// Of these, the ones that faulted here.
    pub faulted: u64,
    /// Calls by name and by how they were replayed.
    pub calls: BTreeMap<(Sys, Way), CallCount>,
    /// Places that Linux chose, and how many of them we chose too.
    pub places: Agreed,
    /// What differs.
    pub differences: Differences,
    /// Frames that were zeroed for user pages, in order.
    pub zeroed: Vec<Pfn>,
    /// Both maps at the end, Linux's first, if something unexplained differs.
    pub maps: Option<[Vec<String>; 2]>,
    /// Whether the final maps were compared.
    pub map_compared: bool,
}

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agreed {
    /// Those that agreed.
    pub agreed: u64,
    /// All.
    pub of: u64,
}

/// Calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCount {
    /// How many.
    pub times: u64,
    /// How many were answered as Linux did.
    pub agreed: u64,
}

/// Checks one life against what Linux did.
pub struct Checker<'a, 'v> {
    player: &'a Player<'a, 'v>,
    life: &'a Life,
    steps: &'a Steps,
    limits: Limits,
    /// Faults after which the program got a signal.
    signalled: HashSet<usize>,
    /// The thread that faulted last on each page, and when.
    last_fault: HashMap<Vpn, (u32, u64)>,
    /// Calls that move memory, by time.
    moves: Moves,
    /// Ranges of calls that are not built: mappings may begin or end elsewhere there.
    imposed: Vec<Range<u64>>,
    /// Those of them whose pages Linux fills, keeps or refuses in ways that are not built.
    imposed_pages: Vec<Range<u64>>,
    verdict: Verdict,
}

impl<'a, 'v> Checker<'a, 'v> {
    /// A checker for one life.
    pub fn new(player: &'a Player<'a, 'v>, life: &'a Life, steps: &'a Steps, limits: Limits) -> Self {
        Self {
            player,
            life,
            steps,
            limits,
            signalled: signalled(&life.events),
            last_fault: HashMap::new(),
            moves: Moves::of(&life.events),
            imposed: Vec::new(),
            imposed_pages: Vec::new(),
            verdict: Verdict::default(),
        }
    }

    /// Plays the life; `progress` is called now and then.
    pub fn play(mut self, mut progress: impl FnMut()) -> Verdict {
        for at in 0..self.steps.steps.len() {
            match self.steps.steps[at] {
                Step::Nothing => {}
                Step::Touch { addr, access } => self.touch(at, addr, access),
                Step::Call(number) => self.call(at, &self.steps.calls[number as usize]),
            }
            if at % INSPECT_EVERY == INSPECT_EVERY - 1 {
                self.inspect_tlb();
                progress();
            }
        }
        self.inspect_tlb();
        progress();
        self.compare_maps();
        self.verdict
    }

    fn space(&self) -> &'a AddressSpace<'v, ReplayMachine> {
        self.player.space
    }

    fn differ(&mut self, kind: Kind, at: usize, text: impl FnOnce() -> String) {
        self.verdict.differences.add(kind, at, text);
    }

    fn touch(&mut self, at: usize, addr: VirtAddr, access: Option<Access>) {
        let EventKind::Fault(fault) = self.life.events[at].kind else { return };
        let page = addr.vpn();
        let before = self.space().resident_frame(page).map(|(frame, _)| frame);
        let is_present = self.player.machine.leaf_at(page).is_some();
        let raised = self.player.counts.raised();
        let done = self.player.touch(addr, access);
        let raised = self.player.counts.raised() - raised;
        self.verdict.performed += 1;
        self.verdict.faulted += u64::from(raised > 0);
        self.note_zeroed(page, before);
        let difference = match (done, self.signalled.contains(&at)) {
            (Ok(()), false) => self.judge_fault(at, &fault, is_present, raised),
            (Err(_), true) => None,
            (Err(_), false) if fault.mode == Mode::Kernel => Some(Kind::KernelRefused),
            (Err(_), false) => Some(Kind::Refused),
            (Ok(()), true) => Some(if self.is_stand_in(addr) { Kind::FileFault } else { Kind::Allowed }),
        };
        if let Some(kind) = difference {
            let was = if is_present { "present" } else { "absent" };
            let kind = if self.is_imposed(addr) && !kind.is_explained() { Kind::ImposedPage } else { kind };
            self.differ(kind, at, || format!("{fault:x?}: page {was} here, {raised} faults"));
        }
        let event = &self.life.events[at];
        self.last_fault.insert(page, (event.tid, event.time_ns));
    }

    /// Whether the page is one that Linux treats as a call asked for that is not built.
    fn is_imposed(&self, addr: VirtAddr) -> bool {
        self.imposed_pages.iter().any(|range| range.contains(&addr.0))
    }

    /// Whether what the processor met is what Linux's met. `is_present` is the entry's, before the access.
    fn judge_fault(&self, at: usize, fault: &Fault, is_present: bool, raised: u64) -> Option<Kind> {
        let addr = VirtAddr(fault.address);
        let met = match (raised, is_present) {
            (0, _) => None,
            (_, true) => Some(Cause::Protection),
            (_, false) => Some(Cause::Absent),
        };
        if met == Some(fault.cause) || fault.cause == Cause::Unknown {
            return None;
        }
        let event = &self.life.events[at];
        let other = self
            .last_fault
            .get(&addr.vpn())
            .is_some_and(|&(tid, time_ns)| tid != event.tid && event.time_ns - time_ns < SAME_MOMENT_NS);
        let at_exec = self.life.start.find(fault.address).is_some_and(|mapping| mapping.rss_kib > 0);
        Some(match met {
            Some(Cause::Absent) if self.is_stand_in(addr) => Kind::FilePresent,
            Some(Cause::Absent) if at_exec => Kind::ExecPresent,
            _ if self.is_stand_in(addr) => Kind::FileFault,
            _ if other => Kind::OtherThread,
            None => Kind::NoFault,
            Some(_) => Kind::Cause,
        })
    }

    fn is_stand_in(&self, addr: VirtAddr) -> bool {
        let found = self.player.first_above(addr).filter(|vma| vma.range.start <= addr.vpn());
        found.is_some_and(|vma| vma.flags.contains(STAND_IN))
    }

    fn note_zeroed(&mut self, page: Vpn, before: Option<Pfn>) {
        let after = self.space().resident_frame(page).map(|(frame, _)| frame);
        let zero = self.space().vm().memory().zero_frame();
        if let Some(frame) = after
            && after != before
            && frame != zero
        {
            self.verdict.zeroed.push(frame);
        }
    }

    fn call(&mut self, at: usize, call: &CallStep) {
        let populated = populated(call);
        self.note_imposed_pages(at, call);
        let frame = |page: &Vpn| self.space().resident_frame(*page).map(|(frame, _)| frame);
        let before: Vec<_> = populated.iter().map(frame).collect();
        let ours = self.player.call(call);
        populated.into_iter().zip(before).for_each(|(page, before)| self.note_zeroed(page, before));
        let agreed = ours == call.expected;
        let count = self.verdict.calls.entry((call.sys, call.way)).or_default();
        count.times += 1;
        count.agreed += u64::from(agreed);
        let chosen = call.act.is_free_choice() && call.expected >= 0;
        self.verdict.places.of += u64::from(chosen);
        self.verdict.places.agreed += u64::from(chosen && agreed);
        if matches!(call.way, Way::Imposed) {
            self.note_imposed(at, call);
        }
        if !agreed {
            let kind = self.judge_answer(at, call, ours);
            self.differ(kind, at, || format!("{}: Linux {:#x}, here {ours:#x}", call.sys, call.expected));
        }
    }

    fn judge_answer(&self, at: usize, call: &CallStep, ours: i64) -> Kind {
        let EventKind::Call(recorded) = &self.life.events[at].kind else { return Kind::Answer };
        let (address, offset) = (recorded.args[0], recorded.args[5]);
        let limited = self.limits.address_space_bytes.is_some() || self.limits.data_bytes.is_some();
        if call.expected == -12 && limited && ours >= 0 {
            return Kind::Limit;
        }
        let huge = PageSize::Huge.bytes();
        match call.act {
            Act::StandIn(request) if call.expected > 0 && ours > 0 => {
                let aligned = (call.expected as u64).wrapping_sub(offset).is_multiple_of(huge);
                match request.len_bytes >= huge && aligned {
                    true => Kind::FilePlace,
                    false => self.judge_place(at, recorded, ours),
                }
            }
            Act::Mprotect { .. } | Act::Madvise { .. } if self.is_stand_in(VirtAddr(address)) => {
                Kind::FileAnswer
            }
            _ if call.act.is_free_choice() && call.expected > 0 && ours > 0 => {
                self.judge_place(at, recorded, ours)
            }
            _ => Kind::Answer,
        }
    }

    /// Two calls that were under way at the same time took effect in an order that the recording cannot know.
    /// The place we chose is one that another such call gave back or took.
    fn judge_place(&self, at: usize, recorded: &Call, ours: i64) -> Kind {
        let ours = pages(ours as u64, place_len(recorded));
        let beside = self.moves.any_beside(recorded, self.life.events[at].tid, &ours);
        if beside { Kind::Meanwhile } else { Kind::Place }
    }

    /// What a call that is not built does to edges of mappings is not done here.
    fn note_imposed(&mut self, at: usize, call: &CallStep) {
        let EventKind::Call(recorded) = &self.life.events[at].kind else { return };
        let [first, second, third, fourth, ..] = recorded.args;
        self.imposed.push(match recorded.sys {
            _ if call.expected < 0 => return,
            Sys::Mremap => pages(call.expected as u64, third),
            Sys::Mlockall | Sys::Munlockall => 0..u64::MAX,
            Sys::Prctl => pages(third, fourth),
            Sys::Mmap | Sys::MapShadowStack => pages(call.expected as u64, second),
            _ => pages(first, second),
        });
    }

    /// Notes, before a call that is not built is imposed, the pages that Linux treats as it asked.
    fn note_imposed_pages(&mut self, at: usize, call: &CallStep) {
        let EventKind::Call(recorded) = &self.life.events[at].kind else { return };
        if call.way != Way::Imposed || call.expected < 0 {
            return;
        }
        let [first, old_len, new_len, ..] = recorded.args;
        self.imposed_pages.push(match recorded.sys {
            Sys::Mlock | Sys::Mlock2 => pages(first, old_len),
            Sys::Mlockall => 0..u64::MAX,
            Sys::Mmap => pages(call.expected as u64, old_len),
            // The object of shared memory does not grow: beyond its end there is SIGBUS.
            Sys::Mremap if new_len > old_len && self.is_shared(VirtAddr(first)) => {
                pages((call.expected as u64).saturating_add(old_len), new_len - old_len)
            }
            _ => return,
        });
    }

    fn is_shared(&self, addr: VirtAddr) -> bool {
        let found = self.player.first_above(addr).filter(|vma| vma.range.start <= addr.vpn());
        found.is_some_and(|vma| vma.flags.contains(VmaFlags::SHARED))
    }

    /// Every translation in the CPU's TLB is one that the space has: none of a frame that was freed.
    fn inspect_tlb(&self) {
        let mut remembered = Vec::new();
        let looked = self.player.machine.inspect(CpuId(0), |page| remembered.push(page), |_, _| {});
        looked.expect("this thread runs on the CPU");
        for page in remembered {
            let has = self.space().resident_frame(page.vpn).map(|(frame, _)| frame);
            assert_eq!(has, Some(page.pfn), "the TLB remembers {page:?}");
        }
    }

    fn compare_maps(&mut self) {
        let End::Exited(image) = &self.life.end else { return };
        let (linux, ours) = (final_map::linux_lines(image), final_map::our_lines(self.space()));
        self.verdict.map_compared = true;
        for gap in final_map::compare(&linux, &ours) {
            let at = self.last_event_at(gap.address());
            let edge = |range: &Range<u64>| range.start <= gap.address() && gap.address() <= range.end;
            let kind = match gap {
                Gap::Edge(..) if self.imposed.iter().any(edge) => Kind::ImposedEdge,
                Gap::Edge(..) => Kind::Edge,
                Gap::Rights(..) => Kind::Map,
                Gap::Flags(..) => Kind::Attributes,
            };
            self.differ(kind, at, || gap.text());
        }
        if self.verdict.differences.unexplained() > 0 {
            let texts = |lines: Vec<final_map::Line>| lines.into_iter().map(|line| line.text).collect();
            self.verdict.maps = Some([texts(linux), texts(ours)]);
        }
    }

    /// The last event whose call named the address, or gave it; the last of all if none did.
    fn last_event_at(&self, address: u64) -> usize {
        let names = |event: &Event| {
            let EventKind::Call(call) = &event.kind else { return false };
            let [start, len, ..] = call.args;
            let gave = call.result.and_then(|result| u64::try_from(result).ok()).unwrap_or(0);
            let holds = |start: u64, len: u64| start <= address && address <= start.saturating_add(len);
            holds(start, len) || (gave > 0 && holds(gave, len))
        };
        let events = &self.life.events;
        events.iter().rposition(names).unwrap_or(events.len().saturating_sub(1))
    }
}

/// The pages that a call makes present itself.
fn populated(call: &CallStep) -> Vec<Vpn> {
    let start = match call.act {
        _ if call.populated_pages() == 0 => return Vec::new(),
        Act::Madvise { addr, .. } => addr,
        _ => call.expected as u64,
    };
    let first = VirtAddr(start).vpn();
    (0..call.populated_pages()).map(|page| first.add(page)).collect()
}

/// The length that a call that gives a place asks for.
fn place_len(call: &Call) -> u64 {
    if call.sys == Sys::Mremap { call.args[2] } else { call.args[1] }
}

/// Faults after which a signal that names their address was delivered to the same thread.
fn signalled(events: &[Event]) -> HashSet<usize> {
    let mut last = HashMap::new();
    let mut found = HashSet::new();
    for (at, event) in events.iter().enumerate() {
        match &event.kind {
            EventKind::Fault(fault) => {
                last.insert(event.tid, (at, fault.address));
            }
            EventKind::Signal(signal) => match last.get(&event.tid) {
                Some(&(fault, address)) if address == signal.address => {
                    found.insert(fault);
                }
                _ => {}
            },
            _ => {}
        }
    }
    found
}
