//! Endpoints that hang take nothing from those that answer: neither their slots, nor their host's tokens, nor their turn; also
//! where they are so many, and hang so suddenly, that they could have all slots there are. In virtual time, so that what is compared is what the dispatcher does, and not the machine it runs on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidings::proto::address::Policy;
use tidings::proto::delivery::Rate;
use tidings::proto::id::RequestId;
use tidings::simulation::{self, Net, Stream, World};
use tidings::store::{Boot, MemoryStore};
use tidings::{BeginCall, Call, Clock, Durability, Hub, Options, Verify};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

/// Of those that answer; and of those that hang, where they are not a crowd.
const ENDPOINTS: usize = 10;
/// More than there are slots, before the second attempt of any.
const CROWD: usize = 100;
/// For each that answers: more than the bursts of an endpoint and of a host, so that rates count too.
const DELIVERIES: usize = 125;
/// For each that hangs.
const HELD_UP: usize = 20;
/// What fires.
const STEP: &str = "com.example/step";
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
struct Web {
    hanging: AtomicBool,
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
async fn begin(hub: &Hub, url: &str) -> Call {
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

fn fire(calls: &[Call]) {
    for call in calls {
        call.fire(STEP, b"{}").expect("numbered");
    }
}

async fn until_delivered(hub: &Hub, count: usize) {
    while hub.stats().delivered < count as u64 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// How the neighbours hang.
#[derive(Clone, Copy, Debug)]
enum Neighbours {
    None,
    /// Never took anything.
    Strangers,
    /// Took something before.
    Lapsed,
    /// The same, of so many that their attempts could fill all slots several times.
    Crowd,
}

impl Neighbours {
    fn count(self) -> usize {
        if matches!(self, Self::Crowd) { CROWD } else { ENDPOINTS }
    }
}

/// How long it takes until the endpoints that answer have everything. Those that hang are at the same host and at another.
fn time(neighbours: Neighbours, deliveries: usize) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let web = Arc::new(Web::default());
        let mut options = Options::default();
        options.address = Policy { allow_http: true, allow_ports: vec![80], ..Policy::default() };
        (options.verify, options.max_pending) = (Verify::Address, u32::MAX);
        // Half of the defaults, for a run that is half as long.
        (options.concurrency, options.endpoint_concurrency) = (64, 4);
        options.endpoint_rate = Some(Rate { per_second: 50, burst: 100 });
        options.host_rate = Some(Rate { per_second: 250, burst: 500 });
        let world = World {
            clock: Arc::new(Virtual(Instant::now())),
            net: Arc::new(Reach(Arc::clone(&web))),
            seed: 1,
            late: Box::new(|| Duration::ZERO),
        };
        let (hub, threads) = simulation::over(Arc::new(MemoryStore::new()), options, world).expect("a hub");
        let (mut good, mut hanging) = (Vec::new(), Vec::new());
        for n in 0..ENDPOINTS {
            good.push(begin(&hub, &format!("http://one.example/good/{n}")).await);
        }
        for n in 0..neighbours.count() {
            let host = ["one.example", "two.example"][n % 2];
            hanging.push(begin(&hub, &format!("http://{host}/hangs/{n}")).await);
        }
        fire(&good);
        let mut known = good.len();
        if matches!(neighbours, Neighbours::Lapsed | Neighbours::Crowd) {
            fire(&hanging);
            known += hanging.len();
        }
        until_delivered(&hub, known).await;
        sleep(Duration::from_secs(10)).await; // every bucket is full again
        web.hanging.store(true, Ordering::SeqCst);

        hub.pause().expect("open");
        for n in 0..deliveries {
            if n < HELD_UP && !matches!(neighbours, Neighbours::None) {
                fire(&hanging);
            }
            fire(&good);
        }
        for call in good.iter().chain(&hanging) {
            call.writer().flush(Durability::Process).await.expect("committed");
        }
        let begun = Instant::now();
        hub.unpause().expect("open");
        until_delivered(&hub, known + good.len() * deliveries).await;
        let took = begun.elapsed();
        threads.kill().await;
        took
    })
}

fn assert_they_keep_their_rate(neighbours: &[Neighbours], deliveries: usize) {
    let alone = time(Neighbours::None, deliveries);
    for neighbours in neighbours {
        let beside = time(*neighbours, deliveries);
        let share = alone.as_secs_f64() / beside.as_secs_f64();
        assert!(share >= 0.9, "{neighbours:?}: {beside:?} against {alone:?}, {:.0} %", share * 100.0);
    }
}

#[test]
fn ten_that_answer_keep_their_rate_beside_ten_that_hang() {
    assert_they_keep_their_rate(&[Neighbours::Strangers, Neighbours::Lapsed], DELIVERIES);
}

/// An attempt takes as long as all deliveries of those that answer: were they to wait for one, they would have half of their rate.
#[test]
fn ten_that_answer_keep_their_rate_beside_a_crowd_that_hangs_at_once() {
    assert_they_keep_their_rate(&[Neighbours::Crowd], 2 * DELIVERIES);
}
