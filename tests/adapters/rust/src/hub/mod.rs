//! The steps of scenarios: one hub at a time, and what it gave out under the names the scenario uses.

mod clock;
mod fanout;
mod faulty;
mod options;
mod outlets;
mod tasks;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidings::proto::id::RequestId;
use tidings::proto::stream::{Cursor, Gap};
use tidings::proto::trigger::Reason;
use tidings::store::{DeliveryState, StoreErrorKind, Subject};
use tidings::{
    After, BeginCall, Call, Durability, Ended, Error, Event, Hub, NewEvent, Outlet, ReadLimits, Stream, SystemClock,
    Tail, Writer,
};

use crate::given::Given;
use crate::rules::faults_told;
use crate::{Answer, wait};

use clock::VirtualClock;
use fanout::Outboxes;
use faulty::FaultyStore;
use tasks::Asks;

/// A tail, and what it read ahead of what was asked for.
struct Reader {
    tail: Tail,
    ahead: VecDeque<Value>,
}

/// What lives between the steps of a scenario.
pub(crate) struct Stage {
    clock: Arc<VirtualClock>,
    faulty: Option<Arc<FaultyStore>>,
    hub: Option<Hub>,
    writers: HashMap<String, Writer>,
    readers: HashMap<String, Reader>,
    calls: HashMap<String, Arc<Call>>,
    asks: Asks,
    outlets: HashMap<String, Outlet>,
    outboxes: Outboxes,
}

