//! Rules of the window, of tables as memory, and of zeroing and copying.

use super::{Harness, Rule, Suite};
use crate::machine::Machine;
use crate::units::{Order, PAGE_SIZE, Pfn, PfnRange, PhysAddr};

impl<M: Machine, H: Harness<M> + Sync> Suite<'_, M, H> {
    pub(super) fn memory(&self) {
        self.on_one_cpu(|| {
            self.window();
            self.tables_are_memory();
            self.zero();
            self.copy();
            self.claims();
            self.zero_nontemporal();
        });
    }

    fn window(&self) {
        let start = self.frames.start.addr().0;
        let base = self.machine.window(PhysAddr(start)).addr().get();
        for frame in 0..self.frames.len() {
            for offset in [0, 1, 2047, 4095] {
                let at = PhysAddr(start + frame * PAGE_SIZE as u64 + offset);
                let byte = self.machine.window(at);
                self.check(Rule::WindowInverse, self.machine.phys_of(byte) == at);
                self.check(Rule::WindowContiguous, byte.addr().get() - base == (at.0 - start) as usize);
            }
        }
    }

    /// The suite's frames may have been claimed before it; after a first call they have been.
    fn claims(&self) {
        let (start, end) = (self.frames.start, self.frames.end);
        let middle = PfnRange::new(start.add(1), Pfn(end.0 - 1));
        let _may_be_true = self.machine.claim_memory(&[middle]);
        let edges = [PfnRange::new(start, start.add(2)), PfnRange::new(Pfn(end.0 - 2), end)];
        for again in [middle, self.frames].into_iter().chain(edges) {
            self.check(Rule::ClaimedOnce, !self.machine.claim_memory(&[again]));
        }
        // Beyond what an entry of a table can name.
        let nowhere = Pfn(1 << 40);
        self.check(Rule::ClaimedOnce, !self.machine.claim_memory(&[PfnRange::new(nowhere, nowhere.add(1))]));
    }

    fn zero_nontemporal(&self) {
        let first = self.frames.start.add(2);
        (first.0 - 1..=first.0 + 2).for_each(|n| self.paint(Pfn(n), n as u8));
        self.assert_own(first, Order::BASE);
        self.assert_own(first.add(1), Order::BASE);
        // SAFETY: two frames of the suite's, which nothing else uses, in the window.
        unsafe { self.machine.zero_nontemporal(self.machine.window(first.addr()), 2 * PAGE_SIZE) };
        self.check(Rule::ZeroPast, (0..2).all(|n| self.frame_is(first.add(n), |_| 0)));
        for n in [first.0 - 1, first.0 + 2] {
            self.check(Rule::ZeroPast, self.frame_is(Pfn(n), |at| pattern(n as u8, at)));
        }
    }

    pub(super) fn record_windows(&self) {
        if self.harness.gives_frames_up() {
            self.on_one_cpu(|| self.record_window());
        }
    }

    /// The last frames of the suite go behind the second and third page of a window; the ones before them are
    /// there for tables.
    fn record_window(&self) {
        const PAGES: usize = 2;
        let align = M::RECORD_WINDOW_ALIGN;
        let len_bytes = align * (4 * PAGE_SIZE).div_ceil(align);
        let Some(start) = self.machine.reserve_record_window(len_bytes) else { return };
        self.check(Rule::RecordWindow, start.addr().get().is_multiple_of(align));
        let frames = PfnRange::new(Pfn(self.frames.end.0 - PAGES as u64), self.frames.end);
        (frames.start.0..frames.end.0).for_each(|n| self.paint(Pfn(n), n as u8));
        let mut tables = (frames.start.0 - 4..frames.start.0).map(Pfn);
        let byte = |at: usize| {
            let at = start.as_ptr().wrapping_add(at);
            // SAFETY: the byte lies in the window, which can be read everywhere (rule 10).
            unsafe { at.read_volatile() }
        };
        self.check(Rule::RecordWindow, (0..len_bytes).step_by(64).all(|at| byte(at) == 0));
        // SAFETY: the window has four pages or more, and shows no frames. The frames are the suite's, which
        // reaches them by the window from now on.
        let is_mapped = unsafe {
            let at = start.add(PAGE_SIZE);
            self.machine.map_record_window(at, frames, &mut || tables.next())
        };
        let own = PAGE_SIZE..(1 + PAGES) * PAGE_SIZE;
        let expected = |at: usize| {
            let (page, offset) = ((at - own.start) / PAGE_SIZE, at % PAGE_SIZE);
            pattern(frames.start.add(page as u64).0 as u8, offset)
        };
        self.check(Rule::RecordWindow, is_mapped);
        if is_mapped {
            self.check(Rule::RecordWindow, own.clone().all(|at| byte(at) == expected(at)));
            for at in own.clone() {
                // SAFETY: a byte of a frame that is the suite's, behind the window.
                unsafe { start.add(at).write_volatile(!expected(at)) };
            }
            let is_right = |at: usize| byte(at) == if own.contains(&at) { !expected(at) } else { 0 };
            self.check(Rule::RecordWindow, (0..4 * PAGE_SIZE).all(is_right));
        }
    }

    fn tables_are_memory(&self) {
        for frame in 0..self.frames.len() {
            let pfn = self.frames.start.add(frame);
            // SAFETY: a frame of the suite's, which is memory of the machine.
            let table = (&raw const *unsafe { self.machine.table(pfn) }).addr();
            self.check(Rule::TableIsWindow, table == self.machine.window(pfn.addr()).addr().get());
        }
    }

    /// Fills a frame with a pattern of its own.
    fn paint(&self, pfn: Pfn, seed: u8) {
        let mut bytes = [0; 64];
        for offset in (0..PAGE_SIZE).step_by(bytes.len()) {
            bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(seed, offset + i));
            self.write_frame(pfn, offset, &bytes);
        }
    }

    /// Whether every byte of a frame is as `expected` says.
    fn frame_is(&self, pfn: Pfn, expected: impl Fn(usize) -> u8) -> bool {
        let mut bytes = [0; 64];
        (0..PAGE_SIZE).step_by(bytes.len()).all(|offset| {
            self.read_frame(pfn, offset, &mut bytes);
            bytes.iter().enumerate().all(|(i, &byte)| byte == expected(offset + i))
        })
    }

    fn zero(&self) {
        // A block of two frames must be aligned; the frame before and the one after stay.
        let first = Pfn((self.frames.start.0 + 2) & !1);
        for order in [Order(0), Order(1)] {
            let after = first.add(order.frames());
            (first.0 - 1..=after.0).for_each(|n| self.paint(Pfn(n), n as u8));
            self.zero_block(first, order);
            let zeroed = (first.0..after.0).all(|n| self.frame_is(Pfn(n), |_| 0));
            self.check(Rule::ZeroExact, zeroed);
            for n in [first.0 - 1, after.0] {
                self.check(Rule::ZeroExact, self.frame_is(Pfn(n), |at| pattern(n as u8, at)));
            }
        }
    }

    fn copy(&self) {
        let from = Pfn((self.frames.start.0 + 2) & !1);
        let to = from.add(4);
        for order in [Order(0), Order(1)] {
            (from.0 - 1..=to.0 + order.frames()).for_each(|n| self.paint(Pfn(n), n as u8));
            self.copy_block(from, to, order);
            for n in 0..order.frames() {
                let copied = |at| pattern(from.add(n).0 as u8, at);
                self.check(Rule::CopyExact, self.frame_is(from.add(n), copied));
                self.check(Rule::CopyExact, self.frame_is(to.add(n), copied));
            }
            for n in [to.0 - 1, to.0 + order.frames()] {
                self.check(Rule::CopyExact, self.frame_is(Pfn(n), |at| pattern(n as u8, at)));
            }
        }
    }
}

/// A byte that differs from its neighbours, never 0.
fn pattern(seed: u8, at: usize) -> u8 {
    seed.wrapping_mul(37).wrapping_add((at ^ (at >> 8)) as u8) | 1
}
