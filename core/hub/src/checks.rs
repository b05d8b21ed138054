//! The facts that validating a config needs from the rest: addresses, secrets, headers.

use tidings_proto::address::Endpoint;
use tidings_proto::config::{ConfigChecks, Violation};
use tidings_proto::webhook;
use tidings_proto::wire;

use crate::options::Options;

pub(crate) struct Checks<'a>(pub(crate) &'a Options);

impl ConfigChecks for Checks<'_> {
    fn endpoint(&self, route_type: &str, endpoint: &str) -> Result<(), Violation> {
        if route_type != wire::sep992::ROUTE_WEBHOOK {
            return Ok(());
        }
        match Endpoint::parse(endpoint, &self.0.address) {
            Ok(_) => Ok(()),
            Err(fault) => Err(Violation { rule: fault.code(), message: fault.to_string() }),
        }
    }

    fn secret(&self, secret: &str) -> Result<(), Violation> {
        match webhook::Secret::parse(secret) {
            Ok(_) => Ok(()),
            Err(fault) => Err(Violation { rule: fault.code(), message: fault.to_string() }),
        }
    }

    fn header(&self, name: &str, value: &str) -> Result<(), Violation> {
        let policy = webhook::HeaderPolicy { allow: self.0.header_names.clone() };
        match webhook::StaticHeaders::check([(name, value)], &policy) {
            Ok(_) => Ok(()),
            Err(faults) => Err(faults.first().map_or_else(
                || Violation { rule: "header", message: "is not allowed".to_owned() },
                |fault| Violation { rule: fault.code(), message: fault.to_string() },
            )),
        }
    }
}
