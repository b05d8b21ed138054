//! Where a route leads, as the store knows it: an endpoint of one principal.

use tidings_proto::address::{Endpoint, Host};
use tidings_proto::config::Route;
use tidings_proto::delivery::{EndpointKey, EndpointState, Learned, Proof};
use tidings_proto::route::OutletName;
use tidings_store::{EndpointNews, EndpointOwner, Op};

use crate::core::Core;
use crate::options::Verify;
use crate::plan;

/// The endpoint of a route.
pub(crate) struct Target {
    pub(crate) key: EndpointKey,
    host: String,
    /// What naming it tells the store.
    named: Learned,
}

impl Target {
    /// Where a webhook route leads for `principal`; `None`: nowhere that may be sent to.
    pub(crate) fn of(core: &Core, principal: &str, route: &Route) -> Option<Self> {
        let endpoint = Endpoint::parse(route.endpoint.as_deref()?, &core.options.address).ok()?;
        let named = match core.options.verify {
            Verify::Address => Learned::NamedTrusted(Proof::Address),
            Verify::Challenge if endpoint.is_vouched() => Learned::NamedTrusted(Proof::AllowList),
            Verify::Challenge | Verify::Always => Learned::NamedForProof,
        };
        let host = match endpoint.host() {
            Host::Name(name) => name.clone(),
            Host::Ip(ip) => ip.to_string(),
        };
        Some(Self { key: EndpointKey::new(&route.kind, principal, endpoint.as_url()), host, named })
    }

    /// A place in the host: its name, with no limits of its own.
    pub(crate) fn in_host(principal: &str, name: &OutletName) -> Self {
        let key = EndpointKey::new("outlet", principal, name.as_str());
        Self { key, host: String::new(), named: Learned::NamedTrusted(Proof::Address) }
    }

    /// Tells the store that a config names it: it comes to be, and is verified where it needs that.
    pub(crate) fn name(self, core: &Core, principal: &str, route: &Route) -> Op {
        Op::Endpoint(Box::new(EndpointNews {
            key: self.key,
            owner: EndpointOwner {
                principal: principal.to_owned(),
                host: self.host,
                route: plan::seal(vec![route.clone()]),
            },
            learned: self.named,
            policy: core.options.endpoints,
            now: core.timeline.now(),
        }))
    }

    /// Where it stands; `None`: the store does not know it.
    pub(crate) fn state(&self, core: &Core) -> Option<EndpointState> {
        core.store.endpoint(self.key).ok().flatten().map(|record| record.standing.state)
    }
}

/// What was learned of a delivery's endpoint.
pub(crate) fn learned(core: &Core, key: EndpointKey, learned: Learned) -> Op {
    Op::Endpoint(Box::new(EndpointNews {
        key,
        owner: EndpointOwner::default(),
        learned,
        policy: core.options.endpoints,
        now: core.timeline.now(),
    }))
}
