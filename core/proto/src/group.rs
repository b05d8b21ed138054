//! Aggregates: triggers over a group of calls.
//!
//! A group is named by its calls' principals and configs. It begins with the first call that names it and ends when all
//! its aggregates have ended and none of its calls runs; the next call of that name begins another one. An aggregate ends
//! in exactly one firing: it was met, or it cannot be met any more, or its deadline passed.

use crate::json;
use crate::trigger::Outcome;

/// The longest that a group is kept for an aggregate, in milliseconds: 24 hours (DESIGN section 5).
pub const MAX_GROUP_MS: u64 = 24 * 60 * 60 * 1000;
/// The most calls of a group (DESIGN section 5).
pub const MAX_GROUP_CALLS: u64 = 64;

/// A trigger over a group of calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Aggregate {
    /// The group's name, within the principal.
    pub group: String,
    /// The outcome that counts; any, if none.
    pub on: Option<Outcome>,
    /// How many of them.
    pub rule: Rule,
    /// Milliseconds from the first call that lists it, after which it ends unmet; [`MAX_GROUP_MS`] if none.
    pub deadline_ms: Option<u64>,
}

/// How many ended calls an aggregate waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The group has this many calls, and every one of them ends so.
    All(u64),
    /// One call ends so.
    Any,
    /// This many calls end so, of however many.
    Count(u64),
}

/// Where an aggregate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It waits for more.
    Open,
    /// It came true.
    Met,
    /// It cannot come true any more: one of the calls of `all` ended otherwise.
    Impossible,
    /// Its deadline passed.
    Deadline,
}

impl Verdict {
    /// Its text in a store and in the webhook's `data.group.reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Open => "open",
            Verdict::Met => "met",
            Verdict::Impossible => "impossible",
            Verdict::Deadline => "deadline",
        }
    }

    /// Reads what [`Verdict::as_str`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        [Verdict::Open, Verdict::Met, Verdict::Impossible, Verdict::Deadline].into_iter().find(|v| v.as_str() == text)
    }
}

impl Rule {
    /// Its name in a config, and its number, where it has one.
    pub const fn parts(self) -> (&'static str, u64) {
        match self {
            Rule::All(wanted) => ("all", wanted),
            Rule::Any => ("any", 1),
            Rule::Count(wanted) => ("count", wanted),
        }
    }

    /// Reads what [`Rule::parts`] tells.
    pub fn of_parts(name: &str, wanted: u64) -> Option<Self> {
        match name {
            "all" => Some(Rule::All(wanted)),
            "any" => Some(Rule::Any),
            "count" => Some(Rule::Count(wanted)),
            _ => None,
        }
    }
}

impl Aggregate {
    /// Where it stands once calls of the group have ended so; `Verdict::Deadline` is for who reads the clock.
    pub fn verdict(&self, ended: impl IntoIterator<Item = Outcome>) -> Verdict {
        let (mut such, mut others) = (0, 0);
        for outcome in ended {
            if self.on.is_none_or(|on| on == outcome) { such += 1 } else { others += 1 }
        }
        match self.rule {
            Rule::All(_) if others > 0 => Verdict::Impossible,
            Rule::All(wanted) | Rule::Count(wanted) if such >= wanted => Verdict::Met,
            Rule::Any if such > 0 => Verdict::Met,
            _ => Verdict::Open,
        }
    }

