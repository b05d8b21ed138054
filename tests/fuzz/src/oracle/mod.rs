//! Other ways to the same answers: slow, plain, from the specifications, and without a line of the core.

pub mod json;
pub mod number;
pub mod sse;
