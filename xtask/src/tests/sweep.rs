use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

fn output(code: i32, stdout: &str, stderr: &str) -> Output {
    Output { status: ExitStatus::from_raw(code << 8), stdout: stdout.into(), stderr: stderr.into() }
}

#[test]
fn what_a_program_prints_and_how_it_ends_is_the_verdict() {
    let cases = [
        (output(0, "PASS a\nPASS b\n", ""), true, "2 pass"),
        (
            output(1, "PASS a\r\nFAIL b: 1 instead of 2\r\nFAIL c\n", ""),
            false,
            "2 of 3 fail: b: 1 instead of 2",
        ),
        (output(0, "PASS a\nLACKS mremap\n", ""), true, "lacks mremap"),
        (output(0, "", ""), false, "ends with code 0 after 0: "),
        (output(139, "PASS a\n", "note\n\nkilled\n"), false, "ends with code 139 after 1: killed"),
    ];
    for (output, good, text) in cases {
        assert_eq!(verdict(&output), (good, text.to_string()));
    }
}

#[test]
fn every_program_of_the_list_has_a_source_and_every_source_is_listed() {
    let folder = crate::root().join(FOLDER);
    let mut sources: Vec<String> = fs::read_dir(&folder)
        .expect("the folder is there")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".c")?.to_string()))
        .collect();
    sources.sort();
    let mut listed: Vec<&str> = [FIRST, SECOND].concat();
    listed.sort_unstable();
    assert_eq!(sources, listed);
    let document =
        fs::read_to_string(crate::root().join("docs/results/sweep.md")).expect("the list is there");
    assert!(listed.iter().all(|name| document.contains(&format!("`{name}`"))));
}

#[test]
fn rounds_and_names_are_taken_and_nothing_else() {
    let [first, second] = [FIRST, SECOND].map(<[_]>::len);
    assert_eq!(read(&[]).map(|(names, _)| names.len()), Ok(first + second));
    assert_eq!(read(&["first"]).map(|(names, _)| names.len()), Ok(first));
    assert_eq!(read(&["noreplace", "second"]).map(|(names, _)| names.len()), Ok(1 + second));
    assert!(read(&["nothing"]).is_err() && read(&["--interleaf"]).is_err());
}
