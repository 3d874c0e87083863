//! The host's Linux as oracle: what does it answer to these calls?
//!
//! One child process lives as long as the oracle. Its address space is the experiment's ([`Setting`]):
//! everything but the windows is filled, the heap starts in the main window, huge pages are off or as the
//! host has them, and no capability is left that would make it a special case. A sequence is executed in one
//! go; then the parent reads the child's map and pages while the child sleeps; the next sequence starts with
//! emptied windows.

use super::calls::{
    Call, CallResult, Errno, FileCall, HUGE_BYTES, HugeLeaf, HugeLeaves, MapLine, Outcome, PAGE, PageState,
    Segv, System, fingerprint,
};
use super::file_calls::MOST_BYTES;
use super::huge::host as huge_host;
use super::huge_rules::HugeSetting;
use super::oracle_host::{self as host, HostLine};
use super::setting::{MANY_PAGES, Setting};
use interleaf::vma::{HugePolicy, MthpPolicies};
use interleaf_lab::os::child::{Child, MAX_STEPS, MOST_PROCESSES, Step};
use interleaf_lab::os::{pagemap, touch};
use std::collections::HashSet;
use std::fs::File;
use std::io::Result;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// What `mincore` does not write.
const UNWRITTEN: u8 = 0xff;

/// A child process of the host's Linux.
#[derive(Debug)]
pub struct Oracle {
    pub(super) child: Child,
    pub(super) setting: Setting,
    /// Of each process that lives.
    views: [Option<View>; MOST_PROCESSES],
}

/// What is read of a process.
#[derive(Debug)]
struct View {
    pagemap: File,
    memory: File,
}

impl Oracle {
    /// Starts the child and prepares its address space.
    ///
    /// # Errors
    /// Says what this host lacks: Linux 6.18 or later, overcommit and huge-page settings as by default, or
    /// leave to arrange the child's address space.
    pub fn open() -> Result<Self> {
        Self::with_heap_at(Setting::default().start_brk)
    }

    /// The same with the heap somewhere else in the main window.
    ///
    /// # Errors
    /// As [`Oracle::open`].
    pub fn with_heap_at(start_brk: u64) -> Result<Self> {
        Self::prepared(start_brk, HugeSetting::linux(HugePolicy::Never))
    }

    /// The same with huge pages, where `policy` is the host's.
    ///
    /// # Errors
    /// As [`Oracle::open`]; and what the host has set otherwise than the model says.
    pub fn with_huge_pages(policy: HugePolicy, sizes: MthpPolicies) -> Result<Self> {
        huge_host::fit(policy, sizes)?;
        Self::prepared(Setting::default().start_brk, HugeSetting::linux(policy).with_sizes(sizes))
    }

    fn prepared(start_brk: u64, huge: HugeSetting) -> Result<Self> {
        host::fit()?;
        let mut child = Child::start()?;
        let setting = host::prepare(&mut child, start_brk, huge)?;
        let mut oracle = Self { child, setting, views: Default::default() };
        oracle.watch(0)?;
        Ok(oracle)
    }

    /// Opens what is read of a process that lives now.
    pub(super) fn watch(&mut self, process: usize) -> Result<()> {
        let file = |name| File::open(format!("/proc/{}/{name}", self.child.pid_of(process)));
        self.views[process] = Some(View { pagemap: file("pagemap")?, memory: file("mem")? });
        Ok(())
    }

    /// Closes it.
    pub(super) fn forget(&mut self, process: usize) {
        self.views[process] = None;
    }

    fn view(&self, process: usize) -> &View {
        self.views[process].as_ref().expect("the process is watched")
    }

