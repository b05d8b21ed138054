//! Watched calls: accepted, run, and ended in exactly one outcome.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidings_proto::call::effective_timeout;
use tidings_proto::config::{AcceptStored, ConfigLimits, NotificationConfig};
use tidings_proto::firing::{self, Payload};
use tidings_proto::id::RequestId;
use tidings_proto::stream::StreamId;
use tidings_proto::trigger::{Outcome, Reason, Trigger, classify_result};
use tidings_proto::wire;
use tidings_store::{
    AppendShared, CallId, CallOutcome, CallRecord, Claimed, Commit, CommitError, Durability, Op, Refused, Sealed,
    StreamKey, TimerKind,
};
use tokio::sync::watch;

use crate::background;
use crate::checks::Checks;
use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::notify::lock;
use crate::owned::Owned;
use crate::plan;
use crate::stream::{Writer, new_event};

/// `streaming` fires at most once in this many milliseconds for one call.
const STREAMING_EVERY_MS: i64 = 1_000;
/// The events of a call are the stream of this name in the scope of the call.
const EVENTS: &str = "events";

/// A tool call that asks to be watched.
#[derive(Clone, Copy, Debug)]
pub struct BeginCall<'a> {
    /// The raw JSON text of `notificationConfig`.
    pub config: &'a [u8],
    /// The route types that this server offers.
    pub route_types: &'a [&'a str],
    /// Who asks: what the SDK authenticated, else the MCP session.
    pub principal: &'a str,
    /// The MCP session, where there is one.
    pub session: Option<&'a str>,
    /// The JSON-RPC id of the request.
    pub request_id: &'a RequestId,
    /// The tool's name.
    pub tool: &'a str,
    /// The server's time limit; the config may only lower it.
    pub timeout: Option<Duration>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The outcome.
    pub outcome: Outcome,
    /// Why, where the outcome alone does not say.
    pub reason: Option<String>,
    /// It was this very request to end the call that won; otherwise the call had ended before.
    pub ours: bool,
    /// The outcome is on disk. `false`: the store did not take it in time; it is tried again while the process lives.
    pub committed: bool,
    /// The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered.
    pub undelivered: Option<String>,
}

/// One watched call. Accepted on disk before [`begin`](crate::Hub::begin_call) returned; whatever becomes of this
/// process, it ends in exactly one outcome, and each trigger it asked for fires at most once for that outcome.
#[derive(Clone)]
pub struct Call {
    inner: Arc<CallInner>,
}

pub(crate) struct CallInner {
    core: Arc<Core>,
    record: CallRecord,
    config: NotificationConfig,
    request_id: RequestId,
    writer: Writer,
    ended: watch::Sender<Option<Ended>>,
    /// When `streaming` fired last.
    streamed_at: AtomicI64,
}

/// An end without a payload.
fn bare(outcome: Outcome, reason: Option<Reason>) -> firing::Ended<'static> {
    firing::Ended { outcome, reason, payload: None }
}

impl Call {
    pub(crate) async fn begin(core: Arc<Core>, begin: BeginCall<'_>) -> Result<Self> {
        core.alive()?;
        let limits = ConfigLimits {
            route_types: Some(begin.route_types.iter().map(|kind| (*kind).to_owned()).collect()),
            require_secret: core.options.require_secret && core.options.default_secret.is_none(),
            ..core.options.config_limits.clone()
        };
        let config = NotificationConfig::parse(begin.config, &limits, &Checks(&core.options)).map_err(Error::config)?;
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
            config: Sealed(config.to_json().into()),
            stream: key.clone(),
            worker: core.worker,
            began_at: now,
            began_time: core.timeline.wall(),
            outcome: None,
        };
        let mut ops = vec![
            Op::Create { id: stream, key: key.clone(), worker: core.worker },
            Op::BeginCall(Box::new(record.clone())),
        ];
        let server_ms = begin.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        if let Some(limit) = effective_timeout(server_ms, config.timeout_ms) {
            let due = now.saturating_add(i64::try_from(limit).unwrap_or(i64::MAX));
            ops.push(Op::SetTimer { call: id, kind: TimerKind::Timeout, due });
        }
        core.commit(Commit::new(Durability::Disk, ops)).await?;
        let claimed = Claimed { stream, epoch: 1, claim: 1, next_seq: 0 };
        let owned = Arc::new(Owned::new(key, core.worker, claimed, false));
        let inner = Arc::new(CallInner {
            writer: Writer { core: Arc::clone(&core), owned },
            request_id: begin.request_id.clone(),
            ended: watch::Sender::new(None),
            streamed_at: AtomicI64::new(i64::MIN),
            record,
            config,
            core,
        });
        lock(&inner.core.calls).insert(id, Arc::downgrade(&inner));
        inner.core.work.notify_one(); // its timer may be the next thing due
        Ok(Self { inner })
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

    /// The stream of the call's events.
    pub fn writer(&self) -> &Writer {
        &self.inner.writer
    }

