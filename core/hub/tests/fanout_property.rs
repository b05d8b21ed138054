//! Any sequence of open, acknowledge, subscribe, publish, write, break and close does what a small model does: no frame
//! outside the gate, none twice, none lost but by coalescing.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::memory;
use proptest::prelude::*;
use tidings::proto::fanout::mcp::MCP;
use tidings::proto::fanout::{Filter, Profile};
use tidings::proto::id::RequestId;
use tidings::{ListenerId, Outbox, Parcel, Publish, SinkId, SinkOptions};

const SERVER: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true}}"#;
const URIS: [&str; 4] = ["x:/a", "x:/a/b", "x:/a/c", "y:"];

#[derive(Clone, Debug)]
enum Step {
    /// A connection with one peer that has no filters.
    Legacy,
    /// A listener of a new connection, or of that one: lists asked for and URIs.
    Listen {
        on: Option<usize>,
        lists: u8,
        uris: u8,
    },
    Open(usize),
    Subscribe(usize, usize),
    Unsubscribe(usize, usize),
    Publish {
        lists: u8,
        uri: Option<usize>,
    },
    /// Everything that is ready is handed out.
    Take,
    Written(usize),
    Broke(usize),
    DropSink(usize),
    Cancel(usize),
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..12_usize;
    prop_oneof![
        1 => Just(Step::Legacy),
        2 => (proptest::option::of(any.clone()), 0..8_u8, 0..16_u8)
            .prop_map(|(on, lists, uris)| Step::Listen { on, lists, uris }),
        2 => any.clone().prop_map(Step::Open),
        2 => (any.clone(), 0..4_usize).prop_map(|(at, uri)| Step::Subscribe(at, uri)),
        1 => (any.clone(), 0..4_usize).prop_map(|(at, uri)| Step::Unsubscribe(at, uri)),
        6 => (0..8_u8, proptest::option::of(0..4_usize)).prop_map(|(lists, uri)| Step::Publish { lists, uri }),
        5 => Just(Step::Take),
        6 => any.clone().prop_map(Step::Written),
        1 => any.clone().prop_map(Step::Broke),
        1 => any.clone().prop_map(Step::DropSink),
        1 => any.clone().prop_map(Step::Cancel),
        1 => any.prop_map(Step::End),
    ]
}

#[derive(Clone, Debug, Default)]
struct Listener {
    legacy: bool,
    lists: BTreeSet<&'static str>,
    uris: BTreeSet<&'static str>,
    /// The acknowledgement: not handed out, in the host's hands, written.
    acknowledged: u8,
    open: bool,
    ending: bool,
    waits: BTreeSet<String>,
}

#[derive(Default)]
struct Model {
    listeners: BTreeMap<ListenerId, (SinkId, Listener)>,
    /// Frames in the host's hands.
    handed: BTreeMap<SinkId, u32>,
}

const KINDS: [(&str, &str); 3] = [
    ("tools", "notifications/tools/list_changed"),
    ("prompts", "notifications/prompts/list_changed"),
    // The server does not advertise it.
    ("resources", "notifications/resources/list_changed"),
];
const OFFERED: [&str; 2] = [KINDS[0].1, KINDS[1].1];

impl Model {
    fn publish(&mut self, lists: &[&str], uri: Option<&str>) -> (u64, u64) {
        let (mut told, mut skipped) = (0, 0);
        for (_, listener) in self.listeners.values_mut() {
            let mut heard = Vec::new();
            heard.extend(lists.iter().filter(|list| listener.lists.contains(*list)).map(|list| (*list).to_owned()));
            if let Some(uri) = uri {
                let below = |asked: &str| listener.legacy && uri.starts_with(&format!("{asked}/"));
                if listener.uris.iter().any(|asked| *asked == uri || below(asked)) {
                    heard.push(format!("updated {uri}"));
                }
            }
            if heard.is_empty() || listener.ending {
                skipped += 1;
            } else {
                told += 1;
                listener.waits.extend(heard);
            }
        }
        (told, skipped)
    }

    /// What is handed out, by listener; a listener that ends has `finish`.
    fn take(&mut self) -> BTreeMap<ListenerId, BTreeSet<String>> {
        let busy: BTreeSet<_> = self.handed.iter().filter(|(_, n)| **n > 0).map(|(sink, _)| *sink).collect();
        let mut out = BTreeMap::new();
        for (id, (sink, listener)) in &mut self.listeners {
            if busy.contains(sink) {
                continue;
            }
            let frames = if !listener.legacy && listener.acknowledged == 0 {
                listener.acknowledged = 1;
                BTreeSet::from(["ack".to_owned()])
            } else if listener.open {
                std::mem::take(&mut listener.waits)
            } else {
                continue;
            };
            if !frames.is_empty() {
                *self.handed.entry(*sink).or_default() += frames.len() as u32;
                out.insert(*id, frames);
            }
        }
        out
    }

