//! The contract of a [`Pager`], tested on a file of the embedder's: for authors of
//! pagers.
//!
//! ```
//! use interleaf::object::PagerKey;
//! use interleaf::space::{pager_conformance, Vm};
//!
//! /// The file of that key is the suite's to read and to write.
//! fn test<'v, M: interleaf::Machine>(vm: &'v Vm<'v, M>, file: PagerKey) {
//!     let report = pager_conformance::run(vm, file);
//!     assert!(report.holds(), "{report}");
//! }
//! ```
//!
//! The suite asks the pager of the system as faults and writing back do, with no lock held; it waits for what
//! is not ready. It looks at the first pages of the file and at its last one, stores to these, writes them
//! back, and reads them again. It needs a few frames, and names what does not hold in the [`PagerReport`].
//!
//! What it cannot test: that a method does not sleep, and that nothing is under way once `page_ready` was
//! called. A pager that never calls that hangs on a platform whose threads block; the harness limits the
//! time.

use super::{ObjectHandle, SpaceId, Vm};
use crate::frame::{PageFill, Priority};
use crate::machine::Machine;
use crate::machine::conformance::Verdict;
use crate::object::{PageAnswer, PageWait, Pager, PagerKey};
use crate::space::AddressSpace;
use crate::sync::{Progress, Retry};
use crate::units::PAGE_SIZE;
use core::cell::Cell;
use core::fmt;

/// A rule of a pager; its number is the discriminant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum PagerRule {
    /// The length, and whether pages are written back, stay as they are while nothing changes the file.
    Stays,
    /// A page that begins before the end is given.
    Gives,
    /// One that begins there or later is `Beyond`.
    Ends,
    /// A page that is read twice has the same bytes.
    ReadsAlike,
    /// The last page has zeros beyond the end.
    TailIsZero,
    /// What is not ready is said to be, by `page_ready`, and then has another answer.
    Wakes,
    /// A page that is given may be made writable, once and again.
    MakesWritable,
    /// A page that is dirty can be written back.
    Writes,
    /// What was written back is read again.
    WrittenIsRead,
    /// Writing a page back changes no other.
    WritesNoOther,
}

impl PagerRule {
    /// Every rule, in order.
    pub const ALL: [Self; 10] = [
        Self::Stays,
        Self::Gives,
        Self::Ends,
        Self::ReadsAlike,
        Self::TailIsZero,
        Self::Wakes,
        Self::MakesWritable,
        Self::Writes,
        Self::WrittenIsRead,
        Self::WritesNoOther,
    ];

    /// The rule in words.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Stays => {
                "the length, and whether pages are written back, stay while nothing changes the file"
            }
            Self::Gives => "a page that begins before the end is given",
            Self::Ends => "a page that begins at the end or later is beyond it",
            Self::ReadsAlike => "a page that is read twice has the same bytes",
            Self::TailIsZero => "the last page has zeros beyond the end",
            Self::Wakes => "what is not ready is said to be, and has another answer then",
            Self::MakesWritable => "a page that is given may be made writable, once and again",
            Self::Writes => "a page that is dirty can be written back",
            Self::WrittenIsRead => "what was written back is read again",
            Self::WritesNoOther => "writing a page back changes no other",
        }
    }
}

/// What a run of the suite has found.
#[derive(Clone, Copy, Debug, Default)]
pub struct PagerReport {
    tested: u16,
    broken: u16,
}

impl PagerReport {
    /// The result of a rule's test: untested where the file has no such page, nothing was late, or pages are
    /// not written back.
    pub fn verdict(&self, rule: PagerRule) -> Verdict {
        let bit = 1 << rule as u8;
        match (self.tested & bit != 0, self.broken & bit != 0) {
            (_, true) => Verdict::Broken,
            (true, false) => Verdict::Holds,
            (false, false) => Verdict::Untested,
        }
    }

    /// Whether no rule was found broken.
    pub fn holds(&self) -> bool {
        self.broken == 0
    }
}

impl fmt::Display for PagerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in PagerRule::ALL {
            writeln!(f, "{:?}: {}", self.verdict(rule), rule.sentence())?;
        }
        Ok(())
    }
}

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages that are looked at, and the last one.
const FIRST: u64 = 3;
/// What a page hashes to: its bytes before the end, and those behind it.
type Print = (u64, u64);

/// Tests every rule on the file of that key, which nothing else uses meanwhile, and which has other bytes
/// afterwards where its pages are written back. Nothing is tested where the system has no pager.
///
/// Called with no lock held and outside any read section; may sleep.
pub fn run<'v, M: Machine>(vm: &'v Vm<'v, M>, file: PagerKey) -> PagerReport {
    let Some(pager) = vm.objects.pager() else { return PagerReport::default() };
    let suite = PagerSuite { vm, pager, file, report: Cell::default() };
    let kind = suite.kind();
    suite.read_pages(kind.0);
    if kind.1 {
        suite.write_pages(kind.0);
    }
    suite.note(PagerRule::Stays, suite.kind() == kind);
    suite.report.get()
}

struct PagerSuite<'v, M: Machine> {
    vm: &'v Vm<'v, M>,
    pager: &'v dyn Pager<M>,
    file: PagerKey,
    report: Cell<PagerReport>,
}

impl<'v, M: Machine> PagerSuite<'v, M> {
    fn note(&self, rule: PagerRule, holds: bool) {
        let (mut report, bit) = (self.report.get(), 1 << rule as u8);
        report.tested |= bit;
        report.broken |= if holds { 0 } else { bit };
        self.report.set(report);
    }

    /// The length in bytes, and whether pages are written back.
    fn kind(&self) -> (u64, bool) {
        (self.pager.size_bytes(self.file), self.pager.is_written_back(self.file))
    }

