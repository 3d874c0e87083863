use super::*;

#[test]
fn the_innermost_name_is_used_and_records_are_counted() {
    let mut labels = Labels::new();
    labels.add(0x1000..0x3000, "arena");
    let fields = [Field { offset: 8, name: "mapcount" }, Field { offset: 0, name: "refcount" }];
    labels.add_array(0x2000..0x2800, 32, 100, "frame record", &fields);
    labels.add(0x2000..0x2008, "first word");
    assert_eq!(labels.name(0x2004), "first word+0x4");
    assert_eq!(labels.name(0x2000 + 12 * 32), "frame record 112 .refcount");
    assert_eq!(labels.name(0x2000 + 12 * 32 + 12), "frame record 112 .mapcount");
    assert_eq!(labels.name(0x2900), "arena+0x1900");
    assert_eq!(labels.name(0x1000), "arena");
    assert_eq!(labels.name(0xfff), "0xfff");
    assert_eq!(labels.name(0x3000), "0x3000");
}
