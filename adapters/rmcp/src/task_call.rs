//! One `tools/call` that may become a task (SEP-2663): it runs inline for a while, then the client gets its id.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CreateTaskResult, InputResponses, MetaObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tidings::proto::trigger::Reason;
use tidings::proto::wire::{rpc, tidings::META_ACKNOWLEDGED};
use tidings::{BeginCall, Call, Room};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::adapter::Adapter;
use crate::call::{Asked, Leaving, Left, accept, acknowledge, cancelled, elsewhere, leaves, outcome};
use crate::overheard::Hearing;
use crate::running::RunningCall;
use crate::tasks::{TaskMode, Tasks, millis};
use crate::wire;

type Answer = Result<CallToolResponse, ErrorData>;

/// A tool that runs beside its request. It is stopped when nobody is left who waits for it.
struct Tool {
    running: JoinHandle<Answer>,
}

impl Tool {
    fn start<H: ServerHandler>(
        handler: &Arc<H>,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Self {
        let handler = Arc::clone(handler);
        Self { running: tokio::spawn(async move { handler.call_tool(params, context).await }) }
    }

    async fn done(&mut self) -> Answer {
        (&mut self.running).await.unwrap_or_else(|error| Err(broke_off(&error)))
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.running.abort();
    }
}

fn broke_off(error: &JoinError) -> ErrorData {
    tracing::error!(%error, "a tool broke off");
    wire::error(rpc::INTERNAL_ERROR, "Internal error", None)
}

/// Answers the request of a client that declared the extension, with the result or with a task.
///
/// The record of a task is on disk before the client hears of it.
pub(crate) async fn task_call<H: ServerHandler>(
    terms: &Adapter,
    tasks: &Arc<Tasks>,
    handler: &Arc<H>,
    asked: Asked,
) -> Answer {
    let began = Instant::now();
    let mode = tasks.mode(asked.tool());
    let watched = if asked.has_routes() { Some(accept(terms, &asked).await?) } else { None };
    let (running, acknowledgement) = match &watched {
        Some(call) => {
            let running = RunningCall::begun(call.clone(), &asked.context);
            (running, acknowledge(call, &asked).await)
        }
        None => (RunningCall::waiting(&asked.context), None),
    };
    let stop = CancellationToken::new();
    let (context, hearing) = asked.tool_context(&stop, running.clone());
    let mut becoming = Becoming { terms, tasks, asked: &asked, watched: watched.as_ref(), began, tried: false };
    let mut task = None;
    // A task is on record before its tool runs, where it is always one.
    if mode == TaskMode::Always {
        task = becoming.task(&running).await;
    }
    let mut tool = Tool::start(handler, asked.params.clone(), context.clone());
    let mut leaving = Leaving::new(&asked);
    let inline = began + tasks.inline;
    let over = terms.timeout.filter(|_| watched.is_none()).map(|timeout| began + timeout);
    while task.is_none() {
        tokio::select! {
            biased;
            result = tool.done() => return match &watched {
                Some(call) => outcome(call, acknowledgement, true, result).await,
                None => result, // as if we were not there
            },
            ended = ended(watched.as_ref()) => {
                stop.cancel();
                return Err(ended);
            }
            left = leaving.next() => match &watched {
                Some(call) if left == Left::Cancelled => {
                    stop.cancel();
                    return Err(cancelled(call).await);
                }
                Some(call) => leaves(terms, call, &asked, left),
                // Nothing lets this call outlive its request (2026-07-28: to leave is to cancel).
                None => {
                    stop.cancel();
                    return Err(wire::disconnected());
                }
            },
            () = until(over) => {
                stop.cancel();
                return Err(wire::timed_out(terms.timeout.map_or(0, millis)));
            }
            () = inline_is_over(inline, &running), if !becoming.tried => task = becoming.task(&running).await,
        }
    }
    let Some((call, room)) = task else { return Err(wire::unknown_task()) };
    let answer = created(terms, tasks, &asked, &call, acknowledgement)?;
    let run = Run { call, handler: Arc::clone(handler), params: asked.params, context, _hearing: hearing, stop, room };
    tokio::spawn(run.wait(tool, Instant::now() + terms.detach.time, Arc::clone(tasks)));
    Ok(answer)
}

async fn inline_is_over(inline: Instant, running: &RunningCall) {
    tokio::select! {
        () = sleep_until(inline) => {}
        () = running.full() => {}
    }
}

async fn until(over: Option<Instant>) {
    match over {
        Some(over) => sleep_until(over).await,
        None => std::future::pending().await,
    }
}

/// Waits for an end of a call that is not its tool's.
async fn ended(call: Option<&Call>) -> ErrorData {
    match call {
        Some(call) => elsewhere(call, call.ended().await),
        None => std::future::pending().await,
    }
}

/// A call on its way to become a task.
struct Becoming<'a> {
    terms: &'a Adapter,
    tasks: &'a Tasks,
    asked: &'a Asked,
    watched: Option<&'a Call>,
    began: Instant,
    tried: bool,
}

