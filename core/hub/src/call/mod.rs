//! Watched calls: accepted, run, and ended in exactly one outcome.

mod ask;
mod detach;
mod inner;
mod others;
mod triggers;

pub(crate) use detach::Rooms;
pub use detach::{DetachLimits, Room};
pub(crate) use inner::CallInner;
pub(crate) use others::{
    any, cancel_by_id, cancel_call, end_lost, end_timed_out, look, look_at, settle_all, shut_down,
};
pub(crate) use triggers::{fire_due_timers, tell_due_aggregates};

use std::sync::Arc;
use std::time::Duration;

use tidings_proto::call::effective_timeout;
use tidings_proto::config::{ConfigLimits, NotificationConfig};
use tidings_proto::firing::{self, Payload};
use tidings_proto::id::RequestId;
use tidings_proto::route::OutletName;
use tidings_proto::stream::StreamId;
use tidings_proto::trigger::{Outcome, Reason, Trigger, check_fire, classify_result};
use tidings_proto::wire;
use tidings_store::{
    CallId, CallRecord, Claimed, Commit, CommitError, Durability, Op, Refused, StreamKey, TaskTerms, TimerKind,
};

use crate::checks::Checks;
use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::notify::lock;
use crate::options::Options;
use crate::owned::Owned;
use crate::plan::{self, Fired};
use crate::policy::{self, Decided};
use crate::stream::Writer;
use crate::target::Target;
use crate::task;

/// The events of a call are the stream of this name in the scope of the call.
const EVENTS: &str = "events";

/// A tool call that asks to be watched.
#[derive(Clone, Copy, Debug)]
pub struct BeginCall<'a> {
    /// The raw JSON text of `notificationConfig`, if it has one.
    pub config: Option<&'a [u8]>,
    /// The route types that this server offers.
    pub route_types: &'a [&'a str],
    /// Who asks: what the SDK authenticated, else the MCP session.
    pub principal: &'a str,
    /// The MCP session, where there is one.
    pub session: Option<&'a str>,
    /// The host's own name for the connection of the calling session, under which it offers outlets; for routes that go
    /// there. None where nothing can be sent once the request is over.
    pub peer: Option<&'a str>,
    /// The names that routes of type `message` and `callback` may have in this call.
    pub open: &'a [&'a str],
    /// The JSON-RPC id of the request.
    pub request_id: &'a RequestId,
    /// The tool's name.
    pub tool: &'a str,
    /// The server's time limit; the config may only lower it.
    pub timeout: Option<Duration>,
    /// It is a task from the start.
    pub task: Option<TaskTerms>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The outcome.
    pub outcome: Outcome,
    /// Why, where the outcome alone does not say.
    pub reason: Option<String>,
    /// It was this very request to end the call that won; otherwise the call had ended before. Never of
    /// [`Call::ended`], which asks for nothing.
    pub ours: bool,
    /// The outcome is on disk. `false`: the store did not take it in time; it is tried again while the process lives.
    pub committed: bool,
    /// The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered.
    pub undelivered: Option<String>,
}

/// One watched call. Accepted on disk before [`begin_call`](crate::Hub::begin_call) returned; whatever becomes of this
/// process, it ends in exactly one outcome, and each trigger it asked for fires at most once for that outcome.
///
/// Clones are handles on the same call. When the last one goes and nothing has ended the call, it ends as `failed`:
/// nobody is left who could.
#[derive(Clone)]
pub struct Call {
    inner: Arc<CallInner>,
}

/// An end without a payload.
pub(crate) fn bare(outcome: Outcome, reason: Option<Reason>) -> firing::Ended<'static> {
    firing::Ended { outcome, reason, payload: None }
}

/// The config of a call, if it is acceptable.
pub(crate) fn read_config(options: &Options, begin: &BeginCall<'_>) -> Result<NotificationConfig> {
    let limits = ConfigLimits {
        route_types: Some(begin.route_types.iter().map(|kind| (*kind).to_owned()).collect()),
        require_secret: options.require_secret && options.default_secret.is_none(),
        ..options.config_limits.clone()
    };
    let checks = Checks { options, open: begin.open, has_peer: begin.peer.is_some() };
    match begin.config {
        Some(text) => NotificationConfig::parse(text, &limits, &checks).map_err(Error::config),
        None => Ok(NotificationConfig::default()),
    }
}

impl Call {
    pub(crate) async fn begin(core: Arc<Core>, begin: BeginCall<'_>, traceparent: Option<&str>) -> Result<Self> {
        core.alive()?;
        let decided = policy::decide(&core.options, &begin).await?;
        Self::begin_judged(core, begin, traceparent, decided).await
    }