/// An error is an outcome like any other; that an adapter cannot do what is asked is not.
enum Trouble {
    Library(Error),
    Adapter(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<String> for Trouble {
    fn from(error: String) -> Self {
        Self::Adapter(error)
    }
}

type Done = Result<Value, Trouble>;

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            clock: VirtualClock::start(),
            faulty: None,
            hub: None,
            writers: HashMap::new(),
            readers: HashMap::new(),
            calls: HashMap::new(),
            asks: Asks::default(),
            outlets: HashMap::new(),
            outboxes: Outboxes::default(),
        }
    }

    /// The answer to a step; none where this is no step.
    pub(crate) fn answer(&mut self, op: &str, given: Given<'_>) -> Option<Answer> {
        let done = match op {
            "stage.reset" => Ok(self.reset()),
            "clock.set" => self.clock.set(given).map_err(Trouble::from),
            "hub.open" => self.open(given),
            "hub.open_faulty" => self.open_faulty(given),
            "store.fail" => self.fail_store(given),
            "hub.close" => self.close(),
            "hub.resume" => self.resume(given),
            "hub.outlet" => self.outlet(given),
            "outlet.next" => self.next_handed(given),
            "hub.deliveries" => self.deliveries(given),
            "hub.stats" => self.stats(),
            "hub.new_writer" => self.new_writer(given),
            "stream.append" => self.append_shared(given),
            "stream.close" => self.close_stream(given),
            "stream.claim" => self.claim(given),
            "stream.read" => self.read(given),
            "stream.tail" => self.tail(given),
            "writer.append" => self.append(given),
            "writer.cursor" => self.writer(given).map(|writer| json!({"cursor": writer.cursor()})),
            "writer.flush" => self.flush(given),
            "writer.close" => self.close_writer(given),
            "tail.next" => self.next(given),
            "call.begin" => self.begin(given),
            "call.emit" => self.emit(given),
            "call.fire" => self.fire(given),
            "call.disconnected" => self.disconnected(given),
            "call.complete" => self.complete(given),
            "call.fail" => self.fail(given),
            "call.cancel" => self.cancel(given),
            "call.ended" => self.ended(given),
            "call.ask" => self.ask(given),
            "ask.answers" => self.answers(given),
            "hub.task" => self.task(given),
            "hub.answer_task" => self.answer_task(given),
            "hub.cancel_task" => self.cancel_task(given),
            _ => self.fan_out(op, given)?,
        };
        Some(match done {
            Ok(out) => Ok(out),
            Err(Trouble::Library(error)) => Ok(error_told(&error)),
            Err(Trouble::Adapter(error)) => Err(error),
        })
    }

    fn reset(&mut self) -> Value {
        self.readers.clear();
        self.writers.clear();
        self.calls.clear();
        self.outlets.clear();
        self.outboxes = Outboxes::default();
        if let Some(hub) = self.hub.take() {
            hub.close(Duration::from_secs(10));
        }
        self.asks = Asks::default(); // which have ended with the hub
        self.clock.reset();
        json!({})
    }

    fn hub(&self) -> Result<&Hub, Trouble> {
        self.hub.as_ref().ok_or_else(|| Trouble::Adapter("no hub is open".to_owned()))
    }

    fn open(&mut self, given: Given<'_>) -> Done {
        let options = options::read(given.at("options"))?;
        let url = given.text("url")?;
        let hub = if self.clock.is_set() {
            Hub::with_clock(url, options, Arc::clone(&self.clock) as _)?
        } else {
            Hub::with_clock(url, options, Arc::new(SystemClock))?
        };
        hub.ensure_open()?;
        self.hub = Some(hub);
        Ok(json!({}))
    }

    /// A hub over a memory store whose medium can fail.
    fn open_faulty(&mut self, given: Given<'_>) -> Done {
        let store = Arc::new(FaultyStore::default());
        let options = options::read(given.at("options"))?;
        self.hub = Some(Hub::over(Arc::clone(&store) as _, options, Arc::new(SystemClock))?);
        self.faulty = Some(store);
        Ok(json!({}))
    }

    fn fail_store(&mut self, given: Given<'_>) -> Done {
        let fault = match given.maybe_text("fault")? {
            None => None,
            Some("io") => Some(StoreErrorKind::Io),
            Some("full") => Some(StoreErrorKind::Full),
            Some("read_only") => Some(StoreErrorKind::ReadOnly),
            Some(other) => return Err(format!("no fault is called {other}").into()),
        };
        self.faulty.as_ref().ok_or_else(|| "no faulty store is open".to_owned())?.set(fault);
        Ok(json!({}))
    }

    fn close(&mut self) -> Done {
        let done = self.hub()?.close(Duration::from_secs(10));
        Ok(json!({"complete": done}))
    }

    fn stats(&mut self) -> Done {
        let stats = self.hub()?.stats();
        Ok(json!({"events": stats.events, "lost": stats.lost, "refused": stats.refused, "failing": stats.failing}))
    }

    fn stream(&self, given: Given<'_>) -> Result<Stream, Trouble> {
        Ok(self.hub()?.stream(given.text("scope")?, given.text("name")?)?)
    }

    fn append_shared(&mut self, given: Given<'_>) -> Done {
        let kind = given.maybe_text("type")?.unwrap_or("message");
        let time = self.clock.unix_ms();
        let event = |payload: &&str| NewEvent {
            kind: kind.to_owned(),
            payload: payload.as_bytes().to_vec().into(),
            time,
            identity: None,
        };
        let events = given.texts("payloads")?.iter().map(event).collect();
        let (stream, durability) = (self.stream(given)?, Durability::Process);
        let close = given.has("close") && given.bool("close")?;
        let first = match given.maybe_text("key")? {
            Some(key) => wait(stream.append_once(key, events, close, durability))?,
            None if close => wait(stream.append_and_close(events, durability))?,
            None => wait(stream.append(events, durability))?,
        };
        Ok(json!({"first": first}))
    }

    fn close_stream(&mut self, given: Given<'_>) -> Done {
        wait(self.stream(given)?.close(Vec::new(), Durability::Process))?;
        Ok(json!({}))
    }

    fn claim(&mut self, given: Given<'_>) -> Done {
        let writer = wait(self.stream(given)?.claim())?;
        self.writers.insert(given.text("as")?.to_owned(), writer);
        Ok(json!({}))
    }

    fn new_writer(&mut self, given: Given<'_>) -> Done {
        let writer = self.hub()?.new_writer(given.text("scope")?, given.text("name")?)?;
        self.writers.insert(given.text("as")?.to_owned(), writer);
        Ok(json!({}))
    }

    fn writer(&self, given: Given<'_>) -> Result<&Writer, Trouble> {
        let name = given.text("writer")?;
        self.writers.get(name).ok_or_else(|| Trouble::Adapter(format!("no writer is called {name}")))
    }

    fn append(&mut self, given: Given<'_>) -> Done {
        let writer = self.writer(given)?;
        let kind = given.maybe_text("type")?.unwrap_or("message");
        let seq = writer.append(kind, given.text("payload")?.as_bytes(), None)?;
        Ok(json!({"cursor": writer.cursor_after(seq)}))
    }

    fn flush(&mut self, given: Given<'_>) -> Done {
        let durability = match given.maybe_text("durability")? {
            Some("disk") => Durability::Disk,
            _ => Durability::Process,
        };
        wait(self.writer(given)?.flush(durability))?;
        Ok(json!({}))
    }

    fn close_writer(&mut self, given: Given<'_>) -> Done {
        self.writer(given)?.close()?;
        Ok(json!({}))
    }

    fn read(&mut self, given: Given<'_>) -> Done {
        let read = self.stream(given)?.read(after(given)?, ReadLimits::default())?;
        Ok(json!({
            "events": read.events.iter().map(event_told).collect::<Vec<_>>(),
            "gap": read.gap.map(|gap| gap_told(&gap)),
            "cursor": read.cursor.to_string(),
            "headSeq": read.head_seq,
            "ended": read.ended,
        }))
    }

    fn keep(&mut self, given: Given<'_>, tail: Tail) -> Done {
        self.readers.insert(given.text("as")?.to_owned(), Reader { tail, ahead: VecDeque::new() });
        Ok(json!({}))
    }

    fn tail(&mut self, given: Given<'_>) -> Done {
        let tail = self.stream(given)?.tail(after(given)?)?;
        self.keep(given, tail)
    }

    fn resume(&mut self, given: Given<'_>) -> Done {
        let tail = self.hub()?.resume(given.text("scope")?, given.text("cursor")?)?;
        self.keep(given, tail)
    }

    /// Waits for that many events and gaps, or for the end.
    fn next(&mut self, given: Given<'_>) -> Done {
        let name = given.text("tail")?;
        let reader = self.readers.get_mut(name).ok_or_else(|| format!("no tail is called {name}"))?;
        let (count, mut ended) = (given.num::<usize>("count")?, false);
        while reader.ahead.len() < count && !ended {
            match wait(reader.tail.next()) {
                None => ended = true,
                Some(read) => {
                    let read = read?;
                    reader.ahead.extend(read.gap.iter().map(|gap| json!({"gap": gap_told(gap)})));
                    reader.ahead.extend(read.events.iter().map(event_told));
                }
            }
        }
        let items: Vec<_> = reader.ahead.drain(..count.min(reader.ahead.len())).collect();
        Ok(json!({"items": items, "ended": ended}))
    }

    fn begin(&mut self, given: Given<'_>) -> Done {
        let config = if given.has("config") { Some(given.bytes("config")?) } else { None };
        let request_id = given.maybe_text("requestId")?.unwrap_or("1");
        let begin = BeginCall {
            config: config.as_deref(),
            route_types: &if given.has("routeTypes") { given.texts("routeTypes")? } else { vec!["webhook"] },
            principal: given.maybe_text("principal")?.unwrap_or("anyone"),
            session: None,
            peer: Some("calling"),
            open: &if given.has("open") { given.texts("open")? } else { Vec::new() },
            request_id: &RequestId::parse(request_id.as_bytes()).map_err(|error| error.to_string())?,
            tool: given.maybe_text("tool")?.unwrap_or("tool"),
            timeout: given.maybe_num("timeoutMs")?.map(Duration::from_millis),
            task: tasks::terms(given)?,
        };
        let call = wait(self.hub()?.begin_call(begin))?;
        let told = json!({
            "callId": call.id().to_string(),
            "acknowledgement": call.acknowledgement(),
            "accepted": call.accepted_routes(),
            "ignored": call.ignored_triggers(),
        });
        self.calls.insert(given.text("as")?.to_owned(), Arc::new(call));
        Ok(told)
    }

    fn call(&self, given: Given<'_>) -> Result<&Arc<Call>, Trouble> {
        let name = given.text("call")?;
        self.calls.get(name).ok_or_else(|| Trouble::Adapter(format!("no call is called {name}")))
    }

    fn emit(&mut self, given: Given<'_>) -> Done {
        let seq = self.call(given)?.emit(given.text("type")?, given.text("payload")?.as_bytes())?;
        Ok(json!({"seq": seq}))
    }

    fn fire(&mut self, given: Given<'_>) -> Done {
        let seq = self.call(given)?.fire(given.text("name")?, given.text("payload")?.as_bytes())?;
        Ok(json!({"seq": seq}))
    }

    fn disconnected(&mut self, given: Given<'_>) -> Done {
        self.call(given)?.disconnected()?;
        Ok(json!({}))
    }

    fn complete(&mut self, given: Given<'_>) -> Done {
        Ok(ended_told(wait(self.call(given)?.complete(&given.bytes("result")?))?))
    }

    fn fail(&mut self, given: Given<'_>) -> Done {
        let error = given.maybe_text("error")?.map(str::as_bytes);
        Ok(ended_told(wait(self.call(given)?.fail(error, reason(given)?))?))
    }

    fn cancel(&mut self, given: Given<'_>) -> Done {
        Ok(ended_told(wait(self.call(given)?.cancel(reason(given)?))?))
    }

    fn ended(&mut self, given: Given<'_>) -> Done {
        Ok(ended_told(wait(self.call(given)?.ended())?))
    }

    fn deliveries(&mut self, given: Given<'_>) -> Done {
        let subject = if given.has("call") { Some(Subject::Call(self.call(given)?.id())) } else { None };
        let state = given.maybe_text("state")?.and_then(DeliveryState::from_text);
        let principal = given.maybe_text("principal")?;
        let deliveries = self.hub()?.deliveries(principal, subject.as_ref(), state, 100)?;
        let told = deliveries.iter().map(|delivery| {
            json!({
                "route": delivery.route_id, "trigger": delivery.trigger, "state": delivery.state.as_str(),
                "attempts": delivery.attempts, "lastError": delivery.last_error, "eventId": delivery.event_id,
            })
        });
        Ok(json!({"deliveries": told.collect::<Vec<_>>()}))
    }
}

