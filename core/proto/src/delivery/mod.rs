//! One firing on its way over one route: states, what an attempt came to, and when the next one is made.
//!
//! A delivery is a row that some worker leases, tries and settles. Nothing here sleeps or draws a random number: the
//! schedule is stored (`next_at`), and [`next`] computes it from what is known after an attempt.
//!
//! - [`DeliveryState`], [`TRANSITIONS`], [`step`]: the life of a delivery as one table of legal transitions.
//! - [`AttemptOutcome`] and [`Category`]: what an attempt came to. Never the endpoint's own text, which would turn the
//!   server into a way to read what stands behind a URL (SEP-3415 1.6, response oracle).
//! - [`Standing`], [`Learned`], [`Gate`]: whether an endpoint wants webhooks and may be tried now; [`Health`] is its
//!   breaker, [`Rate`] its token bucket.
//! - [`RetryPolicy`], [`ceiling_ms`], [`jittered_ms`], [`parse_retry_after`]: when to try again.
//!
//! The verdict on a response (Standard Webhooks 1.0 "Status codes", field report B65):
//!
//! | Outcome | Verdict |
//! |---|---|
//! | 2xx | delivered |
//! | 410 | dead, and the endpoint is disabled for this principal |
//! | 413 | dead, this event only |
//! | 429, 502, 504, timeout | retry, not before the throttle floor |
//! | any other status | retry; 3xx is never followed |
//! | connection, TLS, lookup, denied address, protocol error | retry |
//! | a host's handler confirms | delivered |
//! | it raises, or its deadline passes | retry |
//! | it refuses, is not there, or the peer waits for no signal | dead |
//!
//! Retries wait a fully jittered back-off, and at least as long as `Retry-After` asks. They end with the policy's attempts
//! or its time for handing over (dead: the next route takes over), or with the deadline (expired: too late for any).

mod attempt;
mod backoff;
mod breaker;
mod endpoint;
mod policy;
mod rate;
mod retry_after;
mod standing;
mod state;

pub use attempt::{AttemptOutcome, Category};
pub use backoff::{ceiling_ms, jittered_ms};
pub use breaker::{BREAKER_TRANSITIONS, BreakerEvent, BreakerPolicy, BreakerState, Health, breaker_step};
pub use endpoint::{
    DisableReason, ENDPOINT_TRANSITIONS, EndpointEvent, EndpointKey, EndpointState, Proof, endpoint_step,
};
pub use policy::{Attempted, MAX_LIFETIME_MS, Next, RetryPolicy, deadline, next, postpone};
pub use rate::{Granted, Rate};
pub use retry_after::parse_retry_after;
pub use standing::{EndpointPolicy, Gate, Learned, Standing};
pub use state::{DeliveryEvent, DeliveryState, IllegalStep, TRANSITIONS, step};
