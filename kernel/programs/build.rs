//! The programs bring their own entry point, stand alone, and are linked to fixed addresses; `cfg(metal)`
//! tells the sources.
//!
//! This depends on the profile: `kernel`, or one whose name begins with it, has `panic = "abort"`, which
//! a program without the standard library needs. With another profile they are ordinary programs that say so.
//! Cargo does not tell the profile, but it is part of the path of this script's output:
//! `target/<profile>/build/<package>/out`.

use std::path::Path;

const LINKER: &[&str] =
    &["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,noexecstack"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(metal)");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    if !profile.is_some_and(|name| name.to_string_lossy().starts_with("kernel")) {
        return;
    }
    println!("cargo::rustc-cfg=metal");
    for word in LINKER {
        println!("cargo::rustc-link-arg-bins={word}");
    }
}
