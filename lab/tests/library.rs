//! The library against the obvious model: random calls, the same answers, map, pages and contents.

use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::{Aarch64, X86_64, X86_64La57};
use interleaf::units::{Access, CpuId};
use interleaf::vma::VmaFlags;
use interleaf_lab::check::compare::compare;
use interleaf_lab::check::generate::sequence;
use interleaf_lab::check::library::{Library, boot_map};
use interleaf_lab::check::model::Model;
use interleaf_lab::check::setting::Setting;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};

fn agrees<F: Format>(path: Path, seeds: std::ops::Range<u64>) {
    // A refused commit leaves things as they were here; Linux leaves the ends split
    // (docs/design/linux-semantics.md). So nothing is refused.
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
