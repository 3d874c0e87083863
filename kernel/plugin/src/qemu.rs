//! The interface to the emulator: functions of its plugin interface, and callbacks.
//!
//! The interface is C's (`qemu-plugin.h`, version 1). QEMU loads this library, asks it for
//! `qemu_plugin_version` and calls `qemu_plugin_install` once, before any CPU runs; then it calls the
//! registered functions, from the threads of its CPUs.

use crate::mark::Mark;
use crate::watch::{Watch, is_kernel};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

/// The version of the interface.
// SAFETY: nothing else in the library bears the name; QEMU expects it.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

type Id = u64;
/// Callbacks read no registers.
const NO_REGISTERS: c_int = 0;
/// Loads and stores.
const READ_WRITE: c_int = 3;
/// Longest instruction.
const LONGEST: usize = 15;

// SAFETY: these are the declarations of `qemu-plugin.h`, version 1; enums are C's ints.
unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, called: extern "C" fn(Id, *mut c_void));
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        called: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        called: extern "C" fn(c_uint, u32, u64, *mut c_void),
        flags: c_int,
        kinds: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_atexit_cb(id: Id, called: extern "C" fn(Id, *mut c_void), data: *mut c_void);
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_vaddr(instruction: *const c_void) -> u64;
    fn qemu_plugin_insn_data(instruction: *const c_void) -> *const u8;
    fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    fn qemu_plugin_mem_is_store(info: u32) -> bool;
    fn qemu_plugin_get_hwaddr(info: u32, address: u64) -> *mut c_void;
    fn qemu_plugin_hwaddr_is_io(address: *const c_void) -> bool;
    fn qemu_plugin_hwaddr_phys_addr(address: *const c_void) -> u64;
}

static WATCH: LazyLock<Watch> = LazyLock::new(Watch::default);
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Called once. The argument `table=PATH` is the path of the table.
///
/// # Safety
///
/// Called by QEMU only, with `count` strings in `words`.
// SAFETY: nothing else in the library bears the name; QEMU expects it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: our caller passes `count` terminated strings.
        let word = unsafe { CStr::from_ptr(*words.add(index)) }.to_string_lossy();
        match word.split_once('=') {
            Some(("table", path)) if FILE.set(path.into()).is_ok() => {}
            _ => return 1,
        }
    }
    if FILE.get().is_none() {
        eprintln!("the plugin wants table=PATH");
        return 1;
    }
    // SAFETY: the id is ours; the functions have the types that are declared.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut());
    }
    0
}

/// Called for each block of instructions before it can be executed.
extern "C" fn translated(_: Id, block: *mut c_void) {
    // SAFETY: QEMU hands over a block that lives during the call, and its instructions do as long.
    unsafe {
        for index in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            if !is_kernel(qemu_plugin_insn_vaddr(instruction)) {
                let mark = std::ptr::without_provenance_mut(mark_of(instruction).number());
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, of_program, NO_REGISTERS, mark);
                continue;
            }
            let none = std::ptr::null_mut();
            if index == 0 {
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, of_kernel, NO_REGISTERS, none);
            }
            qemu_plugin_register_vcpu_mem_cb(instruction, touched, NO_REGISTERS, READ_WRITE, none);
        }
    }
}

/// # Safety
///
/// `instruction` must be one of the block that is being translated.
unsafe fn mark_of(instruction: *mut c_void) -> Mark {
    // SAFETY: QEMU keeps the bytes as long as the instruction.
    let bytes = unsafe {
        let length = qemu_plugin_insn_size(instruction).min(LONGEST);
        std::slice::from_raw_parts(qemu_plugin_insn_data(instruction), length)
    };
    Mark::of(bytes)
}

extern "C" fn of_program(cpu: c_uint, mark: *mut c_void) {
    WATCH.program(cpu as usize, Mark::from_number(mark.addr()));
}

extern "C" fn of_kernel(cpu: c_uint, _: *mut c_void) {
    WATCH.kernel(cpu as usize);
}

extern "C" fn touched(cpu: c_uint, info: u32, address: u64, _: *mut c_void) {
    // SAFETY: QEMU calls this for the access that `info` and `address` describe, and answers questions about
    // it meanwhile.
    let (physical, write) = unsafe {
        let found = qemu_plugin_get_hwaddr(info, address);
        if found.is_null() || qemu_plugin_hwaddr_is_io(found) {
            return;
        }
        (qemu_plugin_hwaddr_phys_addr(found), qemu_plugin_mem_is_store(info))
    };
    WATCH.touch(cpu as usize, physical, address, write);
}

extern "C" fn ended(_: Id, _: *mut c_void) {
    let Some(path) = FILE.get() else { return };
    if let Err(error) = std::fs::write(path, WATCH.table()) {
        eprintln!("{}: {error}", path.display());
    }
}
