//! The lists of sizes that `--huge-sizes` takes.

use super::*;
use crate::measure::fault::report::sizes_name;
use interleaf::units::Order;

#[test]
fn a_list_of_sizes_is_read_and_named() {
    let sizes = sizes_in("64K,1M=madvise").unwrap();
    let due = MthpPolicies::NEVER.with(Order(4), MthpPolicy::Always).with(Order(8), MthpPolicy::Madvise);
    assert_eq!((sizes, sizes_name(sizes)), (due, "64K=always,1M=madvise".to_string()));
    assert_eq!(sizes_in("all=inherit").unwrap(), MthpPolicies::all(MthpPolicy::Inherit));
    assert_eq!(sizes_in("all,16K=never").unwrap().policy(Order(2)), MthpPolicy::Never);
    assert_eq!(sizes_name(MthpPolicies::NEVER), "none");
    for wrong in ["", "8K", "2M", "64", "64K=", "64K=often", "64K,,1M"] {
        assert!(sizes_in(wrong).is_err(), "{wrong}");
    }
}
