//! Prints the library's public functions, those that only unsafe code may call last.

use interleaf_hostile::sources::public_functions;
use std::path::Path;

fn main() {
    let found = public_functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vm/src/lib.rs"));
    found.safe.iter().for_each(|name| println!("{name}"));
    found.unsafe_ones.iter().for_each(|name| println!("unsafe {name}"));
}
