//! The facts that validating a config needs from the rest: addresses, secrets, headers.

use tidings_proto::address::Endpoint;
use tidings_proto::config::{ConfigChecks, Violation, rule};
use tidings_proto::webhook;
use tidings_proto::wire;

use crate::options::Options;

pub(crate) struct Checks<'a> {
    pub(crate) options: &'a Options,
    /// The names that routes of type `message` and `callback` may have.
    pub(crate) open: &'a [&'a str],
    /// The calling session has a connection that outlives the request.
    pub(crate) has_peer: bool,
}

impl ConfigChecks for Checks<'_> {
    fn endpoint(&self, route_type: &str, endpoint: &str) -> Result<(), Violation> {
        match route_type {
            wire::sep992::ROUTE_WEBHOOK => {}
            wire::sep992::ROUTE_MESSAGE | wire::tidings::ROUTE_CALLBACK => {
                if self.open.contains(&endpoint) {
                    return Ok(());
                }
                let message = "endpoint names nothing that this server opens to this call";
                return Err((rule::NOT_OPEN, message.to_owned()).into());
            }
            _ => return Ok(()),
        }
        match Endpoint::parse(endpoint, &self.options.address) {
            Ok(_) => Ok(()),
            Err(fault) => Err(Violation { rule: fault.code(), message: fault.to_string() }),
        }
    }

    fn no_endpoint(&self, route_type: &str) -> Result<(), Violation> {
        match route_type {
            wire::tidings::ROUTE_CALLBACK => {
                Err((rule::MISSING, "endpoint is required on a callback route: the handler's name".to_owned()).into())
            }
            wire::sep992::ROUTE_MESSAGE | wire::sep992::ROUTE_SIGNAL if !self.has_peer => {
                let message = format!("a {route_type} route needs a session whose connection outlives the request");
                Err((rule::NO_SESSION, message).into())
            }
            _ => Ok(()),
        }
    }

    fn secret(&self, secret: &str) -> Result<(), Violation> {
        match webhook::Secret::parse(secret) {
            Ok(_) => Ok(()),
            Err(fault) => Err(Violation { rule: fault.code(), message: fault.to_string() }),
        }
    }

    fn header(&self, name: &str, value: &str) -> Result<(), Violation> {
        let policy = webhook::HeaderPolicy { allow: self.options.header_names.clone() };
        match webhook::StaticHeaders::check([(name, value)], &policy) {
            Ok(_) => Ok(()),
            Err(faults) => Err(faults.first().map_or_else(
                || Violation { rule: "header", message: "is not allowed".to_owned() },
                |fault| Violation { rule: fault.code(), message: fault.to_string() },
            )),
        }
    }
}
