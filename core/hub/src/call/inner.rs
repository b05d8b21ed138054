//! One call of this process, from its row to its outcome.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidings_proto::config::NotificationConfig;
use tidings_proto::firing::{self, Detail, Payload, raw_json};
use tidings_proto::id::RequestId;
use tidings_proto::redact::Redaction;
use tidings_proto::route::{asking, needs_document};
use tidings_proto::task::{Keys, Round};
use tidings_proto::trigger::{Outcome, Reason, Trigger};
use tidings_proto::wire;
use tidings_store::{CallOutcome, CallRecord, Commit, CommitError, Durability, Op, Refused, TaskTerms};
use tokio::sync::watch;

use super::{Ended, bare, others};
use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::fanout;
use crate::input;
use crate::notify::lock;
use crate::plan::{self, Fired};
use crate::stream::{EndReply, Writer};

/// `streaming` fires at most once in this many milliseconds for one call.
const STREAMING_EVERY_MS: i64 = 1_000;
/// How long a store that fails is left alone before an outcome is given to it once more.
pub(super) const AGAIN: Duration = Duration::from_millis(100);
/// What a call that nobody holds any more failed with.
const ABANDONED: &[u8] = br#"{"code":-32603,"message":"the server gave the call up without an answer"}"#;

pub(crate) struct CallInner {
    pub(super) core: Arc<Core>,
    pub(super) record: CallRecord,
    pub(super) config: NotificationConfig,
    pub(super) request_id: RequestId,
    pub(super) writer: Writer,
    /// Its row is in the store.
    begun: AtomicBool,
    /// The one who sets this ends the call; everybody else waits.
    ending: AtomicBool,
    ended: watch::Sender<Option<Ended>>,
    /// It goes on without its request.
    pub(super) detached: AtomicBool,
    /// When `streaming` fired last.
    streamed_at: AtomicI64,
    /// The terms on which it is a task. Set before the store knows, so that a task's outcome does not go out as a plain call's.
    task: Mutex<Option<TaskTerms>>,
    asked: Mutex<Asked>,
}

/// What the call asked its client for.
#[derive(Default)]
struct Asked {
    keys: Keys,
    /// There is a stream of it, or will be.
    ever: bool,
}

/// How a call is to end, kept for when the first way to record it does not work.
struct Ending {
    outcome: Outcome,
    reason: Option<Reason>,
    /// The text of a result, or of an error.
    payload: Option<(bool, Bytes)>,
}

impl Ending {
    /// Keeps an end without what the operator redacts: as the outcome's event and every webhook tell it.
    fn keep(ended: &firing::Ended<'_>, redact: &Redaction) -> Self {
        let payload = ended.payload.map(|payload| {
            let (is_error, name, raw) = match payload {
                Payload::Result(raw) => (false, "result", raw),
                Payload::Error(raw) => (true, "error", raw),
            };
            let text = redact.apply_below(&[name], raw.get(), &[]);
            (is_error, Bytes::copy_from_slice(text.as_bytes()))
        });
        Self { outcome: ended.outcome, reason: ended.reason, payload }
    }

    fn view(&self) -> firing::Ended<'_> {
        let payload = self.payload.as_ref().and_then(|(is_error, text)| {
            let raw = raw_json(text)?;
            Some(if *is_error { Payload::Error(raw) } else { Payload::Result(raw) })
        });
        firing::Ended { outcome: self.outcome, reason: self.reason, payload }
    }
}

impl CallInner {
    pub(super) fn new(writer: Writer, record: CallRecord, config: NotificationConfig, request_id: RequestId) -> Self {
        let task = record.task.as_ref().map(|task| task.terms);
        Self {
            core: Arc::clone(&writer.core),
            record,
            config,
            request_id,
            writer,
            begun: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            ended: watch::Sender::new(None),
            detached: AtomicBool::new(false),
            streamed_at: AtomicI64::new(i64::MIN),
            task: Mutex::new(task),
            asked: Mutex::default(),
        }
    }

