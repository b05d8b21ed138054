//! Tells the linker that Node.js brings the symbols of Node-API.

fn main() {
    napi_build::setup();
}
