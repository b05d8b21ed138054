//! One process: a hub and what its host holds of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidings::proto::address::Policy;
use tidings::proto::stream::Retention;
use tidings::simulation::{self, Threads, World};
use tidings::store::StreamKey;
use tidings::{Call, Hub, Options, Result, Verify, Writer};
use tokio::task::JoinHandle;

use crate::chance::Chance;
use crate::clock::MachineClock;
use crate::disk::{Disk, Medium};
use crate::net::{Network, Reach};
use crate::peers::Peers;
use crate::record::Record;

/// A stream keeps so many events.
pub(crate) const KEPT: u64 = 40;

/// A writer and what it was given.
pub(crate) struct Pen {
    /// Its handle.
    pub(crate) writer: Writer,
    /// Its stream.
    pub(crate) key: StreamKey,
    /// What was appended, and is not acknowledged yet.
    pub(crate) given: Vec<(u64, Bytes)>,
}

/// A process that runs.
pub(crate) struct Process {
    /// Its hub.
    pub(crate) hub: Hub,
    threads: Threads,
    /// The disk as it sees it.
    pub(crate) medium: Arc<Medium>,
    /// Writers.
    pub(crate) pens: Vec<Pen>,
    /// Calls that run.
    pub(crate) calls: Vec<Call>,
    /// Clients that are connected, by number.
    pub(crate) readers: Vec<(usize, JoinHandle<()>)>,
    /// Its connections.
    pub(crate) peers: Peers,
}

/// What is the same for all processes of a run.
pub(crate) struct Setting {
    /// The machine's.
    pub(crate) clock: Arc<MachineClock>,
    /// The machine's.
    pub(crate) disk: Arc<Disk>,
    /// The machine's.
    pub(crate) net: Arc<Network>,
    /// The run's.
    pub(crate) record: Arc<Record>,
    /// What endpoints have to show.
    pub(crate) verify: Verify,
}

fn options(setting: &Setting) -> Options {
    let mut options = Options::default();
    options.retention = Retention { max_events: Some(KEPT), ..Retention::UNLIMITED };
    options.address = Policy { allow_http: true, allow_ports: vec![80], ..Policy::default() };
    options.verify = setting.verify;
    options.keep_finished = Duration::from_secs(365 * 86_400);
    options
}

impl Process {
    /// Starts one.
    pub(crate) fn start(setting: &Setting, seed: u64) -> Result<Self> {
        let medium = Arc::new(Medium::new(&setting.disk));
        let late = Chance::new(seed ^ 1);
        let world = World {
            clock: Arc::clone(&setting.clock) as _,
            net: Arc::new(Reach(Arc::clone(&setting.net))),
            seed,
            late: Box::new(move || Duration::from_millis(if late.percent(50) { 0 } else { late.below(30) })),
        };
        let (hub, threads) = simulation::over(Arc::clone(&medium) as _, options(setting), world)?;
        let peers = Peers::new(&hub, Arc::clone(&setting.record))?;
        Ok(Self { hub, threads, medium, pens: Vec::new(), calls: Vec::new(), readers: Vec::new(), peers })
    }

    /// Is killed. Answers the numbers of the clients that were connected.
    pub(crate) async fn kill(self) -> Vec<usize> {
        self.medium.die();
        self.threads.kill().await;
        self.readers
            .into_iter()
            .map(|(client, reader)| {
                reader.abort();
                client
            })
            .collect()
    }

    /// Stops in order.
    pub(crate) async fn close(self) -> Vec<usize> {
        self.hub.close(Duration::from_secs(10));
        self.threads.ended().await;
        let clients = self.readers.iter().map(|(client, _)| *client).collect();
        for (_, reader) in self.readers {
            let _ = reader.await; // its tail has ended
        }
        clients
    }
}
