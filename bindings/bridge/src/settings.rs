//! A hub's options as plain values, checked.

use std::fmt::Display;
use std::time::Duration;

use tidings::proto::address::{EgressProxy, Network, Policy};
use tidings::proto::delivery::Rate;
use tidings::proto::redact::Redaction;
use tidings::proto::route::UndeliverablePolicy;
use tidings::proto::stream::Retention;
use tidings::proto::webhook::{HeaderPolicy, Secret};
use tidings::{Options, Verify};

use crate::error::{Error, Result};

/// Options of a hub, as a host gives them. `None`, and an empty list, leave the core's default.
#[derive(Clone, Default)]
pub struct Settings {
    /// Blocks of addresses (CIDR) that webhooks may go to although they are not public.
    pub allow_networks: Vec<String>,
    /// Host names that the operator vouches for.
    pub allow_hosts: Vec<String>,
    /// Accepts `http` endpoints too.
    pub allow_http: bool,
    /// Ports besides 443.
    pub allow_ports: Vec<u16>,
    /// `http://[user:password@]host:port`: the proxy through which webhooks leave.
    pub proxy: Option<String>,
    /// `whsec_…`: signs webhooks of routes that bring no secret.
    pub default_secret: Option<String>,
    /// The one before it; webhooks are signed with both while receivers change over.
    pub previous_secret: Option<String>,
    /// Refuses routes that would go unsigned.
    pub require_secret: bool,
    /// `challenge`, `always` or `address`: what an endpoint has to show before its first delivery.
    pub verify: Option<String>,
    /// Attempts in flight at a time.
    pub concurrency: Option<u32>,
    /// The same at one endpoint.
    pub endpoint_concurrency: Option<u32>,
    /// Attempts a second at one endpoint; 0 sets no limit.
    pub endpoint_rate: Option<u32>,
    /// Attempts a second at one host; 0 sets no limit.
    pub host_rate: Option<u32>,
    /// Unfinished deliveries of one principal.
    pub max_pending: Option<u32>,
    /// `drop` or `annotate`.
    pub undeliverable: Option<String>,
    /// 32 bytes that seal secrets at rest.
    pub secret_key: Option<Vec<u8>>,
    /// What is kept, of each stream and of all.
    pub retention: Option<Keep>,
    /// Header names that routes may set besides `authorization` and `x-*`.
    pub header_names: Vec<String>,
    /// JSON Pointers and names of members: what is taken out of every event and outcome before anything is kept.
    pub redact: Vec<String>,
    /// How long one attempt may take.
    pub attempt_timeout: Option<Duration>,
    /// After how long a silent worker counts as gone.
    pub worker_lease: Option<Duration>,
    /// The largest webhook body that carries the whole outcome.
    pub max_body_bytes: Option<u64>,
    /// Bytes of events that may wait for the store.
    pub buffer_bytes: Option<u64>,
}

impl Settings {
    /// The core's options.
    ///
    /// # Errors
    /// `invalid_argument`, naming the setting and its rule.
    pub fn options(self) -> Result<Options> {
        let mut options = Options::default();
        options.address = Policy {
            allow_networks: each("allow_networks", self.allow_networks, Network::parse)?,
            allow_hosts: self.allow_hosts,
            allow_http: self.allow_http,
            allow_ports: self.allow_ports,
        };
        // The fault's own text names the setting.
        options
            .address
            .validate()
            .map_err(|fault| Error::new(tidings::ErrorCode::InvalidArgument, fault.to_string()))?;
        if let Some(proxy) = self.proxy {
            options.proxy = Some(EgressProxy::parse(&proxy).map_err(|fault| Error::argument("proxy", fault))?);
        }
        let names = HeaderPolicy { allow: self.header_names };
        names.validate().map_err(|fault| Error::argument("header_names", fault))?;
        options.header_names = names.allow;
        options.redact = Redaction::parse(&self.redact)
            .map_err(|(index, fault)| Error::argument("redact", format!("entry {index}: {fault}")))?;
        options.require_secret = self.require_secret;
        if let Some(secret) = self.default_secret {
            options.default_secret =
                Some(Secret::parse(&secret).map_err(|fault| Error::argument("default_secret", fault))?);
        }
        if let Some(secret) = self.previous_secret {
            options.previous_secret =
                Some(Secret::parse(&secret).map_err(|fault| Error::argument("previous_secret", fault))?);
        }
        if let Some(verify) = self.verify {
            options.verify = Verify::from_text(&verify)
                .ok_or_else(|| Error::argument("verify", "must be 'challenge', 'always' or 'address'"))?;
        }
        options.concurrency = self.concurrency.unwrap_or(options.concurrency);
        options.endpoint_concurrency = self.endpoint_concurrency.unwrap_or(options.endpoint_concurrency);
        options.max_pending = self.max_pending.unwrap_or(options.max_pending);
        options.endpoint_rate = self.endpoint_rate.map_or(options.endpoint_rate, rate);
        options.host_rate = self.host_rate.map_or(options.host_rate, rate);
        if let Some(policy) = self.undeliverable {
            options.undeliverable = undeliverable(&policy)?;
        }
        if let Some(key) = self.secret_key {
            let key = key.try_into().map_err(|_| Error::argument("secret_key", "must be 32 bytes"))?;
            options.secret_key = Some(key);
        }
        if let Some(retention) = self.retention {
            options.retention = retention.into();
        }
        if let Some(timeout) = self.attempt_timeout {
            options.attempt_timeout = positive("attempt_timeout", timeout)?;
        }
        if let Some(lease) = self.worker_lease {
            options.worker_lease = positive("worker_lease", lease)?;
        }
        if let Some(bytes) = self.max_body_bytes {
            options.max_body_bytes = size("max_body_bytes", bytes)?;
        }
        if let Some(bytes) = self.buffer_bytes {
            options.buffer_bytes = size("buffer_bytes", bytes)?;
        }
        Ok(options)
    }
}

