//! What hosts and clients do, one thing a step.

use std::sync::Arc;

use bytes::Bytes;
use tidings::proto::id::RequestId;
use tidings::store::{NewEvent, StreamKey};
use tidings::{After, BeginCall, Durability, ErrorCode, Tail};

use crate::client::Client;
use crate::machine::Machine;
use crate::net::HOSTS;
use crate::process::Pen;
use crate::promises::{Promise, SECRETS};
use crate::record::lock;

/// The streams that everybody shares.
const STREAMS: [&str; 3] = ["a", "b", "c"];
const CLIENTS: usize = 6;
/// The standard's form, around the bytes 0 to 31.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

impl Machine {
    /// One step.
    pub(crate) async fn act(&mut self) {
        self.counts.steps += 1;
        for at in 0..self.processes.len() {
            if self.processes[at].is_none() && self.chance.percent(60) {
                self.start(at);
            }
        }
        let Some(at) = self.running() else { return };
        // Outcomes and leases are synced, and everything before them with it: to lose something, a run needs few of them.
        let acts = if self.streams_only { 59 } else { 93 };
        match if self.chance.percent(10) { 93 + self.chance.below(7) } else { self.chance.below(acts) } {
            0..5 => self.claim(at).await,
            5..8 => self.new_writer(at),
            8..26 => self.append(at),
            26..33 => self.flush(at),
            33..35 => self.close_writer(at),
            35..43 => self.append_shared(at),
            43..47 => self.append_once(at),
            47..56 => self.connect(at),
            56..59 => self.disconnect(at).await,
            59..66 => self.begin_call(at).await,
            66..76 => self.use_call(at),
            76..78 => self.cancel_from_elsewhere(at),
            78..80 => self.add_peer(at),
            80..84 => self.publish(at),
            84..87 => self.write_peers(at),
            87..89 => self.toggle_fault(at),
            89..93 => self.set_wall(),
            93..95 => self.kill(at).await,
            95..97 => self.kill_in_commit(at).await,
            97 => self.stop(at).await,
            _ => self.lose_power().await,
        }
    }

    /// Somebody sets the wall clock, by up to an hour.
    fn set_wall(&self) {
        let by = i64::try_from(self.chance.below(7_200_000)).unwrap_or(0) - 3_600_000;
        self.setting.clock.set_wall_by(by);
    }

    fn key(&self) -> StreamKey {
        StreamKey::new("everybody", STREAMS[self.chance.place(STREAMS.len())])
    }

    fn payload(&mut self) -> Bytes {
        self.serial += 1;
        Bytes::from(format!("{{\"n\":{}}}", self.serial))
    }

    fn durability(&self) -> Durability {
        let disk = self.chance.percent(if self.streams_only { 5 } else { 40 });
        if disk { Durability::Disk } else { Durability::Process }
    }

    async fn claim(&mut self, at: usize) {
        let key = self.key();
        let Some(process) = &mut self.processes[at] else { return };
        let Ok(stream) = process.hub.stream(&key.scope, &key.name) else { return };
        match stream.claim().await {
            Ok(writer) => {
                self.setting.record.note(format!("process {at} claims {}: {}", key.name, writer.cursor()));
                process.pens.push(Pen { writer, key, given: Vec::new() });
            }
            Err(error) => self.setting.record.note(format!("process {at} claims {}: {error}", key.name)),
        }
    }

    fn new_writer(&mut self, at: usize) {
        self.serial += 1;
        let key = StreamKey::new("everybody", format!("own {}", self.serial));
        let Some(process) = &mut self.processes[at] else { return };
        if let Ok(writer) = process.hub.new_writer(&key.scope, &key.name) {
            process.pens.push(Pen { writer, key, given: Vec::new() });
        }
    }

