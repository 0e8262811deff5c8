//! How the library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A class loader that goes would otherwise unmap the code of the background threads.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
