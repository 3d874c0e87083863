//! The library against the obvious model: random calls, the same answers, map, pages and contents.

use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::{Aarch64, Sv48, Sv57, X86_64, X86_64La57};
use interleaf::units::{Access, CpuId};
use interleaf::vma::VmaFlags;
use interleaf_check::calls::{Call, CallResult, Errno, MapFlags, Outcome, Prot, System};
use interleaf_check::compare::compare;
use interleaf_check::generate::sequence;
use interleaf_check::library::Library;
use interleaf_check::model::Model;
use interleaf_check::setting::Setting;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::collections::BTreeMap;
use std::ops::Range;

fn agrees<F: Format>(path: Path, seeds: Range<u64>) {
    // Nothing is refused for a limit; the tests of limits below have that.
    let setting = Setting { memory_pages: 1 << 40, ..Setting::default() };
    let mut library = Library::<F>::new(setting.clone(), path).expect("a machine");
    let mut model = Model::new(setting.clone());
    for seed in seeds {
        let calls = sequence(seed, 40, &setting);
        if let Some(difference) = compare(&setting, &mut model, &mut library, &calls) {
            panic!("seed {seed}, {}, {path:?}:\n{difference}", F::NAME);
        }
    }
}

#[test]
fn speculative_faults_on_x86_agree_with_the_model() {
    agrees::<X86_64>(Path::Speculative, 0..1000);
}

#[test]
fn locked_faults_on_x86_agree_with_the_model() {
    agrees::<X86_64>(Path::Locked, 1000..2000);
}

#[test]
fn faults_that_lock_the_mapping_on_x86_agree_with_the_model() {
    agrees::<X86_64>(Path::VmaLock, 5100..5700);
}

#[test]
fn speculative_faults_on_aarch64_agree_with_the_model() {
    agrees::<Aarch64>(Path::Speculative, 2000..3000);
}

#[test]
fn locked_faults_on_aarch64_agree_with_the_model() {
    agrees::<Aarch64>(Path::Locked, 3000..4000);
}

#[test]
fn both_paths_on_five_levels_agree_with_the_model() {
    agrees::<X86_64La57>(Path::Speculative, 4000..4300);
    agrees::<X86_64La57>(Path::Locked, 4300..4600);
}

#[test]
fn both_paths_on_riscv_agree_with_the_model() {
    agrees::<Sv48>(Path::Speculative, 4600..4900);
    agrees::<Sv57>(Path::Locked, 4900..5100);
}

/// The errors of each call, by its name; a heap that stays where it is counts as one.
type Refusals = BTreeMap<&'static str, u64>;

fn count_refusals(calls: &[Call], outcome: &Outcome, refusals: &mut Refusals) {
    for (call, answer) in calls.iter().zip(&outcome.answers) {
        let name = match call {
            Call::Mmap { .. } => "mmap",
            Call::Munmap { .. } => "munmap",
            Call::Mprotect { .. } => "mprotect",
            Call::Madvise { .. } => "madvise",
            Call::Brk { .. } => "brk",
            _ => continue,
        };
        let stays = matches!(call, Call::Brk { addr } if *answer != CallResult::Value(*addr));
        let limit = matches!(answer, CallResult::Error(Errno::ENOMEM | Errno::EAGAIN));
        *refusals.entry(name).or_default() += u64::from(stays || limit);
    }
}

/// The same errors, and the same state after them, where limits are met often. Returns how often more than
/// without them.
fn agrees_at_limits<F: Format>(path: Path, seeds: Range<u64>, limits: &Setting) -> Refusals {
    let mut library = Library::<F>::new(limits.clone(), path).expect("a machine");
    let (mut model, mut free) = (Model::new(limits.clone()), Model::new(Setting::default()));
    let (mut with, mut without) = (Refusals::new(), Refusals::new());
    for seed in seeds {
        let calls = sequence(seed, 60, limits);
        if let Some(difference) = compare(limits, &mut model, &mut library, &calls) {
            panic!("seed {seed}, {}, {path:?}:\n{difference}", F::NAME);
        }
        count_refusals(&calls, &model.run(&calls), &mut with);
        count_refusals(&calls, &free.run(&calls), &mut without);
    }
    with.into_iter().map(|(name, times)| (name, times.saturating_sub(without[name]))).collect()
}

