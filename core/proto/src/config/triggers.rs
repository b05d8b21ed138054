//! The rules of a route's triggers.

use super::Wanted;
use super::fault::rule;
use super::parse::Rules;
use super::read::{Node, Object, member_path, quoted};
use crate::condition::{Condition, Operator, Test};
use crate::group::{Aggregate, Rule};
use crate::json::{self, Kind};
use crate::pointer::Pointer;
use crate::trigger::{Outcome, Trigger};

/// The members of each kind of trigger object, the one that tells it first.
const KINDS: [&[&str]; 4] =
    [&["elapsedMs"], &["everyMs"], &["group", "on", "all", "any", "count", "deadlineMs"], &["on", "when"]];
/// How deep an operand may nest: as deep as it is, values are compared.
const MAX_OPERAND_DEPTH: usize = 32;

impl Rules<'_> {
    pub(super) fn triggers(&mut self, object: &Object<'_>) -> Option<Vec<Wanted>> {
        let node = self.reader.required(object, "triggers")?;
        let nodes = self.reader.list(&node, "trigger", self.limits.max_triggers)?;
        Some(nodes.iter().filter_map(|node| self.trigger(node)).collect())
    }

    /// `None` only with a fault noted.
    fn trigger(&mut self, node: &Node<'_>) -> Option<Wanted> {
        if Kind::of(node.value.get()) != Some(Kind::Object) {
            return self.reader.text(node).map(|name| Trigger::from_name(&name).into());
        }
        let object = self.reader.object(node)?;
        let kind = KINDS.into_iter().find_map(|members| Some((object.get(members.first()?)?, members)));
        let Some((first, members)) = kind else {
            let message = "a trigger object needs one of on, elapsedMs, everyMs, group";
            self.reader.fault(node, rule::MISSING, message);
            return None;
        };
        self.only(&object, members, "a trigger object with this member", first.name);
        match first.name {
            "elapsedMs" => Some(Trigger::Elapsed(self.reader.integer(&first, 1)?).into()),
            "everyMs" => Some(Trigger::Every(self.reader.integer(&first, self.limits.min_every_ms)?).into()),
            "group" => self.aggregate(&object).map(|aggregate| Trigger::Group(Box::new(aggregate)).into()),
            _ => {
                let on = self.reader.text(&first);
                let when = object.get("when").map_or(Some(Vec::new()), |node| self.conditions(&node));
                Some(Wanted { trigger: Trigger::from_name(&on?), when: when? })
            }
        }
    }

    /// Notes a fault for each member that is none of `members`.
    fn only(&mut self, object: &Object<'_>, members: &[&str], what: &str, first: &str) {
        for (name, _) in &object.members {
            if !members.iter().any(|member| member.as_bytes() == name) {
                let path = member_path(&object.path, name);
                let allowed = members.join(", ");
                let message = format!("{what} ({first}) may have {allowed} and nothing else");
                self.reader.faults.push(path, rule::UNKNOWN_MEMBER, message);
            }
        }
    }

    fn conditions(&mut self, node: &Node<'_>) -> Option<Vec<Condition>> {
        let nodes = self.reader.list(node, "condition", self.limits.max_conditions)?;
        let read: Vec<_> = nodes.iter().map(|node| self.condition(node)).collect();
        read.into_iter().collect()
    }

    fn condition(&mut self, node: &Node<'_>) -> Option<Condition> {
        let object = self.reader.object(node)?;
        let path = self.reader.required(&object, "path").and_then(|node| self.pointer(&node));
        let mut tests = Vec::new();
        for (name, value) in &object.members {
            let place = |name| Node { path: member_path(&object.path, name), name: "operand", value };
            match &**name {
                b"path" => {}
                b"exists" => tests.push(self.exists(&place(name))),
                name => match Operator::ALL.into_iter().find(|operator| operator.as_str().as_bytes() == name) {
                    Some(operator) => tests.push(self.operand(operator, &place(name))),
                    None => {
                        let all = Operator::ALL.map(Operator::as_str).join(", ");
                        let message = format!("a condition may have path and one of exists, {all}");
                        self.reader.faults.push(member_path(&object.path, name), rule::UNKNOWN_MEMBER, message);
                    }
                },
            }
        }
        match tests.len() {
            1 => Some(Condition { path: path?, test: tests.pop()?? }),
            0 => {
                self.reader.fault(node, rule::MISSING, "a condition needs an operator beside its path");
                None
            }
            count => {
                let message = format!("a condition has one operator, not {count}");
                self.reader.fault(node, rule::TOO_MANY, message);
                None
            }
        }
    }

    fn pointer(&mut self, node: &Node<'_>) -> Option<Pointer> {
        let text = self.reader.short_text(node, self.limits.max_pointer_chars)?;
        match Pointer::parse(&text) {
            Ok(pointer) => Some(pointer),
            Err(fault) => {
                self.reader.fault(node, rule::POINTER, format!("{} {fault}", node.name));
                None
            }
        }
    }

    fn exists(&mut self, node: &Node<'_>) -> Option<Test> {
        match node.value.get() {
            "true" => Some(Test::Exists(true)),
            "false" => Some(Test::Exists(false)),
            _ => {
                self.reader.fault(node, rule::OPERAND, "the operand of exists must be true or false");
                None
            }
        }
    }

    fn operand(&mut self, operator: Operator, node: &Node<'_>) -> Option<Test> {
        let text = node.value.get();
        if let Some((wanted, kinds)) = operator.operand_kinds()
            && !Kind::of(text).is_some_and(|kind| kinds.contains(&kind))
        {
            let message = format!("the operand of {} must be {wanted}", operator.as_str());
            self.reader.fault(node, rule::OPERAND, message);
            return None;
        }
        if json::depth(text) > MAX_OPERAND_DEPTH {
            let message = format!("an operand nests at most {MAX_OPERAND_DEPTH} deep");
            self.reader.fault(node, rule::TOO_DEEP, message);
            return None;
        }
        Some(Test::Compare(operator, text.to_owned()))
    }

    fn aggregate(&mut self, object: &Object<'_>) -> Option<Aggregate> {
        let group = object.get("group").and_then(|node| self.reader.short_text(&node, self.limits.max_key_chars));
        let on = object.get("on").map_or(Some(None), |node| self.outcome(&node).map(Some));
        let (most_calls, most_ms) = (self.limits.max_group_calls, self.limits.max_group_ms);
        let rules: Vec<Option<Rule>> = ["all", "any", "count"]
            .into_iter()
            .filter_map(|name| object.get(name))
            .map(|node| match node.name {
                "all" => self.reader.integer_within(&node, 1, most_calls).map(Rule::All),
                "count" => self.reader.integer_within(&node, 1, most_calls).map(Rule::Count),
                _ if node.value.get() == "true" => Some(Rule::Any),
                _ => {
                    self.reader.fault(&node, rule::WRONG_TYPE, "any must be true");
                    None
                }
            })
            .collect();
        let least = self.limits.min_deadline_ms;
        let deadline_ms = match object.get("deadlineMs") {
            None => Some(None),
            Some(node) => self.reader.integer_within(&node, least, most_ms).map(Some),
        };
        let [rule] = rules[..] else {
            let message = format!("a group trigger has one of all, any, count, not {}", rules.len());
            self.reader.faults.push(object.path.as_str(), rule::GROUP_RULE, message);
            return None;
        };
        Some(Aggregate { group: group?, on: on?, rule: rule?, deadline_ms: deadline_ms? })
    }

    fn outcome(&mut self, node: &Node<'_>) -> Option<Outcome> {
        let name = self.reader.text(node)?;
        let outcome = Outcome::parse(&name);
        if outcome.is_none() {
            let all = Outcome::ALL.map(Outcome::as_str).join(", ");
            let message = format!("on of a group trigger must be one of {all}, not {}", quoted(&name));
            self.reader.fault(node, rule::OUTCOME, message);
        }
        outcome
    }
}
