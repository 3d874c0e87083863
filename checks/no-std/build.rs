//! The program brings its own entry point.

fn main() {
    println!("cargo::rustc-link-arg-bins=-nostartfiles");
}
