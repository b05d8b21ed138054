//! Fan-out: who may be told of a change, and in which words.
//!
//! A [`Protocol`] is data: the kinds of change, the method that tells of each, what gates it. [`mcp::MCP`] is one; nothing
//! else here knows MCP. A [`Profile`] says what one peer and its server negotiated, a [`Filter`] what a listener asked
//! for and what of it is honoured, a [`Frame`] what is sent, a [`Tag`] what makes it one listener's. The tables in
//! [`state`] say when.

mod filter;
mod frame;
pub mod mcp;
mod profile;
mod protocol;
pub mod state;

pub use filter::{Filter, FilterError};
pub use frame::{Frame, Tag};
pub use profile::{NoFrame, Profile, ProfileError};
pub use protocol::{About, Kind, KindSet, Method, MethodSet, Protocol, UnknownKind, Version};

#[cfg(test)]
mod tests;