    /// A writer appends; now and then a client is handed the event at once.
    fn append(&mut self, at: usize) {
        let payloads: Vec<_> = (0..1 + self.chance.below(4)).map(|_| self.payload()).collect();
        let early = self.chance.percent(30);
        let place = self.processes[at].as_ref().map_or(0, |process| self.chance.place(process.pens.len()));
        let connected: Vec<_> =
            self.processes.iter().flatten().flat_map(|process| &process.readers).map(|(client, _)| *client).collect();
        let Some(process) = &mut self.processes[at] else { return };
        let Some(pen) = process.pens.get_mut(place) else { return };
        for payload in payloads {
            match pen.writer.append("message", &payload, None) {
                Ok(seq) => {
                    self.setting.record.note(format!("process {at} appends {} {seq}", pen.key.name));
                    let mut promises = lock(&self.promises);
                    let found = (0..promises.clients.len())
                        .find(|client| promises.clients[*client].key == pen.key && !connected.contains(client));
                    if let Some(client) = found.filter(|_| early).and_then(|place| promises.clients.get_mut(place)) {
                        client.given(seq, payload.clone(), pen.writer.cursor_after(seq));
                    }
                    drop(promises);
                    pen.given.push((seq, payload));
                }
                Err(error) => {
                    self.setting.record.note(format!("process {at} appends {}: {error}", pen.key.name));
                    process.pens.remove(place);
                    return;
                }
            }
        }
    }

    fn flush(&mut self, at: usize) {
        let durability = self.durability();
        let place = self.processes[at].as_ref().map_or(0, |process| self.chance.place(process.pens.len()));
        let Some(process) = &mut self.processes[at] else { return };
        let Some(pen) = process.pens.get_mut(place) else { return };
        let (writer, key, given) = (pen.writer.clone(), pen.key.clone(), std::mem::take(&mut pen.given));
        let (promises, record) = (Arc::clone(&self.promises), Arc::clone(&self.setting.record));
        tokio::spawn(async move {
            let done = writer.flush(durability).await;
            record.note(format!("flush of {} ({durability:?}): {done:?}", key.name));
            if done.is_ok() {
                let mut promises = lock(&promises);
                for (seq, payload) in given {
                    promises.make(Promise::Event(key.clone(), seq, payload), durability);
                }
            }
        });
    }

    fn close_writer(&mut self, at: usize) {
        let durability = self.durability();
        let place = self.processes[at].as_ref().map_or(0, |process| self.chance.place(process.pens.len()));
        let Some(process) = &mut self.processes[at] else { return };
        if place >= process.pens.len() || (STREAMS.contains(&&*process.pens[place].key.name) && self.chance.percent(80))
        {
            return;
        }
        let pen = process.pens.remove(place);
        let (promises, record) = (Arc::clone(&self.promises), Arc::clone(&self.setting.record));
        tokio::spawn(async move {
            let closed = pen.writer.close();
            let done = pen.writer.flush(durability).await;
            record.note(format!("close of {}: {closed:?} {done:?}", pen.key.name));
            if closed.is_ok() && done.is_ok() {
                lock(&promises).make(Promise::Closed(pen.key), durability);
            }
        });
    }

    fn event(&self, payload: &Bytes) -> NewEvent {
        use tidings::Clock;
        let time = self.setting.clock.wall();
        NewEvent { kind: "message".to_owned(), payload: payload.clone(), time, identity: None }
    }

    fn append_shared(&mut self, at: usize) {
        let (key, durability) = (self.key(), self.durability());
        let payloads: Vec<_> = (0..1 + self.chance.below(3)).map(|_| self.payload()).collect();
        let events = payloads.iter().map(|payload| self.event(payload)).collect();
        let Some(process) = &self.processes[at] else { return };
        let Ok(stream) = process.hub.stream(&key.scope, &key.name) else { return };
        let (promises, record) = (Arc::clone(&self.promises), Arc::clone(&self.setting.record));
        tokio::spawn(async move {
            let done = stream.append(events, durability).await;
            record.note(format!("shared append to {} ({durability:?}): {done:?}", key.name));
            let Ok(first) = done else { return };
            let mut promises = lock(&promises);
            for (seq, payload) in (first..).zip(payloads) {
                promises.make(Promise::Event(key.clone(), seq, payload), durability);
            }
        });
    }

    fn append_once(&mut self, at: usize) {
        let (key, durability, once) = (self.key(), self.durability(), format!("key {}", self.chance.below(4)));
        let payload = self.payload();
        let events = vec![self.event(&payload)];
        let Some(process) = &self.processes[at] else { return };
        let Ok(stream) = process.hub.stream(&key.scope, &key.name) else { return };
        let record = Arc::clone(&self.setting.record);
        // That the number is the key's own is the model's business.
        tokio::spawn(async move {
            let done = stream.append_once(&once, events, false, durability).await;
            record.note(format!("append once to {} ({once}): {done:?}", key.name));
        });
    }

