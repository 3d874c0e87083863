//! A file is checked before the work and written after it.

use super::*;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("interleaf-output-{}-{name}", std::process::id()))
}

#[test]
fn what_was_there_stays_until_it_is_written_and_goes_then() {
    let path = path("kept");
    fs::write(&path, "a longer text").unwrap();
    let file = OutputFile::open("--out", &path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a longer text");
    file.write("short").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "short");
    drop(OutputFile::open("--out", &path).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "short");
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_new_file_that_is_not_written_goes() {
    let path = path("new");
    drop(OutputFile::open("--out", &path).unwrap());
    assert!(!path.exists());
}

#[test]
fn a_name_that_cannot_be_written_is_said_with_its_flag() {
    for name in ["/nowhere/at/all", "/"] {
        let error = OutputFile::open("--svg", Path::new(name)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--svg {name}: ")) && error.lines().count() == 1, "{error}");
    }
}
