//! The checked replay: each answer, each fault and the last maps are compared with Linux's.

use super::Replay;
use super::checker::Checker;
use super::fault_counts::FaultCounts;
use super::file_report::MappedFiles;
use super::huge::HugePages;
use super::huge_setting::HugeSetting;
use super::life::Family;
use super::objects::Objects;
use super::play::{self, Visitor};
use super::player::Player;
use super::report::Report;
use super::setup::{self, ReplayMachine};
use super::step::Steps;
use super::verdict::Filled;
use crate::trace::Limits;
use interleaf::space::{Counter, Path, Vm};
use interleaf::units::CpuId;

/// Frames that are looked at for each event that was played since they were looked at before.
const FRAMES_FOR_EVENT: u64 = 64;

/// A replay with the machine that it is checked on.
pub struct CheckedReplay<'a> {
    replay: &'a Replay,
    machine: &'a ReplayMachine,
    vm: &'a Vm<'a, ReplayMachine>,
}

impl<'a> CheckedReplay<'a> {
    /// Runs `f` with a machine for the replay. The calling thread is on none of its CPUs but while it checks.
    ///
    /// # Errors
    /// One line: the machine cannot be had.
    pub fn with<R>(replay: &Replay, f: impl FnOnce(&CheckedReplay<'_>) -> R) -> Result<R, String> {
        let machine = setup::machine(replay.frames).map_err(|error| error.to_string())?;
        let begins = machine.enter(CpuId(0));
        let vm = setup::vm(&machine, replay.huge, &replay.files)?;
        drop(begins);
        let result = f(&CheckedReplay { replay, machine: &machine, vm: &vm });
        let _ends = machine.enter(CpuId(0));
        drop(vm);
        Ok(result)
    }

    /// Runs `f` with the library that replays, on a CPU of its machine.
    pub fn on_cpu<R>(&self, f: impl FnOnce(&Vm<'a, ReplayMachine>) -> R) -> R {
        let _cpu = self.machine.enter(CpuId(0));
        f(self.vm)
    }

    /// Replays every life, compares everything, and looks for damage.
    ///
    /// # Errors
    /// One line: there is no memory for a space or a fork.
    pub fn check(&self, path: Path, mut progress: impl FnMut(&str)) -> Result<Report, String> {
        let Replay { header, families, huge, .. } = self.replay;
        let _cpu = self.machine.enter(CpuId(0));
        let before = self.vm.memory().check().expect("frames add up at the start").allocated;
        let mut report = Report::new(header, self.replay.recorded, self.replay.left_out, *huge);
        report.huge = HugePages::of(header, families);
        report.files = MappedFiles::of(families, &self.replay.files);
        let mut unchecked = 0;
        for (number, family) in families.iter().enumerate() {
            self.check_family(family, path, &mut progress, &mut report)?;
            unchecked += family.lives.iter().map(|life| life.events.len() as u64).sum::<u64>();
            // A look at all frames, after families that may have used as many.
            if unchecked >= self.replay.frames / FRAMES_FOR_EVENT || number + 1 == families.len() {
                unchecked = 0;
                self.vm.trim();
                let after = self.vm.memory().check().expect("frames add up after a life").allocated;
                assert_eq!(after, before, "frames handed out before and after a life");
            }
        }
        assert_eq!(self.machine.violations(), [], "the TLB saw the impossible");
        Ok(report)
    }

    fn check_family(
        &self,
        family: &Family,
        path: Path,
        progress: &mut impl FnMut(&str),
        report: &mut Report,
    ) -> Result<(), String> {
        let Replay { header, huge, .. } = self.replay;
        let counted = self.vm.totals();
        let objects = Objects::new(self.vm, &self.replay.files);
        let layout = setup::layout(header, family);
        let space = setup::space(self.vm, layout, path, &family.lives[0], &objects)?;
        let counts = FaultCounts::default();
        let mut checking = Checking::new(family, header.limits, *huge, progress);
        let stack_limit = header.limits.stack_bytes;
        play::play(family, self.machine, space, stack_limit, &counts, &objects, &mut checking)?;
        let Checking { checkers, filled, .. } = checking;
        let (faults, totals) = (counts.faults(), self.vm.totals().since(&counted));
        assert_eq!(totals.get(Counter::PgFault), faults.raised, "Done + fallbacks + errors = faults");
        let copied = filled.iter().filter(|filled| matches!(filled, Filled::Copied(..))).count() as u64;
        assert_eq!(totals.get(Counter::CowCopied), copied, "copies counted, and frames that changed");
        report.add_family(&faults, &filled, &totals);
        for (life, checker) in family.lives.iter().zip(checkers) {
            report.add(life, checker.verdict());
        }
        Ok(())
    }
}

/// The checkers of a family's lives.
pub(super) struct Checking<'a, P> {
    checkers: Vec<Checker<'a>>,
    /// What pages got their frames by, in order.
    pub(super) filled: Vec<Filled>,
    progress: P,
    family: &'a Family,
}

impl<'a, P: FnMut(&str)> Checking<'a, P> {
    pub(super) fn new(family: &'a Family, limits: Limits, huge: HugeSetting, progress: P) -> Self {
        let collapses = |steps: &Steps| steps.calls.iter().any(|call| call.collapsed_pages() > 0);
        let may_be_huge = huge.may_apply(family) || family.steps.iter().any(collapses);
        let checker = |(life, steps)| Checker::new(life, steps, limits, huge, may_be_huge);
        let checkers = family.each().map(checker).collect();
        Checking { checkers, filled: Vec::new(), progress, family }
    }

    fn tell_progress(&mut self, life: usize) {
        (self.progress)(&self.family.lives[life].start.program);
    }
}

impl<P: FnMut(&str)> Visitor for Checking<'_, P> {
    fn step(&mut self, life: usize, at: usize, player: &Player<'_, '_>) {
        self.checkers[life].step(at, player, &mut self.filled);
        for range in self.checkers[life].take_removed() {
            let others = self.checkers.iter_mut().enumerate().filter(|(other, _)| *other != life);
            others.for_each(|(_, other)| other.note_removed(range.clone()));
        }
        if at % 4096 == 4095 {
            self.tell_progress(life);
        }
    }

    fn forked(&mut self, life: usize, child: usize, player: &Player<'_, '_>) {
        let [parent, child] = self.checkers.get_disjoint_mut([life, child]).expect("two lives");
        parent.forked(child, player);
    }

    fn end(&mut self, life: usize, player: &Player<'_, '_>) {
        self.checkers[life].end(player);
        self.tell_progress(life);
    }
}
