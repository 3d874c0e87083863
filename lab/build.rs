//! Tells the program with which Cargo profile it was built: figures are compared within one.

use std::env;
use std::path::Path;

fn main() {
    // OUT_DIR is `target/[TRIPLE/]FOLDER/build/PACKAGE-HASH/out`.
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    let profile = match folder {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    println!("cargo::rustc-env=INTERLEAF_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}
