//! Triggers that are objects.

use super::*;

/// A config whose one route lists these triggers.
fn listing(triggers: &str) -> String {
    webhook("").replace("\"completed\"", triggers)
}

#[test]
fn triggers_may_be_objects() {
    let config = parse(
        &listing(
            r#"{"on":"failed"},{"on":"com.example/x","when":[{"path":"/a~1b/0","ge":1.0},{"exists":false,"path":""}]},
           {"elapsedMs":1},{"everyMs":1e4},{"group":"g","all":64,"on":"completed"},{"group":"","any":true},
           {"group":"g","count":1,"deadlineMs":86400000}"#,
        )
        .replacen('{', r#"{"group":"g","#, 1),
    )
    .unwrap();
    assert_eq!(config.group.as_deref(), Some("g"));
    let triggers: Vec<_> = config.triggers().collect();
    assert_eq!(
        triggers[..4],
        [&Trigger::Failed, &Trigger::from_name("com.example/x"), &Trigger::Elapsed(1), &Trigger::Every(10_000)]
    );
    let aggregates: Vec<_> = triggers[4..]
        .iter()
        .map(|trigger| match trigger {
            Trigger::Group(aggregate) => aggregate.to_json(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        aggregates,
        [
            r#"{"group":"g","on":"completed","all":64}"#,
            r#"{"group":"","any":true}"#,
            r#"{"group":"g","count":1,"deadlineMs":86400000}"#,
        ]
    );
    assert_eq!(config.routes[0].triggers[1].when.len(), 2);
    assert!(config.ignored_triggers().is_empty());
}

#[test]
fn every_fault_of_a_trigger_object_is_named() {
    for (triggers, want) in [
        ("{}", &[("/routes/0/triggers/0", "missing")][..]),
        (r#"{"x":1}"#, &[("/routes/0/triggers/0", "missing")]),
        (r#"{"when":[{"path":"","exists":true}]}"#, &[("/routes/0/triggers/0", "missing")]),
        (r#"{"on":1}"#, &[("/routes/0/triggers/0/on", "wrong_type")]),
        (r#"{"on":"failed","x":1}"#, &[("/routes/0/triggers/0/x", "unknown_member")]),
        (r#"{"on":"failed","when":[]}"#, &[("/routes/0/triggers/0/when", "empty")]),
        (r#"{"on":"failed","when":{}}"#, &[("/routes/0/triggers/0/when", "wrong_type")]),
        (r#"{"on":"failed","when":["a"]}"#, &[("/routes/0/triggers/0/when/0", "wrong_type")]),
        (r#"{"on":"failed","when":[{"eq":1}]}"#, &[("/routes/0/triggers/0/when/0", "missing")]),
        (r#"{"on":"failed","when":[{"path":"/a"}]}"#, &[("/routes/0/triggers/0/when/0", "missing")]),
        (r#"{"on":"failed","when":[{"path":"a","eq":1}]}"#, &[("/routes/0/triggers/0/when/0/path", "pointer")]),
        (r#"{"on":"failed","when":[{"path":"/~2","eq":1}]}"#, &[("/routes/0/triggers/0/when/0/path", "pointer")]),
        (r#"{"on":"failed","when":[{"path":1,"eq":1}]}"#, &[("/routes/0/triggers/0/when/0/path", "wrong_type")]),
        (r#"{"on":"failed","when":[{"path":"/a","eq":1,"ne":2}]}"#, &[("/routes/0/triggers/0/when/0", "too_many")]),
        (
            r#"{"on":"failed","when":[{"path":"/a","eq":1,"like":2}]}"#,
            &[("/routes/0/triggers/0/when/0/like", "unknown_member")],
        ),
        (
            r#"{"on":"failed","when":[{"path":"/a","exists":1},{"path":"/a","in":1},{"path":"/a","lt":null},
            {"path":"/a","ge":[]},{"path":"/a","prefix":1}]}"#,
            &[
                ("/routes/0/triggers/0/when/0/exists", "operand"),
                ("/routes/0/triggers/0/when/1/in", "operand"),
                ("/routes/0/triggers/0/when/2/lt", "operand"),
                ("/routes/0/triggers/0/when/3/ge", "operand"),
                ("/routes/0/triggers/0/when/4/prefix", "operand"),
            ],
        ),
        (r#"{"elapsedMs":0}"#, &[("/routes/0/triggers/0/elapsedMs", "too_small")]),
        (r#"{"elapsedMs":"1"}"#, &[("/routes/0/triggers/0/elapsedMs", "wrong_type")]),
        (r#"{"elapsedMs":1,"on":"failed"}"#, &[("/routes/0/triggers/0/on", "unknown_member")]),
        (r#"{"everyMs":9999}"#, &[("/routes/0/triggers/0/everyMs", "too_small")]),
        (r#"{"group":"g"}"#, &[("/routes/0/triggers/0", "group_rule")]),
        (r#"{"group":"g","all":1,"count":1}"#, &[("/routes/0/triggers/0", "group_rule")]),
        (r#"{"group":"g","all":65}"#, &[("/routes/0/triggers/0/all", "too_big")]),
        (r#"{"group":"g","count":0}"#, &[("/routes/0/triggers/0/count", "too_small")]),
        (r#"{"group":"g","any":false}"#, &[("/routes/0/triggers/0/any", "wrong_type")]),
        (r#"{"group":1,"any":true}"#, &[("/routes/0/triggers/0/group", "wrong_type")]),
        (r#"{"group":"g","any":true,"on":"streaming"}"#, &[("/routes/0/triggers/0/on", "outcome")]),
        (r#"{"group":"g","any":true,"deadlineMs":999}"#, &[("/routes/0/triggers/0/deadlineMs", "too_small")]),
        (r#"{"group":"g","any":true,"deadlineMs":86400001}"#, &[("/routes/0/triggers/0/deadlineMs", "too_big")]),
    ] {
        assert_faults(&listing(triggers), want);
    }
    let condition = r#"{"path":"/a","exists":true}"#;
    let many = |n: usize| listing(&format!(r#"{{"on":"failed","when":[{}]}}"#, vec![condition; n].join(",")));
    assert!(parse(&many(16)).is_ok());
    assert_faults(&many(17), &[("/routes/0/triggers/0/when", "too_many")]);
    let path = |n: usize| listing(&format!(r#"{{"on":"failed","when":[{{"path":"/{}","eq":1}}]}}"#, "é".repeat(n)));
    assert!(parse(&path(511)).is_ok());
    assert_faults(&path(512), &[("/routes/0/triggers/0/when/0/path", "too_long")]);
    assert_faults(
        &webhook("").replacen('{', &format!(r#"{{"group":"{}","#, "g".repeat(129)), 1),
        &[("/group", "too_long")],
    );
}
