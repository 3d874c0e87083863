use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn numbers_come_back_as_they_went(values: Vec<u64>, signed: Vec<i64>) {
        let mut out = Vec::new();
        values.iter().for_each(|&v| put(&mut out, v));
        signed.iter().for_each(|&v| put_signed(&mut out, v));
        let mut cursor = Cursor::new(&out);
        for v in values { prop_assert_eq!(cursor.number("n"), Ok(v)); }
        for v in signed { prop_assert_eq!(cursor.signed("n"), Ok(v)); }
        prop_assert!(cursor.is_empty());
    }
}

#[test]
fn a_number_that_never_ends_is_refused() {
    assert!(Cursor::new(&[0x80; 30]).number("time").unwrap_err().contains("time"));
    assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).number("x").is_err());
    assert!(Cursor::new(&[0x80]).number("x").is_err());
}

#[test]
fn a_text_longer_than_its_bytes_is_refused() {
    let mut out = Vec::new();
    put_text(&mut out, "hello");
    assert_eq!(Cursor::new(&out).text("name", 5), Ok("hello"));
    assert!(Cursor::new(&out).text("name", 4).is_err());
    assert!(Cursor::new(&out[..4]).text("name", 99).is_err());
}

#[test]
fn the_checksum_is_the_published_one() {
    assert_eq!(crc64(&[b"1234", b"56789"]), 0x995d_c9bb_df19_39fa);
}