    /// The windows and the host's limits.
    #[must_use]
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Carries out `calls` on emptied windows.
    pub(super) fn results(&mut self, calls: &[Call]) -> Result<Vec<u64>> {
        self.child.empty_file()?;
        let mut steps = host::reset(&self.setting);
        let before = steps.len();
        steps.extend(calls.iter().zip(slots(calls)).map(|(call, slot)| step(call, slot)));
        let mut results = Vec::new();
        for part in steps.chunks(MAX_STEPS) {
            results.extend(self.child.run(0, part)?);
        }
        Ok(results.split_off(before))
    }

    /// Prepares the scratch memory of a process for `calls`. Returns the place of each.
    pub(super) fn fill_scratch(&self, process: usize, calls: &[Call]) -> Vec<u64> {
        let slots = slots(calls);
        let bytes = slots.last().map_or(0, |last| last + MANY_PAGES.max(MOST_BYTES));
        let mut scratch = vec![u64::from_ne_bytes([UNWRITTEN; 8]); bytes as usize / 8];
        for (call, slot) in calls.iter().zip(&slots) {
            let at = *slot as usize / 8;
            match *call {
                Call::Mbind { nodes, .. } => scratch[at] = nodes,
                Call::File(FileCall::Write { len, value, .. }) => {
                    scratch[at..at + len.div_ceil(8) as usize].fill(u64::from_ne_bytes([value; 8]));
                }
                _ => {}
            }
        }
        self.child.write_scratch(process, 0, &scratch);
        slots
    }

    /// The mappings of a process in the windows as the host shows them.
    fn lines(&self, process: usize) -> Vec<HostLine> {
        let pid = self.child.pid_of(process);
        let lines = if self.setting.huge.is_never() {
            host::lines(pid)
        } else {
            host::lines_and_advice(pid).map(|(lines, _)| lines)
        };
        self.within_windows(lines.expect("the child's map can be read"))
    }

    /// The huge leaves of a process, and what the host says of each of its `lines`.
    pub(super) fn huge_leaves(&self, process: usize, lines: &[HostLine]) -> HugeLeaves {
        let mut leaves = Vec::new();
        if !self.setting.huge.is_never() {
            let pagemap = &self.view(process).pagemap;
            let present = pagemap::present(pagemap, &self.setting.huge_window());
            for run in present.expect("the child's pagemap can be scanned").iter().filter(|run| run.huge) {
                let leaf = if run.zero { HugeLeaf::Zero } else { HugeLeaf::Own };
                leaves.extend(run.range.clone().step_by(HUGE_BYTES as usize).map(|start| (start, leaf)));
            }
        }
        HugeLeaves { leaves, anon_bytes: lines.iter().map(|line| line.anon_huge_bytes).collect() }
    }

    /// The lines of a map that lie in the windows.
    pub(super) fn within_windows(&self, lines: Vec<HostLine>) -> Vec<HostLine> {
        let inside = |line: &HostLine| self.setting.windows.iter().any(|window| window.contains(&line.start));
        lines.into_iter().filter(inside).collect()
    }

    /// A process's resident pages of the looked-at ranges.
    pub(super) fn pages(&mut self, process: usize, lines: &[HostLine]) -> Vec<(u64, PageState)> {
        let mut pages = self.private_pages(process, lines);
        let own: HashSet<u64> = pages.iter().map(|(addr, _)| *addr).collect();
        let shared = self.shared_pages(process, lines).into_iter();
        pages.extend(shared.filter(|(addr, _)| !own.contains(addr)));
        pages.sort_by_key(|(addr, _)| *addr);
        pages
    }

    fn private_pages(&self, process: usize, lines: &[HostLine]) -> Vec<(u64, PageState)> {
        let (mut found, pagemap) = (Vec::new(), &self.view(process).pagemap);
        for range in self.setting.looked_at() {
            for run in pagemap::present(pagemap, &range).expect("the child's pagemap can be scanned") {
                let private =
                    |addr: &u64| lines.iter().any(|line| !line.shared && line.range().contains(addr));
                if run.file {
                    continue;
                }
                let addrs = run.range.clone().step_by(PAGE as usize);
                if run.zero {
                    found.extend(addrs.filter(private).map(|addr| (addr, PageState::Zero)));
                    continue;
                }
                let states = self.contents_of(process, &run.range).into_iter().map(PageState::Own);
                found.extend(addrs.zip(states).filter(|(addr, _)| private(addr)));
            }
        }
        found
    }

