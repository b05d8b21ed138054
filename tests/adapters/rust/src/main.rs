//! Answers the conformance runner (`tests/conformance`) over the public Rust API: a question a line on stdin, an answer a
//! line on stdout. It only converts; what it says is what the library says.

mod given;
mod hub;
mod rules;

use std::io::{BufRead, Write};

use given::Given;
use hub::Stage;
use serde_json::{Value, json};

/// What an operation came to.
type Answer = Result<Value, String>;

const FEATURES: [&str; 14] = [
    "rules",
    "webhook",
    "encryption",
    "config",
    "errors",
    "streams",
    "calls",
    "tasks",
    "processes",
    "crash",
    "clock",
    "store_faults",
    "outlets",
    "fanout",
];

/// Runs what has to be waited for.
fn wait<T>(work: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    }
    RUNTIME.with(|runtime| runtime.block_on(work))
}

fn answer(stage: &mut Stage, op: &str, given: &Given<'_>) -> Option<Answer> {
    if op == "hello" {
        return Some(Ok(json!({"surface": "rust", "features": FEATURES})));
    }
    rules::answer(op, given).or_else(|| stage.answer(op, *given))
}

fn reply(stage: &mut Stage, line: &str) -> Value {
    let question: Value = match serde_json::from_str(line) {
        Ok(question) => question,
        Err(error) => return json!({"id": null, "error": format!("the question is no JSON: {error}")}),
    };
    let id = &question["id"];
    match answer(stage, question["op"].as_str().unwrap_or(""), &Given(&question["in"])) {
        None => json!({"id": id, "unsupported": true}),
        Some(Ok(out)) => json!({"id": id, "out": out}),
        Some(Err(error)) => json!({"id": id, "error": error}),
    }
}

fn main() -> std::io::Result<()> {
    let mut stage = Stage::new();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        writeln!(out, "{}", reply(&mut stage, &line?))?;
        out.flush()?;
    }
    Ok(())
}
