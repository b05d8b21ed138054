//! The peer of the Node.js bench of live tails: a thread that calls a thread-safe function once for each event, with its text,
//! as bindings do that have a callback for each event.
// What `#[napi]` exports has to be `pub`, and nobody imports this crate.
#![allow(unreachable_pub)]
// In a test build `#[napi]` exports nothing, so that nothing is used there.
#![cfg_attr(test, allow(dead_code, unused_imports))]

use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;

/// Calls `event` so often from a thread of its own, each time with `text`; at most 4,096 calls wait for the loop.
#[napi]
pub fn per_event(text: String, count: u32, event: Function<'_, String, ()>) -> napi::Result<()> {
    let event =
        event.build_threadsafe_function::<String>().callee_handled::<false>().max_queue_size::<4096>().build()?;
    std::thread::spawn(move || {
        for _ in 0..count {
            event.call(text.clone(), ThreadsafeFunctionCallMode::Blocking);
        }
    });
    Ok(())
}
