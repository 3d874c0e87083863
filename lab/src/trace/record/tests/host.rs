use super::*;

#[test]
fn lists_of_cpus_are_read_with_their_ranges() {
    assert_eq!(parse_list("0-3,8"), [0, 1, 2, 3, 8]);
    assert_eq!(parse_list("0"), [0]);
    assert!(!cpus_online().is_empty());
}

#[test]
fn the_host_has_a_kernel_and_pages() {
    let host = host();
    assert!(host.kernel.len() > 3 && host.page_bytes == 4096 && host.cpus > 0);
}