    /// Appends an event of the tool to the call's stream and returns its number at once. Fires `streaming` where asked,
    /// at most once a second. An error of code `ended` or `closed` once the call has ended.
    pub fn emit(&self, kind: &str, payload: &[u8]) -> Result<u64> {
        let inner = &self.inner;
        let now = inner.core.timeline.now();
        let last = inner.streamed_at.load(Ordering::Relaxed);
        let fires = inner.lists(&Trigger::Streaming)
            && now.saturating_sub(last) >= STREAMING_EVERY_MS
            && inner.streamed_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !fires {
            return inner.writer.append(kind, payload, None);
        }
        inner.writer.append_with(kind, payload, |seq| inner.ops_of(&Trigger::Streaming, seq))
    }

    /// The client's connection is lost and the call goes on: fires `io.tidings/disconnected` where asked.
    pub fn disconnected(&self) -> Result<()> {
        let inner = &self.inner;
        if !inner.lists(&Trigger::Disconnected) {
            return Ok(());
        }
        inner
            .writer
            .append_with(wire::tidings::EVENT_DISCONNECTED, b"{}", |seq| inner.ops_of(&Trigger::Disconnected, seq))?;
        Ok(())
    }

    /// The tool returned this result (raw JSON text): `completed`, or `failed` where it says `isError`, or where it is no
    /// JSON object.
    pub async fn complete(&self, result: &[u8]) -> Result<Ended> {
        let class = classify_result(result);
        let payload = class.result.map(Payload::Result);
        self.inner.end(firing::Ended { outcome: class.outcome, reason: class.reason, payload }).await
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
        self.inner.end(firing::Ended { outcome: Outcome::Failed, reason, payload }).await
    }

    /// Somebody cancelled the call.
    pub async fn cancel(&self, reason: Option<Reason>) -> Result<Ended> {
        self.inner.end(bare(Outcome::Cancelled, reason)).await
    }

    /// The server's time limit passed.
    pub async fn time_out(&self) -> Result<Ended> {
        self.inner.end(bare(Outcome::Timeout, None)).await
    }

    /// Waits until the call has ended, whoever ends it.
    pub async fn ended(&self) -> Result<Ended> {
        self.inner.wait_ended().await
    }
}

impl CallInner {
    fn lists(&self, trigger: &Trigger) -> bool {
        self.config.routes.iter().any(|route| route.triggers.contains(trigger))
    }

    fn plan(&self, trigger: &Trigger, ended: Option<firing::Ended<'_>>, seq: u64) -> Result<plan::Plan> {
        let cursor = self.writer.cursor_after(seq);
        plan::plan(&self.core, &self.record, &self.config, trigger, ended, Some((seq, &cursor)))
    }

    /// The deliveries of a trigger of the running call.
    fn ops_of(&self, trigger: &Trigger, seq: u64) -> Vec<Op> {
        self.plan(trigger, None, seq).map(|plan| plan.ops).unwrap_or_else(|error| {
            tracing::error!(call = %self.record.id, %trigger, %error, "a firing is lost");
            Vec::new()
        })
    }

    async fn end(&self, ending: firing::Ended<'_>) -> Result<Ended> {
        let core = &self.core;
        core.alive()?;
        let Ok(seq) = self.writer.owned.seal() else {
            return Ok(Ended { ours: false, ..self.wait_ended().await? });
        };
        let (reply, mut ended) = self.commit_end(&ending, seq);
        let wait = core.options.outcome_wait;
        let committed = core.on_io(async move { tokio::time::timeout(wait, reply).await }).await;
        match committed {
            Some(Ok(Ok(Ok(())))) => ended.committed = true,
            Some(Ok(Ok(Err(CommitError::Refused(refused))))) => {
                let lost = self.refused(refused)?;
                self.ended.send_replace(Some(lost.clone()));
                return Ok(lost);
            }
            _ => {
                // The store did not take it in time. It stays queued; the result must not wait for it.
                ended.undelivered = plan::not_stored(&self.config, &ending.outcome.trigger());
            }
        }
        core.work.notify_one();
        self.ended.send_replace(Some(ended.clone()));
        Ok(ended)
    }

    /// Hands the end to the writer thread: the outcome's event, the close, the outcome and its deliveries, in one commit.
    fn commit_end(&self, ending: &firing::Ended<'_>, seq: u64) -> (crate::stream::EndReply, Ended) {
        let reason = ending.reason.map(|reason| reason.as_str().to_owned());
        let row = CallOutcome { status: ending.outcome.as_str().to_owned(), reason: reason.clone() };
        let mut ops = vec![Op::EndCall { id: self.record.id, outcome: row, at: self.core.timeline.now() }];
        let mut undelivered = None;
        match self.plan(&ending.outcome.trigger(), Some(*ending), seq) {
            Ok(plan) => {
                ops.extend(plan.ops);
                undelivered = plan.undelivered;
            }
            Err(error) => {
                tracing::error!(call = %self.record.id, %error, "the outcome is recorded without its deliveries")
            }
        }
        let event = plan::outcome_event(ending);
        let last = Some((wire::tidings::EVENT_OUTCOME, event.as_bytes()));
        let (_, reply) = self.writer.end_sealed(last, ops, Durability::Disk);
        (reply, Ended { outcome: ending.outcome, reason, ours: true, committed: false, undelivered })
    }

