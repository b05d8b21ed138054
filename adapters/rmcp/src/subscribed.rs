//! What a session has subscribed to, kept so that a process that restores the session knows.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tidings::{After, Durability, Hub, NewEvent, ReadLimits};

use crate::event_log::scope_of;

/// The stream in a session's scope.
const NAME: &str = "subscriptions";
/// From then on it is told of the resource in the payload.
const SUBSCRIBED: &str = "io.tidings.session.subscribed";
/// From then on it is not.
const UNSUBSCRIBED: &str = "io.tidings.session.unsubscribed";

/// On disk when this returns.
pub(crate) async fn note(hub: &Hub, session: &str, uri: &str, subscribed: bool) -> tidings::Result<()> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let event = NewEvent {
        kind: (if subscribed { SUBSCRIBED } else { UNSUBSCRIBED }).to_owned(),
        payload: serde_json::json!({"uri": uri}).to_string().into_bytes().into(),
        time: i64::try_from(time.as_millis()).unwrap_or(i64::MAX),
        identity: None,
    };
    hub.stream(scope_of(session), NAME)?.append(vec![event], Durability::Disk).await.map(drop)
}

/// What it is subscribed to, as far as retention has left it.
pub(crate) fn of(hub: &Hub, session: &str) -> tidings::Result<BTreeSet<String>> {
    let stream = hub.stream(scope_of(session), NAME)?;
    let mut uris = BTreeSet::new();
    let mut after = After::Earliest;
    loop {
        let read = stream.read(after, ReadLimits::default())?;
        let Some(last) = read.events.last() else { return Ok(uris) };
        after = After::Seq(last.seq);
        for event in &read.events {
            let payload: Value = serde_json::from_slice(&event.payload).unwrap_or_default();
            let Some(uri) = payload["uri"].as_str() else { continue };
            if event.kind == SUBSCRIBED {
                uris.insert(uri.to_owned());
            } else {
                uris.remove(uri);
            }
        }
    }
}