    /// Pages of objects: resident where the object has them, mapped by an entry or not; of private mappings
    /// with what they have copied.
    fn shared_pages(&mut self, process: usize, lines: &[HostLine]) -> Vec<(u64, PageState)> {
        let mut parts = Vec::new();
        for line in lines.iter().filter(|line| line.shows_object()) {
            for range in self.setting.looked_at() {
                let part = line.start.max(range.start)..line.end.min(range.end);
                if !part.is_empty() {
                    parts.push(part);
                }
            }
        }
        let mut slot = 0;
        let mut steps = Vec::new();
        for part in &parts {
            let len = part.end - part.start;
            steps.push(Step::Resident { addr: part.start, len, slot });
            slot += len / PAGE;
        }
        let done = self.child.run(process, &steps).expect("mincore changes nothing");
        assert!(done.iter().all(|&result| result == 0), "the host's map names only mapped pages");
        let addrs: Vec<u64> = parts.into_iter().flat_map(|part| part.step_by(PAGE as usize)).collect();
        let resident = self.child.read_scratch(process, 0, addrs.len());
        let resident = addrs.into_iter().zip(resident).filter(|(_, byte)| byte & 1 == 1);
        resident.map(|(addr, _)| (addr, PageState::Shared(self.contents(process, addr)))).collect()
    }

    /// The fingerprint of a page, whatever its rights.
    fn contents(&self, process: usize, addr: u64) -> u64 {
        self.contents_of(process, &(addr..addr + PAGE))[0]
    }

    /// The fingerprints of resident pages.
    fn contents_of(&self, process: usize, range: &Range<u64>) -> Vec<u64> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.view(process).memory.read_exact_at(&mut bytes, range.start).expect("resident pages can be read");
        bytes.chunks(PAGE as usize).map(fingerprint).collect()
    }

    /// What `result` of a process's `call`, whose `mincore` writes at `slot`, means.
    pub(super) fn answer(&self, process: usize, slot: u64, call: &Call, result: u64) -> CallResult {
        let error = (result > u64::MAX - PAGE).then(|| Errno(-(result as i64) as i32));
        match (call, error) {
            (Call::Read { .. } | Call::Write { .. }, _) if result >= touch::REFUSED + touch::BUS => {
                CallResult::Bus
            }
            (Call::Read { .. } | Call::Write { .. }, _) if result >= touch::REFUSED => {
                CallResult::Segv(segv(result - touch::REFUSED))
            }
            (Call::Read { .. }, _) => CallResult::Byte(result as u8),
            (Call::Write { .. }, _) => CallResult::Written,
            (Call::Mincore { .. }, error) if matches!(error, None | Some(Errno::ENOMEM)) => {
                self.mincore_answer((process, slot), call, error)
            }
            (Call::File(FileCall::Read { .. }), None) => {
                CallResult::data(&self.child.read_scratch(process, slot as usize, result as usize))
            }
            (_, Some(error)) => CallResult::Error(error),
            (_, None) => CallResult::Value(result),
        }
    }

    fn mincore_answer(&self, (process, slot): (usize, u64), call: &Call, error: Option<Errno>) -> CallResult {
        let Call::Mincore { addr, len } = *call else { unreachable!("asked for mincore only") };
        if addr.checked_add(len).is_none_or(|end| end > self.setting.task_end) {
            return error.map_or(CallResult::Value(0), CallResult::Error);
        }
        let bytes = self.child.read_scratch(process, slot as usize, len.div_ceil(PAGE) as usize);
        let written = bytes.into_iter().take_while(|&byte| byte != UNWRITTEN).map(|byte| byte & 1);
        CallResult::Resident(written.collect(), error)
    }
}

