//! What ../fixture.json says; ../README.md explains it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Texts that are put in for `${NAME}`.
pub(crate) type Texts = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fixture {
    pub(crate) tools: BTreeMap<String, Tool>,
    pub(crate) prompts: BTreeMap<String, Prompt>,
    pub(crate) resources: BTreeMap<String, Value>,
    pub(crate) templates: BTreeMap<String, Value>,
    pub(crate) completion: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tool {
    pub(crate) input_schema: JsonObject,
    /// A capability that the client must have declared.
    pub(crate) needs: Option<String>,
    #[serde(flatten)]
    pub(crate) questions: Questions,
    pub(crate) elicits: Option<Value>,
    pub(crate) samples: Option<Value>,
    #[serde(default)]
    pub(crate) logs: Vec<String>,
    #[serde(default)]
    pub(crate) progress: Vec<f64>,
    /// The list that it changes.
    pub(crate) changes: Option<String>,
    /// A number of seconds, or the argument that says it.
    pub(crate) takes: Option<Value>,
    pub(crate) error: Option<ErrorData>,
    #[serde(default)]
    pub(crate) result: Value,
    /// Calls become tasks: `always` or `required`.
    pub(crate) task: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Prompt {
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    #[serde(flatten)]
    pub(crate) questions: Questions,
    pub(crate) result: Value,
}

/// What is asked of the client by `InputRequiredResult`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Questions {
    /// The rounds, by the name of each question.
    #[serde(default)]
    pub(crate) asks: Vec<Value>,
    /// The place among the rounds goes through the client.
    #[serde(default)]
    pub(crate) sealed: bool,
    /// Only what the client has declared is asked.
    #[serde(default)]
    pub(crate) if_declared: bool,
}

impl Fixture {
    pub(crate) fn read() -> serde_json::Result<Arc<Self>> {
        serde_json::from_str(include_str!("../fixture.json")).map(Arc::new)
    }
}

/// The arguments of a tool or a prompt as texts.
pub(crate) fn texts(arguments: Option<&JsonObject>) -> Texts {
    let given = arguments.into_iter().flatten();
    given.map(|(name, value)| (name.clone(), text(value))).collect()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A part of the fixture, with the texts put in.
pub(crate) fn fill<T: DeserializeOwned>(part: &Value, given: &Texts) -> Result<T, ErrorData> {
    serde_json::from_value(filled(part, given)).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn filled(part: &Value, given: &Texts) -> Value {
    match part {
        Value::String(said) => {
            let put_in = |said: String, (name, text): (&String, &String)| said.replace(&format!("${{{name}}}"), text);
            given.iter().fold(said.clone(), put_in).into()
        }
        Value::Array(items) => items.iter().map(|item| filled(item, given)).collect(),
        Value::Object(members) => members.iter().map(|(name, member)| (name.clone(), filled(member, given))).collect(),
        other => other.clone(),
    }
}