    /// The pages that are looked at, of a file of that length.
    fn pages(len: u64) -> impl Iterator<Item = u64> + Clone {
        let pages = len.div_ceil(PAGE).min(crate::object::MAX_PAGES);
        let last = pages.checked_sub(1).filter(|last| *last >= FIRST && len < u64::MAX);
        (0..pages.min(FIRST)).chain(last)
    }

    fn read_pages(&self, len: u64) {
        for page in Self::pages(len) {
            let [one, other] = [(); 2].map(|()| self.read(page, len));
            // Without a length the pager alone says where it ends.
            let may_end = len == u64::MAX && one == Err(PageAnswer::Beyond);
            self.note(PagerRule::Gives, one.is_ok() || may_end);
            self.note(PagerRule::ReadsAlike, one == other);
            if let Ok((_, tail)) = one
                && !(page + 1).saturating_mul(PAGE).le(&len)
            {
                self.note(PagerRule::TailIsZero, tail == 0);
            }
        }
        let behind = len.div_ceil(PAGE);
        if behind < crate::object::MAX_PAGES {
            for page in [behind, behind + 1, crate::object::MAX_PAGES] {
                self.note(PagerRule::Ends, self.read(page, len) == Err(PageAnswer::Beyond));
            }
        }
    }

    fn write_pages(&self, len: u64) {
        for page in Self::pages(len) {
            for _ in 0..2 {
                let allowed = self.ask(|| self.vm.objects.ask_to_store(self.file, page));
                self.note(PagerRule::MakesWritable, allowed == PageAnswer::Ready);
            }
        }
        for round in 1..=2 {
            for page in Self::pages(len) {
                let before = self.sum_of_others(page, len);
                let value = (16 * round + page % 16) as u8;
                let is_written = self.write(page, value, len);
                self.note(PagerRule::Writes, is_written);
                if is_written {
                    let due = self.print_of(page, value, len);
                    self.note(PagerRule::WrittenIsRead, self.read(page, len) == Ok(due));
                    self.note(PagerRule::WritesNoOther, self.sum_of_others(page, len) == before);
                }
            }
        }
    }

    /// Stores a value to all bytes of a page that lie before the end, and has it written back.
    fn write(&self, page: u64, value: u8, len: u64) -> bool {
        let Ok(file) = ObjectHandle::paged(self.vm, self.file) else { return false };
        let end = len.min((page + 1) * PAGE);
        let mut at = page * PAGE;
        while at < end {
            let part = [value; 64];
            let part = &part[..(end - at).min(64) as usize];
            if file.write_at(at, part) != Ok(part.len()) {
                return false;
            }
            at += part.len() as u64;
        }
        let no_space = |_: SpaceId| -> Option<&AddressSpace<'v, M>> { None };
        file.write_back(page * PAGE, PAGE, no_space).is_ok_and(|done| (done.pages, done.failed) == (1, 0))
    }

    /// What all other pages that are looked at hash to together.
    fn sum_of_others(&self, page: u64, len: u64) -> u64 {
        let others = Self::pages(len).filter(|other| *other != page);
        others.map(|other| self.read(other, len).map_or(0, |print| print.0)).fold(0, mixed)
    }

    /// Asks until the answer is not that it is not ready.
    fn ask(&self, mut ask: impl FnMut() -> (PageAnswer, PageWait<'v, M::Cpu>)) -> PageAnswer {
        let mut retry = Retry::new("pager-conformance");
        loop {
            let (answer, wait) = ask();
            if answer != PageAnswer::NotReady {
                return answer;
            }
            let own = if wait.wait() { Progress::Observed } else { Progress::None };
            let goes_on = retry.again::<M::Cpu>(own).is_ok();
            self.note(PagerRule::Wakes, goes_on);
            if !goes_on {
                return answer;
            }
        }
    }

    /// Reads a page.
    fn read(&self, page: u64, len: u64) -> Result<Print, PageAnswer> {
        let mut kept = None;
        let answer = self.ask(|| {
            let Some(frame) = self.vm.memory.alloc_zeroed(Priority::Normal) else {
                return (PageAnswer::Error, self.vm.objects.look_at_page(self.file, page));
            };
            let mut fill = PageFill::new(frame);
            let asked = self.vm.objects.ask_pager(self.file, page, &mut fill);
            kept = Some(fill);
            asked
        });
        match kept.filter(|_| answer == PageAnswer::Ready) {
            // A number of no object's.
            Some(fill) => {
                let frame = fill.into_file((u64::MAX, page));
                Ok(print(|offset, to| frame.read(offset, to), end_in(page, len)))
            }
            None => Err(answer),
        }
    }

    /// What a page hashes to whose bytes before the end have that value.
    fn print_of(&self, page: u64, value: u8, len: u64) -> Print {
        let end = end_in(page, len);
        print(|offset, to| to[0] = if offset < end { value } else { 0 }, end)
    }
}

/// Bytes of a page before the end of a file of that length.
fn end_in(page: u64, len: u64) -> usize {
    len.saturating_sub(page.saturating_mul(PAGE)).min(PAGE) as usize
}

/// What the bytes of a page hash to, before `end` and from there on; 0 for zeros.
fn print(read: impl Fn(usize, &mut [u8]), end: usize) -> Print {
    let byte = |offset| {
        let mut byte = [0];
        read(offset, &mut byte);
        u64::from(byte[0])
    };
    ((0..end).map(byte).fold(0, mixed), (end..PAGE_SIZE).map(byte).fold(0, mixed))
}

fn mixed(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0100_0000_01b3)
}

#[cfg(all(test, not(loom)))]
#[path = "tests/pager_conformance.rs"]
mod tests;
