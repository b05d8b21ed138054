//! The adapter on rmcp's own streamable HTTP server, asked over a socket.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "tests")]

use std::time::Duration;

/// No wait of these tests takes this long, unless what it waits for never comes.
pub const HANG: Duration = Duration::from_secs(60);

mod calls;
mod client;
#[path = "../../../../core/hub/tests/support/clock.rs"]
#[allow(dead_code, reason = "the hub's tests use all of it")]
mod clock;
mod desk;
mod field;
mod notify;
mod own_routes;
mod pipes;
mod posts;
#[path = "../../../../core/hub/tests/support/receiver.rs"]
#[allow(dead_code, reason = "the hub's tests use all of it")]
mod receiver;
mod restart;
mod rounds;
mod slow;
mod stdio;
mod streams;
mod tasks;
