use super::*;

#[test]
fn a_program_that_fills_the_memory_is_refused() {
    let path = std::env::temp_dir().join(format!("interleaf-elf-{}", std::process::id()));
    fs::File::create(&path).unwrap().set_len(40 << 20).unwrap();
    let refused = check(&path, "64M".parse().unwrap());
    fs::remove_file(&path).unwrap();
    assert!(matches!(refused, Err(Unfit::TooLarge(_))), "{refused:?}");
}

#[test]
fn a_file_that_is_no_program_is_refused_by_the_kernels_own_check() {
    assert_eq!(check_bytes(b"#!/bin/sh\n").unwrap_err().to_string(), "not an ELF file");
    let this = fs::read("/proc/self/exe").unwrap();
    assert_eq!(check_bytes(&this), Err(ElfError::NotStatic));
}
