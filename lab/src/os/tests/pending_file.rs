//! Unfinished files.

use super::*;
use crate::os::lacking;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};

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
    drop(PendingFile::create_named(&path).unwrap());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "an unfinished file goes");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_with_a_name_of_its_own_takes_the_other_as_well() {
    let folder = folder("named");
    let path = folder.join("t");
    for (before, content) in [(None, "first"), (Some("first"), "second")] {
        let (pending, mut file) = PendingFile::create_named(&path).unwrap();
        assert!(folder.join("t.partial").exists());
        file.write_all(content.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), before);
        pending.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_without_a_name_is_in_no_folder_until_it_is_whole() {
    let folder = folder("unnamed");
    let path = folder.join("t");
    if unnamed(&path).unwrap().is_none() {
        return lacking::note("a_file_without_a_name", "O_TMPFILE in the folder of temporary files");
    }
    for content in ["new", "replaced"] {
        let before = fs::read_dir(&folder).unwrap().count();
        let (pending, mut file) = PendingFile::create(&path).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), before);
        pending.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    let beside = with_suffix(&path, &format!(".{}.partial", process::id()));
    fs::write(&beside, "another's").unwrap();
    let said = PendingFile::create(&path).unwrap().0.commit().unwrap_err().to_string();
    assert!(said.contains("partial exists"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "replaced");
    assert_eq!(fs::read_to_string(&beside).unwrap(), "another's");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_that_is_not_there_is_said() {
    let said = PendingFile::create(Path::new("/no/such/folder/t")).unwrap_err();
    assert_eq!(said.kind(), io::ErrorKind::NotFound);
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
    for create in [PendingFile::create, PendingFile::create_named] {
        let late = folder.join("late");
        let (pending, _file) = create(&late).unwrap();
        symlink(&target, &late).unwrap();
        assert!(pending.commit().is_err(), "what took the name meanwhile is not replaced");
        assert!(!folder.join("late.partial").exists());
        fs::remove_file(late).unwrap();
    }
    assert_eq!(fs::read(&target).unwrap(), b"kept");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_is_its_owners_alone() {
    let folder = folder("owner");
    for create in [PendingFile::create, PendingFile::create_named] {
        let path = folder.join("t");
        let (pending, file) = create(&path).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        pending.commit().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_link_or_a_file_in_the_place_of_the_unfinished_file_is_left_alone() {
    let folder = folder("partial");
    let target = folder.join("target");
    fs::write(&target, "kept").unwrap();
    symlink(&target, folder.join("t.partial")).unwrap();
    let said = PendingFile::create_named(&folder.join("t")).unwrap_err().to_string();
    assert!(said.contains("t.partial exists"), "{said}");
    assert_eq!(fs::read(&target).unwrap(), b"kept");
    assert!(folder.join("t.partial").exists());
    fs::remove_dir_all(folder).unwrap();
}
