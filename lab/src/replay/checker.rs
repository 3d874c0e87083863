//! Holds each answer of a life that is played against the recorded one.

use super::difference::DifferenceKind as Kind;
use super::filling::{Filling, Had, note_brought, note_filled, populated};
use super::final_map::{self, Gap};
use super::fork_windows::ForkWindows;
use super::huge_setting::HugeSetting;
use super::judge::{self, AccessOutcome};
use super::life::{End, Life};
use super::moves::Moves;
use super::page_set::PageSet;
use super::player::Player;
use super::ranges::Ranges;
use super::regions::Regions;
use super::resident::ResidentNow;
use super::signals::{Signalled, signalled};
use super::step::{CallStep, Step, Steps, Tried, Way};
use super::unsettled::Unsettled;
use super::verdict::{Filled, Verdict};
use crate::machine::soft::Signal;
use crate::trace::{Event, Kind as EventKind, Limits, Mode};
use interleaf::units::{Access, CpuId, PageSize, Pfn, Rights, VirtAddr, Vpn};
use interleaf::vma::VmaAttributes;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Number of events between two checks of the TLB against the tables.
const INSPECT_EVERY: usize = 4096;

/// Checks one life against what Linux did.
pub struct Checker<'a> {
    pub(super) life: &'a Life,
    steps: &'a Steps,
    pub(super) limits: Limits,
    /// Faults after which the program got a signal.
    pub(super) signalled: Signalled,
    /// The thread that faulted last on each page, and when.
    pub(super) last_fault: HashMap<Vpn, (u32, u64)>,
    pub(super) forks: ForkWindows,
    /// Pages on which other threads faulted while a fork of this life, or the one that made it, was going on.
    pub(super) during_forks: HashSet<Vpn>,
    /// Calls that move memory, by time.
    pub(super) moves: Moves,
    /// Where mappings may be joined otherwise because calls were under way at the same time.
    pub(super) unsettled: Unsettled,
    /// What calls that are not built were about: mappings may begin or end elsewhere there.
    pub(super) imposed: Ranges,
    /// Of that, the pages that Linux fills, keeps or refuses in ways that are not built.
    pub(super) imposed_pages: Ranges,
    /// Those of them of which shared memory lost its pages since this was last asked.
    pub(super) removed: Vec<Range<u64>>,
    pub(super) huge: HugeSetting,
    /// Pages that came with a huge page, or an mTHP folio, of which another page faulted.
    pub(super) brought: PageSet,
    /// Regions that Linux may have mapped by huge pages.
    pub(super) regions: Regions,
    /// Pages of files that a fault around them may have mapped for Linux.
    pub(super) around: PageSet,
    /// By thread, the pages of the faults in kernel mode that were the last things it did.
    pub(super) kernel_faults: HashMap<u32, HashSet<Vpn>>,
    resident: ResidentNow,
    pub(super) verdict: Verdict,
}

impl<'a> Checker<'a> {
    /// A checker for one life, which may have huge pages or not.
    pub fn new(
        life: &'a Life,
        steps: &'a Steps,
        limits: Limits,
        huge: HugeSetting,
        may_be_huge: bool,
    ) -> Self {
        Self {
            life,
            steps,
            limits,
            signalled: signalled(&life.events),
            last_fault: HashMap::new(),
            forks: ForkWindows::of(&life.events),
            during_forks: HashSet::new(),
            moves: Moves::of(&life.events),
            unsettled: Unsettled::of(&life.events),
            imposed: Ranges::default(),
            imposed_pages: Ranges::default(),
            removed: Vec::new(),
            huge,
            brought: PageSet::default(),
            regions: Regions::default(),
            around: PageSet::default(),
            kernel_faults: HashMap::new(),
            resident: ResidentNow::new(may_be_huge),
            verdict: Verdict::default(),
        }
    }

