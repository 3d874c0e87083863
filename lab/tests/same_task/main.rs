//! One task with this library, and with the crates that a small kernel would join instead: the same results;
//! and the page about it counts the lines as they are.
//!
//! The task: a program's memory on one CPU. A MiB is mapped, written page by page, 16 pages become read-only,
//! the middle half is unmapped, the rest too; every frame comes back.

mod ours;
mod theirs;

const PAGE: u64 = 4096;

/// What a run shows: pages on which faults succeed, and frames that did not come back.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    written: usize,
    writable: usize,
    readable: usize,
    left: usize,
    lost: u64,
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Frame([u8; PAGE as usize]);

/// Memory that is never freed, by its address.
fn board(frames: usize) -> u64 {
    vec![Frame([0; PAGE as usize]); frames].leak().as_mut_ptr().expose_provenance() as u64
}

#[test]
fn both_do_the_same() {
    let expected = Seen { written: 256, writable: 240, readable: 256, left: 128, lost: 0 };
    assert_eq!(ours::run(), expected);
    assert_eq!(theirs::run(), expected);
}

/// Lines of code of each marked part, comments and blank lines left out.
fn lines(source: &str) -> Vec<usize> {
    let parts = source.split("// task: ").skip(1).filter(|part| !part.starts_with("end"));
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    parts.map(|part| part.lines().skip(1).filter(is_code).count()).collect()
}

#[test]
fn the_page_counts_the_lines_as_they_are() {
    let page = include_str!("../../../docs/porting/why-not.md");
    let (ours, theirs) = (lines(include_str!("ours.rs")), lines(include_str!("theirs.rs")));
    for (name, ours, theirs) in [("platform", ours[0], theirs[0]), ("address space", ours[1], theirs[1])] {
        let row = format!("| {name} | {ours} | {theirs} |");
        assert!(page.contains(&row), "docs/porting/why-not.md should say: {row}");
    }
}
