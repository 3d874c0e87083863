use super::*;

const FORMAT: &str = "name: sys_enter\nID: 443\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
    \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\nprint fmt: \"NR\"\n";

#[test]
fn a_description_gives_number_and_fields() {
    let point = parse(FORMAT).unwrap();
    assert_eq!(point.id, 443);
    assert_eq!(point.field("args").unwrap(), Field { offset: 16, size: 48 });
    assert!(point.field("address").is_err());
    assert_eq!(parse("nothing"), None);
}
