//! Receipts: what a principal is told of its deliveries. Ids and categories, never an address, a secret or an endpoint's
//! own text.

use crate::delivery::{Category, DeliveryState, DisableReason};
use crate::json;

/// A delivery that is finished.
#[derive(Debug, Clone, Copy)]
pub struct Receipt<'a> {
    /// The delivery's own id.
    pub delivery_id: &'a str,
    /// The firing's id: the `webhook-id`.
    pub event_id: &'a str,
    /// The call it is about, if it is about one.
    pub call_id: Option<&'a str>,
    /// The trigger that fired.
    pub trigger: &'a str,
    /// The route's id.
    pub route: &'a str,
    /// How it ended.
    pub state: DeliveryState,
    /// Attempts made.
    pub attempts: u32,
    /// The category of the last failure, for one that was not delivered.
    pub error: Option<Category>,
}

impl Receipt<'_> {
    /// `{deliveryId, eventId, callId?, trigger, route, state, attempts, error?}`. Of the category it says what the one who
    /// named the endpoint may know ([`Category::public`]).
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        let mut text = |name, value: Option<&str>| {
            if let Some(value) = value {
                json::push_name(&mut out, name);
                json::push_string(&mut out, value);
            }
        };
        text("deliveryId", Some(self.delivery_id));
        text("eventId", Some(self.event_id));
        text("callId", self.call_id);
        text("trigger", Some(self.trigger));
        text("route", Some(self.route));
        text("state", Some(self.state.as_str()));
        json::push_name(&mut out, "attempts");
        out.push_str(&self.attempts.to_string());
        if let Some(category) = self.error {
            json::push_name(&mut out, "error");
            json::push_string(&mut out, category.public().as_str());
        }
        out.push('}');
        out
    }
}

/// An endpoint that is disabled, by the id of the route by which that came out: `{route?, reason}`.
pub fn disabled_json(route: Option<&str>, reason: DisableReason) -> String {
    let mut out = String::from("{");
    if let Some(route) = route {
        json::push_name(&mut out, "route");
        json::push_string(&mut out, route);
    }
    json::push_name(&mut out, "reason");
    json::push_string(&mut out, reason.as_str());
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_says_no_more_than_it_may() {
        let receipt = Receipt {
            delivery_id: "d",
            event_id: "evt_1",
            call_id: Some("c"),
            trigger: "completed",
            route: "a\"b",
            state: DeliveryState::Dead,
            attempts: 12,
            error: Some(Category::Denied),
        };
        assert_eq!(
            receipt.to_json(),
            r#"{"deliveryId":"d","eventId":"evt_1","callId":"c","trigger":"completed","route":"a\"b","state":"dead","attempts":12,"error":"connection_refused"}"#
        );
        let delivered = Receipt { call_id: None, state: DeliveryState::Delivered, error: None, ..receipt };
        assert!(!delivered.to_json().contains("error") && !delivered.to_json().contains("callId"));
        assert_eq!(disabled_json(Some("r"), DisableReason::Gone), r#"{"route":"r","reason":"gone"}"#);
        assert_eq!(disabled_json(None, DisableReason::Failing), r#"{"reason":"failing"}"#);
    }
}
