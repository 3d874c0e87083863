use super::*;

#[test]
fn every_number_names_its_call_and_no_other() {
    for &call in Sys::ALL {
        assert_eq!(Sys::from_number(call as u64), Some(call));
        assert!(call.arity() <= 6);
    }
    assert_eq!(Sys::from_number(0), None);
}

#[test]
fn numbers_are_those_of_the_host() {
    assert_eq!(Sys::Mmap as i64, libc::SYS_mmap);
    assert_eq!(Sys::Clone3 as i64, libc::SYS_clone3);
    assert_eq!(Sys::Mremap as i64, libc::SYS_mremap);
    assert_eq!(Sys::ProcessMadvise as i64, libc::SYS_process_madvise);
    assert_eq!(Sys::ExitGroup as i64, libc::SYS_exit_group);
    assert_eq!(Sys::Execveat as i64, libc::SYS_execveat);
    assert_eq!(Sys::PkeyMprotect as i64, libc::SYS_pkey_mprotect);
}
