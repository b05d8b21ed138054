//! The tests of the hub through its public surface: one program, because linking costs more than running. What needs a
//! process to itself (a fork, a count of threads, the one global subscriber) stands in a file of its own beside this.

mod appends;
mod batches;
mod calls;
mod deliveries;
mod detached;
mod encrypted;
mod endpoints;
mod fanout;
mod fanout_crowd;
mod fanout_property;
mod field_trigger;
mod lifecycle;
mod lost;
mod operate;
mod origins;
mod outlets;
mod policy;
mod principals;
mod proxy;
mod redaction;
mod store_failure;
mod streams;
mod support;
mod tails;
mod tasks;
mod triggers;
