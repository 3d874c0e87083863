//! The programs bring their own entry point, stand alone, and are linked to fixed addresses.

fn main() {
    for word in
        ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,noexecstack"]
    {
        println!("cargo::rustc-link-arg-bins={word}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
