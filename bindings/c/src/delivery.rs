//! Deliveries, for the operator.

use std::ffi::c_char;
use std::time::Duration;

use tidings_bridge::{Delivery, Error};

use crate::answer::tidings_answer;
use crate::entry::{entry, tidings_result};
use crate::handle::Table;
use crate::hub::{HUBS, tidings_hub};
use crate::memory::{self, Out, tidings_bytes, write_sized};
use crate::port::{Waiter, tidings_port};
use crate::text::{TEXTS, give, tidings_text};

/// Deliveries as they were when they were asked for.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_deliveries {
    _private: [u8; 0],
}

/// One delivery. What it points to stays where it is until its list is freed; texts are UTF-8.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_delivery {
    /// Its own id.
    pub id: tidings_bytes,
    /// The firing's id: the `webhook-id`.
    pub event_id: tidings_bytes,
    /// The call it is about; `data` is NULL if it is about none.
    pub call_id: tidings_bytes,
    /// On whose behalf.
    pub principal: tidings_bytes,
    /// The trigger that fired.
    pub trigger: tidings_bytes,
    /// The route's id.
    pub route: tidings_bytes,
    /// `pending`, `leased`, `retrying`, `delivered`, `dead`, `expired` or `superseded`.
    pub state: tidings_bytes,
    /// The category of the last failure; `data` is NULL if there was none.
    pub last_error: tidings_bytes,
    /// Attempts begun.
    pub attempts: u32,
}

pub(crate) static DELIVERIES: Table<Vec<Delivery>> = Table::new(13);

/// Deliveries, oldest first and at most `limit`: of a principal, about a call, in a state, each only where it is not NULL.
/// Blocks for a read. Free them with `tidings_deliveries_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_deliveries(
    hub: *const tidings_hub,
    principal: *const c_char,
    principal_len: usize,
    call_id: *const c_char,
    call_id_len: usize,
    state: *const c_char,
    state_len: usize,
    limit: u32,
    deliveries: *mut *mut tidings_deliveries,
) -> tidings_result {
    entry("tidings_hub_deliveries", || {
        // SAFETY: the header's conventions.
        let (out, call_id, principal, state) = unsafe {
            (
                Out::new("deliveries", deliveries)?,
                memory::optional_text("call_id", call_id, call_id_len)?,
                memory::optional_text("principal", principal, principal_len)?,
                memory::optional_text("state", state, state_len)?,
            )
        };
        let limit = tidings_bridge::limit(i64::from(limit))?;
        out.set(DELIVERIES.insert(HUBS.get("hub", hub)?.deliveries(principal, call_id, state, limit)?));
        Ok(())
    })
}

/// How many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_deliveries_count(
    deliveries: *const tidings_deliveries,
    count: *mut usize,
) -> tidings_result {
    entry("tidings_deliveries_count", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("count", count) }?;
        out.set(DELIVERIES.get("deliveries", deliveries)?.len());
        Ok(())
    })
}

/// The delivery at `index`, from 0. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_deliveries_get(
    deliveries: *const tidings_deliveries,
    index: usize,
    delivery: *mut tidings_delivery,
    size: usize,
) -> tidings_result {
    entry("tidings_deliveries_get", || {
        let list = DELIVERIES.get("deliveries", deliveries)?;
        let found = list.get(index).ok_or_else(|| Error::argument("index", "must be less than the count"))?;
        let text = |text: &str| tidings_bytes::of(text.as_bytes());
        let optional = |text: &Option<String>| {
            text.as_ref().map_or(tidings_bytes::NONE, |text| tidings_bytes::of(text.as_bytes()))
        };
        let value = tidings_delivery {
            id: text(&found.id),
            event_id: text(&found.event_id),
            call_id: optional(&found.call_id),
            principal: text(&found.principal),
            trigger: text(&found.trigger),
            route: text(&found.route),
            state: text(found.state),
            last_error: optional(&found.last_error),
            attempts: found.attempts,
        };
        // SAFETY: the header's conventions.
        unsafe { write_sized("delivery", delivery, size, value) }
    })
}

/// Frees a list of deliveries. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_deliveries_free(deliveries: *mut tidings_deliveries) -> tidings_result {
    entry("tidings_deliveries_free", || DELIVERIES.free("deliveries", deliveries))
}

/// The body of a delivery, as it was sent or is to be sent; sets NULL if there is no such delivery. Blocks for a read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_delivery_body(
    hub: *const tidings_hub,
    id: *const c_char,
    id_len: usize,
    body: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_hub_delivery_body", || {
        // SAFETY: the header's conventions.
        let (out, id) = unsafe { (Out::new("body", body)?, memory::text("id", id, id_len)?) };
        let found = HUBS.get("hub", hub)?.delivery_body(id)?;
        out.set(found.map_or(std::ptr::null_mut(), |body| TEXTS.insert(body.into())));
        Ok(())
    })
}

/// Sends a dead letter again: a new delivery, whose id it answers. Blocks for a commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_send_again(
    hub: *const tidings_hub,
    id: *const c_char,
    id_len: usize,
    new_id: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_hub_send_again", || {
        // SAFETY: the header's conventions.
        let (out, id) = unsafe { (Out::new("new_id", new_id)?, memory::text("id", id, id_len)?) };
        give(out, HUBS.get("hub", hub)?.send_again(id)?)
    })
}

/// Forgets finished deliveries: of an id, of a principal, in a state, or whatever of them is not NULL; all, where all are.
/// Sets how many. Blocks for a commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_purge(
    hub: *const tidings_hub,
    id: *const c_char,
    id_len: usize,
    principal: *const c_char,
    principal_len: usize,
    state: *const c_char,
    state_len: usize,
    count: *mut u64,
) -> tidings_result {
    entry("tidings_hub_purge", || {
        // SAFETY: the header's conventions.
        let (out, id, principal, state) = unsafe {
            (
                Out::new("count", count)?,
                memory::optional_text("id", id, id_len)?,
                memory::optional_text("principal", principal, principal_len)?,
                memory::optional_text("state", state, state_len)?,
            )
        };
        out.set(HUBS.get("hub", hub)?.purge(id, principal, state)?);
        Ok(())
    })
}

/// Stops (1) or goes on with (0) deliveries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_set_paused(hub: *const tidings_hub, paused: i32) -> tidings_result {
    entry("tidings_hub_set_paused", || {
        let paused = memory::flag("paused", paused)?;
        HUBS.get("hub", hub)?.set_paused(paused)
    })
}

/// Stops deliveries, as `tidings_hub_set_paused` does, and waits until the attempts under way have ended, at most so many
/// milliseconds. The answer is a number: 1 if they have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_drain(
    hub: *const tidings_hub,
    wait_ms: u64,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_hub_drain", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(HUBS.get("hub", hub)?.drain(Duration::from_millis(wait_ms)))
    })
}