    /// Begins a call whose config nobody has to judge any more.
    pub(crate) async fn begin_judged(
        core: Arc<Core>,
        begin: BeginCall<'_>,
        traceparent: Option<&str>,
        decided: Decided,
    ) -> Result<Self> {
        core.alive()?;
        let open: Vec<&str> = decided.open.iter().map(String::as_str).chain(begin.open.iter().copied()).collect();
        let begin = BeginCall { config: decided.config.as_deref().or(begin.config), open: &open, ..begin };
        let mut config = read_config(&core.options, &begin)?;
        plan::bind_to_peer(&mut config, begin.peer);
        if let Some(traceparent) = traceparent {
            plan::carry(&mut config, traceparent);
        }
        let most = core.options.max_pending;
        if !config.routes.is_empty() && core.store.pending(begin.principal, most)? >= most {
            let why = format!("the principal has {most} deliveries that are not finished, and may have no more");
            return Err(Error::new(ErrorCode::Congested, why));
        }
        begin.task.map_or(Ok(()), |terms| task::check_terms(&core.options, terms))?;
        let id = CallId::from_bytes(core.random()?);
        let key = StreamKey::new(format!("call:{id}"), EVENTS);
        let stream = StreamId(core.random()?);
        let now = core.timeline.now();
        let record = CallRecord {
            id,
            principal: begin.principal.to_owned(),
            session: begin.session.map(str::to_owned),
            request_id: begin.request_id.to_json(),
            tool: begin.tool.to_owned(),
            config: plan::seal_config(&config),
            stream: key.clone(),
            worker: core.worker,
            began_at: now,
            began_time: core.timeline.wall(),
            outcome: None,
            ended_at: None,
            task: begin.task.map(Into::into),
        };
        let mut ops = vec![
            Op::Create { id: stream, key: key.clone(), worker: core.worker },
            Op::BeginCall(Box::new(record.clone())),
        ];
        // Endpoints are verified beside the tool.
        for route in config.routes.iter().filter(|route| OutletName::of(route).is_none()) {
            let target = Target::of(&core, begin.principal, route);
            ops.extend(target.map(|target| target.name(&core, begin.principal, route)));
        }
        let server_ms = begin.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        if let Some(limit) = effective_timeout(server_ms, config.timeout_ms) {
            let due = now.saturating_add(i64::try_from(limit).unwrap_or(i64::MAX));
            ops.push(Op::SetTimer { call: id, kind: TimerKind::Timeout, due });
        }
        ops.extend(triggers::begin_ops(&core, &record, &config, now)?);
        let claimed = Claimed { stream, epoch: 1, claim: 1, next_seq: 0 };
        let owned = Arc::new(Owned::new(key, core.worker, claimed, true));
        let writer = Writer { core: Arc::clone(&core), owned };
        let inner = Arc::new(CallInner::new(writer, record, config, begin.request_id.clone()));
        // Known here before its row is in the store: its timer may be due at once.
        let first = {
            let mut calls = lock(&core.calls);
            calls.insert(id, Arc::downgrade(&inner));
            calls.len() == 1
        };
        if first {
            core.watched.notify_one();
        }
        // On the background thread, so that a caller who gives up waiting leaves no row behind that nobody ends.
        let begun = core.spawn(async move {
            match inner.core.committer.submit(Commit::new(Durability::Disk, ops)).await {
                Ok(Ok(_)) => {}
                Ok(Err(CommitError::Refused(Refused::Full))) => return Err(triggers::group_full(&inner)),
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(Error::closed("hub")),
            }
            inner.set_begun();
            let (call, tool) = (inner.record.id, &inner.record.tool);
            tracing::debug!(%call, tool, routes = inner.config.routes.len(), "a call began");
            if inner.core.is_closed() {
                inner.start_end(&bare(Outcome::Failed, Some(Reason::Shutdown)));
                return Err(Error::closed("hub"));
            }
            inner.core.work.notify_one(); // its timer may be the next thing due
            Ok(Self { inner })
        });
        match begun {
            Some(begun) => begun.await.unwrap_or_else(|_| Err(Error::closed("hub"))),
            None => Err(Error::closed("hub")),
        }
    }

    /// Our id of the call.
    pub fn id(&self) -> CallId {
        self.inner.record.id
    }

    /// The ids of the routes, all of which were accepted.
    pub fn accepted_routes(&self) -> Vec<String> {
        self.inner.config.route_ids().map(str::to_owned).collect()
    }

