//! Link arguments of the shared library; writes nothing outside OUT_DIR.
fn main() {
    // The major number of the ABI; it rises only when the ABI breaks.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdfs.so.0");
    // dlclose must leave us in place: our background threads and fork handler live on.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