    /// The text as which a config lists it, in one canonical order. Two aggregates of one group are the same if it is.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        self.push_members(&mut out, "group");
        if let Some(deadline) = self.deadline_ms {
            json::push_name(&mut out, "deadlineMs");
            out.push_str(&deadline.to_string());
        }
        out.push('}');
        out
    }

    /// Group, outcome and rule, as members of an object; the group's name is called `name`.
    fn push_members(&self, out: &mut String, name: &str) {
        json::push_name(out, name);
        json::push_string(out, &self.group);
        if let Some(on) = self.on {
            json::push_name(out, "on");
            json::push_string(out, on.as_str());
        }
        let (name, wanted) = self.rule.parts();
        json::push_name(out, name);
        out.push_str(&if self.rule == Rule::Any { "true".to_owned() } else { wanted.to_string() });
    }

    /// What the webhook body says of it, `data.group`:
    /// `{"name","on"?,"all"|"any"|"count","met","reason"?,"calls":[{"callId","status"?}…]}`.
    ///
    /// `calls` are those of the group in the order in which they joined; one without a status runs.
    pub fn report_json<'c>(
        &self,
        verdict: Verdict,
        calls: impl IntoIterator<Item = (&'c str, Option<Outcome>)>,
    ) -> String {
        let mut out = String::from("{");
        self.push_members(&mut out, "name");
        json::push_name(&mut out, "met");
        out.push_str(if verdict == Verdict::Met { "true" } else { "false" });
        if verdict != Verdict::Met {
            json::push_name(&mut out, "reason");
            json::push_string(&mut out, verdict.as_str());
        }
        json::push_name(&mut out, "calls");
        out.push('[');
        for (index, (id, outcome)) in calls.into_iter().enumerate() {
            out.push_str(if index > 0 { ",{" } else { "{" });
            json::push_name(&mut out, "callId");
            json::push_string(&mut out, id);
            if let Some(outcome) = outcome {
                json::push_name(&mut out, "status");
                json::push_string(&mut out, outcome.as_str());
            }
            out.push('}');
        }
        out.push_str("]}");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Cancelled, Completed, Failed};

    fn aggregate(on: Option<Outcome>, rule: Rule) -> Aggregate {
        Aggregate { group: "g".into(), on, rule, deadline_ms: None }
    }

    #[test]
    fn each_rule_counts_what_it_names() {
        for (on, rule, ended, want) in [
            (None, Rule::All(2), &[][..], Verdict::Open),
            (None, Rule::All(2), &[Completed], Verdict::Open),
            (None, Rule::All(2), &[Completed, Failed], Verdict::Met),
            (Some(Completed), Rule::All(2), &[Completed], Verdict::Open),
            (Some(Completed), Rule::All(2), &[Completed, Completed], Verdict::Met),
            (Some(Completed), Rule::All(2), &[Completed, Failed], Verdict::Impossible),
            (Some(Completed), Rule::All(2), &[Failed], Verdict::Impossible),
            (None, Rule::Any, &[], Verdict::Open),
            (None, Rule::Any, &[Cancelled], Verdict::Met),
            (Some(Failed), Rule::Any, &[Completed, Cancelled], Verdict::Open),
            (Some(Failed), Rule::Any, &[Completed, Failed], Verdict::Met),
            (Some(Failed), Rule::Count(2), &[Failed, Completed], Verdict::Open),
            (Some(Failed), Rule::Count(2), &[Failed, Completed, Failed], Verdict::Met),
            (None, Rule::Count(2), &[Completed, Completed, Completed], Verdict::Met),
        ] {
            assert_eq!(aggregate(on, rule).verdict(ended.iter().copied()), want, "{on:?} {rule:?} {ended:?}");
        }
    }

    #[test]
    fn rules_read_back() {
        for rule in [Rule::All(64), Rule::Any, Rule::Count(1)] {
            let (name, wanted) = rule.parts();
            assert_eq!(Rule::of_parts(name, wanted), Some(rule));
        }
        assert_eq!(Rule::of_parts("none", 1), None);
    }

    #[test]
    fn verdicts_read_back() {
        for verdict in [Verdict::Open, Verdict::Met, Verdict::Impossible, Verdict::Deadline] {
            assert_eq!(Verdict::parse(verdict.as_str()), Some(verdict));
        }
        assert_eq!(Verdict::parse(""), None);
    }

    #[test]
    fn reports_tell_the_rule_and_every_call() {
        let all = aggregate(Some(Completed), Rule::All(2));
        assert_eq!(
            all.report_json(Verdict::Met, [("a", Some(Completed)), ("b", Some(Completed))]),
            r#"{"name":"g","on":"completed","all":2,"met":true,"calls":[{"callId":"a","status":"completed"},{"callId":"b","status":"completed"}]}"#
        );
        let any = Aggregate { deadline_ms: Some(5_000), ..aggregate(None, Rule::Any) };
        assert_eq!(
            any.report_json(Verdict::Deadline, [("a", None)]),
            r#"{"name":"g","any":true,"met":false,"reason":"deadline","calls":[{"callId":"a"}]}"#
        );
        assert_eq!(any.to_json(), r#"{"group":"g","any":true,"deadlineMs":5000}"#);
    }
}
