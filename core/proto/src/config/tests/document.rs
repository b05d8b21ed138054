//! The text as a whole: JSON, its size, and how its faults are told.

use super::*;

/// Field report B31.
#[test]
fn empty_lists_and_duplicate_ids_are_refused() {
    assert_faults(r#"{"routes":[]}"#, &[("/routes", "empty")]);
    assert_faults(
        r#"{"routes":[{"id":"a","type":"message","triggers":[]},
                      {"id":"a","type":"message","triggers":["completed"]},
                      {"id":"A","type":"message","triggers":["completed"]}]}"#,
        &[("/routes/0/triggers", "empty"), ("/routes/1/id", "duplicate_id")],
    );
}

#[test]
fn wrong_json_types_are_named_each() {
    for text in ["null", "true", "7", r#""x""#, "[]", r#"[{"routes":[]}]"#] {
        assert_faults(text, &[("", "wrong_type")]);
    }
    assert_faults("{}", &[("", "missing")]);
    assert_faults(r#"{"routes":{}}"#, &[("/routes", "wrong_type")]);
    assert_faults(r#"{"routes":null,"timeoutMs":"1"}"#, &[("/routes", "wrong_type"), ("/timeoutMs", "wrong_type")]);
    assert_faults(
        r#"{"routes":["a",{"id":1,"type":2,"endpoint":3,"triggers":4,"secret":5,"headers":6,"deadlineMs":"7",
            "fifoKey":8},{"id":"a","type":"message","triggers":[true,[],null,1]},{}]}"#,
        &[
            ("/routes/0", "wrong_type"),
            ("/routes/1/id", "wrong_type"),
            ("/routes/1/type", "wrong_type"),
            ("/routes/1/endpoint", "wrong_type"),
            ("/routes/1/triggers", "wrong_type"),
            ("/routes/1/secret", "wrong_type"),
            ("/routes/1/headers", "wrong_type"),
            ("/routes/1/deadlineMs", "wrong_type"),
            ("/routes/1/fifoKey", "wrong_type"),
            ("/routes/2/triggers/0", "wrong_type"),
            ("/routes/2/triggers/1", "wrong_type"),
            ("/routes/2/triggers/2", "wrong_type"),
            ("/routes/2/triggers/3", "wrong_type"),
            ("/routes/3", "missing"),
            ("/routes/3", "missing"),
            ("/routes/3", "missing"),
        ],
    );
    let message = &parse(r#"{"routes":{}}"#).unwrap_err().listed()[0].message.clone();
    assert_eq!(message, "routes must be an array, not an object");
}

