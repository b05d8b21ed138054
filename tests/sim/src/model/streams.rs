//! I1 to I4: events and their numbers.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidings::proto::stream::StreamId;
use tidings::store::{AppendShared, Chunk, Done, MemoryStore, NewEvent, Op, ReadLimits, Store, StreamKey};

use super::Model;

/// One stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamModel {
    pub(crate) key: StreamKey,
    /// Where each claim began; the first is claim 1.
    claims: Vec<u64>,
    owned: bool,
    /// What was appended under each number; nothing: it was given up.
    pub(crate) events: BTreeMap<u64, Option<Bytes>>,
    pub(crate) next: u64,
    pub(crate) earliest: u64,
    closed: bool,
    /// What was appended once, by its key.
    once: BTreeMap<String, u64>,
}

impl StreamModel {
    fn new(key: &StreamKey, owned: bool) -> Self {
        Self {
            key: key.clone(),
            claims: vec![0],
            owned,
            events: BTreeMap::new(),
            next: 0,
            earliest: 0,
            closed: false,
            once: BTreeMap::new(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The newest claim.
    pub(crate) fn claim(&self) -> u32 {
        u32::try_from(self.claims.len()).unwrap_or(u32::MAX)
    }

    /// The number under which that was appended once, as long as that is retained.
    pub(crate) fn known(&self, once: &str) -> Option<u64> {
        self.once.get(once).copied().filter(|seq| *seq >= self.earliest)
    }

    /// Whether a writer's append is one to refuse.
    pub(crate) fn refuses(&self, claim: u32, chunks: &[Chunk]) -> bool {
        let mut next = self.next;
        let follow = chunks.iter().all(|chunk| std::mem::replace(&mut next, chunk.end()) == chunk.first_seq);
        self.closed || claim != self.claim() || !self.owned || !follow
    }

    fn take(&mut self, chunk: &Chunk) {
        for at in 0..u64::from(chunk.count) {
            self.events.insert(chunk.first_seq + at, None);
        }
        for event in chunk.events() {
            self.events.insert(event.seq, Some(event.payload));
        }
        self.next = chunk.end();
    }

    fn number(&mut self, events: &[NewEvent]) {
        if self.owned {
            self.claims.push(self.next);
            self.owned = false;
        }
        for event in events {
            self.events.insert(self.next, Some(event.payload.clone()));
            self.next += 1;
        }
    }
}

impl Model {
    pub(crate) fn of_key(&self, key: &StreamKey) -> Option<&StreamModel> {
        self.streams.get(self.by_key.get(key)?)
    }

    /// The stream of that key, which comes to be with this id if there is none.
    fn at_key(&mut self, key: &StreamKey, new: StreamId, owned: bool) -> (StreamId, &mut StreamModel) {
        let id = *self.by_key.entry(key.clone()).or_insert(new);
        self.changed.insert(id);
        (id, self.streams.entry(id).or_insert_with(|| StreamModel::new(key, owned)))
    }

    pub(super) fn written(&mut self, op: &Op, done: &Done) {
        match (op, done) {
            (Op::Create { id, key, .. }, Done::Nothing) => {
                let fresh = !self.by_key.contains_key(key) && !self.streams.contains_key(id);
                self.record.hold("I2", fresh, || format!("{key:?} was created twice"));
                self.at_key(key, *id, true);
            }
            (Op::Claim { new_id, key, .. }, Done::Claimed(claimed)) => {
                let record = self.record.clone();
                let is_new = !self.by_key.contains_key(key);
                let (id, stream) = self.at_key(key, *new_id, true);
                if !is_new {
                    stream.claims.push(stream.next);
                    stream.owned = true;
                }
                let right = (claimed.stream, claimed.claim, claimed.next_seq) == (id, stream.claim(), stream.next);
                record.hold("I2", right && !stream.closed, || {
                    format!("{key:?}: claimed {claimed:?}, not {} at {}", stream.claim(), stream.next)
                });
            }
            (Op::Append { stream: id, claim, chunks, close, .. }, Done::Nothing) => {
                self.changed.insert(*id);
                let record = self.record.clone();
                let Some(stream) = self.streams.get_mut(id) else {
                    return record.violated("I1", format!("appended to {id}, which is not there"));
                };
                record.hold("I4", !stream.closed, || format!("appended to {:?} after its close", stream.key));
                record.hold("I2", !stream.refuses(*claim, chunks), || {
                    format!("{:?}: claim {claim} appended {chunks:?} at {}", stream.key, stream.next)
                });
                chunks.iter().for_each(|chunk| stream.take(chunk));
                stream.closed |= close;
            }
            (Op::AppendShared(append), Done::Appended { first_seq, .. }) => self.shared(append, *first_seq),
            (Op::AppendOnce { once, append }, Done::Appended { first_seq, .. }) => {
                if let Some(seq) = self.of_key(&append.key).and_then(|stream| stream.known(once)) {
                    let same = seq == *first_seq;
                    return self.record.hold("I1", same, || format!("key {once:?}: {first_seq}, and {seq} before"));
                }
                self.shared(append, *first_seq);
                let stream = self.by_key.get(&append.key).and_then(|id| self.streams.get_mut(id));
                if let Some(stream) = stream {
                    stream.once.insert(once.clone(), *first_seq);
                }
            }
            (op, done) => self.record.violated("I1", format!("{op:?} was answered {done:?}")),
        }
    }

    fn shared(&mut self, append: &AppendShared, first: u64) {
        let record = self.record.clone();
        let (_, stream) = self.at_key(&append.key, append.new_id, false);
        record.hold("I4", !stream.closed, || format!("appended to {:?} after its close", append.key));
        record.hold("I2", first == stream.next, || {
            format!("{:?}: appended at {first} instead of {}", append.key, stream.next)
        });
        stream.number(&append.events);
        stream.closed |= append.close;
    }

    /// I10: what is retained is as much as there may be, and no less.
    pub(super) fn trimmed(&mut self, most: Option<u64>, done: &Done, store: &MemoryStore) {
        let complete = matches!(done, Done::Trimmed { more: false, .. });
        let record = self.record.clone();
        for (id, stream) in &mut self.streams {
            let Ok(Some(info)) = store.stream_by_id(*id) else {
                record.violated("I1", format!("{:?} is gone", stream.key));
                continue;
            };
            let least = most.map_or(0, |most| stream.next.saturating_sub(most)).max(stream.earliest);
            record.hold("I1", info.earliest <= least, || {
                format!("{:?}: {} is evicted, not only up to {least}", stream.key, info.earliest)
            });
            record.hold("I10", !complete || info.earliest >= least, || {
                format!("{:?}: retains from {}, not from {least}", stream.key, info.earliest)
            });
            stream.earliest = info.earliest;
        }
    }

    /// I1, I2, I4: what the store reads is what was committed, in streams that changed since the last time.
    pub(crate) fn compare(&mut self, store: &MemoryStore) {
        let all = ReadLimits { events: u32::MAX, bytes: u64::MAX };
        for id in std::mem::take(&mut self.changed) {
            let Some(stream) = self.streams.get(&id) else { continue };
            let Ok(Some(page)) = store.read(id, 0, all) else {
                self.record.violated("I1", format!("{:?} cannot be read", stream.key));
                continue;
            };
            let (info, mut got) = (&page.info, BTreeMap::new());
            for chunk in &page.chunks {
                let lost = (chunk.first_seq..chunk.end()).map(|seq| (seq, None));
                got.extend(lost);
                got.extend(chunk.events().map(|event| (event.seq, Some(event.payload))));
            }
            got.retain(|seq, _| *seq >= info.earliest);
            let want: BTreeMap<_, _> =
                stream.events.range(info.earliest..).map(|(seq, payload)| (*seq, payload.clone())).collect();
            let heads = (info.next_seq, info.claim, info.closed_at.is_some());
            let same = got == want && heads == (stream.next, stream.claim(), stream.closed);
            self.record.hold("I1", same, || format!("{:?}: reads {heads:?} {got:?}, not {stream:?}", stream.key));
        }
    }
}
