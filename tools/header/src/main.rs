//! `cargo run --manifest-path tools/header/Cargo.toml [-- --check]`: writes `include/tidings.h` from `bindings/c`, by the
//! pinned cbindgen; with `--check` it only says whether the file is what would be written.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(_) => {
            eprintln!("usage: tidings-header [--check]");
            return ExitCode::from(2);
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match run(&root, check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("header: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, check: bool) -> Result<(), String> {
    let source = root.join("bindings/c");
    let config = cbindgen::Config::from_file(source.join("cbindgen.toml"))?;
    let built = cbindgen::Builder::new().with_crate(&source).with_config(config).generate();
    let mut text = Vec::new();
    built.map_err(|error| error.to_string())?.write(&mut text);
    let header = root.join("include/tidings.h");
    if !check {
        return std::fs::write(&header, text).map_err(|error| format!("include/tidings.h: {error}"));
    }
    let written = std::fs::read(&header).map_err(|error| format!("include/tidings.h: {error}"))?;
    if written == text {
        return Ok(());
    }
    Err("include/tidings.h is not what bindings/c says: run this without --check, and look at what changes".into())
}
