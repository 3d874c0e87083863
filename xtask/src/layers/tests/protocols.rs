//! Tests of the check of protocols. That the real page and sources pass is a test of the rules (`fixtures`).

use super::*;

const LIBRARY: &str = "fn lock(\nfn find<'a>(\nfn loom_a(\nstruct Gather<\n if mutant!(\"a.b-c\") {";

fn found(page: &str) -> Vec<String> {
    let violations = check_names(page, LIBRARY, |name| name == "vm/src/here.rs");
    violations.iter().map(Violation::to_string).collect()
}

#[test]
fn what_a_section_names_is_there() {
    let section =
        "## P1 A\n`vm/src/here.rs` (`lock()`, `find()`), `loom_a`, `Gather`, `a.b-c`, `exclusive`\n";
    assert_eq!(found(&format!("`before()` the first section\n{section}")), [""; 0]);
}

#[test]
fn each_kind_of_name_that_is_gone_is_found() {
    for name in ["vm/src/gone.rs", "lo()", "unlock()", "loom_b", "Flushed", "a.b"] {
        let gone = format!("docs/design/protocols.md:2: there is no {name}");
        assert_eq!(found(&format!("## P1 A\n`lock()` and `{name}`\n")), [gone]);
    }
}

#[test]
fn a_citation_without_a_section_is_found() {
    let defined = "# P3\n## P1 A\n## P12 B\n## Pins\n".lines().filter_map(heading).collect();
    let text = "P1, by P12\n(protocols P1 to P4)\nP95th XP2 P_3 Pin P\n";
    let found = undefined("a", text, &defined);
    assert_eq!(
        found.iter().map(Violation::to_string).collect::<Vec<_>>(),
        ["a:2: P4 has no section in docs/design/protocols.md"]
    );
}

#[test]
fn a_section_that_lacks_a_part_is_found() {
    let whole = format!("## P1 A\n{}\n", PARTS.join(" x\n"));
    let found = |page: &str| incomplete(page).iter().map(Violation::to_string).collect::<Vec<_>>();
    assert_eq!(found(&format!("Points\n{whole}## Other\n")), [""; 0]);
    let lacks = ["docs/design/protocols.md:9: P2 B lacks Points:"];
    assert_eq!(found(&format!("{whole}{}", whole.replace("P1 A", "P2 B").replace("Points:", ""))), lacks);
}
