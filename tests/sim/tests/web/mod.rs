//! What tests in virtual time share: a hub of one process, and everybody its webhooks go to.
#![allow(dead_code, reason = "each test uses a part")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidings::proto::address::Policy;
use tidings::proto::id::RequestId;
use tidings::simulation::{Net, Stream, World};
use tidings::store::Boot;
use tidings::{BeginCall, Call, Clock, Hub, Options, Verify};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

/// What fires.
pub(crate) const STEP: &str = "com.example/step";
/// How long an endpoint that answers takes to.
const ANSWERS_AFTER: Duration = Duration::from_millis(20);

/// The time of the runtime.
struct Virtual(Instant);

impl Clock for Virtual {
    fn boot(&self) -> Boot {
        Boot { id: "boot".to_owned(), now_ms: i64::try_from(self.0.elapsed().as_millis()).unwrap_or(i64::MAX) }
    }

    fn wall(&self) -> i64 {
        self.boot_ms()
    }
}

/// Everybody who is asked: whoever has `/hangs` in its path never answers, once that has begun.
#[derive(Default)]
pub(crate) struct Web {
    pub(crate) hanging: AtomicBool,
    /// How many requests have come, whole.
    pub(crate) asked: AtomicUsize,
}

struct Reach(Arc<Web>);

impl Net for Reach {
    fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let last = name.bytes().fold(0_u8, u8::wrapping_add);
        Ok(vec![IpAddr::V4(Ipv4Addr::new(8, 8, 8, last))])
    }

    fn connect(&self, _to: SocketAddr) -> io::Result<Box<dyn Stream>> {
        let (ours, theirs) = tokio::io::duplex(16 << 10);
        tokio::spawn(answer(Arc::clone(&self.0), theirs));
        Ok(Box::new(ours))
    }
}

async fn answer(web: Arc<Web>, mut stream: DuplexStream) -> io::Result<()> {
    let mut read = Vec::new();
    while stream.read_buf(&mut read).await? > 0 {
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        if body.len() < length {
            continue;
        }
        web.asked.fetch_add(1, Ordering::SeqCst);
        if head.starts_with("POST /hangs") && web.hanging.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        read.clear();
        sleep(ANSWERS_AFTER).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
    Ok(())
}

/// A call whose steps are told to that endpoint.
pub(crate) async fn begin(hub: &Hub, url: &str) -> Call {
    let request_id = RequestId::from(1_i64);
    let config = format!(r#"{{"routes":[{{"id":"r","type":"webhook","endpoint":"{url}","triggers":["{STEP}"]}}]}}"#);
    let call = hub.begin_call(BeginCall {
        config: Some(config.as_bytes()),
        route_types: &["webhook"],
        principal: "p",
        session: None,
        peer: None,
        open: &[],
        request_id: &request_id,
        tool: "t",
        timeout: None,
        task: None,
    });
    call.await.expect("accepted")
}

/// Time passes where nothing else is left to do.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

/// Options with which webhooks go to anybody.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.address = Policy { allow_http: true, allow_ports: vec![80], ..Policy::default() };
    (options.verify, options.max_pending) = (Verify::Address, u32::MAX);
    options
}

/// Where the hub lives.
pub(crate) fn world(web: &Arc<Web>) -> World {
    World {
        clock: Arc::new(Virtual(Instant::now())),
        net: Arc::new(Reach(Arc::clone(web))),
        seed: 1,
        late: Box::new(|| Duration::ZERO),
    }
}
