//! The library against the obvious model: random calls, the same answers, map, pages and contents.

use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64, X86_64La57};
use interleaf_lab::check::compare::compare;
use interleaf_lab::check::generate::sequence;
use interleaf_lab::check::library::Library;
use interleaf_lab::check::setting::Setting;
use interleaf_lab::model::Model;

fn agrees<F: Format>(path: Path, seeds: std::ops::Range<u64>) {
    // A refused promise leaves things as they were here; Linux leaves the ends split (docs/design/linux-semantics.md). So
    // nothing is refused.
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
