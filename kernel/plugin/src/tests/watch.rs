//! Tests of the windows and the table of lines.

use super::*;

/// A stay in the kernel that writes one line and reads another.
fn stay(watch: &Watch, cpu: usize, line: u64) {
    watch.kernel(cpu);
    watch.touch(cpu, line * 64 + 8, KERNEL + line * 64, true);
    watch.touch(cpu, line * 64, KERNEL + line * 64, false);
    watch.touch(cpu, 64_000, KERNEL + 64_000, false);
    watch.program(cpu, Mark::None);
}

#[test]
fn only_stays_between_the_marks_that_were_not_asked_for_are_windows() {
    let watch = Watch::default();
    watch.program(0, Mark::None);
    stay(&watch, 0, 1);
    watch.program(0, Mark::Begin);
    stay(&watch, 0, 2);
    watch.program(0, Mark::Call);
    stay(&watch, 0, 3);
    stay(&watch, 0, 2);
    watch.program(1, Mark::None);
    stay(&watch, 1, 2);
    watch.program(0, Mark::End);
    stay(&watch, 0, 4);
    let kernel = |at: u64| format!("{:#x}", KERNEL + at);
    let expected =
        format!("windows 2 1\nline 0x80 {} 2 0 1 0\nline 0xfa00 {} 0 2 0 1\n", kernel(0x80), kernel(0xfa00));
    assert_eq!(watch.table(), expected);
}

#[test]
fn a_line_counts_once_for_each_window() {
    let watch = Watch::default();
    watch.program(1, Mark::Begin);
    watch.kernel(1);
    (0..10).for_each(|_| watch.touch(1, 640, KERNEL, true));
    watch.program(1, Mark::None);
    assert!(watch.table().contains("line 0x280 0x8000000000000000 0 0 1 0"), "{}", watch.table());
}
