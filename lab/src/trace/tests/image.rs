use super::*;

const SMAPS: &str = "\
55d0-55e0000 r--p 00000000 fe:00 77   /usr/bin/a file: (deleted)
Rss:                  44 kB
VmFlags: rd mr mw me sd
7ffd000-7ffe000 rw-p 00000000 00:00 0          [stack]
Rss:                  12 kB
THPeligible:           0
VmFlags: rd wr mr mw me gd ac
";

#[test]
fn smaps_gives_mappings_with_residency_and_flags() {
    let maps = parse_smaps(SMAPS).unwrap();
    assert_eq!(maps.len(), 2);
    assert_eq!(maps[0].name, "/usr/bin/a file: (deleted)");
    assert_eq!((maps[0].inode, maps[0].rss_kib), (77, 44));
    assert_eq!(maps[1].flags, "rd wr mr mw me gd ac");
    assert!(maps[1].is_writable() && !maps[1].is_executable() && !maps[1].is_shared());
}

#[test]
fn a_line_that_is_no_mapping_is_quoted() {
    assert!(parse_smaps("what is this").unwrap_err().contains("what is this"));
}

#[test]
fn a_map_that_overlaps_itself_is_refused() {
    let m = |start, end| Mapping { start, end, rights: "rw-p".into(), ..Mapping::default() };
    let image = |mappings| Image { mappings, ..Image::default() };
    assert!(image(vec![m(0x1000, 0x3000), m(0x3000, 0x4000)]).check().is_ok());
    assert!(image(vec![m(0x1000, 0x3000), m(0x2000, 0x4000)]).check().is_err());
    assert!(image(vec![m(0x1000, 0x1000)]).check().is_err());
    assert!(image(vec![m(0x1001, 0x2000)]).check().is_err());
}

#[test]
fn find_answers_by_address() {
    let m = |start, end| Mapping { start, end, rights: "rw-p".into(), ..Mapping::default() };
    let image = Image { mappings: vec![m(0x1000, 0x3000), m(0x5000, 0x6000)], ..Image::default() };
    assert_eq!(image.find(0x2fff).unwrap().start, 0x1000);
    assert_eq!(image.find(0x3000), None);
    assert_eq!(image.find(0x5000).unwrap().start, 0x5000);
}
