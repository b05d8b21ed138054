//! What an operator may set. Every default is safe for a public server.

use std::sync::Arc;
use std::time::Duration;

use tidings_proto::address::{self, EgressProxy};
use tidings_proto::config::ConfigLimits;
use tidings_proto::delivery::{EndpointPolicy, Rate};
use tidings_proto::redact::Redaction;
use tidings_proto::route::UndeliverablePolicy;
use tidings_proto::stream::Retention;
use tidings_proto::webhook::{HeaderPolicy, Secret};

use crate::error::{Error, ErrorCode, Result};
use crate::policy::Policy;

/// Options of a hub.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What each stream keeps.
    pub retention: Retention,
    /// Bytes of events that may wait for the store in memory.
    pub buffer_bytes: usize,
    /// Limits of one notificationConfig.
    pub config_limits: ConfigLimits,
    /// A webhook body of more bytes than this carries the truncated form of the outcome.
    pub max_body_bytes: usize,
    /// What becomes of a firing that no route can carry.
    pub undeliverable: UndeliverablePolicy,
    /// Judges every config before it is accepted. Without one all that keep the rules are, and no names are open but those
    /// of [`BeginCall::open`](crate::BeginCall::open).
    pub policy: Option<Arc<dyn Policy>>,
    /// Where webhooks may go besides public addresses.
    pub address: address::Policy,
    /// The HTTP proxy through which all that goes to an endpoint leaves: deliveries, challenges, well-known documents. The
    /// hub still looks names up and checks every address itself, and asks the proxy for the checked address. Never read from
    /// the environment.
    pub proxy: Option<EgressProxy>,
    /// Header names that a route may set besides `authorization` and `x-*`.
    pub header_names: Vec<String>,
    /// What is taken out of every event's and every outcome's JSON text before anything is kept of it or told.
    pub redact: Redaction,
    /// Signs webhooks of routes that bring no secret.
    pub default_secret: Option<Secret>,
    /// The one before it: while receivers change over, webhooks are signed with both.
    pub previous_secret: Option<Secret>,
    /// Refuses webhook routes that would go unsigned.
    pub require_secret: bool,
    /// Seals secrets at rest; without it a key file beside the database does (0600).
    pub secret_key: Option<[u8; 32]>,
    /// How long one attempt may take: name lookup, connection, request and response.
    pub attempt_timeout: Duration,
    /// Attempts in flight at a time, over all endpoints and principals. Endpoints that fail, and those that never took
    /// anything yet, get at most half of them, however many they are. An attempt that takes longer than half a second counts no
    /// more where it would keep others waiting; of those there are at most as many again.
    pub concurrency: u32,
    /// Attempts in flight at a time at one endpoint (principal and URL), over all processes. One that never took anything
    /// yet, or fails, gets one at a time.
    pub endpoint_concurrency: u32,
    /// How often one endpoint is tried. `None`: as often as it answers.
    pub endpoint_rate: Option<Rate>,
    /// How often one host is tried, over all endpoints; its principals take turns. `None`: without a limit.
    pub host_rate: Option<Rate>,
    /// What an endpoint has to show before its first delivery.
    pub verify: Verify,
    /// How endpoints are judged: how long a proof counts, when the breaker opens, when an endpoint is disabled.
    pub endpoints: EndpointPolicy,
    /// Unfinished deliveries of one principal. At the limit a config with routes is refused, and a trigger that fires is
    /// undeliverable.
    pub max_pending: u32,
    /// Tells what became of deliveries and endpoints by events on the stream (principal, `deliveries`).
    pub receipts: bool,
    /// A worker that has not been heard of for this long counts as gone. It is heard of every third of this.
    pub worker_lease: Duration,
    /// How long a delivery stays with a worker that does not answer. Never shorter than an attempt may take, and some
    /// seconds to record what came of it.
    pub delivery_lease: Duration,
    /// How long finished deliveries and ended calls stay readable.
    pub keep_finished: Duration,
    /// How long a connection may take for what it was handed, before it counts as failed.
    pub sink_deadline: Duration,
    /// How many single things (URIs, tasks) that changed may wait for one listener by name. What lies below a URI that it
    /// asked for counts as that URI beyond this.
    pub sink_lag: u32,
    /// How long a committed outcome is waited for before the result is returned without it.
    pub outcome_wait: Duration,
}

