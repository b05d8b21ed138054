//! Routes that end in this program: places that take deliveries, and the deliveries that they are handed.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use tidings_bridge::{Answer, Error, ErrorCode, HostDelivery, Offer, Outlet};

use crate::answer::tidings_answer;
use crate::entry::{Result, entry, tidings_result};
use crate::handle::Table;
use crate::hub::{HUBS, tidings_hub};
use crate::memory::{self, Out, tidings_bytes, write_sized};
use crate::port::{Waiter, tidings_port};
use crate::text::{give, tidings_text};

/// A place that takes deliveries, until it is closed or freed.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_outlet {
    _private: [u8; 0],
}

/// A delivery in this program's hands, to be answered once.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_host_delivery {
    _private: [u8; 0],
}

/// What there is to know of a delivery. What it points to stays where it is until the delivery is freed; texts are UTF-8.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_host_delivery_facts {
    /// Its own id.
    pub id: tidings_bytes,
    /// The firing's id, the same on every attempt and every route.
    pub event_id: tidings_bytes,
    /// The call it is about; `data` is NULL if it is about none.
    pub call_id: tidings_bytes,
    /// On whose behalf.
    pub principal: tidings_bytes,
    /// The trigger that fired.
    pub trigger: tidings_bytes,
    /// The route's id.
    pub route: tidings_bytes,
    /// The route's type.
    pub route_type: tidings_bytes,
    /// What the client named; `data` is NULL if it named nothing.
    pub endpoint: tidings_bytes,
    /// The JSON text that a webhook would carry.
    pub body: tidings_bytes,
    /// Attempts begun, this one included.
    pub attempt: u32,
    /// The signal to ring with, for a route of type `signal`; else `data` is NULL.
    pub signal: tidings_bytes,
}

/// It may go better another time: the delivery is tried again.
pub const TIDINGS_REFUSE_FAILED: i32 = 1;
/// It is not wanted: the next route has its turn.
pub const TIDINGS_REFUSE_REFUSED: i32 = 2;
/// The peer is gone: the next route has its turn.
pub const TIDINGS_REFUSE_UNREACHABLE: i32 = 3;
/// The peer is not ready for it: the next route has its turn.
pub const TIDINGS_REFUSE_NOT_READY: i32 = 4;

pub(crate) static OUTLETS: Table<Outlet> = Table::of_process(22);
pub(crate) static HANDED: Table<Handed> = Table::of_process(23);

/// A delivery, where the answer keeps it that brought it.
pub(crate) struct Handed(Arc<Answer>);

impl Handed {
    pub(crate) fn new(answer: Arc<Answer>) -> Self {
        Self(answer)
    }

    fn delivery(&self) -> Result<&HostDelivery> {
        match &*self.0 {
            Answer::Delivery(Some(delivery)) => Ok(delivery),
            _ => Err(Error::new(ErrorCode::Internal, "delivery: its answer has none")),
        }
    }
}

/// # Safety
/// As [`memory::text`].
unsafe fn offer(
    route_type: (*const c_char, usize),
    name: (*const c_char, usize),
    peer: (*const c_char, usize),
) -> Result<Offer> {
    // SAFETY: the caller's promise.
    let (route_type, name, peer) = unsafe {
        (
            memory::text("route_type", route_type.0, route_type.1)?,
            memory::optional_text("name", name.0, name.1)?,
            memory::optional_text("peer", peer.0, peer.1)?,
        )
    };
    Ok(Offer {
        route_type: route_type.to_owned(),
        name: name.map(str::to_owned),
        peer: peer.map(str::to_owned),
        limit: None,
        timeout: None,
    })
}

/// Offers a place that takes deliveries: of a `route_type` `message` or `callback` with the `name` of a handler; of `message`
/// or `signal` for the connection that `TIDINGS_BEGIN_PEER` named, `peer`; or of a type of the program's own, without either
/// (NULL). `limit`: deliveries in the program's hands or queued for it, the others wait in the store; `timeout_ms`: how long
/// one may take. 0 leaves each as the library has it by default. The first use of the hub opens it, which blocks. Free it
/// with `tidings_outlet_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_outlet(
    hub: *const tidings_hub,
    route_type: *const c_char,
    route_type_len: usize,
    name: *const c_char,
    name_len: usize,
    peer: *const c_char,
    peer_len: usize,
    limit: u32,
    timeout_ms: u64,
    outlet: *mut *mut tidings_outlet,
) -> tidings_result {
    entry("tidings_hub_outlet", || {
        // SAFETY: the header's conventions.
        let (out, mut offer) = unsafe {
            (Out::new("outlet", outlet)?, offer((route_type, route_type_len), (name, name_len), (peer, peer_len))?)
        };
        offer.limit = (limit > 0).then_some(limit);
        offer.timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        out.set(OUTLETS.insert(HUBS.get("hub", hub)?.outlet(offer)?));
        Ok(())
    })
}