    /// Somebody else ended the call first; the store knows how.
    fn refused(&self, refused: Refused) -> Result<Ended> {
        let outcome = match refused {
            Refused::Ended(outcome) => Some(outcome),
            _ => self.core.store.call(self.record.id)?.and_then(|record| record.outcome),
        };
        let outcome = outcome.ok_or_else(|| Error::new(ErrorCode::Fenced, "another writer took the call's stream"))?;
        Ok(ended_elsewhere(&outcome))
    }

    async fn wait_ended(&self) -> Result<Ended> {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await.map(|ended| ended.clone()) {
            Ok(Some(ended)) => Ok(ended),
            _ => Err(Error::closed("call")),
        }
    }
}

impl Drop for CallInner {
    fn drop(&mut self) {
        lock(&self.core.calls).remove(&self.record.id);
    }
}

fn ended_elsewhere(outcome: &CallOutcome) -> Ended {
    Ended {
        outcome: Outcome::parse(&outcome.status).unwrap_or(Outcome::Failed),
        reason: outcome.reason.clone(),
        ours: false,
        committed: true,
        undelivered: None,
    }
}

/// Whether calls run in this process.
pub(crate) fn any(core: &Core) -> bool {
    !lock(&core.calls).is_empty()
}

fn running(core: &Core) -> Vec<Arc<CallInner>> {
    lock(&core.calls).values().filter_map(Weak::upgrade).collect()
}

/// Looks whether other processes ended calls of this one.
pub(crate) fn look(core: &Core) {
    for call in running(core) {
        if call.ended.borrow().is_none()
            && let Ok(Some(CallRecord { outcome: Some(outcome), .. })) = core.store.call(call.record.id)
            && !call.writer.closed()
        {
            call.ended.send_replace(Some(ended_elsewhere(&outcome)));
        }
    }
}

/// Ends all calls of this process because it stops. Does not wait for the commits: the writer thread does them before it ends.
pub(crate) fn shut_down(core: &Core) {
    for call in running(core) {
        let Ok(seq) = call.writer.owned.seal() else { continue };
        let (_, ended) = call.commit_end(&bare(Outcome::Failed, Some(Reason::Shutdown)), seq);
        call.ended.send_replace(Some(ended));
    }
}

/// Ends calls whose worker is gone: `failed`, reason `server_lost`.
pub(crate) async fn end_lost(core: &Arc<Core>, limit: u32) {
    let Ok(lost) = core.store.lost_calls(core.timeline.now(), limit) else { return };
    for record in lost {
        if record.worker != core.worker {
            end_record(core, &record, &bare(Outcome::Failed, Some(Reason::ServerLost))).await;
        }
    }
}

/// Ends calls whose time limit has passed.
pub(crate) async fn end_timed_out(core: &Arc<Core>, limit: u32) {
    let Ok(due) = core.store.due_timers(core.timeline.now(), limit) else { return };
    for timer in due {
        let TimerKind::Timeout = timer.kind;
        let local = lock(&core.calls).get(&timer.call).and_then(Weak::upgrade);
        if let Some(call) = local {
            let _ = call.end(bare(Outcome::Timeout, None)).await;
        } else if let Ok(Some(record)) = core.store.call(timer.call) {
            end_record(core, &record, &bare(Outcome::Timeout, None)).await;
        }
    }
}

/// Ends a call that does not run in this process, with everything that follows from it, in one commit.
async fn end_record(core: &Arc<Core>, record: &CallRecord, ended: &firing::Ended<'_>) {
    let now = core.timeline.now();
    let reason = ended.reason.map(|reason| reason.as_str().to_owned());
    let outcome = CallOutcome { status: ended.outcome.as_str().to_owned(), reason };
    let mut ops = vec![Op::EndCall { id: record.id, outcome, at: now }];
    match NotificationConfig::parse(&record.config.0, &ConfigLimits::stored(), &AcceptStored) {
        Ok(config) => match plan::plan(core, record, &config, &ended.outcome.trigger(), Some(*ended), None) {
            Ok(plan) => ops.extend(plan.ops),
            Err(error) => tracing::error!(call = %record.id, %error, "the outcome is recorded without its deliveries"),
        },
        Err(faults) => tracing::error!(call = %record.id, %faults, "the stored config cannot be read"),
    }
    match core.random() {
        Ok(new_id) => ops.push(Op::AppendShared(AppendShared {
            key: record.stream.clone(),
            new_id: StreamId(new_id),
            events: vec![new_event(core, wire::tidings::EVENT_OUTCOME, plan::outcome_event(ended))],
            close: true,
            now,
        })),
        Err(error) => tracing::error!(call = %record.id, %error, "the outcome is recorded without its event"),
    }
    background::commit(core, Durability::Disk, ops).await;
}
