//! Every input of the corpus and every vector goes through its target.

#![allow(clippy::panic, reason = "a test ends where an input fails")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use tidings_fuzz::{TARGETS, Target};

/// One input instead of all: `TIDINGS_FUZZ_INPUT=path cargo test -p tidings-fuzz --test replay -- TARGET`.
const INPUT: &str = "TIDINGS_FUZZ_INPUT";

fn replay(name: &str) {
    let target = TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target).expect("a target");
    let inputs = match std::env::var_os(INPUT) {
        Some(input) => vec![PathBuf::from(input)],
        None => corpus(name),
    };
    assert!(!inputs.is_empty(), "{name} has no corpus");
    for input in inputs {
        run(target, &input);
    }
}

fn run(target: Target, input: &Path) {
    let data = std::fs::read(input).unwrap_or_else(|error| panic!("{}: {error}", input.display()));
    if catch_unwind(|| target(&data)).is_err() {
        panic!("the input that fails: {}", input.display());
    }
}

fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    inputs.sort();
    inputs
}

/// A folder that belongs to no target would never be replayed.
#[test]
fn every_folder_of_the_corpus_is_a_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let name = entry.expect("an entry").file_name();
        assert!(TARGETS.iter().any(|(known, _)| name == *known), "{name:?} is no target");
    }
}

macro_rules! targets {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            replay(stringify!($name));
        }
    )*};
}

targets!(condition, config, cursor, event, signature, sse, store);
