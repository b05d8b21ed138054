//! The operator's say: which configs are accepted, and which names they may use.

use std::fmt;
use std::pin::Pin;

use tidings_proto::config::{Faults, rule};

use crate::call::BeginCall;
use crate::error::{Error, ErrorCode, Result};
use crate::options::Options;

/// A config that is to be judged before its tool runs. It is not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// Who asks.
    pub principal: &'a str,
    /// The tool that is called.
    pub tool: &'a str,
    /// The MCP session, where there is one.
    pub session: Option<&'a str>,
    /// The config as the client sent it.
    pub config: &'a [u8],
}

/// What a policy says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is good, as far as the rules hold as well.
    Allow {
        /// The names that its routes of type `message` and `callback` may have.
        open: Vec<String>,
    },
    /// Nothing runs, and the client is told why: a fault of rule `denied`.
    Deny {
        /// For the client.
        reason: String,
    },
    /// Another config takes its place; the rules hold for it all the same.
    Rewrite {
        /// Its raw JSON text.
        config: Vec<u8>,
        /// As with `Allow`.
        open: Vec<String>,
    },
}

/// What a policy comes to. An error refuses the config: nothing is sent anywhere on a guess.
pub type Deciding<'a> =
    Pin<Box<dyn Future<Output = std::result::Result<Decision, Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>>;

/// Decides who may have what sent where. Asked for every config, before anything else.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The decision about one config.
    fn decide<'a>(&'a self, request: PolicyRequest<'a>) -> Deciding<'a>;
}

/// What the policy makes of a call: another config, and more names.
#[derive(Default)]
pub(crate) struct Decided {
    pub(crate) config: Option<Vec<u8>>,
    pub(crate) open: Vec<String>,
}

pub(crate) async fn decide(options: &Options, begin: &BeginCall<'_>) -> Result<Decided> {
    let (Some(policy), Some(config)) = (&options.policy, begin.config) else { return Ok(Decided::default()) };
    let request = PolicyRequest { principal: begin.principal, tool: begin.tool, session: begin.session, config };
    match policy.decide(request).await {
        Ok(Decision::Allow { open }) => Ok(Decided { config: None, open }),
        Ok(Decision::Rewrite { config, open }) => Ok(Decided { config: Some(config), open }),
        Ok(Decision::Deny { reason }) => Err(Error::config(Faults::one(rule::DENIED, reason))),
        Err(error) => {
            tracing::error!(tool = begin.tool, %error, "the policy failed, and a notificationConfig was refused");
            Err(Error::new(ErrorCode::Internal, "the policy came to no decision"))
        }
    }
}