/// Whether this process offers such a place now: sets 1 or 0. The arguments are those of `tidings_hub_outlet`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_offers(
    hub: *const tidings_hub,
    route_type: *const c_char,
    route_type_len: usize,
    name: *const c_char,
    name_len: usize,
    peer: *const c_char,
    peer_len: usize,
    offered: *mut i32,
) -> tidings_result {
    entry("tidings_hub_offers", || {
        // SAFETY: the header's conventions.
        let (out, offer) = unsafe {
            (Out::new("offered", offered)?, offer((route_type, route_type_len), (name, name_len), (peer, peer_len))?)
        };
        out.set(i32::from(HUBS.get("hub", hub)?.offers(&offer)?));
        Ok(())
    })
}

/// Waits for the next delivery: take it with `tidings_answer_host_delivery`. Several may be waited for at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outlet_next(
    outlet: *const tidings_outlet,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_outlet_next", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(OUTLETS.get("outlet", outlet)?.next())
    })
}

/// Offers the place no longer: whoever waits is told that no more come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outlet_close(outlet: *const tidings_outlet) -> tidings_result {
    entry("tidings_outlet_close", || {
        OUTLETS.get("outlet", outlet)?.close();
        Ok(())
    })
}

/// Closes and frees an outlet. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outlet_free(outlet: *mut tidings_outlet) -> tidings_result {
    entry("tidings_outlet_free", || {
        if let Some(gone) = OUTLETS.remove("outlet", outlet)? {
            gone.close();
        }
        Ok(())
    })
}

/// What there is to know of a delivery. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_host_delivery_get(
    delivery: *const tidings_host_delivery,
    facts: *mut tidings_host_delivery_facts,
    size: usize,
) -> tidings_result {
    entry("tidings_host_delivery_get", || {
        let handed = HANDED.get("delivery", delivery)?;
        let found = handed.delivery()?;
        let text = |text: &str| tidings_bytes::of(text.as_bytes());
        let value = tidings_host_delivery_facts {
            id: text(&found.id),
            event_id: text(&found.event_id),
            call_id: tidings_bytes::of_optional(found.call_id.as_deref()),
            principal: text(&found.principal),
            trigger: text(&found.trigger),
            route: text(&found.route),
            route_type: text(&found.route_type),
            endpoint: tidings_bytes::of_optional(found.endpoint.as_deref()),
            body: tidings_bytes::of(&found.body),
            attempt: found.attempt,
            signal: tidings_bytes::of_optional(found.signal.as_deref()),
        };
        // SAFETY: the header's conventions.
        unsafe { write_sized("facts", facts, size, value) }
    })
}

/// The JSON-RPC notification that a route of type `message` sends: JSON text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_host_delivery_frame(
    delivery: *const tidings_host_delivery,
    frame: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_host_delivery_frame", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("frame", frame) }?;
        give(out, HANDED.get("delivery", delivery)?.delivery()?.frame())
    })
}

/// The program has it: sets 1; or 0: too late, or answered before, and it may come once more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_host_delivery_confirm(
    delivery: *const tidings_host_delivery,
    in_time: *mut i32,
) -> tidings_result {
    entry("tidings_host_delivery_confirm", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("in_time", in_time) }?;
        out.set(i32::from(HANDED.get("delivery", delivery)?.delivery()?.confirm()));
        Ok(())
    })
}

/// The program does not take it: `why` is one of `TIDINGS_REFUSE_…`. Sets 1; or 0: too late, or answered before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_host_delivery_refuse(
    delivery: *const tidings_host_delivery,
    why: i32,
    in_time: *mut i32,
) -> tidings_result {
    entry("tidings_host_delivery_refuse", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("in_time", in_time) }?;
        let delivery = HANDED.get("delivery", delivery)?;
        let why = match why {
            TIDINGS_REFUSE_FAILED => "failed",
            TIDINGS_REFUSE_REFUSED => "refused",
            TIDINGS_REFUSE_UNREACHABLE => "unreachable",
            TIDINGS_REFUSE_NOT_READY => "not_ready",
            _ => return Err(Error::argument("why", "must be one of TIDINGS_REFUSE_…")),
        };
        out.set(i32::from(delivery.delivery()?.refuse(why)?));
        Ok(())
    })
}

/// Frees a delivery. One that was not answered when the last that holds it goes, its answer included, has failed and is tried
/// again. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_host_delivery_free(delivery: *mut tidings_host_delivery) -> tidings_result {
    entry("tidings_host_delivery_free", || HANDED.free("delivery", delivery))
}
