//! Huge pages as a program sees them: what it reads costs nothing, what it writes comes by 2 MiB, what it
//! asks for holds, and the kernel's own files say so.
//!
//! `huge [never|madvise|always [huge|virtual|small|none]]`. With words the machine must have that policy and
//! that zero page (`huge`, if it is not named), memory enough, and all numbers must be what they make them.
//! Without one, contents alone are checked: on a Linux whose settings and memory are not known.
#![cfg_attr(metal, no_std, no_main)]

use core::ffi::CStr;
use interleaf_programs::say::granted;
use interleaf_programs::sys::{
    self, Args, EINVAL, Forked, HUGEPAGE, NOHUGEPAGE, Region, Rights, Whose, most_resident, number_in,
    read_file, set_thp_disable, thp_disable,
};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Base pages of a huge one, and its KiB.
const HUGE: usize = 512;
const HUGE_KIB: u64 = 2048;
/// Huge pages of a region.
const NR: usize = 6;
/// KiB of other memory that may become resident meanwhile: stack, statics.
const SLACK_KIB: u64 = 128;

/// PR_THP_DISABLE_EXCEPT_ADVISED, of Linux 6.18.
const EXCEPT_ADVISED: usize = 2;

const ENABLED: &CStr = c"/sys/kernel/mm/transparent_hugepage/enabled";

/// What the kernel's files say.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    rss: u64,
    anon_huge: u64,
    fault_alloc: u64,
    zero_alloc: u64,
    split_pmd: u64,
}

impl Told {
    /// The numbers less those of `before`; 0 where they fell.
    fn since(&self, before: &Told) -> Told {
        Told {
            rss: self.rss.saturating_sub(before.rss),
            anon_huge: self.anon_huge.saturating_sub(before.anon_huge),
            fault_alloc: self.fault_alloc.saturating_sub(before.fault_alloc),
            zero_alloc: self.zero_alloc.saturating_sub(before.zero_alloc),
            split_pmd: self.split_pmd.saturating_sub(before.split_pmd),
        }
    }

    fn now() -> Told {
        let of = |file: &CStr, name: &str| {
            let mut text = [0; 16 << 10];
            read_file(file, &mut text).ok().and_then(|text| number_in(text, name)).unwrap_or(0)
        };
        let counter = |name| of(c"/proc/vmstat", name);
        Told {
            rss: of(c"/proc/self/status", "VmRSS"),
            anon_huge: of(c"/proc/self/smaps_rollup", "AnonHugePages"),
            fault_alloc: counter("thp_fault_alloc"),
            zero_alloc: counter("thp_zero_page_alloc"),
            split_pmd: counter("thp_split_pmd"),
        }
    }
}

/// How the machine is set.
#[derive(Clone, Copy)]
struct Setting {
    /// Numbers are checked, not only contents.
    is_known: bool,
    /// Memory that is not advised gets huge pages.
    always: bool,
    /// Memory that is advised does.
    ever: bool,
    /// Huge zero pages that come with the first load of memory that gets huge pages, and huge pages of its
    /// own for each 2 MiB.
    zero_pages: (u64, u64),
}

impl Setting {
    /// A number must be at least so many KiB, or events, and with what else comes at most a little more.
    fn must(&self, what: &str, found: u64, least: u64) {
        let most = least + SLACK_KIB;
        holds!(!self.is_known || (least..=most).contains(&found), "{what}: {found}, not {least}");
    }
}

fn begin(args: Args) -> u8 {
    let mut text = [0; 128];
    let told = read_file(ENABLED, &mut text).unwrap_or(b"unknown");
    let told = core::str::from_utf8(told).unwrap_or("unknown").trim_end();
    let is_set = |word: &str| told.find(word).is_some_and(|at| at > 0 && told.as_bytes()[at - 1] == b'[');
    if let Some(word) = args.word(1) {
        holds!(is_set(word), "the machine has {told}, not {word}");
    }
    let (always, is_known) = (is_set("always"), args.word(1).is_some());
    let kind = args.word(2).unwrap_or("huge");
    holds!(["huge", "virtual", "small", "none"].contains(&kind), "{kind} is no zero page");
    let zero_pages = match kind {
        // One table of zeros is one, too.
        "huge" | "virtual" => (1, 0),
        "none" => (0, 1),
        _ => (0, 0),
    };
    let setting = Setting { is_known, always, ever: always || is_set("madvise"), zero_pages };
    reads_cost_nothing(setting);
    writes_come_whole(setting);
    refused_by_the_process(setting);
    let most = granted("getrusage", most_resident(Whose::Own));
    setting.must("KiB resident at most", most, if setting.ever { NR as u64 * HUGE_KIB } else { 0 });
    say!("huge: {told}; contents and numbers are right, at most {most} KiB resident");
    GOOD
}

/// A region of whole huge pages.
fn region(advice: Option<usize>) -> Region {
    let all = granted("mmap", Region::map((NR + 1) * HUGE, Rights::WRITE));
    let first = (all.start() / sys::PAGE).next_multiple_of(HUGE) - all.start() / sys::PAGE;
    let region = all.part(first, NR * HUGE);
    if let Some(advice) = advice {
        // A kernel without huge pages refuses it.
        let answer = region.advise(advice);
        holds!(matches!(answer, Ok(()) | Err(EINVAL)), "madvise: {answer:?}");
    }
    region
}