/// What is kept, of each stream and of all; `None` sets no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Events of each stream.
    pub max_events: Option<u64>,
    /// Bytes of each stream.
    pub max_bytes: Option<u64>,
    /// The age of an event.
    pub max_age: Option<Duration>,
    /// How long a stream stays after its close.
    pub after_close: Option<Duration>,
    /// Events of all streams.
    pub max_total_events: Option<u64>,
    /// Bytes of all streams.
    pub max_total_bytes: Option<u64>,
}

impl From<Keep> for Retention {
    fn from(keep: Keep) -> Self {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let Keep { max_events, max_bytes, max_age, after_close, max_total_events, max_total_bytes } = keep;
        let (max_age_ms, after_close_ms) = (max_age.map(millis), after_close.map(millis));
        Self { max_events, max_bytes, max_age_ms, after_close_ms, max_total_events, max_total_bytes }
    }
}

impl From<Retention> for Keep {
    fn from(retention: Retention) -> Self {
        let Retention { max_events, max_bytes, max_age_ms, after_close_ms, max_total_events, max_total_bytes } =
            retention;
        let (max_age, after_close) = (max_age_ms.map(Duration::from_millis), after_close_ms.map(Duration::from_millis));
        Self { max_events, max_bytes, max_age, after_close, max_total_events, max_total_bytes }
    }
}

/// A length of time in seconds, as a `Duration`.
///
/// # Errors
/// `invalid_argument`, naming the argument, when it is negative, not a number, or more than 10,000 years.
pub fn seconds(name: &str, value: f64) -> Result<Duration> {
    const MOST: f64 = 315_576_000_000.0;
    if !(0.0..=MOST).contains(&value) {
        return Err(Error::argument(name, "must be a number of seconds, 0 or more"));
    }
    Ok(Duration::from_secs_f64(value))
}

/// A length of time in whole milliseconds, as hosts give it whose numbers are all floats.
///
/// # Errors
/// `invalid_argument`, naming the argument, when it is negative, not a whole number, or more than 10,000 years.
pub fn milliseconds(name: &str, value: f64) -> Result<Duration> {
    const MOST: f64 = 315_576_000_000_000.0;
    match whole(value) {
        Some(millis) if value <= MOST => Ok(Duration::from_millis(millis)),
        _ => Err(Error::argument(name, "must be a whole number of milliseconds, 0 or more")),
    }
}

