//! The library's decisions about mappings (merge, split, change, identity, place) against the model and the
//! host's Linux.
//!
//! Here they are applied to a plain list, without records, entries or pages: what differs is a decision, and
//! nothing else.

mod list;

use interleaf_check::calls::{Call, MapFlags, PAGE, System, advice};
use interleaf_check::compare::shortest;
use interleaf_check::generate::sequence;
use interleaf_check::model::Model;
use interleaf_check::oracle::Oracle;
use interleaf_check::setting::Setting;
use list::{Decisions, flag_advice};

/// Whether a call is about mappings, with arguments that only a decision can refuse.
fn is_plain(call: &Call, setting: &Setting) -> bool {
    let whole = |addr: u64, len: u64| {
        let inside =
            |window: &std::ops::Range<u64>| window.start <= addr && len <= window.end.saturating_sub(addr);
        addr.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && len > 0 && setting.windows.iter().any(inside)
    };
    match *call {
        Call::Mmap { hint, len, prot, flags } => {
            let kind = flags & (MapFlags::SHARED | MapFlags::PRIVATE);
            let fixed = flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
            flags.contains(MapFlags::ANONYMOUS)
                && (kind == MapFlags::SHARED || kind == MapFlags::PRIVATE)
                && prot.bits() < 8
                && len.div_ceil(PAGE) <= setting.memory_pages
                && len > 0
                && (!fixed || whole(hint, len))
        }
        Call::Munmap { addr, len } => whole(addr, len),
        Call::Mprotect { addr, len, prot } => whole(addr, len) && prot.bits() < 8,
        Call::Madvise { addr, len, advice } => {
            let known = advice == advice::POPULATE_WRITE || flag_advice(advice).is_some();
            whole(addr, len) && known
        }
        Call::Write { addr, .. } => setting.windows.iter().any(|window| window.contains(&addr)),
        Call::Brk { addr } => addr < setting.windows[1].end,
        // Policies are changed as flags are, all or nothing; a plain list would repeat the library's code.
        Call::Words { .. }
        | Call::Mremap { .. }
        | Call::Read { .. }
        | Call::Mincore { .. }
        | Call::Msync { .. }
        | Call::File(_)
        | Call::Mbind { .. } => false,
    }
}

/// Runs sequences of plain calls on both, and shows the shortest on which they differ.
fn agree(setting: &Setting, other: &mut dyn System, seeds: std::ops::Range<u64>) {
    let mut see = |calls: &[Call]| {
        let outcome = other.run(calls);
        (outcome.answers, outcome.map)
    };
    for seed in seeds {
        let calls: Vec<Call> =
            sequence(seed, 60, setting).into_iter().filter(|call| is_plain(call, setting)).collect();
        let mut differs = |calls: &[Call]| {
            calls.iter().all(|call| is_plain(call, setting))
                && Decisions::new(setting).run(calls) != see(calls)
        };
        if differs(&calls) {
            let calls = shortest(setting, &calls, &mut differs);
            let shown: Vec<String> = calls.iter().map(Call::to_string).collect();
            let (ours, theirs) = (Decisions::new(setting).run(&calls), see(&calls));
            panic!("seed {seed}:\n{}\nours   {ours:#x?}\nothers {theirs:#x?}", shown.join("\n"));
        }
    }
}

#[test]
fn decisions_and_the_model_agree_on_random_sequences() {
    let setting = Setting::default();
    agree(&setting, &mut Model::new(setting.clone()), 0..4000);
}

#[test]
fn decisions_and_linux_agree_on_random_sequences() {
    match Oracle::open() {
        Ok(mut linux) => agree(&linux.setting().clone(), &mut linux, 10_000..13_000),
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("not run: {reason}");
        }
    }
}
