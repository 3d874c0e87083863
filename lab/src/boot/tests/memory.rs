use super::*;

#[test]
fn sizes_are_read_as_qemu_writes_them() {
    for (text, mib) in [("64M", 64), ("256m", 256), ("1G", 1024), ("64g", 65_536), ("65536M", 65_536)] {
        assert_eq!(text.parse::<Memory>().unwrap().bytes(), mib << 20, "{text}");
    }
    assert_eq!("2G".parse::<Memory>().unwrap().to_string(), "2048M");
}

#[test]
fn what_is_no_size_or_out_of_range_is_refused() {
    let wrong = ["", "M", "64", "63M", "65G", "-1G", "+64M", "1.5G", "64MB", "18446744073709551615G", "64É"];
    for text in wrong {
        assert!(text.parse::<Memory>().is_err(), "{text}");
    }
}