impl System for Oracle {
    fn name(&self) -> &str {
        "Linux"
    }

    fn run(&mut self, calls: &[Call]) -> Outcome {
        assert!(calls.iter().all(|call| self.setting.admits(call)), "calls stay within the windows");
        let slots = self.fill_scratch(0, calls);
        let results = self.results(calls).expect("no sequence of admitted calls kills the child");
        let each = calls.iter().zip(results).zip(slots);
        let answers = each.map(|((call, result), slot)| self.answer(0, slot, call, result)).collect();
        let lines = self.lines(0);
        let pages = self.pages(0, &lines);
        let huge = self.huge_leaves(0, &lines);
        Outcome { answers, map: map_lines(&lines), pages, huge }
    }
}

/// Where each call's `mincore` writes, or its `mbind` reads, in the scratch memory, in bytes.
fn slots(calls: &[Call]) -> Vec<u64> {
    let mut next = 0;
    let slot = |call: &Call| {
        let slot = next;
        next += match *call {
            Call::Mincore { .. } => MANY_PAGES,
            Call::Mbind { .. } => 8,
            Call::File(FileCall::Read { len, .. } | FileCall::Write { len, .. }) => len.next_multiple_of(8),
            _ => 0,
        };
        slot
    };
    calls.iter().map(slot).collect()
}

/// `call` as a step; `slot` is where its `mincore` may write and its `mbind` finds the nodes.
pub(super) fn step(call: &Call, slot: u64) -> Step {
    match *call {
        Call::Mmap { hint, len, prot, flags } => {
            Step::Map { hint, len, prot: prot.bits(), flags: flags.bits() }
        }
        Call::Words { number, words } => Step::Words { number, words },
        Call::Munmap { addr, len } => Step::Unmap { addr, len },
        Call::Mremap { addr, old_len, new_len, flags, to } => {
            Step::Remap { addr, old_len, new_len, flags, to }
        }
        Call::Mprotect { addr, len, prot } => Step::Protect { addr, len, prot: prot.bits() },
        Call::Madvise { addr, len, advice } => Step::Advise { addr, len, advice },
        Call::Mbind { addr, len, mode, flags, .. } => Step::Bind { addr, len, mode, flags, slot },
        Call::Brk { addr } => Step::Break { end: addr },
        Call::Mincore { addr, len } => Step::Resident { addr, len, slot },
        Call::Msync { addr, len, flags } => Step::Sync { addr, len, flags },
        Call::File(FileCall::Truncate { len }) => Step::FileLen { len },
        Call::File(FileCall::PunchHole { offset, len }) => Step::FileHole { offset, len },
        Call::File(FileCall::Read { offset, len }) => Step::FileRead { offset, len, slot },
        Call::File(FileCall::Write { offset, len, .. }) => Step::FileWrite { offset, len, slot },
        Call::Read { addr } => Step::Read { addr },
        Call::Write { addr, value } => Step::Write { addr, value },
    }
}

fn segv(si_code: u64) -> Segv {
    match si_code {
        touch::UNMAPPED | touch::SENSELESS => Segv::Unmapped,
        _ => Segv::Rights,
    }
}

/// The host's lines with objects numbered by first appearance.
pub(super) fn map_lines(lines: &[HostLine]) -> Vec<MapLine> {
    let mut seen = Vec::new();
    let mut number = |inode| {
        let known = seen.iter().position(|&other| other == inode);
        known.unwrap_or_else(|| {
            seen.push(inode);
            seen.len() - 1
        }) as u32
    };
    let line = |line: &HostLine| {
        let object = line.shows_object().then(|| (number(line.inode), line.offset));
        MapLine { start: line.start, end: line.end, prot: line.prot, object }
    };
    lines.iter().map(line).collect()
}