    /// Plays the step at `at`. Frames that pages got are added to `filled`.
    pub fn step(&mut self, at: usize, player: &Player<'_, '_>, filled: &mut Vec<Filled>) {
        self.resident.begin(player);
        match self.steps.steps[at] {
            Step::Nothing => {}
            Step::Touch { addr, tried }
            | Step::TouchFile { addr, tried, .. }
            | Step::TouchBeyond { addr, tried } => self.touch(at, addr, tried, player, filled),
            Step::Barred { by, .. } => self.barred(at, by),
            Step::Call(number) => self.call(at, &self.steps.calls[number as usize], player, filled),
        }
        self.note_kernel_fault(&self.life.events[at]);
        if at % INSPECT_EVERY == INSPECT_EVERY - 1 {
            self.inspect_tlb(player);
        }
    }

    fn note_kernel_fault(&mut self, event: &Event) {
        match event.kind {
            EventKind::Fault(fault) if fault.mode == Mode::Kernel => {
                let pages = self.kernel_faults.entry(event.tid).or_default();
                pages.insert(VirtAddr(fault.address).vpn());
            }
            _ if self.kernel_faults.is_empty() => {}
            _ => drop(self.kernel_faults.remove(&event.tid)),
        }
    }

    /// The last event was a fork, after which `child` goes on with what was noted so far.
    pub fn forked(&self, child: &mut Checker<'_>, player: &Player<'_, '_>) {
        child.during_forks.clone_from(&self.during_forks);
        child.brought.clone_from(&self.brought);
        child.regions.clone_from(&self.regions);
        child.around.clone_from(&self.around);
        self.unsettled.copy_to(&mut child.unsettled);
        child.imposed.clone_from(&self.imposed);
        child.imposed_pages.clone_from(&self.imposed_pages);
        self.inspect_tlb(player);
    }

