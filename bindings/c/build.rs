//! Gives the shared library its SONAME: the major version is part of it, so that programs find the ABI they were built for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtidings.so.0");
    }
}
