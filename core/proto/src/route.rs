//! Preference per trigger: which route gets a firing, and which ones follow when that fails. And what a route leads to: a
//! URL, or a place in the host.

use core::borrow::Borrow;
use core::fmt;

use crate::condition::Facts;
use crate::config::{NotificationConfig, Route, Wanted};
use crate::trigger::Trigger;
use crate::wire::{sep992, tidings};

/// The name of a place in a host process that takes deliveries: a handler, a session's own connection.
///
/// A peer's place has an `@` in its name and the others do not, so that no name a client writes can be that of somebody's
/// session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutletName(String);

impl OutletName {
    /// The handler of routes of type `callback` with this name.
    pub fn callback(name: &str) -> Self {
        Self(format!("{}:{name}", tidings::ROUTE_CALLBACK))
    }

    /// The sink of routes of type `message` with this name.
    pub fn message(name: &str) -> Self {
        Self(format!("{}:{name}", sep992::ROUTE_MESSAGE))
    }

    /// The connection of one peer, for routes of this type without a name. `peer` is the host's own name for the connection.
    pub fn peer(route_type: &str, peer: &str) -> Self {
        Self(format!("@{route_type}:{peer}"))
    }

    /// The handler of a route type that the host registered.
    ///
    /// # Errors
    /// The rule that the type breaks: 1 to 64 characters of `a-z`, `0-9`, `.`, `_`, `-`, `/`, and none of the built-in types.
    pub fn route_type(route_type: &str) -> Result<Self, &'static str> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/');
        if route_type.is_empty() || route_type.len() > 64 || !route_type.bytes().all(allowed) {
            return Err("a route type is 1 to 64 characters of a-z, 0-9, '.', '_', '-' and '/'");
        }
        if BUILT_IN.contains(&route_type) {
            return Err("this route type is built in");
        }
        Ok(Self(route_type.to_owned()))
    }

    /// The place that a route of an accepted config leads to; `None` for one that posts to a URL.
    pub fn of(route: &Route) -> Option<Self> {
        match (route.kind.as_str(), route.endpoint.as_deref()) {
            (sep992::ROUTE_WEBHOOK, _) => None,
            (sep992::ROUTE_MESSAGE, Some(name)) => Some(Self::message(name)),
            (tidings::ROUTE_CALLBACK, name) => Some(Self::callback(name.unwrap_or_default())),
            (kind @ (sep992::ROUTE_MESSAGE | sep992::ROUTE_SIGNAL), _) => {
                Some(Self::peer(kind, route.peer.as_deref().unwrap_or_default()))
            }
            (kind, _) => Some(Self(kind.to_owned())),
        }
    }

    /// Whether it is a peer's: it goes with the connection and does not come back.
    pub fn is_peer(&self) -> bool {
        self.0.starts_with('@')
    }

    /// As text, for the store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for OutletName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OutletName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The route types that need no registration.
pub const BUILT_IN: [&str; 4] =
    [sep992::ROUTE_WEBHOOK, sep992::ROUTE_MESSAGE, sep992::ROUTE_SIGNAL, tidings::ROUTE_CALLBACK];

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

/// The routes that ask for a firing of `trigger` about `document`, in order of preference: those that list it without
/// conditions, or with conditions that all hold.
///
/// `document` is the valid JSON text that conditions look into; without one, nothing is there for them to find.
pub fn asking(config: &NotificationConfig, trigger: &Trigger, document: Option<&str>) -> Vec<usize> {
    let same = |wanted: &&Wanted| wanted.trigger == *trigger;
    let all = config.routes.iter().flat_map(|route| &route.triggers).filter(same);
    let facts = Facts::of(document.unwrap_or("{}"), all.flat_map(|wanted| &wanted.when));
    let asks = |wanted: &Wanted| wanted.trigger == *trigger && facts.hold(&wanted.when);
    let routes = config.routes.iter().enumerate();
    routes.filter(|(_, route)| route.triggers.iter().any(asks)).map(|(index, _)| index).collect()
}

/// Whether a route lists `trigger` with conditions, so that a document is needed to know who asks.
pub fn needs_document(config: &NotificationConfig, trigger: &Trigger) -> bool {
    let mut all = config.routes.iter().flat_map(|route| &route.triggers);
    all.any(|wanted| wanted.trigger == *trigger && !wanted.when.is_empty())
}

