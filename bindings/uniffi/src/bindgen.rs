//! Writes bindings from the built library.

fn main() {
    uniffi::uniffi_bindgen_main();
}
