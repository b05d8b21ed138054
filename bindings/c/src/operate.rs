//! What an operator looks at and does by hand: endpoints, attempts, numbers.

use std::ffi::c_char;

use tidings_bridge::{Endpoint, Error};

use crate::entry::{entry, tidings_result};
use crate::handle::Table;
use crate::hub::{HUBS, tidings_hub};
use crate::memory::{self, Out, tidings_bytes, write_sized};
use crate::text::{give, tidings_text};
use crate::texts::{LISTS, tidings_texts};

/// Endpoints as they were when they were asked for.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_endpoints {
    _private: [u8; 0],
}

/// An endpoint: a URL of one principal, never the URL itself, which may hold a secret. What it points to stays where it is
/// until its list is freed; texts are UTF-8.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_endpoint {
    /// Its key, 64 hexadecimal digits.
    pub key: tidings_bytes,
    /// Whose it is.
    pub principal: tidings_bytes,
    /// Its host.
    pub host: tidings_bytes,
    /// `unverified`, `verified` or `disabled`.
    pub state: tidings_bytes,
    /// `challenge`, `well_known`, `allow_list` or `address`; `data` is NULL if nothing is proved.
    pub proof: tidings_bytes,
    /// Why it is disabled: `gone`, `failing`, `unverified` or `operator`; `data` is NULL if it is not.
    pub disabled: tidings_bytes,
    /// The category of the last failure; `data` is NULL if there was none.
    pub last_error: tidings_bytes,
    /// Failures in a row.
    pub failures: u32,
    /// Whether its breaker has opened since the last success: 1 or 0.
    pub tripped: i32,
}

/// What a hub has done and holds, at one moment.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_stats {
    /// Groups committed by this process.
    pub groups: u64,
    /// Events of this process's writers that were committed.
    pub events: u64,
    /// Events given up while the store was down.
    pub lost: u64,
    /// Events dropped because another writer had claimed the stream, or it was closed.
    pub refused: u64,
    /// Groups that failed.
    pub failures: u64,
    /// Attempts at deliveries that ended.
    pub attempts: u64,
    /// Deliveries that ended here as `delivered`.
    pub delivered: u64,
    /// The same as `dead`.
    pub dead: u64,
    /// The same as `expired`.
    pub expired: u64,
    /// The same as `superseded`.
    pub superseded: u64,
    /// Attempts at webhooks under way.
    pub in_flight: u64,
    /// Whether the last group failed, so that events wait in memory: 1 or 0.
    pub failing: i32,
}

pub(crate) static ENDPOINTS: Table<Vec<Endpoint>> = Table::new(25);

/// The numbers of a hub. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_stats(
    hub: *const tidings_hub,
    stats: *mut tidings_stats,
    size: usize,
) -> tidings_result {
    entry("tidings_hub_stats", || {
        let now = HUBS.get("hub", hub)?.stats();
        let value = tidings_stats {
            groups: now.groups,
            events: now.events,
            lost: now.lost,
            refused: now.refused,
            failures: now.failures,
            attempts: now.attempts,
            delivered: now.delivered,
            dead: now.dead,
            expired: now.expired,
            superseded: now.superseded,
            in_flight: now.in_flight,
            failing: i32::from(now.failing),
        };
        // SAFETY: the header's conventions.
        unsafe { write_sized("stats", stats, size, value) }
    })
}

/// The numbers of a hub in Prometheus's text format.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_prometheus(
    hub: *const tidings_hub,
    text: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_hub_prometheus", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("text", text) }?;
        give(out, HUBS.get("hub", hub)?.prometheus())
    })
}

/// What the settled attempts of a delivery came to, in order: categories of failures, and none where it was taken. Blocks for
/// a read. Free them with `tidings_texts_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_attempts(
    hub: *const tidings_hub,
    id: *const c_char,
    id_len: usize,
    attempts: *mut *mut tidings_texts,
) -> tidings_result {
    entry("tidings_hub_attempts", || {
        // SAFETY: the header's conventions.
        let (out, id) = unsafe { (Out::new("attempts", attempts)?, memory::text("id", id, id_len)?) };
        out.set(LISTS.insert(HUBS.get("hub", hub)?.attempts(id)?));
        Ok(())
    })
}

/// Endpoints of a principal, or all where it is NULL; at most `limit`. Blocks for a read. Free them with
/// `tidings_endpoints_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_endpoints(
    hub: *const tidings_hub,
    principal: *const c_char,
    principal_len: usize,
    limit: u32,
    endpoints: *mut *mut tidings_endpoints,
) -> tidings_result {
    entry("tidings_hub_endpoints", || {
        // SAFETY: the header's conventions.
        let (out, principal) = unsafe {
            (Out::new("endpoints", endpoints)?, memory::optional_text("principal", principal, principal_len)?)
        };
        let limit = tidings_bridge::limit(i64::from(limit))?;
        out.set(ENDPOINTS.insert(HUBS.get("hub", hub)?.endpoints(principal, limit)?));
        Ok(())
    })
}

/// How many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_endpoints_count(
    endpoints: *const tidings_endpoints,
    count: *mut usize,
) -> tidings_result {
    entry("tidings_endpoints_count", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("count", count) }?;
        out.set(ENDPOINTS.get("endpoints", endpoints)?.len());
        Ok(())
    })
}

/// The endpoint at `index`, from 0. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_endpoints_get(
    endpoints: *const tidings_endpoints,
    index: usize,
    endpoint: *mut tidings_endpoint,
    size: usize,
) -> tidings_result {
    entry("tidings_endpoints_get", || {
        let list = ENDPOINTS.get("endpoints", endpoints)?;
        let found = list.get(index).ok_or_else(|| Error::argument("index", "must be less than the count"))?;
        let text = |text: &str| tidings_bytes::of(text.as_bytes());
        let value = tidings_endpoint {
            key: text(&found.key),
            principal: text(&found.principal),
            host: text(&found.host),
            state: text(found.state),
            proof: tidings_bytes::of_optional(found.proof),
            disabled: tidings_bytes::of_optional(found.disabled),
            last_error: tidings_bytes::of_optional(found.last_error),
            failures: found.failures,
            tripped: i32::from(found.tripped),
        };
        // SAFETY: the header's conventions.
        unsafe { write_sized("endpoint", endpoint, size, value) }
    })
}

/// Frees a list of endpoints. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_endpoints_free(endpoints: *mut tidings_endpoints) -> tidings_result {
    entry("tidings_endpoints_free", || ENDPOINTS.free("endpoints", endpoints))
}

/// Has an endpoint tried again (1), or sends nothing more to it (0). Blocks for a commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_set_endpoint(
    hub: *const tidings_hub,
    key: *const c_char,
    key_len: usize,
    enabled: i32,
) -> tidings_result {
    entry("tidings_hub_set_endpoint", || {
        // SAFETY: the header's conventions.
        let key = unsafe { memory::text("key", key, key_len) }?;
        HUBS.get("hub", hub)?.set_endpoint(key, memory::flag("enabled", enabled)?)
    })
}
