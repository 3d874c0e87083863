//! The flushes of a CPU that has seen one generation and was sent requests for others.

use crate::tlb::RANGE_LIMIT_PAGES;
use crate::tlb::mailbox::{CatchUp, FlushRequest, Mailbox, REQUESTS};
use crate::units::{Vpn, VpnRange};

fn request(generation: u64, pages: u64) -> FlushRequest {
    FlushRequest { generation, named: VpnRange::new(Vpn(16), Vpn(16 + pages)) }
}

#[test]
fn ranges_suffice_only_where_every_generation_came() {
    let mut mailbox = Mailbox::new(7);
    assert!(mailbox.post(request(4, 1)), "the first request interrupts");
    assert_eq!(mailbox.catch_up(3), CatchUp::Ranges(&[request(4, 1)], 4));
    assert_eq!(mailbox.catch_up(2), CatchUp::Everything(4));
    assert_eq!(mailbox.catch_up(4), CatchUp::Nothing);
    assert!(!mailbox.post(request(6, 1)), "an interrupt is on its way");
    assert_eq!(mailbox.catch_up(3), CatchUp::Everything(6));
    assert!(!mailbox.post(request(5, 1)));
    assert!(matches!(mailbox.catch_up(3), CatchUp::Ranges(requests, 6) if requests.len() == 3));
}

#[test]
fn a_full_mailbox_asks_for_everything() {
    let mut mailbox = Mailbox::new(7);
    (1..=REQUESTS as u64 + 1).for_each(|generation| {
        let is_first = mailbox.post(request(generation, 1));
        assert_eq!(is_first, generation == 1);
    });
    assert_eq!(mailbox.catch_up(0), CatchUp::Everything(REQUESTS as u64 + 1));
    assert_eq!(mailbox.take().catch_up(0), CatchUp::Everything(REQUESTS as u64 + 1));
    assert_eq!(mailbox.catch_up(0), CatchUp::Nothing);
    assert!(mailbox.post(request(9, 1)), "what was taken has been answered");
}

#[test]
fn a_large_range_asks_for_everything() {
    let mut mailbox = Mailbox::new(7);
    assert!(mailbox.post(request(1, RANGE_LIMIT_PAGES + 1)));
    assert!(!mailbox.post(request(2, 1)), "a request that was not kept is answered by the same interrupt");
    assert_eq!(mailbox.catch_up(0), CatchUp::Everything(2));
}
