//! MCP's table: versions 2024-11-05 to 2026-07-28, with the Tasks extension (SEP-2663) and Events (SEP-3415).

use super::protocol::{About, Kind, Method, Protocol, Version};

/// The newest version of the handshake era.
pub const LATEST_LEGACY: &str = "2025-11-25";
/// The first version of the stateless era.
pub const FIRST_MODERN: &str = "2026-07-28";
/// Id of the Tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// Id of the Events extension (SEP-3415).
pub const EVENTS: &str = "io.modelcontextprotocol/events";
/// Request that opens a listener.
pub const LISTEN: &str = "subscriptions/listen";

/// The place of `notifications/resources/updated` in [`MCP`]'s methods.
pub const UPDATED: usize = 4;
/// The place of `notifications/tasks` in [`MCP`]'s methods.
pub const TASK: usize = 5;

/// MCP.
pub static MCP: Protocol = Protocol {
    name: "MCP",
    versions: &[
        Version { name: "2024-11-05", listens: false },
        Version { name: "2025-03-26", listens: false },
        Version { name: "2025-06-18", listens: false },
        Version { name: "2025-11-25", listens: false },
        Version { name: "2026-07-28", listens: true },
    ],
    kinds: &[
        Kind { name: "tools", method: 0 },
        Kind { name: "prompts", method: 1 },
        Kind { name: "resources", method: 2 },
        // MCP has no notification for templates alone.
        Kind { name: "resource_templates", method: 2 },
        Kind { name: "events", method: 3 },
        Kind { name: "resource", method: UPDATED },
        Kind { name: "task", method: TASK },
    ],
    methods: &[
        list("notifications/tools/list_changed", &["tools", "listChanged"], "toolsListChanged"),
        list("notifications/prompts/list_changed", &["prompts", "listChanged"], "promptsListChanged"),
        list("notifications/resources/list_changed", &["resources", "listChanged"], "resourcesListChanged"),
        Method {
            name: "notifications/events/list_changed",
            about: About::List,
            versions: (FIRST_MODERN, None),
            server: &["extensions", EVENTS],
            client: &[],
            filter: Some("eventsListChanged"),
        },
        Method {
            name: "notifications/resources/updated",
            about: About::Named("uri"),
            versions: ("2024-11-05", None),
            server: &["resources", "subscribe"],
            client: &[],
            filter: Some("resourceSubscriptions"),
        },
        Method {
            name: "notifications/tasks",
            about: About::State,
            versions: (FIRST_MODERN, None),
            server: &["extensions", TASKS],
            client: &["extensions", TASKS],
            filter: Some("taskIds"),
        },
    ],
    acknowledged: "notifications/subscriptions/acknowledged",
    acknowledged_member: "notifications",
    listener_id: "io.modelcontextprotocol/subscriptionId",
};

const fn list(name: &'static str, server: &'static [&'static str], filter: &'static str) -> Method {
    Method { name, about: About::List, versions: ("2024-11-05", None), server, client: &[], filter: Some(filter) }
}

/// A client's `notifications/roots/list_changed`.
pub static ROOTS_LIST_CHANGED: Method = Method {
    name: "notifications/roots/list_changed",
    about: About::List,
    versions: ("2024-11-05", Some(LATEST_LEGACY)),
    server: &[],
    client: &["roots", "listChanged"],
    filter: None,
};

/// `notifications/elicitation/complete`, 2025-11-25 only (SEP-1036).
pub static ELICITATION_COMPLETE: Method = Method {
    name: "notifications/elicitation/complete",
    about: About::Named("elicitationId"),
    versions: (LATEST_LEGACY, Some(LATEST_LEGACY)),
    server: &[],
    client: &["elicitation", "url"],
    filter: None,
};

/// `notifications/tasks/status` of the experimental core tasks, 2025-11-25 only (SEP-1686).
pub static TASK_STATUS: Method = Method {
    name: "notifications/tasks/status",
    about: About::State,
    versions: (LATEST_LEGACY, Some(LATEST_LEGACY)),
    server: &["tasks"],
    client: &[],
    filter: None,
};