    /// Ranges of shared memory that lost their pages since the last question.
    pub fn take_removed(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.removed)
    }

    /// Another life, which may share memory with this one, removed pages there.
    pub fn note_removed(&mut self, range: Range<u64>) {
        self.imposed_pages.add(range);
    }

    /// The space is about to end.
    pub fn end(&mut self, player: &Player<'_, '_>) {
        self.inspect_tlb(player);
        self.verdict.resident = self.resident.end(player);
        self.compare_maps(player);
    }

    /// What the comparison came to.
    pub fn verdict(self) -> Verdict {
        self.verdict
    }

    pub(super) fn differ(&mut self, kind: Kind, at: usize, text: impl FnOnce() -> String) {
        self.verdict.differences.add(kind, at, text);
    }

    fn touch(
        &mut self,
        at: usize,
        addr: VirtAddr,
        tried: Tried,
        player: &Player<'_, '_>,
        filled: &mut Vec<Filled>,
    ) {
        let EventKind::Fault(fault) = self.life.events[at].kind else { return };
        let page = addr.vpn();
        if self.forks.any_beside(&self.life.events[at]) {
            self.during_forks.insert(page);
        }
        if self.signalled.contains_key(&at) && self.is_forbidden_meanwhile(at, addr, tried, player) {
            return self
                .differ(Kind::MeanwhileFault, at, || format!("{fault:x?}: forbidden at the same time"));
        }
        let huge_before = player.huge_page_at(page);
        let had = Had::of(page, player);
        let before = player.space.inspect().resident_frame(page);
        let is_present = player.machine.leaf_at(page).is_some();
        let is_brought = is_present && self.brought.contains(page);
        let beside = if is_present { Vec::new() } else { self.absent_beside(page, player) };
        let is_zero = before.is_some_and(|(frame, _)| frame == player.space.vm().memory().zero_frame());
        let mappers = before.filter(|_| !is_zero).map_or(0, |(frame, _)| player.mappers(page, frame));
        let (raised, growths) = (player.counts.raised(), player.counts.growths());
        let done = self.perform(at, addr, tried, player, filled);
        let raised = player.counts.raised() - raised;
        self.verdict.performed += 1;
        self.verdict.faulted += u64::from(raised > 0);
        note_filled(page, had, player, filled);
        let with_it = self.note_folio(page, beside, player, filled);
        self.note_touched(page, is_present, player);
        if before.is_none() || is_zero {
            self.note_resident(page, with_it, player);
        }
        if done.is_ok() && tried == Tried::As(Access::Write) {
            self.check_copied(page, before, mappers, player);
        }
        if player.counts.growths() > growths {
            // A stack that grows in place keeps its copies' identity, a mapping put below it has none.
            let range = |vma: VmaAttributes| vma.range.start.addr().0..vma.range.end.addr().0;
            self.imposed.extend(player.space.inspect().vma_at(addr).map(range));
        }
        let is_huge = huge_before.is_some() || is_brought;
        let outcome = AccessOutcome { is_present, is_zero, raised, is_huge };
        self.compare(at, done, outcome, huge_before, player);
        self.note_around(addr, tried, player);
        let event = &self.life.events[at];
        self.last_fault.insert(page, (event.tid, event.time_ns));
    }

    /// Performs the access of a fault, and notes what is not in an entry: a mapping's identity, a length.
    fn perform(
        &mut self,
        at: usize,
        addr: VirtAddr,
        tried: Tried,
        player: &Player<'_, '_>,
        filled: &mut Vec<Filled>,
    ) -> Result<(), Signal> {
        let anonymous = |player: &Player<'_, '_>| {
            player.space.inspect().vma_at(addr).filter(|_| self.unsettled.is_possible())
        };
        let had_none = anonymous(player).is_some_and(|vma| vma.anon.is_none());
        let imposed = player.objects.lengths_imposed();
        let done = match self.steps.steps[at] {
            Step::TouchBeyond { .. } => player.touch_beyond(addr, tried),
            Step::TouchFile { cached, .. } => {
                let lacking = player.lacking(addr, cached);
                let done = player.touch_file(addr, tried, cached);
                note_brought(lacking, filled);
                done
            }
            _ => player.touch(addr, tried),
        };
        if had_none && let Some(vma) = anonymous(player).filter(|vma| !vma.anon.is_none()) {
            let range = vma.range.start.addr().0..vma.range.end.addr().0;
            self.unsettled.note_first_fault(at, &self.life.events[at], range);
        }
        if player.objects.lengths_imposed() > imposed {
            self.differ(Kind::FileLength, at, String::new);
        }
        done
    }

    /// Compares what an access came to with what Linux's fault did.
    fn compare(
        &mut self,
        at: usize,
        done: Result<(), Signal>,
        outcome: AccessOutcome,
        huge_before: Option<Vpn>,
        player: &Player<'_, '_>,
    ) {
        let EventKind::Fault(fault) = self.life.events[at].kind else { return };
        let addr = VirtAddr(fault.address);
        let difference = match (done, self.signalled.contains_key(&at)) {
            (Ok(()), false) => self.judge_fault(at, &fault, outcome, player),
            (Err(_), true) => None,
            (Err(_), false) => Some(self.judge_refused(at, &fault)),
            (Ok(()), true) if judge::is_stand_in(player, addr) => Some(Kind::StandInPage),
            (Ok(()), true) => Some(Kind::Allowed),
        };
        let Some(kind) = difference else { return };
        let was = if outcome.is_present { "present" } else { "absent" };
        let kind = if self.is_imposed(addr) && !kind.is_explained() { Kind::ImposedPage } else { kind };
        if let (Kind::HugeSupply, Some(first)) = (kind, huge_before) {
            self.verdict.lacked_huge.insert(first.0);
        }
        self.differ(kind, at, || format!("{fault:x?}: page {was} here, {} faults", outcome.raised));
    }

    /// After a write to private memory no other space has the page's frame: it was copied if one had it, and
    /// only then.
    fn check_copied(
        &mut self,
        page: Vpn,
        before: Option<(Pfn, bool)>,
        mappers: usize,
        player: &Player<'_, '_>,
    ) {
        let Some((frame, false)) = before else { return };
        let after = player.space.inspect().resident_frame(page).map(|(frame, _)| frame);
        if mappers > 0 {
            assert_eq!(
                after != Some(frame),
                mappers > 1,
                "{frame:?} of {page:?}, which {mappers} spaces had"
            );
            self.verdict.copied += u64::from(mappers > 1);
        }
    }

    /// A page that had no frame of its own may have one since a fault, and `with_it` others.
    fn note_resident(&mut self, page: Vpn, with_it: u64, player: &Player<'_, '_>) {
        let zero = player.space.vm().memory().zero_frame();
        if player.space.inspect().resident_frame(page).is_some_and(|(frame, _)| frame != zero) {
            let huge = player.huge_page_at(page).map(|_| PageSize::Huge.pages());
            self.resident.add(huge.unwrap_or(1 + with_it), page.addr(), player);
        }
    }

    fn call(&mut self, at: usize, call: &CallStep, player: &Player<'_, '_>, filled: &mut Vec<Filled>) {
        let populated = populated(call, player);
        self.note_imposed_pages(at, call, player);
        let resident = self.resident.before(call, player);
        let filling = Filling::before(call, populated, player);
        let ours = player.call(call);
        self.resident.after(&resident, player);
        if let EventKind::Call(recorded) = &self.life.events[at].kind {
            self.unsettled.note_call(recorded, self.life.events[at].tid);
            self.regions.note_collapse(recorded);
        }
        filling.note(player, filled);
        self.note_huge_change(call, populated, player);
        self.note_around_of_call(call, populated, player);
        let agreed = ours == call.expected;
        let count = self.verdict.calls.entry((call.sys, call.way)).or_default();
        count.times += 1;
        count.agreed += u64::from(agreed);
        let chosen = call.act.is_free_choice() && call.expected >= 0;
        self.verdict.places.of += u64::from(chosen);
        self.verdict.places.agreed += u64::from(chosen && agreed);
        if matches!(call.way, Way::Imposed) {
            self.note_imposed(at, call, player);
        }
        if !agreed {
            let kind = self.judge_answer(at, call, ours, player);
            self.differ(kind, at, || format!("{}: Linux {:#x}, here {ours:#x}", call.sys, call.expected));
        }
    }

    /// Every translation in the CPU's TLB is one that the space has: none of a frame that was freed, none
    /// that allows a write that the entry does not.
    fn inspect_tlb(&self, player: &Player<'_, '_>) {
        let mut remembered = Vec::new();
        let looked = player.machine.inspect(CpuId(0), |page| remembered.push(page), |_, _| {});
        looked.expect("this thread runs on the CPU");
        for page in remembered {
            let leaf = player.machine.leaf_at(page.vpn);
            let is_allowed = |rights: Rights| rights.contains(page.rights & Rights::WRITE);
            let is_right = leaf.is_some_and(|leaf| leaf.pfn == page.pfn && is_allowed(leaf.rights));
            assert!(is_right, "the TLB remembers {page:?}, the tables have {leaf:?}");
        }
    }

    fn compare_maps(&mut self, player: &Player<'_, '_>) {
        let End::Exited(image) = &self.life.end else { return };
        self.verdict.resident.note_linux(image);
        let (linux, ours) =
            (final_map::linux_lines(image, player.objects), final_map::our_lines(player.space));
        self.verdict.map_compared = true;
        for gap in final_map::compare(&linux, &ours) {
            let kind = match gap {
                Gap::Edge(at, _) if self.imposed.touch(&(at..at)) => Kind::ImposedEdge,
                Gap::Edge(..) if self.unsettled.touches(gap.address()) => Kind::MeanwhileEdge,
                Gap::Edge(..) => Kind::Edge,
                Gap::Rights(..) => Kind::Map,
                Gap::Flags(..) => Kind::Attributes,
            };
            let is_shown = !kind.is_explained() && self.verdict.differences.first.is_none();
            let at = if is_shown { self.last_event_at(gap.address()) } else { 0 };
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
