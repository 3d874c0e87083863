//! Tells the program with which Cargo profile it was built: figures are compared within one.

use std::env;
use std::path::Path;

fn main() {
    // OUT_DIR is `target/[TRIPLE/]FOLDER/build/PACKAGE-HASH/out`.
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    // The profiles dev and test share a folder; of the two, test optimises this package.
    let is_optimised = env::var_os("OPT_LEVEL").is_some_and(|level| level != "0");
    let profile = match folder {
        Some("debug") | None if is_optimised => "test",
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    println!("cargo::rustc-env=INTERLEAF_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}