    /// The triggers that nothing here fires.
    pub fn ignored_triggers(&self) -> Vec<String> {
        self.inner.config.ignored_triggers().into_iter().map(str::to_owned).collect()
    }

    /// The params of `notifications/config/acknowledged`, as JSON text.
    pub fn acknowledgement(&self) -> String {
        firing::acknowledgement_json(&self.inner.request_id, &self.inner.config, self.inner.record.id)
    }

    /// The stream of the call's events. It ends with the call and cannot be closed otherwise.
    pub fn writer(&self) -> &Writer {
        &self.inner.writer
    }

    /// Appends an event of the tool to the call's stream and returns its number at once. Fires `streaming` where asked,
    /// at most once a second. An error of code `ended` once the call has ended.
    pub fn emit(&self, kind: &str, payload: &[u8]) -> Result<u64> {
        self.inner.emit(kind, payload)
    }

    /// The client's connection is lost and the call goes on: fires `io.tidings/disconnected` where asked. Each loss is a
    /// firing of its own. An error of code `ended` once the call has ended.
    pub fn disconnected(&self) -> Result<()> {
        let inner = &self.inner;
        inner.running()?;
        if !inner.lists(&Trigger::Disconnected) {
            return Ok(());
        }
        let ops = |seq| inner.ops_of(&Fired::bare(&Trigger::Disconnected), seq);
        inner.writer.append_with(wire::tidings::EVENT_DISCONNECTED, b"{}", ops).map(drop)
    }

    /// Fires a vendor's trigger, `name` (`com.example/done`, see [`is_vendor_name`](tidings_proto::trigger::is_vendor_name)), with the JSON text of an object:
    /// appends it as an event of that type and tells the routes that ask for it. Returns the event's number at once. An
    /// error of code `ended` once the call has ended.
    pub fn fire(&self, name: &str, payload: &[u8]) -> Result<u64> {
        check_fire(name, payload).map_err(|fault| Error::new(ErrorCode::InvalidArgument, fault.to_string()))?;
        self.inner.fire(name, payload)
    }

    /// The tool returned this result (raw JSON text): `completed`, or `failed` where it says `isError`, or where it is no
    /// JSON object.
    ///
    /// Like every way to end a call: once polled it goes on even when nobody waits, and takes at most about the hub's
    /// `outcome_wait`.
    pub async fn complete(&self, result: &[u8]) -> Result<Ended> {
        let class = classify_result(result);
        let payload = class.result.map(Payload::Result);
        self.inner.end(&firing::Ended { outcome: class.outcome, reason: class.reason, payload }).await
    }

    /// The call failed with a JSON-RPC error (raw JSON text of an object), or for a reason without one.
    pub async fn fail(&self, error: Option<&[u8]>, reason: Option<Reason>) -> Result<Ended> {
        let error =
            match error {
                Some(raw) => Some(classify_result(raw).result.ok_or_else(|| {
                    Error::new(ErrorCode::InvalidArgument, "error: must be the JSON text of an object")
                })?),
                None => None,
            };
        let payload = error.map(Payload::Error);
        self.inner.end(&firing::Ended { outcome: Outcome::Failed, reason, payload }).await
    }

    /// Somebody cancelled the call.
    pub async fn cancel(&self, reason: Option<Reason>) -> Result<Ended> {
        self.inner.end(&bare(Outcome::Cancelled, reason)).await
    }

    /// The server's time limit passed.
    pub async fn time_out(&self) -> Result<Ended> {
        self.inner.end(&bare(Outcome::Timeout, None)).await
    }

    /// Makes the call a task: from when this returns `true` on, [`Hub::task`](crate::Hub::task) finds it by its id, also
    /// after the end of this process. `false`: it had ended before. Goes on when nobody waits.
    pub async fn become_task(&self, terms: TaskTerms) -> Result<bool> {
        self.inner.core.alive()?;
        task::check_terms(&self.inner.core.options, terms)?;
        let inner = Arc::clone(&self.inner);
        match self.inner.core.spawn(async move { inner.become_task(terms).await }) {
            Some(became) => became.await.unwrap_or_else(|_| Err(Error::closed("hub"))),
            None => Err(Error::closed("hub")),
        }
    }

    /// Waits until the call has ended, whoever ends it. An error of code `closed` if the hub closes and does not get to
    /// say how.
    pub async fn ended(&self) -> Result<Ended> {
        Ok(Ended { ours: false, ..self.inner.wait_ended().await? })
    }
}
