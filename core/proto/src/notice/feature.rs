//! Notifications of single features: the right frame for the peer's version, or why there is none.

use crate::fanout::mcp::{self, MCP};
use crate::fanout::{Frame, Method, NoFrame, Profile};

/// A client's `notifications/roots/list_changed`. It must be sent on a change by a client that declared
/// `roots.listChanged`; 2026-07-28 does not have it.
///
/// # Errors
/// Why there is none.
pub fn roots_list_changed(profile: &Profile) -> Result<Frame, NoFrame> {
    profile.gate(&mcp::ROOTS_LIST_CHANGED)?;
    Ok(Frame::list(&mcp::ROOTS_LIST_CHANGED))
}

/// `notifications/resources/updated` to a legacy peer that subscribed.
///
/// # Errors
/// [`NoFrame::NotAsked`] from 2026-07-28 on, where it goes to listeners only, and other reasons.
pub fn resource_updated(profile: &Profile, uri: &str) -> Result<Frame, NoFrame> {
    let method = updated();
    profile.gate(method)?;
    if profile.listens() {
        return Err(NoFrame::NotAsked);
    }
    Frame::named(method, uri)
}

fn updated() -> &'static Method {
    &MCP.methods[mcp::UPDATED]
}

/// `notifications/elicitation/complete` to the client that got that URL elicitation (2025-11-25 only).
///
/// # Errors
/// Why there is none.
pub fn elicitation_complete(profile: &Profile, elicitation_id: &str) -> Result<Frame, NoFrame> {
    profile.gate(&mcp::ELICITATION_COMPLETE)?;
    Frame::named(&mcp::ELICITATION_COMPLETE, elicitation_id)
}

/// `notifications/tasks/status` of core tasks (2025-11-25 only); `task` is a `Task` of that version as JSON text.
///
/// # Errors
/// Why there is none.
pub fn task_status(profile: &Profile, task: &str) -> Result<Frame, NoFrame> {
    profile.gate(&mcp::TASK_STATUS)?;
    Frame::state(mcp::TASK_STATUS.name, task)
}

/// `notifications/tasks` of the Tasks extension, to a listener that named the task; `task` is a `DetailedTask`. The frame
/// must be tagged.
///
/// # Errors
/// Why there is none.
pub fn task(profile: &Profile, task: &str) -> Result<Frame, NoFrame> {
    let method = &MCP.methods[mcp::TASK];
    profile.gate(method)?;
    Frame::state(method.name, task)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str =
        r#"{"resources":{"subscribe":true},"tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    const CLIENT: &str =
        r#"{"roots":{"listChanged":true},"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

    fn said(frame: Result<Frame, NoFrame>) -> String {
        frame.map_or_else(|why| why.as_str().to_owned(), |frame| frame.plain().to_owned())
    }

    /// Rows by hand from mcp-protocol.md 3.1: version, roots, updated, elicitation, tasks/status, tasks.
    #[test]
    fn each_version_has_its_own() {
        let gone = "not_in_version";
        let rows = [
            ("2024-11-05", true, Some(true), false, false, false),
            ("2025-03-26", true, Some(true), false, false, false),
            ("2025-06-18", true, Some(true), false, false, false),
            ("2025-11-25", true, Some(true), true, true, false),
            ("2026-07-28", false, None, false, false, true),
        ];
        for (version, roots, resource, elicitation, status, tasks) in rows {
            let profile = Profile::new(&MCP, version, SERVER, CLIENT).unwrap();
            let check = |what: &str, frame: Result<Frame, NoFrame>, there: bool, params: &str| {
                let want = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{what}"{params}}}"#);
                assert_eq!(said(frame), if there { &want } else { gone }, "{version} {what}");
            };
            check("roots/list_changed", roots_list_changed(&profile), roots, "");
            check(
                "elicitation/complete",
                elicitation_complete(&profile, "e"),
                elicitation,
                r#","params":{"elicitationId":"e"}"#,
            );
            check("tasks/status", task_status(&profile, r#"{"taskId":"t"}"#), status, r#","params":{"taskId":"t"}"#);
            check("tasks", task(&profile, r#"{"taskId":"t"}"#), tasks, r#","params":{"taskId":"t"}"#);
            match resource {
                Some(there) => {
                    check("resources/updated", resource_updated(&profile, "a:b"), there, r#","params":{"uri":"a:b"}"#)
                }
                None => assert_eq!(resource_updated(&profile, "a:b"), Err(NoFrame::NotAsked)),
            }
        }
    }

    #[test]
    fn capabilities_gate_them_too() {
        let bare = |version| Profile::new(&MCP, version, "{}", "{}").unwrap();
        assert_eq!(roots_list_changed(&bare("2025-11-25")), Err(NoFrame::NotDeclared));
        assert_eq!(resource_updated(&bare("2025-11-25"), "a:b"), Err(NoFrame::NotAdvertised));
        assert_eq!(elicitation_complete(&bare("2025-11-25"), "e"), Err(NoFrame::NotDeclared));
        assert_eq!(task_status(&bare("2025-11-25"), "{}"), Err(NoFrame::NotAdvertised));
        assert_eq!(task(&bare("2026-07-28"), "{}"), Err(NoFrame::NotAdvertised));
        let whole = Profile::new(&MCP, "2026-07-28", SERVER, CLIENT).unwrap();
        assert_eq!(task(&whole, "7"), Err(NoFrame::NoObject));
    }
}
