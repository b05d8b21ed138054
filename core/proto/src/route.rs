//! Preference per trigger: which route gets a firing, and which ones follow when that fails.

use crate::config::NotificationConfig;
use crate::trigger::Trigger;

/// What the server does with a firing that no route can take. SEP-992: it MUST do one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndeliverablePolicy {
    /// Nothing.
    Drop,
    /// An entry in the result's `_meta["io.tidings/undelivered"]`, see [`crate::firing::undelivered_json`].
    Annotate,
}

/// Where a firing goes. Routes are indexes into [`NotificationConfig::routes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// No route lists the trigger: there is nothing to tell, and nothing is missing.
    NotAsked,
    /// The first route that lists the trigger and is deliverable gets it.
    Deliver {
        /// The chosen route.
        route: usize,
        /// The deliverable routes after it that list the trigger, in order of preference. Each is asked again when its
        /// turn comes, as that may be minutes later.
        fallbacks: Vec<usize>,
    },
    /// Routes list the trigger and none is deliverable.
    Undeliverable {
        /// The routes that list it, in order of preference.
        routes: Vec<usize>,
        /// What to do about it.
        policy: UndeliverablePolicy,
    },
}

/// Chooses the routes for one firing of `trigger`. `deliverable` is asked once for each route that lists it.
///
/// An acknowledged config has supported route types only, so "deliverable" is about now: a session that is gone, an
/// endpoint that is disabled, a callback without a port.
pub fn choose(
    config: &NotificationConfig,
    trigger: &Trigger,
    mut deliverable: impl FnMut(usize) -> bool,
    policy: UndeliverablePolicy,
) -> Choice {
    let listing: Vec<usize> = config
        .routes
        .iter()
        .enumerate()
        .filter(|(_, route)| route.triggers.contains(trigger))
        .map(|(index, _)| index)
        .collect();
    if listing.is_empty() {
        return Choice::NotAsked;
    }
    let mut candidates = listing.iter().copied().filter(|index| deliverable(*index));
    match candidates.next() {
        Some(route) => Choice::Deliver { route, fallbacks: candidates.collect() },
        None => Choice::Undeliverable { routes: listing, policy },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AcceptStored, ConfigLimits};

    fn config() -> NotificationConfig {
        let raw = br#"{"routes":[
            {"id":"a","type":"webhook","endpoint":"https://a.example","triggers":["completed","com.example/x"]},
            {"id":"b","type":"message","triggers":["failed"]},
            {"id":"c","type":"webhook","endpoint":"https://c.example","triggers":["failed","completed","completed"]},
            {"id":"d","type":"webhook","endpoint":"https://d.example","triggers":["completed"]}]}"#;
        NotificationConfig::parse(raw, &ConfigLimits::stored(), &AcceptStored).unwrap()
    }

    fn chosen(trigger: &Trigger, up: &[usize]) -> Choice {
        choose(&config(), trigger, |index| up.contains(&index), UndeliverablePolicy::Annotate)
    }

    #[test]
    fn first_deliverable_route_that_lists_the_trigger_and_then_the_rest() {
        let deliver = |route, fallbacks: &[usize]| Choice::Deliver { route, fallbacks: fallbacks.to_vec() };
        for (trigger, up, want) in [
            (Trigger::Completed, &[0, 1, 2, 3][..], deliver(0, &[2, 3])),
            (Trigger::Completed, &[1, 2, 3], deliver(2, &[3])),
            (Trigger::Completed, &[0, 3], deliver(0, &[3])),
            (Trigger::Completed, &[3], deliver(3, &[])),
            (Trigger::Failed, &[0, 1, 2, 3], deliver(1, &[2])),
            (Trigger::Failed, &[2], deliver(2, &[])),
            (Trigger::Other("com.example/x".into()), &[0], deliver(0, &[])),
        ] {
            assert_eq!(chosen(&trigger, up), want, "{trigger} {up:?}");
        }
    }

    #[test]
    fn none_deliverable_is_not_the_same_as_not_asked() {
        for policy in [UndeliverablePolicy::Drop, UndeliverablePolicy::Annotate] {
            assert_eq!(
                choose(&config(), &Trigger::Failed, |_| false, policy),
                Choice::Undeliverable { routes: vec![1, 2], policy }
            );
        }
        assert_eq!(chosen(&Trigger::Timeout, &[0, 1, 2, 3]), Choice::NotAsked);
        assert_eq!(chosen(&Trigger::Other("completed ".into()), &[0, 1, 2, 3]), Choice::NotAsked);
    }

    #[test]
    fn only_routes_that_list_the_trigger_are_asked_and_each_once() {
        let mut asked = Vec::new();
        let _ = choose(
            &config(),
            &Trigger::Failed,
            |index| {
                asked.push(index);
                false
            },
            UndeliverablePolicy::Drop,
        );
        assert_eq!(asked, [1, 2]);
    }
}