/// Chooses the routes for one firing of `trigger`, see [`asking`]. `deliverable` is asked once for each route that asks
/// for it.
///
/// An acknowledged config has supported route types only, so "deliverable" is about now: a session that is gone, an
/// endpoint that is disabled, a callback without a port.
pub fn choose(
    config: &NotificationConfig,
    trigger: &Trigger,
    document: Option<&str>,
    mut deliverable: impl FnMut(usize) -> bool,
    policy: UndeliverablePolicy,
) -> Choice {
    let listing = asking(config, trigger, document);
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
        choose(&config(), trigger, None, |index| up.contains(&index), UndeliverablePolicy::Annotate)
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
                choose(&config(), &Trigger::Failed, None, |_| false, policy),
                Choice::Undeliverable { routes: vec![1, 2], policy }
            );
        }
        assert_eq!(chosen(&Trigger::Timeout, &[0, 1, 2, 3]), Choice::NotAsked);
        assert_eq!(chosen(&Trigger::Other("completed ".into()), &[0, 1, 2, 3]), Choice::NotAsked);
    }

    #[test]
    fn where_routes_lead() {
        let route = |kind: &str, endpoint: Option<&str>, peer: Option<&str>| Route {
            kind: kind.to_owned(),
            endpoint: endpoint.map(str::to_owned),
            peer: peer.map(str::to_owned),
            ..config().routes[0].clone()
        };
        for (kind, endpoint, peer, want) in [
            ("webhook", Some("https://a.example"), Some("p"), None),
            ("message", None, Some("p"), Some(OutletName::peer("message", "p"))),
            ("message", Some("dash"), Some("p"), Some(OutletName::message("dash"))),
            ("signal", None, Some("p"), Some(OutletName::peer("signal", "p"))),
            ("callback", Some("audit"), Some("p"), Some(OutletName::callback("audit"))),
            ("pager", Some("me"), Some("p"), Some(OutletName::route_type("pager").unwrap())),
        ] {
            assert_eq!(OutletName::of(&route(kind, endpoint, peer)), want, "{kind} {endpoint:?}");
        }
    }

    #[test]
    fn no_name_on_the_wire_is_that_of_a_session() {
        let peer = OutletName::peer("message", "p");
        assert!(peer.is_peer());
        for name in ["p", "@message:p", ":p", "message:p", "\0@message:p"] {
            for outlet in [OutletName::message(name), OutletName::callback(name)] {
                assert!(outlet != peer && !outlet.is_peer(), "{outlet}");
            }
            assert!(OutletName::route_type(name).ok().is_none_or(|outlet| !outlet.is_peer()));
        }
        for bad in ["", "webhook", "message", "signal", "callback", "Pager", "a:b", "@a", "a b", &"x".repeat(65)] {
            assert!(OutletName::route_type(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_routes_that_list_the_trigger_are_asked_and_each_once() {
        let mut asked = Vec::new();
        let _ = choose(
            &config(),
            &Trigger::Failed,
            None,
            |index| {
                asked.push(index);
                false
            },
            UndeliverablePolicy::Drop,
        );
        assert_eq!(asked, [1, 2]);
    }

    #[test]
    fn conditions_narrow_who_asks() {
        let raw = br#"{"routes":[
            {"id":"a","type":"message","triggers":[{"on":"failed","when":[{"path":"/x","gt":1}]},"timeout"]},
            {"id":"b","type":"message","triggers":["failed",{"on":"failed","when":[{"path":"/x","eq":9}]}]},
            {"id":"c","type":"message","triggers":[{"on":"failed","when":[{"path":"/x","lt":5},{"path":"/y","exists":true}]}]}]}"#;
        let config = NotificationConfig::parse(raw, &ConfigLimits::stored(), &AcceptStored).unwrap();
        for (document, want) in [
            (Some(r#"{"x":2}"#), &[0, 1][..]),
            (Some(r#"{"x":1}"#), &[1]),
            (Some(r#"{"x":2,"y":null}"#), &[0, 1, 2]),
            (None, &[1]),
        ] {
            assert_eq!(asking(&config, &Trigger::Failed, document), want, "{document:?}");
        }
        assert!(needs_document(&config, &Trigger::Failed) && !needs_document(&config, &Trigger::Timeout));
        assert_eq!(asking(&config, &Trigger::Completed, None), [0; 0]);
    }
}