#[test]
fn with_ten_mappings_at_most_the_library_agrees_with_the_model() {
    let (most, foreign) = (10, 3);
    let limits = Setting { max_mappings: most + foreign, ..Setting::default() };
    let speculative = agrees_at_limits::<X86_64>(Path::Speculative, 0..1500, &limits);
    let locked = agrees_at_limits::<Aarch64>(Path::Locked, 1500..3000, &limits);
    for refused in [speculative, locked] {
        assert!(refused.len() == 5 && refused.values().all(|times| *times >= 5), "{refused:?}");
    }
}

#[test]
fn where_memory_is_small_the_library_refuses_what_the_model_refuses() {
    let limits = Setting { memory_pages: 6, ..Setting::default() };
    let speculative = agrees_at_limits::<X86_64>(Path::Speculative, 0..1000, &limits);
    let locked = agrees_at_limits::<Aarch64>(Path::Locked, 1000..2000, &limits);
    for refused in [speculative, locked] {
        let often = ["mmap", "mprotect", "brk"].iter().all(|name| refused[name] >= 10);
        assert!(often, "{refused:?}");
    }
}

#[test]
fn mmap_refuses_the_flags_that_the_library_lacks_and_maps_nothing() {
    let machine = SoftMachine::<Host, X86_64>::new(&MachineConfig::small(1, 4096)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("a root table");
    let private = MapFlags::PRIVATE | MapFlags::ANONYMOUS;
    let mmap = |flags: MapFlags| {
        let rights = Prot::READ | Prot::WRITE;
        interleaf_linux_abi::mmap(&space, [0, 4096, rights.bits().into(), flags.bits().into(), 0, 0])
    };
    let shared = MapFlags::SHARED | MapFlags::ANONYMOUS;
    let refused = [
        (private | MapFlags::GROWSDOWN, Errno::EOPNOTSUPP),
        // The pool is empty.
        (private | MapFlags::HUGETLB, Errno::ENOMEM),
        (shared | MapFlags::HUGETLB, Errno::ENOMEM),
        (private | MapFlags::HUGETLB | MapFlags::from_bits_retain(22 << MapFlags::HUGE_SHIFT), Errno::EINVAL),
        (private | MapFlags::LOCKED, Errno::EPERM),
        (shared | MapFlags::LOCKED | MapFlags::POPULATE, Errno::EPERM),
        (MapFlags::PRIVATE | MapFlags::LOCKED, Errno::EBADF),
    ];
    for (flags, error) in refused {
        assert_eq!(mmap(flags), Err(error), "{flags:?}");
    }
    assert_eq!(space.inspect().nr_mappings(), 0, "a refused call has mapped something");
    assert!(mmap(private).is_ok() && mmap(private | MapFlags::POPULATE).is_ok());
}

#[test]
fn every_edit_that_takes_something_away_is_counted_as_a_flush() {
    let machine = SoftMachine::<Host, X86_64>::new(&MachineConfig::small(1, 4096)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("a root table");
    let flushes = || vm.totals().get(Counter::TlbFlush);
    let base = space.map(&MapRequest::anonymous(4096)).expect("room");
    space.fault(Fault { addr: base, access: Access::Write }).expect("it may be written");
    assert_eq!(flushes(), 0, "nothing was taken away");
    space.protect(base, 4096, VmaFlags::READ).expect("it is mapped");
    assert_eq!(flushes(), 1);
    space.unmap(base, 4096).expect("it is mapped");
    assert_eq!(flushes(), 2);
    space.unmap(base, 4096).expect("a hole is no error");
    assert_eq!(flushes(), 2);
}
