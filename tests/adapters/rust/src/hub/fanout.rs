//! Outboxes: who is told what, counted and handed out.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidings::proto::fanout::mcp::MCP;
use tidings::proto::fanout::{Filter, Profile};
use tidings::proto::id::RequestId;
use tidings::{ListenerId, Outbox, Parcel, Publish, SinkId, SinkOptions};

use super::{Done, Stage, Trouble};
use crate::given::Given;
use crate::wait;

/// Outboxes with their sinks and listeners, by the names the scenario gave them.
#[derive(Default)]
pub(super) struct Outboxes {
    outboxes: HashMap<String, Outbox>,
    sinks: HashMap<String, SinkId>,
    listeners: HashMap<String, ListenerId>,
}

fn profile(given: Given<'_>) -> Result<Profile, Trouble> {
    let profile = Profile::new(&MCP, given.text("version")?, given.text("server")?, given.text("client")?);
    Ok(profile.map_err(|error| error.to_string())?)
}

fn named<'a, T>(all: &'a HashMap<String, T>, given: Given<'_>, member: &str) -> Result<&'a T, Trouble> {
    let name = given.text(member)?;
    Ok(all.get(name).ok_or_else(|| format!("no {member} is called {name}"))?)
}

impl Outboxes {
    fn outbox(&self, given: Given<'_>) -> Result<&Outbox, Trouble> {
        named(&self.outboxes, given, "outbox")
    }

    fn sink(&self, given: Given<'_>) -> Result<SinkId, Trouble> {
        named(&self.sinks, given, "sink").copied()
    }

    fn listener(&self, given: Given<'_>) -> Result<ListenerId, Trouble> {
        named(&self.listeners, given, "listener").copied()
    }

    fn sink_name(&self, sink: SinkId) -> Option<&str> {
        self.sinks.iter().find(|(_, other)| **other == sink).map(|(name, _)| name.as_str())
    }

    /// By the names of their connections, between which no order is promised.
    fn told(&self, parcels: Vec<Parcel>) -> Result<Vec<Value>, Trouble> {
        let mut told = parcels.iter().map(|parcel| self.notice(parcel)).collect::<Result<Vec<_>, _>>()?;
        told.sort_by(|a, b| a[0].as_str().cmp(&b[0].as_str()));
        Ok(told)
    }

    fn notice(&self, parcel: &Parcel) -> Result<Value, Trouble> {
        let (sink, listener) = match parcel {
            Parcel::Frame { sink, listener, .. } | Parcel::Finish { sink, listener } => (*sink, *listener),
        };
        let (method, params) = match parcel {
            Parcel::Frame { frame, tag, .. } => (Some(frame.method()), frame.params(tag.as_ref())),
            Parcel::Finish { .. } => (None, None),
        };
        let params: Option<Value> =
            params.map(|text| serde_json::from_str(&text)).transpose().map_err(|error| error.to_string())?;
        let listener = self.listeners.iter().find(|(_, other)| **other == listener).map(|(name, _)| name);
        Ok(json!([self.sink_name(sink), listener, method, params]))
    }
}

impl Stage {
    /// The answer to a step about outboxes; none where it is not about them.
    pub(super) fn fan_out(&mut self, op: &str, given: Given<'_>) -> Option<Done> {
        Some(match op {
            "hub.outbox" => self.new_outbox(given),
            "hub.notify" => self.notify(given),
            "hub.failed_sinks" => self.failed_sinks(),
            "outbox.add_sink" => self.add_sink(given),
            "outbox.attend" => self.attend(given),
            "outbox.listen" => self.listen(given),
            "outbox.next" => self.next_notices(given),
            _ => return self.fan_out_more(op, given),
        })
    }

