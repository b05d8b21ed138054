//! What a tool does: all that the fixture says of it, in its order.
#![allow(deprecated, reason = "the suite asks for what 2026-07-28 calls deprecated too")]

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientResult, CreateMessageRequest,
    ElicitRequest, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ResultType, ServerRequest,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::fixture::{Texts, Tool, fill, texts};
use crate::server::{Change, Suite};

/// Between two messages of a tool that sends several.
const STEP: Duration = Duration::from_millis(50);

impl Suite {
    pub(crate) async fn run(
        &self,
        tool: &Tool,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let can = context.client_capabilities().unwrap_or_default();
        if let Some(needed) = tool.needs.as_ref().filter(|needed| !has(&can, needed)) {
            let required = fill(&json!({ needed: {} }), &Texts::new())?;
            return Err(ErrorData::missing_required_client_capability(required));
        }
        let mut given = texts(request.arguments.as_ref());
        let (state, answers) = (request.request_state.as_deref(), request.input_responses.as_ref());
        if let Some(asked) = tool.questions.next(&self.codec, state, answers, &can, &mut given)? {
            return Ok(asked.into());
        }
        talk(tool, &context, &mut given).await?;
        match tool.changes.as_deref() {
            Some("tools") => self.change(Change::Tools)?,
            Some(_) => self.change(Change::Prompts)?,
            None => {}
        }
        let seconds = match &tool.takes {
            Some(Value::String(argument)) => request.arguments.as_ref().and_then(|given| given.get(argument)?.as_f64()),
            takes => takes.as_ref().and_then(Value::as_f64),
        };
        tokio::time::sleep(Duration::from_secs_f64(seconds.unwrap_or_default())).await;
        if let Some(error) = &tool.error {
            return Err(error.clone());
        }
        let mut result: CallToolResult = fill(&tool.result, &given)?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result.into())
    }
}

fn has(can: &ClientCapabilities, name: &str) -> bool {
    serde_json::to_value(can).is_ok_and(|can| can.get(name).is_some())
}

/// What the tool says to its client, and asks of it while it runs; the answer is added to the texts.
async fn talk(tool: &Tool, context: &RequestContext<RoleServer>, given: &mut Texts) -> Result<(), ErrorData> {
    let failed = |error: rmcp::ServiceError| ErrorData::internal_error(error.to_string(), None);
    // Since 2026-07-28 each request says from which level on it wants messages, and rmcp leaves that to the server.
    let wanted = context.meta.protocol_version().is_none() || context.meta.log_level().is_some();
    for said in tool.logs.iter().filter(|_| wanted) {
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(said));
        context.peer.notify_logging_message(message).await.map_err(failed)?;
        tokio::time::sleep(STEP).await;
    }
    if let Some(token) = context.meta.get_progress_token() {
        for done in &tool.progress {
            let progress = ProgressNotificationParam::new(token.clone(), *done).with_total(100.0);
            context.peer.notify_progress(progress).await.map_err(failed)?;
            tokio::time::sleep(STEP).await;
        }
    }
    let question = if let Some(elicits) = &tool.elicits {
        ServerRequest::ElicitRequest(ElicitRequest::new(fill(elicits, given)?))
    } else if let Some(samples) = &tool.samples {
        ServerRequest::CreateMessageRequest(CreateMessageRequest::new(fill(samples, given)?))
    } else {
        return Ok(());
    };
    let answer = match context.peer.send_request(question).await.map_err(failed)? {
        ClientResult::ElicitResult(form) => format!("action={:?}, content={:?}", form.action, form.content),
        ClientResult::CreateMessageResult(said) => {
            let text = said.message.content.first().and_then(|block| Some(block.as_text()?.text.clone()));
            text.unwrap_or_default()
        }
        _ => String::new(),
    };
    given.insert("answer".to_owned(), answer);
    Ok(())
}
