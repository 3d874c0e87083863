//! Unfinished files.

use super::*;
use std::io::Write;
use std::os::unix::fs::symlink;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("interleaf-pending-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_file_takes_its_name_when_it_is_whole() {
    let folder = folder("whole");
    let path = folder.join("t");
    fs::write(&path, "before").unwrap();
    let (pending, mut file) = PendingFile::create(&path).unwrap();
    file.write_all(b"after").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before");
    pending.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"after");
    drop(PendingFile::create(&path).unwrap());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "an unfinished file goes");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn only_a_regular_file_is_replaced() {
    for path in ["/dev/full", "/dev/null", "/tmp"] {
        let said = PendingFile::create(Path::new(path)).unwrap_err().to_string();
        assert!(said.contains("no regular file"), "{path}: {said}");
        assert!(!Path::new(&format!("{path}.partial")).exists());
    }
    let folder = folder("link");
    let (target, link) = (folder.join("target"), folder.join("link"));
    fs::write(&target, "kept").unwrap();
    symlink(&target, &link).unwrap();
    assert!(PendingFile::create(&link).is_err());
    let (pending, _file) = PendingFile::create(&folder.join("late")).unwrap();
    symlink(&target, folder.join("late")).unwrap();
    assert!(pending.commit().is_err(), "what took the name meanwhile is not replaced");
    assert!(!folder.join("late.partial").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_link_or_a_file_in_the_place_of_the_unfinished_file_is_left_alone() {
    let folder = folder("partial");
    let target = folder.join("target");
    fs::write(&target, "kept").unwrap();
    symlink(&target, folder.join("t.partial")).unwrap();
    let said = PendingFile::create(&folder.join("t")).unwrap_err().to_string();
    assert!(said.contains("t.partial exists"), "{said}");
    assert_eq!(fs::read(&target).unwrap(), b"kept");
    assert!(folder.join("t.partial").exists());
    fs::remove_dir_all(folder).unwrap();
}
