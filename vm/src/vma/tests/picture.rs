//! Mappings drawn as text, one character for each page.
//!
//! ```text
//!     attributes   "rr|rww.x"      letters as in `ATTRIBUTES`; `.` is a hole; `|` is a boundary between
//!     identities   "..|.11.."      `.` is none, digits are of this space, `a` to `e` are inherited
//! ```
//!
//! A boundary needs no mark where attributes or identities differ. Page 0 of a picture is page 100 of the
//! space.

use crate::units::{Vpn, VpnRange};
use crate::vma::{AnonId, Backing, ObjectId, Policy, VmaAttributes, VmaFlags};
use std::string::String;
use std::vec::Vec;

/// The first page of a picture.
pub const ORIGIN: u64 = 100;

/// The pages `start` to `end` of a picture.
pub fn pages(start: u64, end: u64) -> VpnRange {
    VpnRange::new(Vpn(ORIGIN + start), Vpn(ORIGIN + end))
}

const R: VmaFlags = VmaFlags::READ.union(VmaFlags::MAY_ACCESS);
const W: VmaFlags = R.union(VmaFlags::WRITE);
const COMMITTED: VmaFlags = W.union(VmaFlags::ACCOUNT);

/// Letter, flags, backing, and the difference between offset and page number.
const ATTRIBUTES: [(char, VmaFlags, u64, u64); 12] = [
    ('r', R, 0, 0),
    ('w', COMMITTED, 0, 0),
    ('k', R.union(VmaFlags::ACCOUNT), 0, 0), // once written, then read-only: still committed
    ('n', W.union(VmaFlags::NORESERVE), 0, 0),
    ('N', R.union(VmaFlags::NORESERVE), 0, 0),
    ('x', R.union(VmaFlags::EXECUTE), 0, 0),
    ('d', COMMITTED.union(VmaFlags::DONT_FORK), 0, 0),
    ('m', COMMITTED, 0, 1000), // moved here with copies in it
    ('f', R, 1, 0),
    ('g', R, 1, 7), // the same file, at another offset
    ('F', COMMITTED, 1, 0),
    ('s', W.union(VmaFlags::SHARED), 2, 0),
];

/// The letter of a mapping.
pub fn letter(attributes: &VmaAttributes) -> char {
    let (flags, backing) = (attributes.flags, attributes.backing.object().map_or(0, |id| id.number().get()));
    let slide = attributes.offset.wrapping_sub(attributes.range.start.0);
    let known = ATTRIBUTES.iter().find(|&&(_, f, b, s)| (f, b, s) == (flags, backing, slide));
    known.unwrap_or_else(|| panic!("no letter for {attributes:?}")).0
}

/// A mapping drawn with `letter`.
pub fn mapping(letter: char, range: VpnRange) -> VmaAttributes {
    let known = ATTRIBUTES.iter().find(|known| known.0 == letter);
    let &(_, flags, backing, slide) = known.unwrap_or_else(|| panic!("no attributes for {letter:?}"));
    let backing = ObjectId::new(backing).map_or(Backing::Anonymous, Backing::Object);
    VmaAttributes {
        range,
        flags,
        backing: backing.into(),
        offset: range.start.0 + slide,
        anon: AnonId::NONE,
        policy: Policy::DEFAULT,
    }
}

fn identity(drawn: char) -> AnonId {
    match drawn {
        '1'..='9' => AnonId::new(drawn as u64 - '0' as u64),
        'a'..='e' => AnonId::inherited(drawn as u64 - 'a' as u64 + 1),
        _ => AnonId::NONE,
    }
}

fn drawn(anon: AnonId) -> char {
    "123456789abcde".chars().find(|&c| identity(c) == anon).unwrap_or('.')
}

/// The mappings of a picture.
pub fn parse(letters: &str, identities: &str) -> Vec<VmaAttributes> {
    assert_eq!(letters.len(), identities.len(), "both lines show the same pages");
    let mut list: Vec<VmaAttributes> = Vec::new();
    let (mut page, mut last) = (0, ('.', '.'));
    for now in letters.chars().zip(identities.chars()) {
        if now.0 != '|' {
            if now.0 != '.' && now == last {
                list.last_mut().unwrap().range.end = Vpn(ORIGIN + page + 1);
            } else if now.0 != '.' {
                let attributes = mapping(now.0, pages(page, page + 1));
                list.push(VmaAttributes { anon: identity(now.1), ..attributes });
            }
            page += 1;
        }
        last = now;
    }
    list
}

/// Both lines of the picture of a list, `nr_pages` long.
pub fn draw(list: &[VmaAttributes], nr_pages: u64) -> (String, String) {
    let (mut letters, mut identities) = (String::new(), String::new());
    let mut before: Option<&VmaAttributes> = None;
    for page in pages(0, nr_pages).start.0..pages(0, nr_pages).end.0 {
        let here = list.iter().find(|attributes| attributes.range.contains(Vpn(page)));
        if let (Some(before), Some(here)) = (before, here)
            && before.range != here.range
            && (letter(before), before.anon) == (letter(here), here.anon)
        {
            letters.push('|');
            identities.push('|');
        }
        letters.push(here.map_or('.', letter));
        identities.push(here.map_or('.', |attributes| drawn(attributes.anon)));
        before = here;
    }
    (letters, identities)
}

#[test]
fn a_picture_is_drawn_as_it_was_parsed() {
    for (letters, identities) in
        [("rr|rww..s", "..|.11..."), ("kkww|wwf.", "1a11|11.."), ("", ""), ("mm|m.", "11|1.")]
    {
        let list = parse(letters, identities);
        let nr_pages = letters.chars().filter(|&c| c != '|').count() as u64;
        assert_eq!(draw(&list, nr_pages), (letters.into(), identities.into()));
    }
    assert_eq!(parse("rr|rww", "..|.11").len(), 3);
}
