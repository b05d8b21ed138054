use tidings_proto::condition::hold;
use tidings_proto::config::{AcceptStored, ConfigLimits, NotificationConfig};
use tidings_proto::trigger::check_fire;

use super::line;
use crate::oracle::json::{Value, points};
use crate::oracle::number;

/// A `when` list in the first line, and after it the document on which it is tried.
pub fn condition(data: &[u8]) {
    let (when, document) = line(data);
    let (Ok(when), Ok(document)) = (std::str::from_utf8(when), std::str::from_utf8(document)) else { return };
    let text =
        format!(r#"{{"routes":[{{"id":"r","type":"message","triggers":[{{"on":"completed","when":{when}}}]}}]}}"#);
    let limits = ConfigLimits::for_route_types(["message"]);
    let Ok(config) = NotificationConfig::parse(text.as_bytes(), &limits, &AcceptStored) else { return };
    // What closes the brackets of the frame and opens others is another config.
    let [route] = config.routes.as_slice() else { return };
    let [wanted] = route.triggers.as_slice() else { return };
    // Documents are results: objects that were checked when they came.
    if check_fire("com.example.x", document.as_bytes()).is_err() {
        return;
    }
    let held = hold(&wanted.when, document);
    let (Some(Value::Array(list)), Some(document)) = (Value::parse(when), Value::parse(document)) else { return };
    if let Some(want) = all_hold(&list, &document) {
        assert_eq!(held, want, "the tree says otherwise");
    }
}

/// `None` where this cannot tell.
fn all_hold(list: &[Value], document: &Value) -> Option<bool> {
    let mut all = true;
    for condition in list {
        let Value::Object(members) = condition else { return None };
        let path = condition.member(&points("path"))?;
        let Value::Text(path) = path else { return None };
        let path: String = path.iter().map(|point| char::from_u32(*point)).collect::<Option<_>>()?;
        let found = document.at(&path);
        for (name, operand) in members {
            let name: String = name.iter().map(|point| char::from_u32(*point)).collect::<Option<_>>()?;
            if name != "path" {
                all &= holds(&name, operand, found)?;
            }
        }
    }
    Some(all)
}

fn holds(operator: &str, operand: &Value, found: Option<&Value>) -> Option<bool> {
    if operator == "exists" {
        let Value::Bool(want) = operand else { return None };
        return Some(found.is_some() == *want);
    }
    let Some(found) = found else { return Some(operator == "ne") };
    Some(match (operator, found, operand) {
        ("eq", _, _) => found.same(operand)?,
        ("ne", _, _) => !found.same(operand)?,
        ("in", _, Value::Array(some)) => any_same(some, found)?,
        ("prefix", Value::Text(text), Value::Text(start)) => text.starts_with(start),
        ("contains", Value::Text(text), Value::Text(part)) => {
            part.is_empty() || text.windows(part.len()).any(|window| window == part)
        }
        ("contains", Value::Array(some), one) => any_same(some, one)?,
        ("prefix" | "contains", _, _) => false,
        ("lt" | "le" | "gt" | "ge", _, _) => {
            let order = match (found, operand) {
                (Value::Number(left), Value::Number(right)) => number::compare(left, right)?,
                (Value::Text(left), Value::Text(right)) => left.cmp(right),
                _ => return Some(false),
            };
            match operator {
                "lt" => order.is_lt(),
                "le" => order.is_le(),
                "gt" => order.is_gt(),
                _ => order.is_ge(),
            }
        }
        _ => return None,
    })
}

fn any_same(some: &[Value], one: &Value) -> Option<bool> {
    let mut any = false;
    for element in some {
        any |= element.same(one)?;
    }
    Some(any)
}