    fn written(&mut self, sink: SinkId) {
        let Some(handed) = self.handed.get_mut(&sink).filter(|handed| **handed > 0) else { return };
        *handed -= 1;
        if *handed == 0 {
            for (at, listener) in self.listeners.values_mut() {
                if *at == sink && listener.acknowledged == 1 {
                    listener.acknowledged = 2;
                    listener.open = true;
                }
            }
        }
    }

    fn drop_sink(&mut self, sink: SinkId) -> usize {
        let before = self.listeners.len();
        self.listeners.retain(|_, (at, _)| *at != sink);
        before - self.listeners.len()
    }
}

struct Stage {
    outbox: Outbox,
    model: Model,
    sinks: Vec<SinkId>,
    broken: BTreeSet<SinkId>,
    listeners: Vec<ListenerId>,
    ids: i64,
}

fn profile(version: &str) -> Profile {
    Profile::new(&MCP, version, SERVER, "{}").expect("a profile")
}

impl Stage {
    fn sink(&self, at: usize) -> Option<SinkId> {
        (!self.sinks.is_empty()).then(|| self.sinks[at % self.sinks.len()])
    }

    fn listener(&self, at: usize) -> Option<ListenerId> {
        (!self.listeners.is_empty()).then(|| self.listeners[at % self.listeners.len()])
    }

    fn new_sink(&mut self) -> SinkId {
        let sink = self.outbox.add_sink(SinkOptions::default()).expect("a sink");
        self.sinks.push(sink);
        sink
    }

    fn add(&mut self, id: ListenerId, sink: SinkId, listener: Listener) {
        self.listeners.push(id);
        self.model.listeners.insert(id, (sink, listener));
    }

    fn listen(&mut self, on: Option<usize>, lists: u8, uris: u8) {
        let known = on.and_then(|at| self.sink(at)).filter(|sink| !self.broken.contains(sink));
        let sink = known.unwrap_or_else(|| self.new_sink());
        let asked = |at: usize, bits: u8| bits & (1 << at) != 0;
        let flags = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
        let mut parts: Vec<_> =
            (0..3).filter(|at| asked(*at, lists)).map(|at| format!("\"{}\":true", flags[at])).collect();
        let uris: BTreeSet<_> = (0..4).filter(|at| asked(*at, uris)).map(|at| URIS[at]).collect();
        parts.push(format!("\"resourceSubscriptions\":{:?}", uris.iter().collect::<Vec<_>>()));
        let filter = Filter::parse(&MCP, &format!("{{{}}}", parts.join(","))).expect("a filter");
        let profile = profile("2026-07-28");
        let honoured = filter.honoured(&profile).expect("declared");
        self.ids += 1;
        let id = self.outbox.listen(sink, &profile, &RequestId::from(self.ids), honoured).expect("a listener");
        let lists = (0..2).filter(|at| asked(*at, lists)).map(|at| OFFERED[at]).collect();
        self.add(id, sink, Listener { lists, uris, ..Listener::default() });
    }

    /// Takes everything, in both; also what a finish makes room for.
    fn take(&mut self) {
        let mut got: BTreeMap<ListenerId, BTreeSet<String>> = BTreeMap::new();
        for parcel in self.outbox.take(usize::MAX) {
            match parcel {
                Parcel::Frame { listener, frame, sink, tag } => {
                    let (at, known) = &self.model.listeners[&listener];
                    assert_eq!((*at, known.legacy), (sink, tag.is_none()));
                    let text = match frame.method() {
                        "notifications/subscriptions/acknowledged" => "ack".to_owned(),
                        "notifications/resources/updated" => {
                            let params = frame.params(None).expect("parameters");
                            format!("updated {}", &params[8..params.len() - 2])
                        }
                        method => method.to_owned(),
                    };
                    assert!(got.entry(listener).or_default().insert(text), "a frame twice in one go");
                }
                Parcel::Finish { listener, .. } => {
                    let (_, ended) = self.model.listeners.remove(&listener).expect("told of its end once");
                    assert!(ended.ending && ended.waits.is_empty(), "something promised was not written: {ended:?}");
                    assert!(ended.legacy || ended.acknowledged == 2, "an end before the acknowledgement");
                }
            }
        }
        assert_eq!(got, self.model.take());
    }