#[test]
fn members_named_twice_are_refused_where_they_are_read() {
    assert_faults(
        r#"{"routes":[{"id":"a","\u0069d":"b","type":"message","triggers":["failed"],"headers":{"X":"1","X":"1"}}],
            "a":1,"a":2,"a":3,"routes":[]}"#,
        &[
            ("/a", "duplicate_key"),
            ("/routes", "duplicate_key"),
            ("/routes/0/id", "duplicate_key"),
            ("/routes/0/headers/X", "duplicate_key"),
        ],
    );
    // Inside what is ignored nothing is read, so nothing is ambiguous.
    assert!(parse(&webhook(r#","x":{"a":1,"a":2}"#)).is_ok());
}

/// Field report B59: 10,000 routes in one call.
#[test]
fn long_lists_are_one_fault() {
    let wide = ConfigLimits { max_bytes: usize::MAX, ..limits() };
    let text = format!(r#"{{"routes":[{}{{}}]}}"#, "{},".repeat(9_999));
    let faults = NotificationConfig::parse(text.as_bytes(), &wide, &Checks).unwrap_err();
    assert_eq!(faults.total(), 1);
    assert_eq!(faults.listed()[0].message, "routes has 10000 elements, at most 8 are allowed");
    assert_faults(&text, &[("", "too_large")]);

    let route = |i: usize| format!(r#"{{"id":"r{i}","type":"message","triggers":["completed"]}}"#);
    let routes = |n: usize| format!(r#"{{"routes":[{}]}}"#, (0..n).map(route).collect::<Vec<_>>().join(","));
    assert!(parse(&routes(8)).is_ok());
    assert_faults(&routes(9), &[("/routes", "too_many")]);

    let triggers = |n: usize| webhook("").replace("\"completed\"", &vec!["\"failed\""; n].join(","));
    assert!(parse(&triggers(16)).is_ok());
    assert_faults(&triggers(17), &[("/routes/0/triggers", "too_many")]);
}

#[test]
fn size_and_depth_are_bounded_before_anything_is_read() {
    let padded = |size: usize| {
        let text = webhook("");
        format!("{text}{}", " ".repeat(size - text.len()))
    };
    assert!(parse(&padded(16_384)).is_ok());
    assert_faults(&padded(16_385), &[("", "too_large")]);
    let message = &parse(&padded(16_385)).unwrap_err().listed()[0].message.clone();
    assert_eq!(message, "notificationConfig has 16385 bytes, at most 16384 are allowed");

    let nested =
        |depth: usize| webhook("").replacen('{', &format!(r#"{{"x":{}{},"#, "[".repeat(depth), "]".repeat(depth)), 1);
    assert!(parse(&nested(15)).is_ok());
    assert_faults(&nested(16), &[("", "too_deep")]);
    assert_faults(&nested(8_000), &[("", "too_deep")]);
    assert_faults(&"[".repeat(16_384), &[("", "too_deep")]);
    assert_faults(&r#"{"routes":"#.repeat(1_600), &[("", "too_deep")]);

    let unbounded = NotificationConfig::parse("[".repeat(1_000_000).as_bytes(), &ConfigLimits::stored(), &Checks);
    assert_eq!(unbounded.unwrap_err().listed()[0].rule, "malformed_json");
}

#[test]
fn text_that_is_no_json_is_one_fault() {
    for text in
        ["", " ", "{", r#"{"routes":[}"#, r#"{"routes":[]}x"#, "{'routes':[]}", r#"{"routes":[],}"#, "\u{feff}{}"]
    {
        assert_faults(text, &[("", "malformed_json")]);
    }
    let faults = NotificationConfig::parse(b"{\"routes\":\"\xff\"}", &limits(), &Checks).unwrap_err();
    assert_eq!(faults.listed()[0].rule, "malformed_json");
    // The message tells the place and nothing of the text.
    let message = parse(r#"{"secret":"whsec_hunter2" hunter2}"#).unwrap_err().listed()[0].message.clone();
    assert_eq!(message, "notificationConfig is not valid JSON at line 1, column 27");
}

#[test]
fn twenty_faults_are_listed_and_all_are_counted() {
    let route = r#"{"id":1,"type":1,"triggers":1}"#;
    let text = format!(r#"{{"routes":[{}]}}"#, [route; 8].join(","));
    let faults = parse(&text).unwrap_err();
    assert_eq!((faults.listed().len(), faults.total()), (20, 24));
    let json: serde_json::Value = serde_json::from_str(&faults.to_json()).unwrap();
    assert_eq!(json["faults"].as_array().unwrap().len(), 20);
    assert_eq!(json["total"], 24);
    assert_eq!(json["faults"][19]["path"], "/routes/6/type");
}

#[test]
fn faults_as_error_data_and_as_one_line() {
    let faults = parse(r#"{"routes":[]}"#).unwrap_err();
    let want =
        r#"{"faults":[{"path":"/routes","rule":"empty","message":"routes must have at least one element"}],"total":1}"#;
    assert_eq!(faults.to_json(), want);
    assert_eq!(faults.to_string(), "notificationConfig has 1 fault: /routes: routes must have at least one element");
    assert_eq!(parse("{}").unwrap_err().to_string(), "notificationConfig has 1 fault: routes is required");
}
