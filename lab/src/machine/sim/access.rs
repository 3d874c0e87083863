//! An access: the gap before it, the stores that must have drained, the CPUs that come first, and the way of
//! the line.

use super::lines::Taken;
use super::simulation::{CpuState, Simulation};
use crate::machine::watch::Place;
use interleaf::machine::AccessKind;
use interleaf::units::{CACHE_LINE, PAGE_SIZE};

impl Simulation {
    /// An access of the running CPU.
    #[inline]
    pub(super) fn access(&self, addr: usize, len: usize, kind: AccessKind, place: Place) {
        if std::thread::panicking() {
            return;
        }
        let (me, states) = (self.cpus.running(), self.states.borrow());
        let cpu = &states[me];
        self.accesses.set(self.accesses.get() + 1);
        self.spend(cpu.gap.get());
        if matches!(kind, AccessKind::Update | AccessKind::Fence) {
            self.wait_until_drained(cpu, place);
        }
        if self.now.get() > self.limit.get() {
            self.look_after_others(self.setting.slack);
        }
        self.mix(me as u64 ^ (kind as u64) << 32);
        if kind == AccessKind::Fence {
            cpu.spoil_round();
            return self.spend(self.costs.fence);
        }
        if len >= PAGE_SIZE {
            cpu.spoil_round();
            return self.whole_pages(cpu, (addr, len), kind);
        }
        // Fields lie on one line; only what programs copy is longer.
        let mut at = addr;
        while at <= addr + len.saturating_sub(1) {
            self.access_line(cpu, me, at, kind, place);
            at = (at / CACHE_LINE + 1) * CACHE_LINE;
        }
    }

    #[inline]
    fn access_line(&self, cpu: &CpuState, me: usize, addr: usize, kind: AccessKind, place: Place) {
        let mut lines = self.lines.borrow_mut();
        let (line, writes) = (lines.number(addr), kind.writes());
        // A CPU that runs ahead does not see yet that another has asked for a line that is fought for.
        if self.now.get() > self.horizon.get() && lines.is_fought_for(line, self.now.get()) {
            drop(lines);
            self.look_after_others(0);
            lines = self.lines.borrow_mut();
        }
        let hit = lines.hit(me as u32, line, writes, self.now.get());
        drop(lines);
        cpu.last.set(Some((line, addr, place)));
        if let Some(hit) = hit {
            let mut round = cpu.round.get();
            if writes || !hit.stays {
                round.spoil()
            } else {
                round.look(line)
            }
            cpu.round.set(round);
            if hit.wakes {
                self.unpark_watchers(line, self.now.get(), me as u32);
            }
            let update = if kind == AccessKind::Update { self.costs.update } else { 0 };
            return self.spend(update);
        }
        cpu.spoil_round();
        // Others see this access: what is earlier comes first.
        if self.now.get() > self.horizon.get() {
            self.look_after_others(0);
        }
        self.take_line(me, line, addr, writes, place);
    }

    fn take_line(&self, me: usize, line: u32, addr: usize, writes: bool, place: Place) {
        let now = self.now.get();
        let Taken { end, queued, is_shared, wakes } =
            self.lines.borrow_mut().take(me as u32, line, writes, now);
        if is_shared {
            self.note_wait((line, addr, place), |wait| {
                wait.moves += 1;
                wait.queued += queued;
                wait.moving += end - now - queued;
            });
        }
        self.now.set(end);
        if wakes {
            self.unpark_watchers(line, now, me as u32);
        }
        // Until the line is here, others do what comes before this access.
        if end > self.horizon.get() {
            self.look_after_others(0);
        }
    }

    #[inline]
    fn mix(&self, what: u64) {
        let mixed = self.fingerprint.get().rotate_left(5) ^ what ^ self.now.get();
        self.fingerprint.set(mixed.wrapping_mul(0x517c_c1b7_2722_0a95));
    }
}
