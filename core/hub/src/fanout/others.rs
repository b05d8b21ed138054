//! Other processes: what was published here goes into the store's log, and what was published there comes out of it.
//!
//! A log that lags only delays. A reader that fell behind what the log keeps has missed changes it cannot know: it tells
//! of every list once, and once of each single thing that somebody asked for.

use std::sync::Mutex;

use tidings_proto::fanout::{About, Frame, MethodSet};
use tidings_store::{Durability, Op, PUBLISHES_KEPT, Publish};
use tokio::sync::Notify;

use super::{Named, Ready, task};
use crate::background::commit;
use crate::core::Core;
use crate::notify::lock;

/// Stands for everything: more was published than could be kept until the store took it.
const ALL: &str = "*";
/// Publishes that may wait for the store.
const WAITING: usize = PUBLISHES_KEPT as usize;
/// Publishes read at a time.
const PAGE: u32 = 256;

/// What this process owes the others, and where it stands in what they said.
#[derive(Default)]
pub(crate) struct Others {
    waiting: Mutex<Vec<Publish>>,
    /// Something waits.
    pub(crate) published: Notify,
    /// The newest publish that was told here; `None` before the first look.
    seen: Mutex<Option<u64>>,
}

/// Has the others told. What is the same as what waits already coalesces with it.
pub(super) fn tell(core: &Core, kinds: String, name: Option<&str>, audience: Option<&str>) {
    let others = &core.fanouts.others;
    let publish =
        Publish { worker: core.worker, kinds, name: name.map(str::to_owned), audience: audience.map(str::to_owned) };
    let mut waiting = lock(&others.waiting);
    if waiting.contains(&publish) {
        return;
    }
    if waiting.len() >= WAITING {
        waiting.clear();
        waiting.push(Publish { worker: core.worker, kinds: ALL.to_owned(), name: None, audience: None });
        return;
    }
    waiting.push(publish);
    drop(waiting);
    others.published.notify_one();
}

/// Puts what waits into the store's log; what the store does not take is tried again.
pub(crate) async fn flush(core: &Core) {
    let others = &core.fanouts.others;
    let taken = std::mem::take(&mut *lock(&others.waiting));
    if taken.is_empty() {
        return;
    }
    let ops = taken.iter().cloned().map(Op::Publish).collect();
    if commit(core, Durability::Process, ops).await.is_none() {
        let mut waiting = lock(&others.waiting);
        let since = std::mem::replace(&mut *waiting, taken);
        for publish in since {
            if !waiting.contains(&publish) {
                waiting.push(publish);
            }
        }
    }
}

/// What was published until now concerns nobody here.
pub(crate) fn begin(core: &Core) {
    if core.store.is_shared() {
        let head = core.store.publishes(u64::MAX, 0).ok().map(|found| found.head);
        *lock(&core.fanouts.others.seen) = head;
    }
}

/// Tells the listeners of this process what the others published.
pub(crate) fn look(core: &Core) {
    let others = &core.fanouts.others;
    let mut seen = lock(&others.seen);
    loop {
        let after = seen.unwrap_or(0);
        let found = match core.store.publishes(after, PAGE) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "what others published cannot be read now");
                return;
            }
        };
        if after.saturating_add(1) < found.earliest {
            tell_everything(core);
            *seen = Some(found.head);
            return;
        }
        let Some((last, _)) = found.entries.last() else {
            *seen = Some(after.max(found.head));
            return;
        };
        *seen = Some(*last);
        for (_, publish) in found.entries.iter().filter(|(_, publish)| publish.worker != core.worker) {
            apply(core, publish);
        }
        if found.entries.len() < PAGE as usize {
            return;
        }
    }
}

fn apply(core: &Core, publish: &Publish) {
    if publish.kinds == ALL {
        tell_everything(core);
        return;
    }
    let protocol = core.fanouts.protocol;
    // Kinds that this library does not have, nobody here can have asked for.
    let known = publish.kinds.split(' ').filter_map(|kind| protocol.kinds([kind]).ok());
    let kinds = known.fold(tidings_proto::fanout::KindSet::EMPTY, |all, kind| all.and(kind));
    let methods = protocol.methods(kinds);
    let lists = methods.common(protocol.lists());
    let audience = publish.audience.as_deref();
    if !lists.is_empty() {
        core.fanouts.local(&Ready { lists, named: None, audience }, core.timeline.now());
    }
    let Some(name) = publish.name.as_deref() else { return };
    for method in methods.without(protocol.lists()).places() {
        tell_of(core, method, name, audience);
    }
}

/// Tells of one thing.
fn tell_of(core: &Core, method: usize, name: &str, audience: Option<&str>) {
    let Some(row) = core.fanouts.protocol.methods.get(method) else { return };
    let frame = match row.about {
        About::Named(_) => Frame::named(row, name).ok(),
        About::State => return task::tell(core, method, name, audience),
        About::List => None,
    };
    if let Some(frame) = frame {
        let named = Some(Named { method, name, frame });
        core.fanouts.local(&Ready { lists: MethodSet::EMPTY, named, audience }, core.timeline.now());
    }
}

fn tell_everything(core: &Core) {
    let fanouts = &core.fanouts;
    let lists = fanouts.protocol.lists();
    fanouts.local(&Ready { lists, named: None, audience: None }, core.timeline.now());
    for (method, row) in fanouts.protocol.methods.iter().enumerate() {
        if row.about != About::List {
            for name in fanouts.names(method) {
                tell_of(core, method, &name, None);
            }
        }
    }
}
