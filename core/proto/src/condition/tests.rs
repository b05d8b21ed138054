use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn condition(path: &str, operator: &str, operand: &str) -> Condition {
    let test = match operator {
        "exists" => Test::Exists(operand == "true"),
        name => {
            let operator = Operator::ALL.into_iter().find(|operator| operator.as_str() == name).unwrap();
            Test::Compare(operator, operand.to_owned())
        }
    };
    Condition { path: Pointer::parse(path).unwrap(), test }
}

fn holds(path: &str, operator: &str, operand: &str, document: &str) -> bool {
    hold(&[condition(path, operator, operand)], document)
}

#[test]
fn each_operator_says_what_it_says() {
    let document = r#"{"status":"completed","result":{"structuredContent":
        {"total":9007199254740993,"ratio":0.5,"state":"ready-to-go","tags":["a",{"k":1.0},null],"none":null}}}"#;
    let at = |name: &str| format!("/result/structuredContent/{name}");
    for (name, operator, operand, want) in [
        ("total", "eq", "9007199254740993", true),
        ("total", "eq", "9007199254740992", false),
        ("total", "eq", "9007199254740993.0", true),
        ("total", "gt", "9007199254740992", true),
        ("total", "ge", "9007199254740994", false),
        ("total", "lt", "1e400", true),
        ("total", "lt", "\"a\"", false),
        ("total", "gt", "\"a\"", false),
        ("ratio", "le", "5e-1", true),
        ("ratio", "in", "[1,0.50]", true),
        ("ratio", "in", "[]", false),
        ("state", "prefix", r#""ready-""#, true),
        ("state", "prefix", r#""eady""#, false),
        ("state", "contains", r#""to\u002dgo""#, true),
        ("state", "contains", "1", false),
        ("state", "lt", r#""ready-to-stop""#, true),
        ("tags", "contains", r#"{"k":1}"#, true),
        ("tags", "contains", "null", true),
        ("tags", "contains", r#""b""#, false),
        ("tags", "prefix", r#""a""#, false),
        ("none", "eq", "null", true),
        ("none", "exists", "true", true),
        ("missing", "exists", "true", false),
        ("missing", "exists", "false", true),
        ("missing", "eq", "null", false),
        ("missing", "ne", "null", true),
        ("missing", "lt", "1", false),
        ("missing", "contains", "\"\"", false),
        ("state", "ne", "\"ready\"", true),
        ("state", "ne", "\"ready-to-go\"", false),
    ] {
        assert_eq!(holds(&at(name), operator, operand, document), want, "{name} {operator} {operand}");
    }
    assert!(holds("/status", "eq", "\"completed\"", document));
    assert!(holds("", "exists", "true", document));
}

#[test]
fn all_of_a_list_have_to_hold() {
    let (yes, no) = (condition("/a", "eq", "1"), condition("/b", "eq", "1"));
    let document = r#"{"a":1,"b":2}"#;
    assert!(hold(&[yes.clone(), yes.clone()], document));
    assert!(!hold(&[yes.clone(), no.clone()], document));
    assert!(!hold(&[no, yes], document));
}

#[test]
fn lone_surrogates_are_compared_like_all_else() {
    assert!(holds("", "contains", r#""\ud800""#, r#""a\ud800b""#));
    assert!(!holds("", "contains", r#""\ud801""#, r#""a\ud800b""#));
    assert!(holds("", "prefix", r#""\ud83d\ude00""#, "\"😀!\""));
}

#[test]
fn depth_of_the_document_is_no_danger() {
    let deep = format!("{}{}", "[".repeat(300_000), "]".repeat(300_000));
    assert!(!holds("", "eq", "[[[]]]", &deep));
    assert!(!holds("", "contains", "1", &deep));
    assert!(holds("/0/0/0", "exists", "true", &deep));
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        prop_oneof![Just(0.5), Just(-1.5), Just(2.25)].prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[xy]", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same rules over a tree, written without a look at ours. Numbers here are small enough for `f64` to be exact.
fn naive(found: Option<&Value>, operator: &str, operand: &Value) -> bool {
    fn same(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
            }
            _ => a == b,
        }
    }
    let Some(found) = found else {
        return operator == "ne" || (operator == "exists" && *operand == json!(false));
    };
    let ordered = |wanted: &[i8]| {
        let order = match (found, operand) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => a.chars().partial_cmp(b.chars()),
            _ => None,
        };
        order.is_some_and(|order| wanted.contains(&(order as i8)))
    };
    match operator {
        "exists" => *operand == json!(true),
        "eq" => same(found, operand),
        "ne" => !same(found, operand),
        "in" => operand.as_array().is_some_and(|all| all.iter().any(|one| same(found, one))),
        "lt" => ordered(&[-1]),
        "le" => ordered(&[-1, 0]),
        "gt" => ordered(&[1]),
        "ge" => ordered(&[0, 1]),
        "prefix" => found.as_str().zip(operand.as_str()).is_some_and(|(text, part)| text.starts_with(part)),
        "contains" => match (found, operand) {
            (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
            (Value::Array(all), one) => all.iter().any(|element| same(element, one)),
            _ => false,
        },
        _ => unreachable!("no such operator"),
    }
}

proptest! {
    #[test]
    fn agrees_with_a_naive_reading_of_the_rules(
        document in value(),
        paths in proptest::collection::vec("(/[xy01]){0,3}", 1..4),
        operator in 0..10_usize,
        operand in value(),
        pretty in any::<bool>(),
    ) {
        let name = if operator == 9 { "exists" } else { Operator::ALL[operator].as_str() };
        let operand = match name {
            "exists" => json!(operand.is_array()),
            "in" => json!([operand, 1]),
            "prefix" => json!("a"),
            _ => operand,
        };
        let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) }.unwrap();
        let when: Vec<_> = paths.iter().map(|path| condition(path, name, &operand.to_string())).collect();
        let want = paths.iter().all(|path| naive(document.pointer(path), name, &operand));
        prop_assert_eq!(hold(&when, &text), want, "{} {} {}", text, name, operand);
    }
}