fn reason(given: Given<'_>) -> Result<Option<Reason>, String> {
    let text = given.maybe_text("reason")?;
    text.map(|text| Reason::parse(text).ok_or_else(|| format!("no reason is called {text}"))).transpose()
}

fn after(given: Given<'_>) -> Result<After, Trouble> {
    if let Some(cursor) = given.maybe_text("cursor")? {
        return Ok(After::Cursor(Cursor::parse(cursor).map_err(|error| error.to_string())?));
    }
    Ok(given.maybe_num("after")?.map_or(After::Earliest, After::Seq))
}

fn event_told(event: &Event) -> Value {
    match std::str::from_utf8(&event.payload) {
        Ok(payload) => json!([event.seq, event.kind, payload]),
        Err(_) => json!([event.seq, event.kind, {"hex": crate::given::to_hex(&event.payload)}]),
    }
}

fn gap_told(gap: &Gap) -> Value {
    json!({"reason": gap.reason.as_str(), "earliestSeq": gap.earliest_seq, "headSeq": gap.head_seq})
}

fn ended_told(ended: Ended) -> Value {
    json!({
        "outcome": ended.outcome.as_str(), "reason": ended.reason, "ours": ended.ours, "committed": ended.committed,
        "undelivered": ended.undelivered,
    })
}

fn error_told(error: &Error) -> Value {
    let mut told = json!({"error": error.code().as_str()});
    if let Some(faults) = faults_told(error) {
        told["faults"] = faults["faults"].clone();
    }
    told
}
