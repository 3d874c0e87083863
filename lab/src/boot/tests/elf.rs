use super::*;

fn changed(at: usize, byte: u8) -> String {
    let mut file = good_program();
    file[at] = byte;
    check_bytes(&file).unwrap_err().to_string()
}

#[test]
fn a_static_program_is_good() {
    check_bytes(&good_program()).unwrap();
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    assert_eq!(changed(0, b'#'), "not an ELF file");
    assert_eq!(changed(18, 183), "an ELF file, but not for 64-bit x86");
    assert_eq!(changed(16, 3), "not a static program: link it with -static -no-pie");
    assert_eq!(changed(64, INTERPRETER as u8), "not a static program: link it with -static -no-pie");
    assert_eq!(changed(16, 1), "a damaged ELF file: it is no program");
    assert_eq!(changed(64 + 4, 4), "a damaged ELF file: it begins where nothing may be executed");
    assert_eq!(changed(64 + 33, 9), "a damaged ELF file: a segment lies outside of it");
    assert_eq!(changed(64 + 22, 0x80), "a damaged ELF file: a segment lies beyond user memory");
}

#[test]
fn no_cut_and_no_changed_byte_brings_the_check_down() {
    let file = good_program();
    for length in 0..file.len() {
        assert!(check_bytes(&file[..length]).is_err(), "{length}");
    }
    for at in 0..file.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut file = file.clone();
            file[at] = byte;
            let _ = check_bytes(&file);
        }
    }
}

#[test]
fn a_program_that_fills_the_memory_is_refused() {
    let path = std::env::temp_dir().join(format!("interleaf-elf-{}", std::process::id()));
    fs::File::create(&path).unwrap().set_len(40 << 20).unwrap();
    let refused = check(&path, "64M".parse().unwrap());
    fs::remove_file(&path).unwrap();
    assert!(matches!(refused, Err(ElfError::TooLarge(_))), "{refused:?}");
}
