//! Rules whose facts lie outside a config's shape.

/// A rule that a value breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// A stable snake_case code.
    pub rule: &'static str,
    /// Names the rule for a person, without the value where that may be a secret.
    pub message: String,
}

impl From<(&'static str, String)> for Violation {
    fn from((rule, message): (&'static str, String)) -> Self {
        Self { rule, message }
    }
}

/// The checks of values that the config module does not know itself: addresses, secrets, headers.
///
/// A check is asked only for values of the right JSON type and within the length limits. Its message must not repeat
/// a secret or a header value.
pub trait ConfigChecks {
    /// Whether a route of type `route_type` may have this endpoint: for `webhook` a URL that may be posted to, as far
    /// as its text tells; for other types a name that the server's policy allows.
    ///
    /// # Errors
    /// The rule that the endpoint breaks.
    fn endpoint(&self, route_type: &str, endpoint: &str) -> Result<(), Violation>;

    /// Whether a route of this type, which is not `webhook`, may have no endpoint: whether there is a calling session that
    /// it can go to.
    ///
    /// # Errors
    /// The rule that it breaks.
    fn no_endpoint(&self, route_type: &str) -> Result<(), Violation>;

    /// Whether this is a signing secret (Standard Webhooks: `whsec_` and base64 of 24 to 64 bytes).
    ///
    /// # Errors
    /// The rule that the secret breaks.
    fn secret(&self, secret: &str) -> Result<(), Violation>;

    /// Whether a route may send this static header (RFC 9110 section 5.5, and not a reserved one).
    ///
    /// # Errors
    /// The rule that the header breaks.
    fn header(&self, name: &str, value: &str) -> Result<(), Violation>;
}

/// Accepts every value: for reading back a config that was validated before it was stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct AcceptStored;

impl ConfigChecks for AcceptStored {
    fn endpoint(&self, _route_type: &str, _endpoint: &str) -> Result<(), Violation> {
        Ok(())
    }

    fn no_endpoint(&self, _route_type: &str) -> Result<(), Violation> {
        Ok(())
    }

    fn secret(&self, _secret: &str) -> Result<(), Violation> {
        Ok(())
    }

    fn header(&self, _name: &str, _value: &str) -> Result<(), Violation> {
        Ok(())
    }
}
