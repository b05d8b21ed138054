//! Clients that read streams, lose their connection and come back: I3, seen from where it matters.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidings::Read;
use tidings::proto::stream::{Cursor, GapReason, StreamId};
use tidings::store::StreamKey;

use crate::model::{Model, StreamModel};
use crate::record::Record;

/// One reader and what it believes.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// What it reads.
    pub(crate) key: StreamKey,
    /// Where it stands, as it was told last.
    pub(crate) cursor: Option<String>,
    stream: Option<StreamId>,
    /// Everything it was told since the last gap.
    view: BTreeMap<u64, Bytes>,
    /// The number that must come next.
    next: Option<u64>,
}

impl Client {
    /// One that knows nothing.
    pub(crate) fn new(key: StreamKey) -> Self {
        Self { key, cursor: None, stream: None, view: BTreeMap::new(), next: None }
    }

    /// It forgets everything and starts anew.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.key.clone());
    }

    /// An adapter has handed it an event at once, ahead of its commit, with the cursor after it.
    pub(crate) fn given(&mut self, seq: u64, payload: Bytes, cursor: String) {
        let Ok(after) = Cursor::parse(&cursor) else { return };
        let stream = Some(after.stream);
        // Only a client that stands right before it, under the same claim: any other one would have to resume first.
        let stands = self.cursor.as_deref().and_then(|cursor| Cursor::parse(cursor).ok());
        let follows = stands.is_none_or(|at| (at.stream, at.claim, at.next) == (after.stream, after.claim, seq));
        if follows {
            self.stream = stream;
            self.view.insert(seq, payload);
            self.next = Some(seq + 1);
            self.cursor = Some(cursor);
        }
    }

    /// Something that it knows is not there: it was lost with a process or with the power.
    fn is_misled(&self, stream: Option<&StreamModel>) -> bool {
        let Some(stream) = stream else { return true };
        let known = self.view.range(stream.earliest..);
        known.into_iter().any(|(seq, payload)| stream.events.get(seq) != Some(&Some(payload.clone())))
            || self.next.is_some_and(|next| next > stream.next)
    }

    /// There is no place as that where it stands. Checks that this is so.
    pub(crate) fn unknown(&mut self, model: &Model, record: &Record) {
        let there = self.stream.and_then(|id| model.streams.get(&id));
        record
            .hold("I3", there.is_none(), || format!("{:?}: its cursor is unknown, and its stream is there", self.key));
        self.forget();
    }

    /// What it was told. Checks it against what is committed.
    pub(crate) fn read(&mut self, read: &Read, model: &Model, record: &Record) {
        let stream = model.streams.get(&read.cursor.stream);
        let tell = |rule: &str, holds: bool, why: &str| {
            record.hold(rule, holds, || {
                let seqs = read.events.first().zip(read.events.last()).map(|(first, last)| first.seq..=last.seq);
                format!("{why}: stands at {:?}, was told {:?} and {seqs:?}; {stream:?}", self.next, read.gap)
            });
        };
        tell("I3", self.stream.is_none_or(|id| id == read.cursor.stream), "another stream");
        let mut next = self.next;
        let mut regressed = false;
        if let Some(gap) = read.gap {
            match gap.reason {
                GapReason::Evicted => {
                    tell("I3", gap.earliest_seq > next && next.is_some(), "nothing was evicted that it lacks");
                }
                GapReason::Lost => {
                    let (from, to) = (next.unwrap_or(0), gap.earliest_seq.unwrap_or(0));
                    let tombstone = |seq: u64| stream.is_some_and(|stream| stream.events.get(&seq) == Some(&None));
                    tell("I3", from < to && (from..to).any(tombstone), "nothing was lost there");
                }
                GapReason::Regressed => {
                    tell("I3", self.is_misled(stream), "nothing that it knows was taken back");
                    regressed = true;
                }
                GapReason::Unknown => tell("I3", stream.is_none(), "its stream is there"),
            }
            next = gap.earliest_seq.or(next);
        }
        if !regressed && read.gap.is_none_or(|gap| gap.reason != GapReason::Unknown) {
            tell("I3", !self.is_misled(stream), "what it knows was taken back, and it was not told");
        }
        for event in &read.events {
            tell("I3", next.is_none_or(|next| next == event.seq), "a hole or a double");
            let same = stream.is_some_and(|stream| stream.events.get(&event.seq) == Some(&Some(event.payload.clone())));
            tell("I2", same, "an event that nobody committed so");
            next = Some(event.seq + 1);
        }
        if regressed {
            self.view.clear();
        }
        self.stream = Some(read.cursor.stream);
        self.view.extend(read.events.iter().map(|event| (event.seq, event.payload.clone())));
        self.next = next.or(Some(read.cursor.next));
        self.cursor = Some(read.cursor.to_string());
    }
}