/// A count, size or sequence number, as hosts give it whose numbers are all floats.
///
/// # Errors
/// `invalid_argument`, naming the argument, when it is not a whole number from 0 to 2^53 - 1.
pub fn whole_number(name: &str, value: f64) -> Result<u64> {
    whole(value).ok_or_else(|| Error::argument(name, "must be a whole number, 0 to 2^53 - 1"))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range where every one is exact")]
fn whole(value: f64) -> Option<u64> {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    ((0.0..=SAFE).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

/// A count or a size.
///
/// # Errors
/// `invalid_argument`, naming the argument, when it is negative.
pub fn number(name: &str, value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::argument(name, "must be 0 or more"))
}

/// A small number.
///
/// # Errors
/// `invalid_argument`, naming the argument, when it is negative or more than 2^32 - 1.
pub fn count(name: &str, value: i64) -> Result<u32> {
    u32::try_from(value).map_err(|_| Error::argument(name, "must be 0 or more, and less than 2^32"))
}

/// A port; that it may be used is the core's to say.
///
/// # Errors
/// `invalid_argument`, naming the argument, when it is none.
pub fn port(name: &str, value: i64) -> Result<u16> {
    u16::try_from(value).map_err(|_| Error::argument(name, format!("{value} is no port")))
}

/// How many of something to answer at most.
///
/// # Errors
/// `invalid_argument` when it is less than 1 or more than 2^32 - 1.
pub fn limit(value: i64) -> Result<u32> {
    match u32::try_from(value) {
        Ok(0) | Err(_) => Err(Error::argument("limit", "must be at least 1 and at most 2^32 - 1")),
        Ok(limit) => Ok(limit),
    }
}

/// A rate with a burst of two seconds; 0 a second is no limit.
fn rate(per_second: u32) -> Option<Rate> {
    (per_second > 0).then(|| Rate { per_second, burst: per_second.saturating_mul(2) })
}

fn undeliverable(policy: &str) -> Result<UndeliverablePolicy> {
    match policy {
        "drop" => Ok(UndeliverablePolicy::Drop),
        "annotate" => Ok(UndeliverablePolicy::Annotate),
        _ => Err(Error::argument("undeliverable", "must be 'drop' or 'annotate'")),
    }
}

fn each<T, F: Display>(name: &str, texts: Vec<String>, parse: impl Fn(&str) -> Result<T, F>) -> Result<Vec<T>> {
    texts.iter().map(|text| parse(text).map_err(|fault| Error::argument(name, format!("{text:?}: {fault}")))).collect()
}

fn positive(name: &str, duration: Duration) -> Result<Duration> {
    if duration < Duration::from_millis(1) {
        return Err(Error::argument(name, "must be at least 0.001 s"));
    }
    Ok(duration)
}

fn size(name: &str, bytes: u64) -> Result<usize> {
    match usize::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(Error::argument(name, "must be at least 1 byte")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: Settings) -> String {
        settings.options().unwrap_err().to_string()
    }

    #[test]
    fn refusals_name_the_setting() {
        let none = Settings::default;
        let cases = [
            ("allow_networks", Settings { allow_networks: vec!["10.0.0.0/8".into(), "10.0.0.0/99".into()], ..none() }),
            ("allow_hosts", Settings { allow_hosts: vec!["https://x".into()], ..none() }),
            ("allow_ports", Settings { allow_ports: vec![0], ..none() }),
            ("default_secret", Settings { default_secret: Some("hunter2".into()), ..none() }),
            ("previous_secret", Settings { previous_secret: Some("hunter2".into()), ..none() }),
            ("proxy", Settings { proxy: Some("https://u:hunter2@proxy:3128".into()), ..none() }),
            ("verify", Settings { verify: Some("never".into()), ..none() }),
            ("undeliverable", Settings { undeliverable: Some("ignore".into()), ..none() }),
            ("secret_key", Settings { secret_key: Some(vec![0; 31]), ..none() }),
            ("attempt_timeout", Settings { attempt_timeout: Some(Duration::ZERO), ..none() }),
            ("worker_lease", Settings { worker_lease: Some(Duration::ZERO), ..none() }),
            ("max_body_bytes", Settings { max_body_bytes: Some(0), ..none() }),
            ("buffer_bytes", Settings { buffer_bytes: Some(0), ..none() }),
            ("redact", Settings { redact: vec!["token".into(), String::new()], ..none() }),
            ("header_names", Settings { header_names: vec!["host".into()], ..none() }),
        ];
        for (name, settings) in cases {
            let message = refused(settings);
            assert!(message.starts_with(&format!("{name}: ")), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn nothing_given_leaves_the_defaults() {
        let (ours, core) = (Settings::default().options().unwrap(), Options::default());
        assert_eq!(format!("{ours:?}"), format!("{core:?}"));
    }

    #[test]
    fn given_settings_arrive() {
        let settings = Settings {
            allow_networks: vec!["127.0.0.0/8".into()],
            allow_http: true,
            undeliverable: Some("annotate".into()),
            retention: Some(Keep { max_events: Some(5), max_age: Some(Duration::from_secs(2)), ..Keep::default() }),
            attempt_timeout: Some(Duration::from_millis(1_500)),
            max_body_bytes: Some(1),
            ..Settings::default()
        };
        let options = settings.options().unwrap();
        assert!(options.address.allow_http);
        assert_eq!(options.address.allow_networks.len(), 1);
        assert_eq!(options.undeliverable, UndeliverablePolicy::Annotate);
        assert_eq!((options.retention.max_events, options.retention.max_age_ms), (Some(5), Some(2_000)));
        assert_eq!((options.retention.max_bytes, options.retention.after_close_ms), (None, None));
        assert_eq!(options.attempt_timeout, Duration::from_millis(1_500));
        assert_eq!(options.max_body_bytes, 1);
    }

    #[test]
    fn whole_numbers_are_checked() {
        assert_eq!(milliseconds("t", 1_500.0).unwrap(), Duration::from_millis(1_500));
        assert_eq!(whole_number("n", 9_007_199_254_740_991.0).unwrap(), (1 << 53) - 1);
        for bad in [-1.0, 0.5, f64::NAN, f64::INFINITY, 9_007_199_254_740_992.0] {
            assert!(milliseconds("t", bad).unwrap_err().to_string().starts_with("t: "), "{bad}");
            assert!(whole_number("n", bad).unwrap_err().to_string().starts_with("n: "), "{bad}");
        }
    }

    #[test]
    fn seconds_are_checked() {
        assert_eq!(seconds("t", 1.5).unwrap(), Duration::from_millis(1_500));
        assert_eq!(seconds("t", 0.0).unwrap(), Duration::ZERO);
        for bad in [-0.001, f64::NAN, f64::INFINITY, 1e30] {
            assert!(seconds("t", bad).unwrap_err().to_string().starts_with("t: "), "{bad}");
        }
    }
}
