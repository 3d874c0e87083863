//! What the words of a record say about the anon key of a frame.

use super::*;

#[test]
fn words_say_what_was_put_into_them() {
    for node in [1, 2, u32::MAX].map(|number| AnonNodeId(NonZeroU32::new(number).unwrap())) {
        for page in [0, 1, (1 << 45) - 1, (1 << 52) - 1].map(Vpn) {
            let key = AnonKey { node, page };
            assert_eq!(AnonKey::decode(key.encode()), Some(key));
        }
    }
}

#[test]
fn a_link_is_no_page() {
    let node = AnonKey { node: AnonNodeId(NonZeroU32::MIN), page: Vpn(7) }.encode()[0];
    for link in [0, 1, 2, 1 << (MAX_PHYS_BITS - PAGE_SHIFT)] {
        assert_eq!(AnonKey::decode([node, link]), None);
    }
    assert_eq!(AnonKey::decode([0, VALID | 7]), None, "no node has the number 0");
}
