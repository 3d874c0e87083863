//! How a range is cut into the parts that entries cover.

use crate::table::sweep::part_of_entry;
use crate::units::{Level, Vpn, VpnRange};

#[test]
fn parts_end_where_their_entry_ends() {
    let range = |a, b| VpnRange::new(Vpn(a), Vpn(b));
    assert_eq!(part_of_entry(Level::Pmd, Vpn(5), Vpn(10_000)), range(5, 512));
    assert_eq!(part_of_entry(Level::Pmd, Vpn(512), Vpn(600)), range(512, 600));
}
