use super::*;

#[test]
fn long_lines_break_at_spaces_and_keep_their_words() {
    let text = "short\n  one two three four five\nlast\n";
    let broken = wrapped(text, 12);
    assert_eq!(broken, "short\n  one two\n    three\n    four\n    five\nlast\n");
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(words(&broken), words(text));
    assert_eq!(wrapped("x averyveryverylongword y", 10), "x\n  averyveryverylongword\n  y\n");
}
