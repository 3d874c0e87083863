use super::*;

const DOUBLING: [(f64, f64); 3] = [(1.0, 1.0), (2.0, 2.0), (4.0, 3.0)];

#[test]
fn doublings_are_equally_far_apart_and_the_largest_is_on_top() {
    let text = ascii("title", &DOUBLING);
    let lines: Vec<&str> = text.lines().collect();
    let column = |line: &str| line.find('*').map(|at| at - line.find('|').unwrap() - 1);
    assert_eq!(lines[0], "title");
    assert_eq!(column(lines[1]), Some(COLUMNS - 1));
    let columns: Vec<_> = lines.iter().filter_map(|l| column(l)).collect();
    assert_eq!(columns, [COLUMNS - 1, COLUMNS / 2, 0]);
}

#[test]
fn nothing_to_draw_is_said() {
    assert!(ascii("title", &[]).contains("no points"));
    assert!(!svg("title", "x", "y", &[]).contains("polyline"));
}

#[test]
fn one_point_and_flat_lines_draw_without_dividing_by_zero() {
    assert!(ascii("t", &[(1.0, 0.0)]).contains('*'));
    assert!(!svg("t", "x", "y", &Series::only(&[(1.0, 0.0), (1.0, 0.0)])).contains("NaN"));
}

#[test]
fn an_svg_names_its_axes_and_escapes_what_it_is_given() {
    let text = svg("a < b & c", "size", "ns", &Series::only(&DOUBLING));
    assert!(text.contains("a &lt; b &amp; c") && text.contains(">size<") && text.contains(">ns<"));
    assert!(text.contains("70.0,") && text.contains("690.0,30.0"), "{text}");
}

#[test]
fn several_lines_share_their_axes_and_bear_their_names() {
    let line = |name: &str, y: f64| Series { name: name.into(), points: vec![(1.0, y), (4.0, y)] };
    let text = svg("t", "x", "y", &[line("first", 3.0), line("second", 6.0)]);
    assert_eq!(text.matches("polyline").count(), 2);
    assert!(
        text.contains("\"70.0,185.0 690.0,185.0\"") && text.contains("\"70.0,30.0 690.0,30.0\""),
        "{text}"
    );
    assert!(text.contains(">first<") && text.contains(">second<") && text.contains("stroke-dasharray"));
}
