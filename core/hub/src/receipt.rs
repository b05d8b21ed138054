//! Receipts: what became of deliveries and endpoints, as events on the stream (principal, `deliveries`). They are committed
//! with what they tell.

use tidings_proto::delivery::{Category, DeliveryState, DisableReason};
use tidings_proto::firing::{Receipt, disabled_json};
use tidings_proto::stream::StreamId;
use tidings_proto::wire::tidings::{EVENT_DEAD, EVENT_DELIVERED, EVENT_DISABLED, STREAM_DELIVERIES};
use tidings_store::{AppendShared, Delivery, Op, StreamKey, Subject};

use crate::core::Core;
use crate::stream::new_event;

/// A delivery is finished.
pub(crate) fn finished(
    core: &Core,
    delivery: &Delivery,
    state: DeliveryState,
    error: Option<Category>,
    attempts: u32,
) -> Option<Op> {
    let new = &delivery.new;
    let call_id = match &new.subject {
        Subject::Call(call) => Some(call.to_string()),
        Subject::Subscription(_) => None,
    };
    let receipt = Receipt {
        delivery_id: &new.id.to_string(),
        event_id: &new.event_id,
        call_id: call_id.as_deref(),
        trigger: &new.trigger,
        route: &new.route_id,
        state,
        attempts,
        error,
    };
    let kind = if state == DeliveryState::Delivered { EVENT_DELIVERED } else { EVENT_DEAD };
    append(core, &new.principal, kind, receipt.to_json())
}

/// An endpoint is disabled; `route` is the id of the route by which that came out.
pub(crate) fn disabled(core: &Core, principal: &str, route: Option<&str>, reason: DisableReason) -> Option<Op> {
    append(core, principal, EVENT_DISABLED, disabled_json(route, reason))
}

fn append(core: &Core, principal: &str, kind: &str, text: String) -> Option<Op> {
    if !core.options.receipts {
        return None;
    }
    Some(Op::AppendShared(AppendShared {
        key: StreamKey::new(principal, STREAM_DELIVERIES),
        new_id: StreamId(core.random().ok()?),
        events: vec![new_event(core, kind, text)],
        close: false,
        now: core.timeline.now(),
    }))
}
