use super::*;

/// `start-end rights`, in pages; a name that is not empty makes a device.
fn map(text: &str) -> Vec<Line> {
    let line = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap() << 12;
        Line {
            start: number(0),
            end: number(1),
            rights: words[2].to_string(),
            flags: VmaFlags::empty(),
            is_followed: words.len() == 3,
            text: String::new(),
        }
    };
    text.split(", ").map(line).collect()
}

#[test]
fn equal_maps_differ_in_nothing() {
    assert_eq!(compare(&map("1 3 rw-p, 3 4 r--p"), &map("1 3 rw-p, 3 4 r--p")), []);
}

#[test]
fn rights_are_compared_page_by_page_and_said_once_for_a_run() {
    let gaps = compare(&map("1 3 rw-p, 3 6 r--p"), &map("1 6 rw-p"));
    let expected = Gap::Rights(3 << 12..6 << 12, "r--p".into(), "rw-p".into());
    assert_eq!(gaps, [Gap::Edge(3 << 12, "in Linux"), expected]);
}

#[test]
fn a_hole_on_one_side_is_a_difference() {
    let gaps = compare(&map("1 3 rw-p"), &map("1 2 rw-p"));
    assert_eq!(gaps, [Gap::Rights(2 << 12..3 << 12, "rw-p".into(), "-".into())]);
}

#[test]
fn edges_count_between_memory_that_is_followed() {
    let ours = map("1 4 rw-p");
    assert_eq!(compare(&map("1 2 rw-p device, 2 3 rw-p, 3 4 rw-p device"), &ours), []);
    let gaps = compare(&map("1 2 rw-p, 2 4 rw-p"), &ours);
    assert_eq!(gaps, [Gap::Edge(2 << 12, "in Linux")]);
    assert_eq!(compare(&ours, &map("1 2 rw-p, 2 4 rw-p")), [Gap::Edge(2 << 12, "here")]);
}
