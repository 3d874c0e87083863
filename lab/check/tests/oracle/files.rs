//! Mappings of a file in memory, shared and private: what is copied, what is shown, and its end.

use crate::world::oracle;
use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf_check::calls::{Call, CallResult, System};
use interleaf_check::compare::compare;
use interleaf_check::generate::file_sequence;
use interleaf_check::library::Library;
use interleaf_check::model::Model;
use interleaf_check::setting::Setting;
use std::ops::Range;

const LONGEST: u64 = 40;

fn agree(setting: &Setting, other: &mut dyn System, seeds: Range<u64>) {
    let mut model = Model::new(setting.clone());
    for seed in seeds {
        let calls = file_sequence(seed, LONGEST, setting);
        if let Some(difference) = compare(setting, &mut model, other, &calls) {
            panic!("seed {seed}:\n{difference}");
        }
    }
}

#[test]
fn model_and_linux_agree_on_mappings_of_a_file() {
    let Some(mut linux) = oracle() else { return };
    let setting = linux.setting().clone();
    agree(&setting, &mut linux, 0..6000);
}

fn library_agrees<F: Format>(path: Path, seeds: Range<u64>) {
    let setting = Setting::default();
    let mut library = Library::<F>::new(setting.clone(), path).expect("a machine");
    agree(&setting, &mut library, seeds);
}

#[test]
fn model_and_library_agree_on_mappings_of_a_file() {
    library_agrees::<X86_64>(Path::Speculative, 0..1500);
    library_agrees::<X86_64>(Path::Locked, 1500..2500);
    library_agrees::<Aarch64>(Path::Speculative, 2500..3000);
}

/// Else they would show nothing.
#[test]
fn sequences_copy_pages_and_reach_beyond_the_end() {
    let setting = Setting::default();
    let (mut files, mut bus) = (0, 0);
    for seed in 0..800 {
        let calls = file_sequence(seed, LONGEST, &setting);
        files += calls.iter().filter(|call| matches!(call, Call::Words { .. })).count();
        let answers = Model::new(setting.clone()).run(&calls).answers;
        bus += answers.iter().filter(|answer| **answer == CallResult::Bus).count();
    }
    assert!(files > 1000 && bus > 100, "{files} mappings of the file, {bus} bus errors");
}
