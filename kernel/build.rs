//! Tells the linker how a kernel lies in memory, and the sources whether they are compiled for bare metal.
//!
//! Both depend on the profile: `kernel`, or one whose name begins with it, has `panic = "abort"`, which a
//! program without the standard library needs, and a profile cannot be chosen for one package. Cargo does not
//! tell the profile, but it is part of the path of this script's output:
//! `target/<profile>/build/<package>/out`.

use std::path::Path;

const LINKER: &[&str] = &[
    "-nostartfiles",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-Wl,--build-id=none",
    "-Wl,-z,max-page-size=0x1000",
    "-Wl,-z,noexecstack",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernel.ld");
    println!("cargo::rustc-check-cfg=cfg(metal)");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    if !profile.is_some_and(|name| name.to_string_lossy().starts_with("kernel")) {
        return;
    }
    println!("cargo::rustc-cfg=metal");
    for argument in LINKER {
        println!("cargo::rustc-link-arg-bin=interleaf-kernel={argument}");
    }
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg-bin=interleaf-kernel=-Wl,-T,{here}/kernel.ld");
}
