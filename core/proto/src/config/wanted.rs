//! What a route waits for.

use crate::condition::Condition;
use crate::json;
use crate::trigger::Trigger;

/// A trigger as a route lists it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The trigger.
    pub trigger: Trigger,
    /// Conditions over what the firing is about, all of which have to hold; with none, every firing counts.
    pub when: Vec<Condition>,
}

impl From<Trigger> for Wanted {
    fn from(trigger: Trigger) -> Self {
        Self { trigger, when: Vec::new() }
    }
}

impl Wanted {
    /// As a config lists it: a string where that says it all, else an object.
    pub(super) fn push_json(&self, out: &mut String) {
        match &self.trigger {
            Trigger::Elapsed(ms) | Trigger::Every(ms) => {
                out.push('{');
                json::push_name(out, self.trigger.name());
                out.push_str(&ms.to_string());
                out.push('}');
            }
            Trigger::Group(aggregate) => out.push_str(&aggregate.to_json()),
            named if self.when.is_empty() => json::push_string(out, named.name()),
            named => {
                out.push('{');
                json::push_name(out, "on");
                json::push_string(out, named.name());
                json::push_name(out, "when");
                out.push('[');
                for (index, condition) in self.when.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    condition.push_json(out);
                }
                out.push_str("]}");
            }
        }
    }
}
