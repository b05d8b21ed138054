//! A hub without threads, sockets and system randomness, for the simulation in `tests/sim`. No part of what is promised.
//!
//! What the two threads do runs as two tasks of the caller's runtime, which must be of one thread. On one whose time is
//! paused everything a hub does is then a function of the seed: the same code, in an order that can be had again.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidings_store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::background;
use crate::clock::Clock;
use crate::core::{Core, OnExit};
use crate::entropy::Entropy;
use crate::error::Result;
use crate::hub::Hub;
use crate::options::Options;
use crate::sender::{self, Sender};

/// One end of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The network that the hub's webhooks go out to. What may be connected to has been decided when it is asked.
pub trait Net: Send + Sync + 'static {
    /// The addresses of a name.
    ///
    /// # Errors
    /// There are none.
    fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// A connection to an address.
    ///
    /// # Errors
    /// Nobody answers there.
    fn connect(&self, to: SocketAddr) -> io::Result<Box<dyn Stream>>;
}

struct Adapter(Arc<dyn Net>);

impl sender::Net for Adapter {
    fn lookup<'a>(&'a self, name: &'a str, _port: u16) -> sender::Lookup<'a> {
        Box::pin(async move { self.0.lookup(name) })
    }

    fn connect(&self, to: SocketAddr) -> sender::Connecting<'_> {
        Box::pin(async move { Ok(Box::new(self.0.connect(to)?) as sender::Open) })
    }
}

/// What a simulated hub lives in.
pub struct World {
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// Its network.
    pub net: Arc<dyn Net>,
    /// All its randomness comes from this.
    pub seed: u64,
    /// How long the writer thread takes to come round, asked each time.
    pub late: Box<dyn Fn() -> Duration + Send + Sync>,
}

/// The two threads of a simulated hub.
pub struct Threads {
    writer: JoinHandle<()>,
    io: JoinHandle<()>,
}

impl Threads {
    /// The process is killed: nothing it was about to do is done. Whatever was handed out by its hub answers `closed`.
    pub async fn kill(self) {
        self.io.abort();
        self.writer.abort();
        self.ended().await;
    }

    /// Waits until both have come to their end, after [`Hub::close`], which does not wait here.
    pub async fn ended(self) {
        let _ = self.io.await; // cancelled, by `kill`
        let _ = self.writer.await;
    }
}

/// A hub over a store, in the runtime that this is called in.
///
/// # Errors
/// As [`Hub::over`].
pub fn over(store: Arc<dyn Store>, options: Options, world: World) -> Result<(Hub, Threads)> {
    options.validate()?;
    let World { clock, net, seed, late } = world;
    let sender = Sender::with_net(&options, Box::new(Adapter(net)));
    let entropy = Entropy::Seeded(Mutex::new(seed));
    let core = Core::open(store, options.clone(), Arc::clone(&clock), sender, entropy, Arc::default())?;
    core.set_io(tokio::runtime::Handle::current());
    core.without_threads();
    let (writing, serving) = (Arc::clone(&core), Arc::clone(&core));
    let writer = tokio::spawn(async move {
        let _exit = OnExit(|| writing.writer_ended());
        writing.committer.simulate(&writing, late).await;
        writing.close_store();
    });
    let io = tokio::spawn(async move {
        let _exit = OnExit(|| serving.io_ended());
        background::serve(&serving).await;
    });
    Ok((Hub::of(core, options, clock), Threads { writer, io }))
}
