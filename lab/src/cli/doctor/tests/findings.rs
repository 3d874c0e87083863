use super::*;
use std::collections::HashSet;

#[test]
fn every_finding_says_what_was_seen_what_it_is_for_and_how_to_get_it() {
    let findings = examine();
    let topics: HashSet<_> = findings.iter().map(|f| f.topic).collect();
    assert_eq!(topics.len(), findings.len());
    for f in findings {
        assert!(!f.found.is_empty() && !f.needed_for.is_empty() && !f.remedy.is_empty(), "{f:?}");
    }
}

#[test]
fn the_capabilities_of_this_process_can_be_read() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.lines().any(|l| l.starts_with("CapEff:")));
    assert!(effective_capabilities() < 1 << 48);
}