fn drop_region(region: Region) {
    granted("munmap", region.unmap());
}

/// Memory that is only read is zero, and none of it resident.
fn reads_cost_nothing(setting: Setting) {
    let (region, before) = (region(Some(HUGEPAGE)), Told::now());
    for page in (0..NR * HUGE).step_by(HUGE / 4) {
        holds!(region.read(page, page % 512) == 0, "page {page} is not zero before any write");
    }
    let came = Told::now().since(&before);
    let (zero_pages, own) = if setting.ever { setting.zero_pages } else { (0, 0) };
    let own_kib = own * NR as u64 * HUGE_KIB;
    setting.must("KiB resident of what was read", came.rss, own_kib);
    setting.must("KiB of huge pages of it", came.anon_huge, own_kib);
    let nr_zero = came.zero_alloc;
    holds!(!setting.is_known || nr_zero == zero_pages, "{nr_zero} huge zero pages");
    drop_region(region);
}

/// A write brings 2 MiB where that is wanted; a cut leaves the rest.
fn writes_come_whole(setting: Setting) {
    for (advice, wanted) in
        [(Some(HUGEPAGE), setting.ever), (None, setting.always), (Some(NOHUGEPAGE), false)]
    {
        let (region, before) = (region(advice), Told::now());
        (0..NR).for_each(|nth| region.write(nth * HUGE + 7 * nth, 5, !(nth as u64)));
        let came = Told::now().since(&before);
        let huge = if wanted { NR as u64 } else { 0 };
        setting.must("huge pages, KiB", came.anon_huge, huge * HUGE_KIB);
        let rss = if wanted { huge * HUGE_KIB } else { NR as u64 * 4 };
        setting.must("resident, KiB", came.rss, rss);
        let allocated = came.fault_alloc;
        holds!(!setting.is_known || allocated == huge, "{allocated} huge pages counted");
        for page in (0..NR * HUGE).step_by(3) {
            let nth = page / HUGE;
            let expected = if page == nth * HUGE + 7 * nth { !(nth as u64) } else { 0 };
            holds!(region.read(page, 5) == expected, "page {page} does not hold {expected:#x}");
        }
        cut(setting, region, wanted);
        granted("madvise", region.part(HUGE, HUGE).dont_need());
        holds!(region.read(HUGE + 7, 5) == 0, "contents that were dropped are there");
        drop_region(region);
    }
}

/// One page of the first huge one goes, the others stay as they are.
fn cut(setting: Setting, region: Region, wanted: bool) {
    let before = Told::now();
    granted("munmap", region.part(100, 1).unmap());
    granted("mprotect", region.part(200, 2).protect(Rights::READ));
    let after = Told::now();
    holds!(region.read(0, 5) == !0 && region.read(99, 0) == 0 && region.read(201, 0) == 0, "a cut huge page");
    let splits = after.since(&before).split_pmd;
    holds!(!setting.is_known || splits == u64::from(wanted), "{splits} huge entries were split");
    let gone = before.since(&after).anon_huge;
    holds!(
        !setting.is_known || gone == if wanted { HUGE_KIB } else { 0 },
        "{gone} KiB are not huge any more"
    );
}

/// PR_SET_THP_DISABLE holds for the process, and for its children.
fn refused_by_the_process(setting: Setting) {
    holds!(set_thp_disable(false, EXCEPT_ADVISED) == Err(EINVAL), "flags that disable nothing");
    granted("prctl", set_thp_disable(true, 0));
    holds!(thp_disable() == Ok(1), "disabled reads {:?}", thp_disable());
    written(setting, 0);
    let Forked::Parent(child) = granted("fork", sys::fork()) else {
        sys::exit_group(u8::from(thp_disable() != Ok(1)));
    };
    let (_, status) = granted("wait4", sys::wait(Some(child)));
    holds!(status == 0, "a child does not inherit THP_DISABLE: {status:#x}");
    if set_thp_disable(true, EXCEPT_ADVISED).is_ok() {
        holds!(thp_disable() == Ok(3), "disabled but for advised memory reads {:?}", thp_disable());
        written(setting, if setting.ever { NR as u64 } else { 0 });
    } else {
        holds!(!setting.is_known, "the exception is refused");
    }
    granted("prctl", set_thp_disable(false, 0));
    holds!(thp_disable() == Ok(0), "enabled reads {:?}", thp_disable());
    written(setting, if setting.ever { NR as u64 } else { 0 });
}

/// Writes to advised memory: so many huge pages come.
fn written(setting: Setting, huge: u64) {
    let (region, before) = (region(Some(HUGEPAGE)), Told::now());
    (0..NR).for_each(|nth| region.write(nth * HUGE, 0, 1));
    let came = Told::now().since(&before).fault_alloc;
    holds!(!setting.is_known || came == huge, "{came} huge pages came, not {huge}");
    drop_region(region);
}