    /// A client comes, or comes back where it stood.
    fn connect(&mut self, at: usize) {
        let place = self.chance.place(CLIENTS);
        let mut key = self.key();
        let Some(process) = &self.processes[at] else { return };
        if let Some(pen) = self.chance.one_of(&process.pens).filter(|_| self.chance.percent(40)) {
            key = pen.key.clone();
        }
        let connected = |process: &crate::process::Process| process.readers.iter().any(|(client, _)| *client == place);
        if self.processes.iter().flatten().any(connected) {
            return;
        }
        let mut promises = lock(&self.promises);
        if promises.clients.len() <= place {
            promises.clients.resize(place + 1, Client::new(key.clone()));
        }
        if self.chance.percent(10) || promises.clients[place].cursor.is_none() {
            promises.clients[place] = Client::new(key);
        }
        let client = &mut promises.clients[place];
        let found = match &client.cursor {
            Some(cursor) => process.hub.resume(&client.key.scope, cursor),
            None => {
                process.hub.stream(&client.key.scope, &client.key.name).and_then(|stream| stream.tail(After::Earliest))
            }
        };
        let tail = match found {
            Ok(tail) => tail,
            Err(error) => {
                self.setting.record.note(format!("client {place} at process {at}: {error}"));
                if error.code() == ErrorCode::UnknownCursor && client.cursor.is_some() {
                    self.setting.disk.look(|model, _| client.unknown(model, &self.setting.record));
                }
                return;
            }
        };
        self.setting.record.note(format!(
            "client {place} reads {} at process {at}: {}",
            client.key.name,
            tail.cursor()
        ));
        drop(promises);
        let reader = tokio::spawn(self.reader(place, tail));
        if let Some(process) = &mut self.processes[at] {
            process.readers.push((place, reader));
        }
    }

    fn reader(&self, place: usize, mut tail: Tail) -> impl Future<Output = ()> + Send + use<> {
        let (promises, disk) = (Arc::clone(&self.promises), Arc::clone(&self.setting.disk));
        let record = Arc::clone(&self.setting.record);
        async move {
            while let Some(read) = tail.next().await {
                let Ok(read) = read else { return };
                let seqs = read.events.first().map(|event| event.seq).zip(read.events.last().map(|event| event.seq));
                record.note(format!("client {place} is told {seqs:?} {:?}", read.gap));
                disk.look(|model, _| {
                    if let Some(client) = lock(&promises).clients.get_mut(place) {
                        client.read(&read, model, &record);
                    }
                });
            }
        }
    }

    async fn disconnect(&mut self, at: usize) {
        let Some(process) = &mut self.processes[at] else { return };
        if process.readers.is_empty() {
            return;
        }
        let (_, reader) = process.readers.remove(self.chance.place(process.readers.len()));
        reader.abort();
        let _ = reader.await; // nothing more is told it
    }