    fn step(&mut self, hub: &tidings::Hub, step: &Step) {
        match *step {
            Step::Legacy => {
                let sink = self.new_sink();
                let id = self.outbox.attend(sink, &profile("2025-06-18")).expect("a listener");
                self.add(id, sink, Listener { legacy: true, lists: OFFERED.into(), ..Listener::default() });
            }
            Step::Listen { on, lists, uris } => self.listen(on, lists, uris),
            Step::Open(at) => {
                let Some(id) = self.listener(at) else { return };
                // A host opens only those that send no filters.
                if let Some((_, listener)) = self.model.listeners.get_mut(&id).filter(|(_, l)| l.legacy) {
                    self.outbox.open(id);
                    listener.open = true;
                }
            }
            Step::Subscribe(at, uri) => {
                let Some(id) = self.listener(at) else { return };
                if let Some((_, listener)) = self.model.listeners.get_mut(&id).filter(|(_, l)| l.legacy) {
                    self.outbox.subscribe(id, &profile("2025-06-18"), URIS[uri]).expect("subscribed");
                    listener.uris.insert(URIS[uri]);
                }
            }
            Step::Unsubscribe(at, uri) => {
                let Some(id) = self.listener(at) else { return };
                if let Some((_, listener)) = self.model.listeners.get_mut(&id).filter(|(_, l)| l.legacy) {
                    self.outbox.unsubscribe(id, &profile("2025-06-18"), URIS[uri]);
                    if listener.uris.remove(URIS[uri]) {
                        listener.waits.remove(&format!("updated {}", URIS[uri]));
                    }
                }
            }
            Step::Publish { lists, uri } => {
                let chosen: Vec<_> = (0..3).filter(|at| lists & (1 << at) != 0).collect();
                let mut kinds: Vec<_> = chosen.iter().map(|at| KINDS[*at].0).collect();
                let methods: Vec<_> = chosen.iter().map(|at| KINDS[*at].1).collect();
                let name = uri.map(|uri| URIS[uri]);
                kinds.extend(name.map(|_| "resource"));
                if kinds.is_empty() {
                    return;
                }
                let got = hub.notify(Publish { kinds: &kinds, name, audience: None }).expect("published");
                assert_eq!((got.told, got.skipped), self.model.publish(&methods, name));
                assert_eq!(got.failed, 0);
            }
            Step::Take => self.take(),
            Step::Written(at) => {
                let Some(sink) = self.sink(at) else { return };
                if self.model.handed.get(&sink).is_some_and(|handed| *handed > 0) {
                    self.outbox.written(sink, 1);
                    self.model.written(sink);
                }
            }
            Step::Broke(at) => {
                let Some(sink) = self.sink(at) else { return };
                let ended = self.outbox.broke(sink);
                let want = if self.broken.insert(sink) { self.model.drop_sink(sink) } else { 0 };
                assert_eq!(ended, want);
                self.model.handed.remove(&sink);
            }
            Step::DropSink(at) => {
                let Some(sink) = self.sink(at) else { return };
                assert_eq!(self.outbox.drop_sink(sink), self.model.drop_sink(sink));
                self.broken.insert(sink);
                self.model.handed.remove(&sink);
            }
            Step::Cancel(at) => {
                let Some(id) = self.listener(at) else { return };
                assert_eq!(self.outbox.cancel(id), self.model.listeners.remove(&id).is_some());
            }
            Step::End(at) => {
                let Some(id) = self.listener(at) else { return };
                if let Some((_, listener)) = self.model.listeners.get_mut(&id).filter(|(_, l)| !l.legacy) {
                    self.outbox.end(id);
                    listener.ending = true;
                }
            }
        }
        assert_eq!(self.outbox.listeners(), self.model.listeners.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_does_what_the_model_does(steps in proptest::collection::vec(step(), 1..80)) {
        let hub = memory();
        let outbox = hub.outbox().expect("an outbox");
        let mut stage = Stage {
            outbox,
            model: Model::default(),
            sinks: Vec::new(),
            broken: BTreeSet::new(),
            listeners: Vec::new(),
            ids: 0,
        };
        for one in &steps {
            stage.step(&hub, one);
        }
        // In the end everybody is told what was promised, and who ended has ended.
        for _ in 0..4 {
            for sink in stage.sinks.clone() {
                while stage.model.handed.get(&sink).is_some_and(|handed| *handed > 0) {
                    stage.outbox.written(sink, 1);
                    stage.model.written(sink);
                }
            }
            stage.take();
        }
        for (_, listener) in stage.model.listeners.values() {
            prop_assert!(!listener.ending);
            prop_assert!(listener.waits.is_empty() || !listener.open);
        }
    }
}