    fn fan_out_more(&mut self, op: &str, given: Given<'_>) -> Option<Done> {
        let all = &self.outboxes;
        let done = || -> Result<Option<Value>, Trouble> {
            Ok(Some(match op {
                "outbox.open" => {
                    all.outbox(given)?.open(all.listener(given)?);
                    json!({})
                }
                "outbox.subscribe" => {
                    all.outbox(given)?.subscribe(all.listener(given)?, &profile(given)?, given.text("uri")?)?;
                    json!({})
                }
                "outbox.unsubscribe" => {
                    all.outbox(given)?.unsubscribe(all.listener(given)?, &profile(given)?, given.text("uri")?);
                    json!({})
                }
                "outbox.set_reachable" => {
                    all.outbox(given)?.set_reachable(all.sink(given)?, given.bool("reachable")?);
                    json!({})
                }
                "outbox.end" => {
                    all.outbox(given)?.end(all.listener(given)?);
                    json!({})
                }
                "outbox.end_all" => {
                    all.outbox(given)?.end_all();
                    json!({})
                }
                "outbox.cancel" => json!({"ended": all.outbox(given)?.cancel(all.listener(given)?)}),
                "outbox.drop_sink" => json!({"listeners": all.outbox(given)?.drop_sink(all.sink(given)?)}),
                "outbox.broke" => json!({"listeners": all.outbox(given)?.broke(all.sink(given)?)}),
                "outbox.written" => {
                    json!({"alive": all.outbox(given)?.written(all.sink(given)?, given.num("count")?)})
                }
                "outbox.take" => json!({"notices": all.told(all.outbox(given)?.take(usize::MAX))?}),
                "outbox.count" => json!({"listeners": all.outbox(given)?.listeners()}),
                _ => return Ok(None),
            }))
        };
        done().transpose()
    }

    fn new_outbox(&mut self, given: Given<'_>) -> Done {
        let outbox = self.hub()?.outbox()?;
        self.outboxes.outboxes.insert(given.text("as")?.to_owned(), outbox);
        Ok(json!({}))
    }

    fn notify(&mut self, given: Given<'_>) -> Done {
        let publish = Publish {
            kinds: &given.texts("kinds")?,
            name: given.maybe_text("uri")?,
            audience: given.maybe_text("audience")?,
        };
        let fanout = self.hub()?.notify(publish)?;
        Ok(json!({"told": fanout.told, "skipped": fanout.skipped, "failed": fanout.failed}))
    }

    fn failed_sinks(&mut self) -> Done {
        let failed = self.hub()?.failed_sinks()?;
        Ok(json!({"sinks": failed.into_iter().map(|sink| self.outboxes.sink_name(sink)).collect::<Vec<_>>()}))
    }

    fn add_sink(&mut self, given: Given<'_>) -> Done {
        let options = SinkOptions {
            principal: given.maybe_text("principal")?,
            deadline: given.maybe_num("deadlineMs")?.map(Duration::from_millis),
        };
        let sink = self.outboxes.outbox(given)?.add_sink(options)?;
        self.outboxes.sinks.insert(given.text("as")?.to_owned(), sink);
        Ok(json!({}))
    }

    fn attend(&mut self, given: Given<'_>) -> Done {
        let listener = self.outboxes.outbox(given)?.attend(self.outboxes.sink(given)?, &profile(given)?)?;
        self.outboxes.listeners.insert(given.text("as")?.to_owned(), listener);
        Ok(json!({}))
    }

    fn listen(&mut self, given: Given<'_>) -> Done {
        let profile = profile(given)?;
        let id = RequestId::parse(given.text("id")?.as_bytes()).map_err(|error| error.to_string())?;
        let honoured = Filter::parse(&MCP, given.text("filter")?).and_then(|filter| filter.honoured(&profile));
        let honoured = honoured.map_err(|error| error.to_string())?;
        let listener = self.outboxes.outbox(given)?.listen(self.outboxes.sink(given)?, &profile, &id, honoured)?;
        self.outboxes.listeners.insert(given.text("as")?.to_owned(), listener);
        Ok(json!({}))
    }

    /// Waits for that many notices.
    fn next_notices(&mut self, given: Given<'_>) -> Done {
        let (outbox, count) = (self.outboxes.outbox(given)?, given.num::<usize>("count")?);
        let mut parcels = Vec::new();
        while parcels.len() < count {
            wait(outbox.ready())?;
            parcels.extend(outbox.take(usize::MAX));
        }
        Ok(json!({"notices": self.outboxes.told(parcels)?}))
    }
}