    pub(super) fn set_begun(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    pub(super) fn begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Whether somebody has begun to end it.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    pub(super) fn running(&self) -> Result<()> {
        self.core.alive()?;
        if self.is_ending() { Err(Error::new(ErrorCode::Ended, "the call has ended")) } else { Ok(()) }
    }

    pub(super) fn lists(&self, trigger: &Trigger) -> bool {
        self.config.triggers().any(|listed| listed == trigger)
    }

    /// Whether a route asks for a firing about `document`.
    fn asks(&self, trigger: &Trigger, document: Option<&str>) -> bool {
        self.lists(trigger) && !asking(&self.config, trigger, document).is_empty()
    }

    pub(super) fn emit(&self, kind: &str, payload: &[u8]) -> Result<u64> {
        self.running()?;
        let payload = &*self.core.options.redact.apply_bytes(payload);
        let document = needs_document(&self.config, &Trigger::Streaming).then(|| firing::event_document(kind, payload));
        let now = self.core.timeline.now();
        let last = self.streamed_at.load(Ordering::Relaxed);
        // What no route asks for must not use up the second.
        let fires = self.asks(&Trigger::Streaming, document.as_deref())
            && now.saturating_sub(last) >= STREAMING_EVERY_MS
            && self.streamed_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let emitted = if fires {
            let fired = Fired { document: document.as_deref(), ..Fired::bare(&Trigger::Streaming) };
            self.writer.append_with(kind, payload, |seq| self.ops_of(&fired, seq))
        } else {
            self.writer.append_with(kind, payload, |_| Vec::new())
        };
        if fires && emitted.is_err() {
            self.streamed_at.store(last, Ordering::Relaxed); // nothing fired
        }
        emitted
    }

    /// Fires a vendor's trigger: its event, and the deliveries to those who ask.
    pub(super) fn fire(&self, name: &str, payload: &[u8]) -> Result<u64> {
        self.running()?;
        let payload = &*self.core.options.redact.apply_bytes(payload);
        let raw = raw_json(payload)
            .filter(|raw| raw.get().starts_with('{'))
            .ok_or_else(|| Error::new(ErrorCode::InvalidArgument, "payload: must be the JSON text of an object"))?;
        let trigger = Trigger::Other(name.to_owned());
        let fired = Fired { detail: Some(Detail::Payload(raw)), document: Some(raw.get()), ..Fired::bare(&trigger) };
        self.writer.append_with(name, payload, |seq| self.ops_of(&fired, seq))
    }

    fn plan(&self, fired: &Fired<'_>, seq: u64) -> Result<plan::Plan> {
        let cursor = self.writer.cursor_after(seq);
        let task = *lock(&self.task);
        let fired = Fired { place: Some((seq, &cursor)), ..*fired };
        plan::plan(&self.core, &self.record, &self.config, task, &fired)
    }

    /// The row as it is by now, for who ends the call without its writer.
    fn record_now(&self) -> CallRecord {
        CallRecord { task: lock(&self.task).map(Into::into), ..self.record.clone() }
    }

    pub(super) async fn become_task(&self, terms: TaskTerms) -> Result<bool> {
        let before = lock(&self.task).replace(terms);
        let ops = vec![Op::BecomeTask { call: self.record.id, terms }];
        let error = match self.core.committer.submit(Commit::new(Durability::Disk, ops)).await {
            Ok(Ok(_)) => return Ok(true),
            Ok(Err(CommitError::Refused(Refused::Ended(_)))) => return Ok(false),
            Ok(Err(error)) => error.into(),
            Err(_) => Error::closed("hub"),
        };
        *lock(&self.task) = before;
        Err(error)
    }

    /// Asks the task's client, in one commit with the event that says so.
    pub(super) fn start_ask(&self, requests: &[u8]) -> Result<Round> {
        self.running()?;
        let record = self.record_now();
        if record.task.is_none() {
            return Err(Error::new(ErrorCode::InvalidArgument, "ask: the call is no task, whose client could answer"));
        }
        // Held until the question is on its way: an end that comes first refuses it, one that comes later closes its stream.
        let mut asked = lock(&self.asked);
        let round = asked.keys.ask(requests).map_err(|why| input::fault("requests", why))?;
        let ops = input::ask_ops(&self.core, &record, round.payload())?;
        let event = format!(r#"{{"inputRequests":{}}}"#, round.keys());
        self.writer.append_with(wire::tidings::EVENT_INPUT_REQUIRED, event.as_bytes(), |_| ops)?;
        asked.ever = true;
        Ok(round)
    }

    /// The deliveries of a trigger of the running call.
    pub(super) fn ops_of(&self, fired: &Fired<'_>, seq: u64) -> Vec<Op> {
        self.plan(fired, seq).map(|plan| plan.ops).unwrap_or_else(|error| {
            tracing::error!(call = %self.record.id, trigger = %fired.trigger, %error, "a firing is lost");
            Vec::new()
        })
    }

    /// Ends the call, or hears how it ended.
    pub(crate) async fn end(self: &Arc<Self>, ending: &firing::Ended<'_>) -> Result<Ended> {
        self.core.alive()?;
        let started = self.start_end(ending);
        let ended = self.wait_ended().await?;
        let ours = started && ended.ours;
        if !ours {
            self.core.late.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Ended { ours, ..ended })
    }

    /// Starts to end the call, unless somebody has. Never waits; what follows runs on the background thread, so that it
    /// comes to its end whoever stops waiting.
    pub(super) fn start_end(self: &Arc<Self>, ending: &firing::Ended<'_>) -> bool {
        if self.ending.swap(true, Ordering::SeqCst) {
            return false;
        }
        let ending = Ending::keep(ending, &self.core.options.redact);
        // A writer that the store refused cannot carry the outcome: it is then committed beside it.
        let handed = self.writer.owned.seal().ok().map(|seq| self.commit_end(&ending.view(), seq));
        let call = Arc::clone(self);
        self.core.spawn(async move { call.finish(&ending, handed).await });
        true
    }

    /// Hands the end to the writer thread: the outcome's event, the close, the outcome and its deliveries, in one commit.
    fn commit_end(&self, ending: &firing::Ended<'_>, seq: u64) -> (EndReply, Ended) {
        let reason = ending.reason.map(|reason| reason.as_str().to_owned());
        let row = CallOutcome { status: ending.outcome.as_str().to_owned(), reason: reason.clone() };
        let event = Bytes::from(plan::outcome_event(ending));
        let payload = Some(event.clone());
        let mut ops = vec![Op::EndCall { id: self.record.id, outcome: row, at: self.core.timeline.now(), payload }];
        let mut undelivered = None;
        let trigger = ending.outcome.trigger();
        let document = core::str::from_utf8(&event).ok();
        match self.plan(&Fired { ended: Some(*ending), document, ..Fired::bare(&trigger) }, seq) {
            Ok(plan) => {
                ops.extend(plan.ops);
                undelivered = plan.undelivered;
            }
            Err(error) => {
                tracing::error!(call = %self.record.id, %error, "the outcome is recorded without its deliveries")
            }
        }
        if lock(&self.asked).ever {
            ops.extend(input::close_op(&self.core, &self.record));
        }
        ops.extend(fanout::task_op(&self.core, &self.record_now()));
        let last = Some((wire::tidings::EVENT_OUTCOME, &event[..]));
        let (_, reply) = self.writer.end_sealed(last, ops, Durability::Disk);
        (reply, Ended { outcome: ending.outcome, reason, ours: true, committed: false, undelivered })
    }

    /// Tells how the call ended as soon as that is known, and at the latest when the result cannot wait any longer.
    async fn finish(self: Arc<Self>, ending: &Ending, handed: Option<(EndReply, Ended)>) {
        let mut recorded = pin!(self.record(ending, handed));
        let in_time = tokio::time::timeout(self.core.options.outcome_wait, recorded.as_mut()).await;
        if let Ok(Some(ended)) = in_time {
            return self.conclude(ended);
        }
        // The store did not take it in time, or the hub closes. The result must not wait for it.
        let document = plan::outcome_event(&ending.view());
        let undelivered = plan::not_stored(&self.config, &ending.outcome.trigger(), &document);
        self.conclude(Ended {
            outcome: ending.outcome,
            reason: ending.reason.map(|reason| reason.as_str().to_owned()),
            ours: true,
            committed: false,
            undelivered,
        });
        if in_time.is_err()
            && let Some(ended) = recorded.await
        {
            self.conclude(ended);
        }
    }

    /// Waits until the outcome is in the store. `None`: the hub closes first.
    async fn record(&self, ending: &Ending, handed: Option<(EndReply, Ended)>) -> Option<Ended> {
        if let Some((reply, ended)) = handed {
            match reply.await {
                Ok(Ok(())) => {
                    fanout::task_changed(&self.core, self.record.id);
                    return Some(Ended { committed: true, ..ended });
                }
                Ok(Err(CommitError::Refused(Refused::Ended(outcome)))) => return Some(elsewhere(&outcome)),
                // Somebody took or closed the call's stream, which must not keep the outcome back.
                Ok(Err(CommitError::Refused(_))) => {}
                Ok(Err(CommitError::Store(_))) | Err(_) => return None,
            }
        }
        loop {
            match others::end_record(&self.core, &self.record_now(), &ending.view()).await {
                Ok(undelivered) => {
                    let reason = ending.reason.map(|reason| reason.as_str().to_owned());
                    return Some(Ended { outcome: ending.outcome, reason, ours: true, committed: true, undelivered });
                }
                Err(CommitError::Refused(Refused::Ended(outcome))) => return Some(elsewhere(&outcome)),
                Err(CommitError::Refused(refused)) => {
                    tracing::error!(call = %self.record.id, %refused, "the outcome cannot be recorded");
                    return None;
                }
                Err(CommitError::Store(_)) if self.core.is_closed() => return None,
                Err(CommitError::Store(_)) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    fn conclude(&self, ended: Ended) {
        let (call, outcome) = (self.record.id, ended.outcome.as_str());
        tracing::debug!(%call, outcome, committed = ended.committed, "a call has ended");
        if ended.committed {
            self.core.work.notify_one(); // there may be deliveries
        }
        self.ended.send_replace(Some(ended));
    }

    /// Another process ended the call.
    pub(super) fn ended_elsewhere(&self, outcome: &CallOutcome) {
        if !self.ending.swap(true, Ordering::SeqCst) {
            let _ = self.writer.owned.seal(); // appends say so from here on
            self.conclude(elsewhere(outcome));
        }
    }

    /// Hears of the end of the call.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Ended>> {
        self.ended.subscribe()
    }

    pub(super) async fn wait_ended(&self) -> Result<Ended> {
        if !self.core.is_ours() {
            return Err(Error::forked());
        }
        let mut ended = self.ended.subscribe();
        tokio::select! {
            biased;
            ended = ended.wait_for(Option::is_some) => {
                ended.ok().and_then(|ended| ended.clone()).ok_or_else(|| Error::closed("call"))
            }
            () = self.core.gone() => Err(Error::closed("hub")),
        }
    }
}

impl Drop for CallInner {
    fn drop(&mut self) {
        // In a forked child the locks may be held by threads that are not there.
        if !self.core.is_ours() {
            return;
        }
        lock(&self.core.calls).remove(&self.record.id);
        if !self.begun() || self.core.is_closed() || self.ending.swap(true, Ordering::SeqCst) {
            return;
        }
        tracing::warn!(call = %self.record.id, tool = self.record.tool, "a call was given up without an outcome: it failed");
        let error = raw_json(ABANDONED).map(Payload::Error);
        let ending = firing::Ended { payload: error, ..bare(Outcome::Failed, None) };
        let handed = self.writer.owned.seal().ok().map(|seq| self.commit_end(&ending, seq));
        let (core, record) = (Arc::clone(&self.core), self.record_now());
        self.core.spawn(async move {
            let refused = match handed {
                Some((reply, _)) => matches!(reply.await, Ok(Err(CommitError::Refused(_)))),
                None => true,
            };
            if refused {
                let _ = others::end_record(&core, &record, &bare(Outcome::Failed, None)).await; // or it ended elsewhere
            }
            core.work.notify_one();
        });
    }
}

fn elsewhere(outcome: &CallOutcome) -> Ended {
    Ended {
        outcome: Outcome::parse(&outcome.status).unwrap_or(Outcome::Failed),
        reason: outcome.reason.clone(),
        ours: false,
        committed: true,
        undelivered: None,
    }
}
