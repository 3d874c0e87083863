//! Values of ranges, cut and forgotten.

use super::*;

fn all(spans: &Spans<char>) -> Vec<(Range<u64>, char)> {
    spans.parts(&(0..u64::MAX)).map(|(range, value)| (range, *value)).collect()
}

#[test]
fn a_range_has_one_value_and_the_rest_of_others_stays() {
    let mut spans = Spans::default();
    spans.put(10..20, 'a');
    spans.put(14..16, 'b');
    spans.put(18..30, 'c');
    assert_eq!(all(&spans), [(10..14, 'a'), (14..16, 'b'), (16..18, 'a'), (18..30, 'c')]);
    assert_eq!(spans.take(&(15..20)), [(15..16, 'b'), (16..18, 'a'), (18..20, 'c')]);
    assert_eq!(all(&spans), [(10..14, 'a'), (14..15, 'b'), (20..30, 'c')]);
    assert_eq!(spans.parts(&(12..25)).map(|(range, _)| range).collect::<Vec<_>>(), [12..14, 14..15, 20..25]);
    assert_eq!((spans.at(29), spans.at(30), spans.at(16)), (Some((20..30, &'c')), None, None));
}

#[test]
fn values_are_changed_in_a_part() {
    let mut spans = Spans::default();
    spans.put(10..20, 'a');
    spans.change(&(0..12), |value| *value = 'b');
    assert_eq!(all(&spans), [(10..12, 'b'), (12..20, 'a')]);
    spans.put(5..5, 'c');
    assert_eq!(all(&spans).len(), 2, "nothing has no value");
}
