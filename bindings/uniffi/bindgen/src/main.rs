//! Writes the Kotlin of a built library: `uniffi-bindgen LIBRARY CONFIG FOLDER`. uniffi's own program would bring clap along.

use std::process::ExitCode;

use uniffi::{GenerateOptions, TargetLanguage};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, config, folder] = arguments.as_slice() else {
        eprintln!("usage: uniffi-bindgen LIBRARY CONFIG FOLDER");
        return ExitCode::from(2);
    };
    let options = GenerateOptions {
        languages: vec![TargetLanguage::Kotlin],
        source: library.into(),
        out_dir: folder.into(),
        config_override: Some(config.into()),
        format: false,
        crate_filter: None,
        metadata_no_deps: false,
    };
    match uniffi::generate(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("uniffi-bindgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
