//! I5: a trigger's effect is there exactly if its event is.

use tidings::proto::delivery::{EndpointKey, EndpointState};
use tidings::store::{
    CallId, CallOutcome, CallRecord, Commit, MemoryStore, NewDelivery, Op, Store, StreamKey, Subject,
};

use super::Model;

/// One route of a config: where it leads, the plain names of its triggers, and those with conditions.
#[derive(Clone, Debug)]
pub(crate) struct RouteModel {
    pub(crate) kind: String,
    pub(crate) endpoint: String,
    pub(crate) triggers: Vec<String>,
    pub(crate) conditional: Vec<String>,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct CallModel {
    pub(crate) principal: String,
    pub(crate) stream: StreamKey,
    pub(crate) routes: Vec<RouteModel>,
    pub(crate) outcome: Option<CallOutcome>,
}

fn routes(config: &[u8]) -> Vec<RouteModel> {
    let config: serde_json::Value = serde_json::from_slice(config).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let route = |route: &serde_json::Value| RouteModel {
        kind: text(&route["type"]),
        endpoint: text(&route["endpoint"]),
        conditional: route["triggers"].as_array().into_iter().flatten().map(|trigger| text(&trigger["on"])).collect(),
        triggers: route["triggers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .filter(|name| !name.is_empty())
            .collect(),
    };
    config["routes"].as_array().into_iter().flatten().map(route).collect()
}

impl Model {
    pub(super) fn call_begun(&mut self, record: &CallRecord) {
        let call = CallModel {
            principal: record.principal.clone(),
            stream: record.stream.clone(),
            routes: routes(&record.config.0),
            outcome: None,
        };
        let before = self.calls.insert(record.id, call);
        self.record.hold("I5", before.is_none(), || format!("call {} began twice", record.id));
    }

    pub(super) fn call_ended(&mut self, id: CallId, outcome: &CallOutcome, commit: &Commit, store: &MemoryStore) {
        let record = self.record.clone();
        let Some(call) = self.calls.get_mut(&id) else {
            return record.violated("I5", format!("call {id} ended and never began"));
        };
        record.hold("I5", call.outcome.is_none(), || format!("call {id} ended twice: {:?}, {outcome:?}", call.outcome));
        call.outcome = Some(outcome.clone());
        let mine = |new: &NewDelivery| new.subject == Subject::Call(id) && new.trigger == outcome.status;
        let fired = commit.ops.iter().filter(|op| matches!(op, Op::Enqueue(new) if mine(new))).count();
        let asked: Vec<_> = call.routes.iter().filter(|route| route.triggers.contains(&outcome.status)).collect();
        // A route that leads nowhere at this moment is passed over.
        let may_fail = |route: &&RouteModel| {
            let key = EndpointKey::new(&route.kind, &call.principal, &route.endpoint);
            let known = store.endpoint(key).ok().flatten();
            route.kind != "webhook" || known.is_some_and(|known| known.standing.state == EndpointState::Disabled)
        };
        let least = usize::from(!asked.is_empty() && !asked.iter().all(may_fail));
        let may_ask = |route: &RouteModel| route.conditional.contains(&outcome.status);
        let most = usize::from(!asked.is_empty() || call.routes.iter().any(may_ask));
        record.hold("I5", (least..=most).contains(&fired), || {
            format!("call {id} ended as {}: {fired} deliveries, {} routes ask for it", outcome.status, asked.len())
        });
    }

    /// What made a delivery come to be stands in the same commit.
    pub(super) fn has_cause(&self, new: &NewDelivery, commit: &Commit) -> bool {
        let Subject::Call(call) = &new.subject else { return false };
        let own_stream = |stream| {
            let key = self.streams.get(stream).map(|stream| &stream.key);
            key.is_some() && key == self.calls.get(call).map(|call| &call.stream)
        };
        commit.ops.iter().any(|op| match op {
            Op::EndCall { id, outcome, .. } => id == call && outcome.status == new.trigger,
            Op::FireTimer { call: of, .. } => of == call,
            Op::EndAggregate { .. } => true,
            Op::Append { stream, .. } => {
                !["completed", "failed", "cancelled", "timeout"].contains(&&*new.trigger) && own_stream(stream)
            }
            Op::Settle(settle) => {
                let before = self.deliveries.get(&settle.id);
                settle.state == tidings::store::DeliveryState::Superseded
                    && before.is_some_and(|before| before.event_id == new.event_id && before.route_id != new.route_id)
            }
            _ => false,
        })
    }
}
