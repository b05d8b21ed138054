use super::mcp::{EVENTS, MCP, TASK, TASKS, UPDATED};
use super::*;
use crate::id::RequestId;

const ALL: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},
    "resources":{"listChanged":true,"subscribe":true},"tasks":{},
    "extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/events":{}}}"#;

fn profile(version: &str, server: &str, client: &str) -> Profile {
    Profile::new(&MCP, version, server, client).unwrap()
}

fn offered(version: &str, server: &str, client: &str) -> Vec<&'static str> {
    let offered = profile(version, server, client).offered();
    offered.places().filter_map(|place| MCP.methods[place].filter).collect()
}

#[test]
fn the_table_is_whole() {
    assert_eq!(MCP.methods[UPDATED].name, "notifications/resources/updated");
    assert_eq!(MCP.methods[TASK].name, "notifications/tasks");
    for kind in MCP.kinds {
        assert!(kind.method < MCP.methods.len());
    }
    for method in MCP.methods {
        assert!(MCP.version(method.versions.0).is_some());
        assert_ne!(method.versions.1.map(|last| MCP.version(last)), Some(None));
    }
}

#[test]
fn version_and_both_capabilities_gate_a_method() {
    let lists = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
    let legacy = [&lists[..], &["resourceSubscriptions"]].concat();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(offered(version, ALL, "{}"), legacy, "{version}: what the client declares does not matter");
    }
    let modern = [&lists[..], &["eventsListChanged", "resourceSubscriptions"]].concat();
    assert_eq!(offered("2026-07-28", ALL, "{}"), modern);
    let tasks = format!(r#"{{"extensions":{{"{TASKS}":{{}}}}}}"#);
    assert_eq!(offered("2026-07-28", ALL, &tasks), [&modern[..], &["taskIds"]].concat());
    for nothing in [
        "{}",
        r#"{"tools":{}}"#,
        r#"{"tools":{"listChanged":false}}"#,
        r#"{"tools":{"listChanged":null}}"#,
        r#"{"tools":{"listChanged":"true"}}"#,
        r#"{"tools":true}"#,
        r#"{"listChanged":true}"#,
        r#"{"tools":null}"#,
    ] {
        assert_eq!(offered("2025-11-25", nothing, "{}"), [""; 0], "{nothing}");
    }
    assert_eq!(offered("2025-06-18", r#"{"tools":{"listChanged":true}}"#, "{}"), ["toolsListChanged"]);
    let gate = |version, server, client| profile(version, server, client).gate(&MCP.methods[TASK]);
    assert_eq!(gate("2025-11-25", ALL, &tasks), Err(NoFrame::NotInVersion));
    assert_eq!(gate("2026-07-28", "{}", &tasks), Err(NoFrame::NotAdvertised));
    assert_eq!(gate("2026-07-28", ALL, "{}"), Err(NoFrame::NotDeclared));
}

#[test]
fn profiles_that_are_none() {
    let error = |version, server, client| Profile::new(&MCP, version, server, client).unwrap_err().to_string();
    assert_eq!(error("2024-10-07", "{}", "{}"), r#"version: "2024-10-07" is not known"#);
    assert_eq!(error("2025-11-25", "[]", "{}"), "server_capabilities: must be a JSON object");
    assert_eq!(error("2025-11-25", "{}", "{"), "client_capabilities: must be a JSON object");
}

#[test]
fn filters_are_read_and_their_honoured_part_is_told() {
    let parse = |raw: &str| Filter::parse(&MCP, raw);
    let server = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true}}"#;
    let honoured = |raw: &str| {
        let honoured = parse(raw).unwrap().honoured(&profile("2026-07-28", server, "{}")).unwrap();
        honoured.to_json(&MCP)
    };
    assert_eq!(honoured(r#"{"toolsListChanged":true,"promptsListChanged":true}"#), r#"{"toolsListChanged":true}"#);
    assert_eq!(honoured("{}"), "{}");
    assert_eq!(honoured(r#"{"toolsListChanged":false,"promptsListChanged":null,"resourceSubscriptions":[]}"#), "{}");
    assert_eq!(
        honoured(r#"{"resourceSubscriptions":["a:b","c:d","a:b"],"com.example/x":[1]}"#),
        r#"{"resourceSubscriptions":["a:b","c:d"]}"#
    );
    assert_eq!(honoured(r#"{"eventsListChanged":true}"#), "{}", "the server has no {EVENTS}");
    for (raw, message) in [
        ("[]", "notifications: must be an object"),
        ("null", "notifications: must be an object"),
        (r#"{"toolsListChanged":1}"#, "notifications.toolsListChanged: must be a boolean"),
        (r#"{"resourceSubscriptions":"a:b"}"#, "notifications.resourceSubscriptions: must be an array of strings"),
        (r#"{"resourceSubscriptions":[1]}"#, "notifications.resourceSubscriptions: must be an array of strings"),
        (r#"{"taskIds":{}}"#, "notifications.taskIds: must be an array of strings"),
    ] {
        assert_eq!(parse(raw).unwrap_err().to_string(), message);
    }
    let many: Vec<_> = (0..=Filter::MAX_NAMES).map(|n| format!("\"x:{n}\"")).collect();
    let many = format!(r#"{{"resourceSubscriptions":[{}]}}"#, many.join(","));
    assert!(matches!(parse(&many), Err(FilterError::TooMany { .. })));
    let tasks = parse(r#"{"taskIds":["t"]}"#).unwrap();
    let undeclared = tasks.honoured(&profile("2026-07-28", ALL, "{}")).unwrap_err();
    assert_eq!(undeclared.to_string(), format!("taskIds: needs the client capability extensions.{TASKS}"));
    assert!(EVENTS.starts_with("io.modelcontextprotocol/"));
}

#[test]
fn frames_are_encoded_once_and_tags_spliced_in() {
    let tools = Frame::list(&MCP.methods[0]);
    let updated = Frame::named(&MCP.methods[UPDATED], "file:///\"a\"").unwrap();
    let state = Frame::state("notifications/tasks", r#"{"taskId":"t"}"#).unwrap();
    let empty = Frame::state("notifications/tasks", "{ }").unwrap();
    let tag = |raw: &str| Tag::new(&MCP, &RequestId::parse(raw.as_bytes()).unwrap());
    assert_eq!(tools.plain(), r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert_eq!(tools.params(None), None);
    assert_eq!(
        updated.plain(),
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///\"a\""}}"#
    );
    for (id, text) in
        [("0", "0"), ("7", "7"), ("\"7\"", "\"7\""), ("\"\"", "\"\""), ("18446744073709551615", "18446744073709551615")]
    {
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{text}}}"#);
        let tag = Some(tag(id));
        let tag = tag.as_ref();
        let head = r#"{"jsonrpc":"2.0","method":"notifications/"#;
        assert_eq!(tools.tagged(tag), format!(r#"{head}tools/list_changed","params":{{{meta}}}}}"#));
        let params = format!(r#"{{{meta},"uri":"file:///\"a\""}}"#);
        assert_eq!(updated.tagged(tag), format!(r#"{head}resources/updated","params":{params}}}"#));
        assert_eq!(updated.params(tag), Some(params));
        assert_eq!(state.tagged(tag), format!(r#"{head}tasks","params":{{{meta},"taskId":"t"}}}}"#));
        assert_eq!(empty.tagged(tag), format!(r#"{head}tasks","params":{{{meta}}}}}"#));
    }
    for bad in ["[]", r#"{"_meta":null}"#, r#"{"_meta":{},"_meta":[]}"#] {
        assert_eq!(Frame::state("m", bad), Err(NoFrame::NoObject), "{bad}");
    }
    assert_eq!(Frame::state("m", "{"), Err(NoFrame::NoObject));
}

/// A reader takes the last of two members of one name: a second `_meta` would take the tag from it, or the state's own.
#[test]
fn a_tag_joins_the_meta_that_is_there() {
    let id = r#""io.modelcontextprotocol/subscriptionId":7"#;
    let tag = Tag::new(&MCP, &RequestId::from(7_i64));
    for (state, want) in [
        (r#"{"_meta":{},"a":1}"#, format!(r#"{{"_meta":{{{id}}},"a":1}}"#)),
        (r#"{ "a":1, "_meta" : { "b":[] } }"#, format!(r#"{{ "a":1, "_meta" : {{ "b":[] ,{id}}} }}"#)),
        (r#"{"_meta":{"b":1},"_meta":{"c":{}}}"#, format!(r#"{{"_meta":{{"b":1}},"_meta":{{"c":{{}},{id}}}}}"#)),
        (
            r#"{"\u005fmeta":{"io.modelcontextprotocol/subscriptionId":1}}"#,
            format!(r#"{{"\u005fmeta":{{"io.modelcontextprotocol/subscriptionId":1,{id}}}}}"#),
        ),
    ] {
        let frame = Frame::state("m", state).unwrap();
        assert_eq!(frame.params(None).as_deref(), Some(state));
        assert_eq!(frame.params(Some(&tag)), Some(want.clone()));
        assert_eq!(frame.tagged(Some(&tag)), format!(r#"{{"jsonrpc":"2.0","method":"m","params":{want}}}"#));
    }
}

/// Nothing is hard-wired: a protocol like A2A, with other words, other gates and one method for two kinds.
#[test]
fn another_protocol_is_another_table() {
    static A2A: Protocol = Protocol {
        name: "A2A-like",
        versions: &[Version { name: "0.3", listens: false }, Version { name: "1.0", listens: true }],
        kinds: &[
            Kind { name: "card", method: 0 },
            Kind { name: "skills", method: 0 },
            Kind { name: "status", method: 1 },
        ],
        methods: &[
            Method {
                name: "agent/cardChanged",
                about: About::List,
                versions: ("0.3", None),
                server: &["capabilities", "extendedCard"],
                client: &[],
                filter: Some("card"),
            },
            Method {
                name: "tasks/statusUpdate",
                about: About::Named("contextId"),
                versions: ("1.0", None),
                server: &["capabilities", "streaming"],
                client: &[],
                filter: Some("contexts"),
            },
        ],
        acknowledged: "agent/subscribed",
        acknowledged_member: "wants",
        listener_id: "subscription",
    };
    let server = r#"{"capabilities":{"extendedCard":true,"streaming":true}}"#;
    let both = A2A.kinds(["card", "skills"]).unwrap();
    assert_eq!(A2A.methods(both), MethodSet::one(0));
    let new = Profile::new(&A2A, "1.0", server, "{}").unwrap();
    let filter = Filter::parse(&A2A, r#"{"contexts":["c"],"toolsListChanged":true}"#).unwrap();
    let honoured = filter.honoured(&new).unwrap();
    assert_eq!(honoured.to_json(&A2A), r#"{"contexts":["c"]}"#);
    let tag = Tag::new(&A2A, &RequestId::from(1_i64));
    assert_eq!(
        Frame::acknowledged(&A2A, &honoured).tagged(Some(&tag)),
        r#"{"jsonrpc":"2.0","method":"agent/subscribed","params":{"_meta":{"subscription":1},"wants":{"contexts":["c"]}}}"#
    );
    let old = Profile::new(&A2A, "0.3", server, "{}").unwrap();
    assert_eq!(Filter::implied(&old).methods(), MethodSet::one(0));
    assert_eq!(
        A2A.kinds(["tools"]).unwrap_err().to_string(),
        r#"kinds: "tools" is none; there are card, skills, status"#
    );
}

#[test]
fn several_kinds_may_have_one_method() {
    let kinds = MCP.kinds(["resources", "resource_templates", "tools"]).unwrap();
    assert_eq!(MCP.methods(kinds).places().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(MCP.names(kinds).collect::<Vec<_>>(), ["tools", "resources", "resource_templates"]);
}
