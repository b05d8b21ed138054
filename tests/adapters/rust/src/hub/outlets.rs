//! Places in the host that deliveries go through.

use serde_json::json;
use tidings::proto::route::OutletName;
use tidings::{OutletOptions, Refusal};

use super::{Done, Stage};
use crate::given::Given;
use crate::wait;

impl Stage {
    pub(super) fn outlet(&mut self, given: Given<'_>) -> Done {
        let name = given.maybe_text("name")?;
        let name = match (given.text("type")?, name) {
            ("callback", Some(name)) => OutletName::callback(name),
            ("message", Some(name)) => OutletName::message(name),
            (own, _) => OutletName::route_type(own).map_err(str::to_owned)?,
        };
        let outlet = self.hub()?.outlet(name, OutletOptions::default())?;
        self.outlets.insert(given.text("as")?.to_owned(), outlet);
        Ok(json!({}))
    }

    /// Waits for the next delivery and answers it.
    pub(super) fn next_handed(&mut self, given: Given<'_>) -> Done {
        let name = given.text("outlet")?;
        let outlet = self.outlets.get(name).ok_or_else(|| format!("no outlet is called {name}"))?;
        let delivery = wait(outlet.next()).ok_or_else(|| format!("{name} is closed"))?;
        let told = json!({
            "route": delivery.route_id, "type": delivery.route_type, "endpoint": delivery.endpoint,
            "trigger": delivery.trigger, "attempt": delivery.attempt, "eventId": delivery.event_id,
            "body": String::from_utf8_lossy(&delivery.body),
        });
        match given.text("answer")? {
            "confirm" => delivery.confirm(),
            "refuse" => delivery.refuse(Refusal::Refused),
            _ => delivery.refuse(Refusal::Failed),
        };
        Ok(told)
    }
}
