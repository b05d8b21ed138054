//! Routes of the server's own, for calls whose client brings no config.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tidings::proto::id::RequestId;
use tidings::proto::wire::sep992::{ROUTE_MESSAGE, ROUTE_SIGNAL, ROUTE_WEBHOOK};
use tidings::{BeginCall, Hub};

use crate::session_place::CallersPlace;

/// For all tools, and by name. A tool that is named has its own only.
#[derive(Clone, Default)]
pub(crate) struct OwnRoutes {
    pub(crate) all: Arc<[Value]>,
    pub(crate) by_tool: HashMap<String, Arc<[Value]>>,
}

/// A config of the server's, which nobody has to allow.
#[derive(Clone)]
pub(crate) struct OwnConfig {
    pub(crate) text: String,
    pub(crate) types: Vec<String>,
    /// The names that its routes lead to.
    pub(crate) open: Vec<String>,
}

impl OwnRoutes {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.by_tool.values().all(|routes| routes.is_empty())
    }

    /// Those of a tool that lead anywhere from the caller's session. `None`: there are none.
    pub(crate) fn config(&self, tool: &str, place: Option<&CallersPlace>) -> Option<OwnConfig> {
        let routes = self.by_tool.get(tool).unwrap_or(&self.all);
        let leads = |route: &&Value| match route["type"].as_str() {
            Some(kind @ (ROUTE_MESSAGE | ROUTE_SIGNAL)) if route["endpoint"].is_null() => {
                place.is_some_and(|place| place.takes(kind))
            }
            _ => true,
        };
        let routes: Vec<&Value> = routes.iter().filter(leads).collect();
        (!routes.is_empty()).then(|| OwnConfig::of(&routes))
    }

    /// Whether any of them goes to the calling session.
    pub(crate) fn goes_to_session(&self, tool: &str) -> bool {
        let routes = self.by_tool.get(tool).unwrap_or(&self.all);
        routes.iter().any(|route| matches!(route["type"].as_str(), Some(ROUTE_MESSAGE | ROUTE_SIGNAL)))
    }
}

impl OwnConfig {
    fn of(routes: &[&Value]) -> Self {
        let texts = |member: &str, of: &dyn Fn(&&&Value) -> bool| {
            let texts = routes.iter().filter(of).filter_map(|route| route[member].as_str());
            texts.map(str::to_owned).collect()
        };
        Self {
            text: json!({"routes": routes}).to_string(),
            types: texts("type", &|_| true),
            open: texts("endpoint", &|route| route["type"] != ROUTE_WEBHOOK),
        }
    }
}

/// The routes, if a config of them would be accepted.
pub(crate) fn checked(hub: &Hub, routes: &Value) -> tidings::Result<Arc<[Value]>> {
    let list = routes.as_array().map(Vec::as_slice).unwrap_or_default();
    if routes.is_array() && list.is_empty() {
        return Ok(Arc::default());
    }
    let config = OwnConfig::of(&list.iter().collect::<Vec<_>>());
    // What is no list is for the core to refuse, in its words.
    let text = json!({"routes": routes}).to_string();
    let types: Vec<&str> = config.types.iter().map(String::as_str).collect();
    let open: Vec<&str> = config.open.iter().map(String::as_str).collect();
    let call = BeginCall {
        config: Some(text.as_bytes()),
        route_types: &types,
        principal: "",
        session: None,
        peer: Some(""),
        open: &open,
        request_id: &RequestId::from(0_i64),
        tool: "",
        timeout: None,
        task: None,
    };
    hub.check_config(&call)?;
    Ok(list.into())
}
