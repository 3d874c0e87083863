//! The suite finds nothing wrong in an honest pager, and names the rule that another one breaks.

use super::*;
use crate::machine::testing::TestMachine;
use crate::object::PageContents;
use crate::space::VmOptions;
use crate::space::tests::world::boot_map;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::vec::Vec;

const FILE: PagerKey = PagerKey(9);

/// How a pager goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    None,
    LengthChanges,
    PageLacks,
    NoEnd,
    OtherBytes,
    TailGiven,
    NeverReady,
    WritableOnce,
    WriteFails,
    WriteLost,
    WriteElsewhere,
}

/// A file of three pages and a half in memory.
struct Memory {
    harm: Harm,
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
    calls: AtomicU64,
}

const LEN: u64 = 3 * PAGE + PAGE / 2;

impl Memory {
    fn new(harm: Harm) -> Self {
        Self { harm, pages: Mutex::default(), calls: AtomicU64::new(0) }
    }
}

impl Pager<TestMachine> for Memory {
    fn size_bytes(&self, _: PagerKey) -> u64 {
        let later = self.harm == Harm::LengthChanges && self.calls.load(Relaxed) > 10;
        if later { LEN + 1 } else { LEN }
    }
    fn is_written_back(&self, _: PagerKey) -> bool {
        true
    }
    fn try_page(&self, _: PagerKey, page: u64, into: &mut PageFill<'_, TestMachine>) -> PageAnswer {
        let calls = self.calls.fetch_add(1, Relaxed);
        let default = std::vec![page as u8 + 1; PAGE_SIZE];
        let mut bytes = self.pages.lock().unwrap().get(&page).cloned().unwrap_or(default);
        match self.harm {
            Harm::PageLacks if page == 1 => return PageAnswer::Error,
            Harm::NeverReady if page == 2 => return PageAnswer::NotReady,
            Harm::OtherBytes => bytes[7] = calls as u8,
            Harm::NoEnd => {}
            _ if page >= 4 => return PageAnswer::Beyond,
            _ => {}
        }
        let given = page == 3 && self.harm != Harm::TailGiven;
        into.write(0, &bytes[..if given { PAGE_SIZE / 2 } else { PAGE_SIZE }]);
        PageAnswer::Ready
    }
    fn try_make_writable(&self, _: PagerKey, _: u64) -> PageAnswer {
        let is_first = self.calls.fetch_add(1 << 20, Relaxed) < 1 << 20;
        if self.harm == Harm::WritableOnce && !is_first { PageAnswer::Error } else { PageAnswer::Ready }
    }
    fn write_back(&self, _: PagerKey, page: u64, from: &PageContents<'_, '_, TestMachine>) -> PageAnswer {
        let mut bytes = std::vec![0; PAGE_SIZE];
        from.read(0, &mut bytes[..from.len()]);
        let mut pages = self.pages.lock().unwrap();
        match self.harm {
            Harm::WriteFails => return PageAnswer::Error,
            Harm::WriteLost => return PageAnswer::Ready,
            Harm::WriteElsewhere => drop(pages.insert(page ^ 1, bytes.clone())),
            _ => {}
        }
        pages.insert(page, bytes);
        PageAnswer::Ready
    }
}

fn report(pager: &dyn Pager<TestMachine>) -> PagerReport {
    let machine = TestMachine::new(600);
    let options = VmOptions { pager: Some(pager), ..VmOptions::default() };
    let vm = Vm::start(boot_map(&machine).claim(&machine).unwrap(), options).unwrap();
    vm.trim();
    let before = vm.memory().check().unwrap().allocated;
    let report = run(&vm, FILE);
    vm.trim();
    assert!(vm.memory().check().unwrap().allocated <= before + 2, "the suite keeps frames");
    report
}

#[test]
fn an_honest_pager_keeps_all_rules() {
    let report = report(&Memory::new(Harm::None));
    assert!(report.holds(), "{report}");
    let untested = |rule: &PagerRule| report.verdict(*rule) == Verdict::Untested;
    assert_eq!(PagerRule::ALL.into_iter().filter(untested).collect::<Vec<_>>(), [PagerRule::Wakes]);
}

#[test]
fn the_rule_that_a_pager_breaks_is_named() {
    let all = [
        (Harm::LengthChanges, PagerRule::Stays),
        (Harm::PageLacks, PagerRule::Gives),
        (Harm::NoEnd, PagerRule::Ends),
        (Harm::OtherBytes, PagerRule::ReadsAlike),
        (Harm::TailGiven, PagerRule::TailIsZero),
        (Harm::NeverReady, PagerRule::Wakes),
        (Harm::WritableOnce, PagerRule::MakesWritable),
        (Harm::WriteFails, PagerRule::Writes),
        (Harm::WriteLost, PagerRule::WrittenIsRead),
        (Harm::WriteElsewhere, PagerRule::WritesNoOther),
    ];
    for (harm, rule) in all {
        let report = report(&Memory::new(harm));
        assert_eq!(report.verdict(rule), Verdict::Broken, "{harm:?}: {report}");
    }
}

#[test]
fn without_a_pager_nothing_is_tested() {
    let machine = TestMachine::new(600);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let report = run(&vm, FILE);
    assert!(report.holds() && report.verdict(PagerRule::Gives) == Verdict::Untested);
}
