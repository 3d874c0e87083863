use super::*;

#[test]
fn pages_come_by_loads_and_stores_and_go_with_the_files_length() {
    let file = FileMemory::new(64 << 10, 2).unwrap();
    let blocks = || {
        use std::os::unix::fs::MetadataExt;
        file.file.metadata().unwrap().blocks() * 512
    };
    file.populate(PopulateBy::Loads).unwrap();
    assert_eq!(blocks(), 64 << 10);
    file.drop_entries().unwrap();
    file.populate(PopulateBy::Stores).unwrap();
    assert_eq!(blocks(), 64 << 10, "the file keeps its pages");
    file.truncate().unwrap();
    assert_eq!(blocks(), 0);
    assert!(file.populate(PopulateBy::Loads).is_err(), "beyond the end");
    file.extend().unwrap();
    file.populate(PopulateBy::Stores).unwrap();
    assert_eq!(blocks(), 64 << 10);
}
