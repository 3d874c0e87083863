//! Tests of the check of walks.

use super::*;

fn found(text: &str) -> Vec<String> {
    let violations = check_text(text, |name| name.starts_with("vm/src/here"));
    violations.iter().map(Violation::to_string).collect()
}

const TITLE: &str = "before vm/src/gone\n## Walks through the code\n\n";

#[test]
fn a_walk_of_files_that_are_there_is_right() {
    let walk =
        "**A fault**, 2 files:\n\nvm/src/here.rs   opens\nvm/src/here2.rs  ends\n\nDoors: `vm/src/here/`.\n";
    assert_eq!(found(&format!("{TITLE}{walk}## Next\n`vm/src/gone.rs`\n")), [""; 0]);
}

#[test]
fn a_file_that_is_gone_is_found_in_the_list_and_among_the_doors() {
    let walk = "**A fault**, 1 files:\nvm/src/gone.rs  ends\nDoors: `kernel/src/gone/`.\n";
    let gone = [
        "ARCHITECTURE.md:5: vm/src/gone.rs is not there",
        "ARCHITECTURE.md:6: kernel/src/gone/ is not there",
    ];
    assert_eq!(found(&format!("{TITLE}{walk}")), gone);
}

#[test]
fn a_number_that_is_not_that_of_the_list_is_found() {
    let walk = "**A fault**, 2 files:\nvm/src/here.rs\n**A job**:\nvm/src/here.rs\n";
    let wrong = [
        "ARCHITECTURE.md:4: the walk says 2 files and lists 1",
        "ARCHITECTURE.md:6: the walk says no number of files",
    ];
    assert_eq!(found(&format!("{TITLE}{walk}")), wrong);
}

#[test]
fn a_text_without_walks_is_found() {
    assert_eq!(found("# Architecture\n"), ["ARCHITECTURE.md:0: no walk under ## Walks through the code"]);
}
