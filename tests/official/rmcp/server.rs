//! The handler, which any server on rmcp would have of its own.
#![allow(deprecated, reason = "the suite asks for what 2026-07-28 calls deprecated too")]

use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, Prompt, PromptArgument, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, RequestStateCodec, Resource, ResourceTemplate, ResultType, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tidings_rmcp::tidings::{Hub, Publish};
use tokio::sync::broadcast;

use crate::fixture::{Fixture, Texts, fill, texts};

/// How long a client may keep a list or a resource, in milliseconds: 2026-07-28 wants it said.
const FRESH_MS: u64 = 0;

/// A list that a tool has changed.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Tools,
    Prompts,
}

#[derive(Clone)]
pub(crate) struct Suite {
    fixture: Arc<Fixture>,
    pub(crate) codec: Arc<RequestStateCodec>,
    /// Those that this server tells itself.
    changes: broadcast::Sender<Change>,
    /// What tells them where the adapter is attached.
    hub: Option<Hub>,
}

impl Suite {
    pub(crate) fn new(fixture: Arc<Fixture>, key: [u8; 32]) -> Self {
        Self { fixture, codec: Arc::new(RequestStateCodec::new(key)), changes: broadcast::channel(16).0, hub: None }
    }

    /// The same with a hub that tells what changes.
    pub(crate) fn on(self, hub: &Hub) -> Self {
        Self { hub: Some(hub.clone()), ..self }
    }

    pub(crate) fn change(&self, change: Change) -> Result<(), ErrorData> {
        let Some(hub) = &self.hub else {
            // Nobody need be listening.
            let _ = self.changes.send(change);
            return Ok(());
        };
        let kinds = match change {
            Change::Tools => &["tools"],
            Change::Prompts => &["prompts"],
        };
        let published = hub.notify(Publish { kinds, ..Publish::default() });
        published.map(drop).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        let tool = self.fixture.tools.get(name)?;
        Some(Tool::new(name.to_owned(), describe(name), tool.input_schema.clone()))
    }

    /// What a resource holds; also of one that a template stands for.
    fn contents(&self, uri: &str) -> Option<(&Value, Texts)> {
        if let Some(part) = self.fixture.resources.get(uri) {
            return Some((part, Texts::new()));
        }
        self.fixture.templates.iter().find_map(|(template, part)| {
            let (before, after) = template.split_once("{id}")?;
            let id = uri.strip_prefix(before)?.strip_suffix(after)?;
            Some((part, Texts::from([("id".to_owned(), id.to_owned())])))
        })
    }
}

fn describe(name: &str) -> String {
    format!("The suite's {name}.")
}

impl ServerHandler for Suite {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed();
        ServerConfig::new(capabilities.build())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tool(name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.fixture.tools.keys().filter_map(|name| self.tool(name)).collect();
        let result = ListToolsResult::with_all_items(tools);
        Ok(result.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.fixture.tools.get(&*request.name) else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None));
        };
        self.run(tool, request, context).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let listed = self.fixture.prompts.iter().map(|(name, prompt)| {
            let arguments = prompt.arguments.iter().map(|name| PromptArgument::new(name).with_required(true));
            Prompt::new(name, Some(describe(name)), Some(arguments.collect()))
        });
        let result = ListPromptsResult::with_all_items(listed.collect());
        Ok(result.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(prompt) = self.fixture.prompts.get(&request.name) else {
            return Err(ErrorData::invalid_params(format!("Unknown prompt: {}", request.name), None));
        };
        let mut given = texts(request.arguments.as_ref());
        let can = context.client_capabilities().unwrap_or_default();
        let (state, answers) = (request.request_state.as_deref(), request.input_responses.as_ref());
        if let Some(asked) = prompt.questions.next(&self.codec, state, answers, &can, &mut given)? {
            return Ok(asked.into());
        }
        let mut result: GetPromptResult = fill(&prompt.result, &given)?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed =
            self.fixture.resources.keys().map(|uri| Resource::new(uri, uri).with_description(describe(uri))).collect();
        let result = ListResourcesResult::with_all_items(listed);
        Ok(result.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let listed = self.fixture.templates.keys().map(|uri| ResourceTemplate::new(uri, "template"));
        let result = ListResourceTemplatesResult::with_all_items(listed.collect());
        Ok(result.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some((part, given)) = self.contents(&request.uri) else {
            return Err(ErrorData::resource_not_found("Resource not found", Some(json!({"uri": request.uri}))));
        };
        let mut part = part.clone();
        part["uri"] = request.uri.into();
        let result = ReadResourceResult::new(vec![fill(&part, &given)?]);
        Ok(result.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private).into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // One that was not asked for is refused, one for a client that has gone fails: neither is this server's to mend.
            let _ = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(_) => return Ok(()),
            };
        }
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::new(fill(&self.fixture.completion, &Texts::new())?))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }
}
