//! The model and the host's Linux say the same.

use interleaf_lab::check::compare::compare;
use interleaf_lab::check::generate::sequence;
use interleaf_lab::check::oracle::Oracle;
use interleaf_lab::model::Model;

/// The oracle, or none where this host cannot be one; continuous integration must be able to.
fn oracle() -> Option<Oracle> {
    match Oracle::open() {
        Ok(oracle) => Some(oracle),
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("not run: {reason}");
            None
        }
    }
}

#[test]
fn model_and_linux_agree_on_random_sequences() {
    let Some(mut linux) = oracle() else { return };
    let setting = linux.setting().clone();
    let mut model = Model::new(setting.clone());
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4000);
    for seed in first..first + count {
        let calls = sequence(seed, 40, &setting);
        if let Some(difference) = compare(&setting, &mut model, &mut linux, &calls) {
            panic!("seed {seed}:\n{difference}");
        }
    }
}
