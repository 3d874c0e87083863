//! Ends as its first word says, after it has printed the others.
//!
//! `end [CODE|fault|missing [WORD...]]`. `fault` reads where nothing is mapped; `missing` calls twice what
//! the kernel does not have.
#![cfg_attr(metal, no_std, no_main)]

use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, ENOSYS, Region, Rights};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

fn begin(args: Args) -> u8 {
    let others = (2..).map_while(|index| args.word(index));
    others.for_each(|word| say!("<{word}>"));
    match args.word(1) {
        Some("fault") => fault(),
        Some("missing") => missing(),
        _ => args.number(1, GOOD.into()) as u8,
    }
}

fn fault() -> u8 {
    let region = granted("mmap", Region::map(1, Rights::WRITE));
    granted("munmap", region.unmap());
    region.read(0, 0) as u8
}

fn missing() -> u8 {
    for _ in 0..2 {
        holds!(sys::user_id() == Err(ENOSYS), "a kernel without users has a number for one");
    }
    GOOD
}
