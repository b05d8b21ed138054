//! Peers that asked to be told of changes: some write what they are handed, some stall. I9, seen from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidings::proto::fanout::mcp::MCP;
use tidings::proto::fanout::{Filter, Profile};
use tidings::proto::id::RequestId;
use tidings::{Hub, ListenerId, Outbox, Parcel, Publish, Result, SinkId, SinkOptions};

use crate::chance::Chance;
use crate::record::{Record, lock};

/// What the server advertises; not that resources change.
const SERVER: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true}}"#;
const KINDS: [(&str, &str); 3] = [
    ("tools", "notifications/tools/list_changed"),
    ("prompts", "notifications/prompts/list_changed"),
    ("resources", "notifications/resources/list_changed"),
];

/// How often each method was published, by any process.
pub(crate) type Published = std::sync::Mutex<BTreeMap<&'static str, u64>>;

struct Peer {
    sink: SinkId,
    /// It reads what it is sent.
    reads: bool,
    /// The methods that it may be told by; its acknowledgement comes first.
    allowed: Vec<&'static str>,
    acknowledged: bool,
    /// How often each method had been published when it came, and how often it was told.
    before: BTreeMap<&'static str, u64>,
    told: BTreeMap<String, u64>,
    /// Lists that were published here and that it has to be told of yet.
    owed: Vec<&'static str>,
}

/// The connections of one process.
pub(crate) struct Peers {
    outbox: Outbox,
    peers: BTreeMap<ListenerId, Peer>,
    record: Arc<Record>,
    requests: i64,
}

impl Peers {
    /// None yet.
    pub(crate) fn new(hub: &Hub, record: Arc<Record>) -> Result<Self> {
        Ok(Self { outbox: hub.outbox()?, peers: BTreeMap::new(), record, requests: 0 })
    }

    /// One more peer, of the old protocol or the new one.
    pub(crate) fn add(&mut self, chance: &Chance, published: &Published) -> Result<()> {
        let sink = self.outbox.add_sink(SinkOptions::default())?;
        let asked: Vec<_> = KINDS.iter().filter(|_| chance.percent(60)).collect();
        let profile = |version| Profile::new(&MCP, version, SERVER, "{}").ok();
        let legacy = chance.percent(40);
        let (listener, allowed) = if legacy {
            let Some(profile) = profile("2025-06-18") else { return Ok(()) };
            let listener = self.outbox.attend(sink, &profile)?;
            self.outbox.open(listener);
            (listener, KINDS[..2].iter().map(|(_, method)| *method).collect())
        } else {
            let flags: Vec<_> = asked.iter().map(|(kind, _)| format!("\"{kind}ListChanged\":true")).collect();
            let (Some(profile), Ok(filter)) =
                (profile("2026-07-28"), Filter::parse(&MCP, &format!("{{{}}}", flags.join(","))))
            else {
                return Ok(());
            };
            // What is not offered is not honoured.
            let Ok(honoured) = filter.honoured(&profile) else { return Ok(()) };
            self.requests += 1;
            let listener = self.outbox.listen(sink, &profile, &RequestId::from(self.requests), honoured)?;
            (listener, asked.iter().map(|(_, method)| *method).filter(|method| *method != KINDS[2].1).collect())
        };
        let peer = Peer {
            sink,
            reads: chance.percent(75),
            allowed,
            acknowledged: legacy,
            before: lock(published).clone(),
            told: BTreeMap::new(),
            owed: Vec::new(),
        };
        self.peers.insert(listener, peer);
        Ok(())
    }

    /// Something has changed.
    pub(crate) fn publish(&mut self, hub: &Hub, chance: &Chance, published: &Published) -> Result<()> {
        let Some((kind, method)) = chance.one_of(&KINDS) else { return Ok(()) };
        *lock(published).entry(method).or_default() += 1;
        let fanout = hub.notify(Publish { kinds: &[kind], ..Publish::default() })?;
        self.record.note(format!("published {kind}: told {}, skipped {}", fanout.told, fanout.skipped));
        for peer in self.peers.values_mut().filter(|peer| peer.allowed.contains(method)) {
            peer.owed.push(method);
        }
        Ok(())
    }

    /// The host writes what there is to write.
    pub(crate) fn write(&mut self, hub: &Hub, published: &Published) -> Result<()> {
        for parcel in self.outbox.take(usize::MAX) {
            let Parcel::Frame { sink, listener, frame, .. } = parcel else { continue };
            let Some(peer) = self.peers.get_mut(&listener) else {
                self.record.violated("I9", format!("a frame for a listener that has gone: {}", frame.method()));
                continue;
            };
            let method = frame.method();
            if method == MCP.acknowledged {
                self.record.hold("I9", !peer.acknowledged, || "acknowledged twice".to_owned());
                peer.acknowledged = true;
            } else {
                self.record.hold("I9", peer.acknowledged, || format!("{method} before the acknowledgement"));
                self.record.hold("I9", peer.allowed.contains(&method), || format!("{method}, which nobody asked for"));
                let told = peer.told.entry(method.to_owned()).or_default();
                *told += 1;
                let most = lock(published).get(method).copied().unwrap_or(0);
                let before = peer.before.get(method).copied().unwrap_or(0);
                self.record.hold("I9", *told <= most - before, || format!("{method}: told {told} times of {most}"));
                peer.owed.retain(|owed| *owed != method);
            }
            if peer.reads {
                self.outbox.written(sink, 1);
            }
        }
        for sink in hub.failed_sinks()? {
            let stalls = self.peers.values().any(|peer| peer.sink == sink && !peer.reads);
            self.record.hold("I9", stalls, || "a sink that reads has failed".to_owned());
            self.peers.retain(|_, peer| peer.sink != sink);
        }
        Ok(())
    }

    /// Everything was written by those who read: none of them is owed anything.
    pub(crate) fn all_told(&self) {
        for peer in self.peers.values().filter(|peer| peer.reads) {
            let (owed, allowed) = (&peer.owed, &peer.allowed);
            self.record.hold("I9", owed.is_empty(), || format!("a peer that asked for {allowed:?} is owed {owed:?}"));
        }
    }
}
