//! Where a webhook may go: the address rules that keep a server from being turned against its own network (SSRF).
//!
//! The endpoint is text that a client chose, and the server that posts to it stands inside somebody's network. Two
//! checks decide, and both run twice: when a config is validated, and again before every attempt.
//!
//! 1. [`Endpoint::parse`] reads the URL once, with one WHATWG parser, and everything later (check, connect, `Host`,
//!    SNI) uses what came out of that one reading. `https` only, no user name, no fragment, port 443, no names that
//!    mean the machine itself.
//! 2. [`Endpoint::check_answers`] (or [`check`] and [`check_all`] for bare addresses) judges what the name resolved
//!    to. *Every* answer must pass, no answer fails closed, and the caller then connects to one of exactly these
//!    addresses, so that a second lookup cannot change the verdict (DNS rebinding).
//!
//! The deny table ([`DENY_TABLE`]) holds the IANA special-purpose registries and what they miss; IPv6 is allowed only
//! inside `2000::/3` minus the table. The [`METADATA_TABLE`] holds the addresses where clouds hand out credentials:
//! they stay denied whatever the operator allows, in every embedding (mapped, compatible, NAT64, 6to4, Teredo).
//!
//! The [`Policy`] is the operator's: private networks, host names the operator vouches for, more ports, plain `http`
//! in development. Where webhooks leave through a proxy ([`EgressProxy`]), the same checks are made on this side of it. The client that named the endpoint must not learn from a refusal what the network looks like from
//! inside: [`Denied::public_category`] is what it may be told.
//!
//! Sources: RFC 6890 and the IANA IPv4/IPv6 special-purpose address registries, RFC 6052, RFC 3056, RFC 4380, RFC
//! 8215, the WHATWG URL standard, SEP-3415 "Webhook security", OWASP's SSRF cheat sheet.

mod deny;
mod embed;
mod endpoint;
mod fault;
mod ip;
mod network;
mod policy;
mod proxy;

pub use deny::{DENY_TABLE, DenyRow, METADATA_TABLE, MetadataRow};
pub use endpoint::{Endpoint, Host, MAX_ENDPOINT_BYTES};
pub use fault::EndpointFault;
pub use ip::{Denied, check, check_all};
pub use network::{Network, NetworkFault};
pub use policy::{Policy, PolicyFault};
pub use proxy::{EgressProxy, MAX_PROXY_ANSWER_BYTES, ProxyFault, connect_answer};