    fn config(&self) -> String {
        let plain = ["completed", "failed", "cancelled", "timeout"];
        let more = [
            "\"streaming\"",
            "\"com.example/step\"",
            "\"io.tidings/disconnected\"",
            "{\"elapsedMs\":3000}",
            "{\"everyMs\":10000}",
            "{\"group\":\"batch\",\"all\":2}",
            "{\"on\":\"completed\",\"when\":[{\"path\":\"/isError\",\"exists\":false}]}",
        ];
        let route = |number: u64| {
            let mut triggers: Vec<_> =
                plain.iter().filter(|_| self.chance.percent(70)).map(|name| format!("{name:?}")).collect();
            triggers.extend(more.iter().filter(|_| self.chance.percent(25)).map(|trigger| (*trigger).to_owned()));
            if triggers.is_empty() {
                triggers.push("\"completed\"".to_owned());
            }
            let host = HOSTS[self.chance.place(HOSTS.len())];
            let fifo = if self.chance.percent(20) { ",\"fifoKey\":\"one\"" } else { "" };
            let (token, triggers) = (SECRETS[1], triggers.join(","));
            format!(
                r#"{{"id":"r{number}","type":"webhook","endpoint":"http://{host}/hook","secret":"{SECRET}","headers":{{"authorization":"Bearer {token}"}},"redact":["card"],"deadlineMs":600000{fifo},"triggers":[{triggers}]}}"#
            )
        };
        let routes: Vec<_> = (0..1 + self.chance.below(3)).map(route).collect();
        let timeout = if self.chance.percent(20) { "\"timeoutMs\":4000," } else { "" };
        format!(r#"{{{timeout}"group":"batch","routes":[{}]}}"#, routes.join(","))
    }

    async fn begin_call(&mut self, at: usize) {
        let config = self.config();
        let principal = if self.chance.percent(70) { "one" } else { "two" };
        let Some(process) = &mut self.processes[at] else { return };
        let begun = process
            .hub
            .begin_call(BeginCall {
                config: Some(config.as_bytes()),
                route_types: &["webhook"],
                principal,
                session: None,
                peer: None,
                open: &[],
                request_id: &RequestId::from(1_i64),
                tool: "tool",
                timeout: None,
                task: None,
            })
            .await;
        match begun {
            Ok(call) => {
                self.setting.record.note(format!("process {at} begins call {}", call.id()));
                lock(&self.promises).make(Promise::Call(call.id()), Durability::Disk);
                process.calls.push(call);
            }
            Err(error) => {
                let text = error.to_string();
                self.setting.record.hold("I12", !SECRETS.iter().any(|secret| text.contains(secret)), || text.clone());
                self.setting.record.note(format!("process {at} begins no call: {text}"));
                let known =
                    [ErrorCode::Unavailable, ErrorCode::Closed, ErrorCode::Congested, ErrorCode::InvalidArgument];
                self.setting.record.hold("I5", known.contains(&error.code()), || format!("{config}: {text}"));
            }
        }
    }

    fn use_call(&mut self, at: usize) {
        let payload = self.payload();
        let (what, place) = (
            self.chance.below(10),
            self.processes[at].as_ref().map_or(0, |process| self.chance.place(process.calls.len())),
        );
        let Some(process) = &mut self.processes[at] else { return };
        let Some(call) = process.calls.get(place).cloned() else { return };
        let id = call.id();
        match what {
            0..3 => drop(call.emit("message", &payload)),
            3 => drop(call.fire("com.example/step", &payload)),
            4 => drop(call.disconnected()),
            5 => drop(process.calls.remove(place)),
            _ => {
                process.calls.remove(place);
                let (promises, record) = (Arc::clone(&self.promises), Arc::clone(&self.setting.record));
                tokio::spawn(async move {
                    let result = format!(r#"{{"content":[],"card":"{}"}}"#, SECRETS[2]);
                    let ended = match what {
                        6..8 => call.complete(result.as_bytes()).await,
                        8 => call.fail(Some(br#"{"code":1,"message":"no"}"#), None).await,
                        _ => call.cancel(None).await,
                    };
                    record.note(format!("call {id} ends: {ended:?}"));
                    if let Ok(ended) = ended
                        && ended.committed
                    {
                        let outcome = Promise::Outcome(id, ended.outcome.as_str().to_owned());
                        lock(&promises).make(outcome, Durability::Disk);
                    }
                });
            }
        }
    }

    /// A call is cancelled, mostly by a process that does not run it.
    fn cancel_from_elsewhere(&mut self, at: usize) {
        let running: Vec<_> = self.setting.disk.look(|model, _| {
            let running = model.calls.iter().filter(|(_, call)| call.outcome.is_none());
            running.map(|(id, call)| (*id, call.principal.clone())).collect()
        });
        let Some((id, principal)) = self.chance.one_of(&running).cloned() else { return };
        let Some(process) = &self.processes[at] else { return };
        let (hub, record) = (process.hub.clone(), Arc::clone(&self.setting.record));
        tokio::spawn(async move {
            let done = hub.cancel_call(&id.to_string(), &principal).await;
            record.note(format!("call {id} is cancelled from elsewhere: {done:?}"));
        });
    }

    fn add_peer(&mut self, at: usize) {
        if let Some(process) = &mut self.processes[at] {
            let _ = process.peers.add(&self.chance, &self.published); // the hub of a doomed process may be closed
        }
    }

    fn publish(&mut self, at: usize) {
        if let Some(process) = &mut self.processes[at] {
            let _ = process.peers.publish(&process.hub, &self.chance, &self.published);
        }
    }

    fn write_peers(&mut self, at: usize) {
        if let Some(process) = &mut self.processes[at] {
            let _ = process.peers.write(&process.hub, &self.published);
        }
    }
}