/// What an endpoint has to show before its first delivery (DESIGN section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// That it wants webhooks: it echoes a signed challenge, or its origin publishes
    /// `/.well-known/mcp-webhook-receiver.json`. Not where the operator vouches for it: a name in `allow_hosts`, or a
    /// literal address in `allow_networks`.
    #[default]
    Challenge,
    /// The same, and what the operator vouches for as well.
    Always,
    /// Nothing: the address rules are enough. For receivers that know of no challenge.
    Address,
}

impl Verify {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Challenge, Self::Always, Self::Address];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Always => "always",
            Self::Address => "address",
        }
    }

    /// The value of that name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verify| verify.as_str() == text)
    }
}

/// Less does not hold one event of a usual size.
const MIN_BUFFER_BYTES: usize = 1_024;
/// Less would write to the store all the time.
const MIN_WORKER_LEASE: Duration = Duration::from_secs(1);

impl Options {
    /// Checks that every option can take effect.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] naming the first option that cannot, and the rule.
    pub fn validate(&self) -> Result<()> {
        let rules = [
            (self.buffer_bytes >= MIN_BUFFER_BYTES, "buffer_bytes: at least 1,024"),
            (self.concurrency > 0, "concurrency: at least 1"),
            (self.endpoint_concurrency > 0, "endpoint_concurrency: at least 1"),
            (usable(self.endpoint_rate), "endpoint_rate: at least 1 a second, with a burst of at least 1"),
            (usable(self.host_rate), "host_rate: at least 1 a second, with a burst of at least 1"),
            (
                self.previous_secret.is_none() || self.default_secret.is_some(),
                "previous_secret: only beside a default_secret",
            ),
            (self.max_pending > 0, "max_pending: at least 1"),
            (!self.attempt_timeout.is_zero(), "attempt_timeout: longer than nothing"),
            (!self.sink_deadline.is_zero(), "sink_deadline: longer than nothing"),
            (self.worker_lease >= MIN_WORKER_LEASE, "worker_lease: at least 1 s"),
        ];
        if let Some((_, rule)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(Error::new(ErrorCode::InvalidArgument, rule));
        }
        let bad = |field: &str, fault: &dyn std::fmt::Display| {
            Error::new(ErrorCode::InvalidArgument, format!("{field}: {fault}"))
        };
        self.address.validate().map_err(|fault| bad("address", &fault))?;
        let headers = HeaderPolicy { allow: self.header_names.clone() };
        headers.validate().map_err(|fault| bad("header_names", &fault))
    }
}

fn usable(rate: Option<Rate>) -> bool {
    rate.is_none_or(|rate| rate.per_second > 0 && rate.burst > 0)
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            buffer_bytes: 64 << 20,
            config_limits: ConfigLimits::default(),
            max_body_bytes: 256 << 10,
            undeliverable: UndeliverablePolicy::Drop,
            policy: None,
            address: address::Policy::default(),
            proxy: None,
            header_names: Vec::new(),
            redact: Redaction::default(),
            default_secret: None,
            previous_secret: None,
            require_secret: false,
            secret_key: None,
            attempt_timeout: Duration::from_secs(10),
            concurrency: 128,
            endpoint_concurrency: 8,
            endpoint_rate: Some(Rate { per_second: 100, burst: 200 }),
            host_rate: Some(Rate { per_second: 500, burst: 1_000 }),
            verify: Verify::default(),
            endpoints: EndpointPolicy::default(),
            max_pending: 1_000,
            receipts: true,
            worker_lease: Duration::from_secs(15),
            delivery_lease: Duration::from_secs(60),
            keep_finished: Duration::from_secs(7 * 86_400),
            sink_deadline: Duration::from_secs(10),
            sink_lag: 128,
            outcome_wait: Duration::from_secs(2),
        }
    }
}
