use super::*;
use std::fs;

#[test]
fn a_file_that_was_just_written_is_in_the_cache_and_another_inode_is_another_file() {
    let path = std::env::temp_dir().join(format!("page-cache-{}", std::process::id()));
    fs::write(&path, vec![1; 3 * PAGE + 1]).unwrap();
    let facts = fs::metadata(&path).unwrap();
    let device = libc::major(facts.dev()) << 20 | libc::minor(facts.dev());
    let found = resident(&path, (device, facts.ino())).unwrap().expect("it is there");
    let other = resident(&path, (device, facts.ino() + 1)).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!((found.len_bytes, other), (3 * PAGE as u64 + 1, None));
    assert_eq!((found.ranges.len(), found.ranges[0].clone()), (1, 0..4));
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let path = Path::new("/dev/null");
    let facts = fs::metadata(path).unwrap();
    let device = libc::major(facts.dev()) << 20 | libc::minor(facts.dev());
    assert_eq!(resident(path, (device, facts.ino())).unwrap(), None);
}
