use super::*;

#[test]
fn a_word_that_is_neither_a_file_nor_a_program_is_refused_in_one_line() {
    let line = program("/no/such/program").unwrap_err();
    assert!(line.starts_with("/no/such/program: no such file") && line.lines().count() == 1, "{line}");
}

#[test]
fn every_program_of_the_checkout_has_its_line() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/programs/src/bin");
    let mut names: Vec<_> = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let names: Vec<_> = names.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
    assert_eq!(names, PROGRAMS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}
