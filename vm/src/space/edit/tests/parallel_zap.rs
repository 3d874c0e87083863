//! When helpers are called, and how parts are cut.

use crate::space::edit::parallel_zap::{may_be_worth_helpers, part_pages};
use crate::units::{Level, Vpn, VpnRange};

#[test]
fn small_ranges_are_never_worth_helpers() {
    let table = Level::Pte.table_pages();
    let is_worth = |pages| may_be_worth_helpers(VpnRange::new(Vpn(7), Vpn(7 + pages)));
    assert!(!is_worth(1) && !is_worth(table) && !is_worth(2 * table - 1));
    assert!(is_worth(2 * table) && is_worth(1 << 30));
}

#[test]
fn no_part_cuts_a_leaf() {
    assert_eq!(part_pages(false), Level::Pmd.entry_pages());
    assert_eq!(part_pages(true), Level::Pud.entry_pages());
}
