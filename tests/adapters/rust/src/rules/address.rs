//! Where a webhook may go.

use std::net::IpAddr;

use serde_json::{Value, json};
use tidings::proto::address::{Denied, EgressProxy, Endpoint, Network, NetworkFault, Policy, PolicyFault, check};

use crate::Answer;
use crate::given::Given;

/// The operator's settings from `allow`.
pub(crate) fn policy(allow: Given<'_>) -> Result<Policy, String> {
    let mut policy = Policy::default();
    if allow.has("networks") {
        let networks = allow.texts("networks")?;
        policy.allow_networks = networks.into_iter().map(network_of).collect::<Result<_, _>>()?;
    }
    if allow.has("hosts") {
        policy.allow_hosts = allow.texts("hosts")?.into_iter().map(str::to_owned).collect();
    }
    if allow.has("http") {
        policy.allow_http = allow.bool("http")?;
    }
    if allow.has("ports") {
        policy.allow_ports = ports(allow.list("ports")?)?;
    }
    Ok(policy)
}

fn ports(list: &[Value]) -> Result<Vec<u16>, String> {
    list.iter()
        .map(|port| port.as_u64().and_then(|port| port.try_into().ok()).ok_or_else(|| "ports".to_owned()))
        .collect()
}

fn network_of(text: &str) -> Result<Network, String> {
    Network::parse(text).map_err(|fault| format!("{text}: {fault}"))
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

fn judged(verdict: Result<(), Denied>) -> Value {
    match verdict {
        Ok(()) => json!({"ok": true}),
        Err(denied) => json!({"error": denied.code()}),
    }
}

pub(super) fn verdict(given: Given<'_>) -> Answer {
    let networks = if given.has("allow") { given.texts("allow")? } else { Vec::new() };
    let allow_networks = networks.into_iter().map(network_of).collect::<Result<_, _>>()?;
    let policy = Policy { allow_networks, ..Policy::default() };
    Ok(judged(check(address(given.text("address")?)?, &policy)))
}

pub(super) fn network(given: Given<'_>) -> Answer {
    Ok(match Network::parse(given.text("text")?) {
        Ok(network) => json!({"text": network.to_string()}),
        Err(fault) => json!({"error": match fault {
            NetworkFault::Address => "address",
            NetworkFault::Prefix { .. } => "prefix",
            NetworkFault::HostBits { .. } => "host_bits",
            NetworkFault::Mapped => "mapped",
            _ => "another one",
        }}),
    })
}

pub(super) fn settings(given: Given<'_>) -> Answer {
    let policy = Policy {
        allow_hosts: given.texts("hosts")?.into_iter().map(str::to_owned).collect(),
        allow_ports: ports(given.list("ports")?)?,
        ..Policy::default()
    };
    Ok(match policy.validate() {
        Ok(()) => json!({"ok": true}),
        Err(fault) => json!({"error": match fault {
            PolicyFault::Host { .. } => "host",
            PolicyFault::HostIsAddress { .. } => "host_is_address",
            PolicyFault::HostIsMetadata { .. } => "host_is_metadata",
            PolicyFault::PortZero => "port_zero",
            _ => "another one",
        }}),
    })
}

pub(super) fn endpoint(given: Given<'_>) -> Answer {
    Ok(match Endpoint::parse(given.text("url")?, &policy(given.at("allow"))?) {
        Ok(endpoint) => json!({
            "url": endpoint.as_url(),
            "host": endpoint.host().to_string(),
            "port": endpoint.port(),
            "tls": endpoint.is_tls(),
            "target": endpoint.path_and_query(),
            "hostHeader": endpoint.host_header(),
            "vouched": endpoint.is_vouched(),
        }),
        Err(fault) => json!({"error": fault.code()}),
    })
}

pub(super) fn answers(given: Given<'_>) -> Answer {
    let policy = policy(given.at("allow"))?;
    let endpoint = Endpoint::parse(given.text("url")?, &policy).map_err(|fault| fault.to_string())?;
    let answers: Vec<_> = given.texts("answers")?.into_iter().map(address).collect::<Result<_, _>>()?;
    Ok(judged(endpoint.check_answers(&answers, &policy)))
}

pub(super) fn proxy(given: Given<'_>) -> Answer {
    let target = given.text("target")?.parse().map_err(|error| format!("target: {error}"))?;
    Ok(match EgressProxy::parse(given.text("proxy")?) {
        Ok(proxy) => {
            let request = String::from_utf8(proxy.connect_request(target)).map_err(|error| error.to_string())?;
            json!({"request": request})
        }
        Err(fault) => json!({"error": fault.code()}),
    })
}