impl Becoming<'_> {
    /// On disk when this answers it. What cannot become a task goes on as the call it is.
    async fn task(&mut self, running: &RunningCall) -> Option<(Call, Room)> {
        self.tried = true;
        let asker = &self.asked.asker;
        // Taken before anything waits, so that two calls do not take the last one.
        let room = self.terms.hub.room(&asker.counted_as, self.terms.detach.calls)?;
        let terms = self.tasks.terms(asker.bound);
        let became = match self.watched {
            Some(call) => call.become_task(terms).await.map(|became| became.then(|| call.clone())),
            None => self.begin().await,
        };
        match became {
            Ok(call) => {
                let call = call?;
                if self.watched.is_none() {
                    running.become_call(call.clone());
                }
                Some((call, room))
            }
            Err(error) => {
                if !error.retryable() {
                    tracing::warn!(%error, "a call could not become a task");
                }
                None
            }
        }
    }

    async fn begin(&self) -> tidings::Result<Option<Call>> {
        let Some(id) = self.asked.request_id() else { return Ok(None) };
        let left = |timeout: std::time::Duration| timeout.saturating_sub(self.began.elapsed());
        let begin = BeginCall {
            config: None,
            route_types: &[],
            principal: &self.asked.asker.name,
            session: None,
            peer: None,
            open: &[],
            request_id: &id,
            tool: self.asked.tool(),
            timeout: self.terms.timeout.map(|timeout| left(timeout).max(std::time::Duration::from_millis(1))),
            task: Some(self.tasks.terms(self.asked.asker.bound)),
        };
        self.terms.hub.begin_call_traced(begin, self.asked.context.meta.get_traceparent()).await.map(Some)
    }
}

/// The answer that names the task.
fn created(terms: &Adapter, tasks: &Tasks, asked: &Asked, call: &Call, acknowledgement: Option<Value>) -> Answer {
    let lost = || wire::error(rpc::INTERNAL_ERROR, "The task could not be looked up", None);
    let task = terms.hub.task(&call.id().to_string(), &asked.asker.name).ok().flatten().ok_or_else(lost)?;
    let shown = tasks.shown(&task).map_err(|_| lost())?;
    let mut result = CreateTaskResult::new(serde_json::from_value(shown).map_err(|_| lost())?);
    if let Some(acknowledgement) = acknowledgement {
        result.meta = Some(MetaObject::default());
        if let Some(meta) = &mut result.meta {
            meta.0.insert(META_ACKNOWLEDGED.to_owned(), acknowledgement);
        }
    }
    Ok(CallToolResponse::Task(result))
}

/// A task whose client has its id.
struct Run<H> {
    call: Call,
    handler: Arc<H>,
    params: CallToolRequestParams,
    context: RequestContext<RoleServer>,
    _hearing: Hearing,
    stop: CancellationToken,
    /// Held until it has ended.
    room: Room,
}

impl<H: ServerHandler> Run<H> {
    /// Waits for its tool, or whatever else ends it.
    async fn wait(mut self, mut tool: Tool, expires: Instant, tasks: Arc<Tasks>) {
        while let Some(result) = self.result(&mut tool, expires).await {
            let Ok(CallToolResponse::InputRequired(asks)) = result else {
                // Its outcome, or another's that was there first: both are what the task came to.
                drop(outcome(&self.call, None, true, result).await);
                break;
            };
            let requests = asks.input_requests.unwrap_or_default();
            let answers = if requests.is_empty() {
                // Nothing but its own state: it wants to be called again.
                sleep(tasks.poll).await;
                Some(InputResponses::new())
            } else {
                self.ask(&json!(requests), expires).await
            };
            let Some(answers) = answers else { break };
            self.params.input_responses = Some(answers);
            self.params.request_state = asks.request_state;
            tool = Tool::start(&self.handler, self.params.clone(), self.context.clone());
        }
        self.stop.cancel();
        drop(self.room);
    }

    /// `None`: the task has ended without its tool.
    async fn result(&self, tool: &mut Tool, expires: Instant) -> Option<Answer> {
        tokio::select! {
            biased;
            result = tool.done() => Some(result),
            _ = self.call.ended() => None,
            () = sleep_until(expires) => {
                self.expire().await;
                None
            }
        }
    }

    async fn ask(&self, requests: &Value, expires: Instant) -> Option<InputResponses> {
        let requests = requests.to_string();
        match timeout_at(expires, self.call.ask(requests.as_bytes())).await {
            Ok(Ok(answers)) => serde_json::from_str(&answers).ok(),
            Ok(Err(error)) => {
                if error.code() != tidings::ErrorCode::Ended {
                    let text = json!({"code": rpc::INTERNAL_ERROR, "message": "Internal error"}).to_string();
                    tracing::warn!(%error, "a task could not ask its client");
                    drop(self.call.fail(Some(text.as_bytes()), None).await);
                }
                None
            }
            Err(_) => {
                self.expire().await;
                None
            }
        }
    }

    async fn expire(&self) {
        if let Err(error) = self.call.cancel(Some(Reason::DetachExpired)).await {
            tracing::warn!(%error, "a task could not be ended");
        }
    }
}
