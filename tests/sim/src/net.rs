//! The network and those who answer in it: endpoints that take what they are sent, refuse it, stall, or lie.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidings::simulation::{Net, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use crate::chance::Chance;
use crate::record::{Record, lock};

/// One request as an endpoint saw it.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    /// The `webhook-id`; none on a challenge.
    pub(crate) event_id: String,
    /// The whole head, for what must not be in it.
    pub(crate) head: String,
    /// What was posted.
    pub(crate) body: Bytes,
    /// It was answered with 2xx.
    pub(crate) taken: bool,
}

/// How an endpoint answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Behaviour {
    Status(u16, &'static str),
    /// The same, after so many seconds.
    Late(u64, u16),
    /// Nothing, for as long as it is waited for.
    Stall,
    /// The connection ends instead.
    Reset,
    /// No HTTP.
    Noise,
    /// A body without an end.
    Endless,
}

type Heard = Box<dyn Fn(Hit) + Send + Sync>;

/// The network.
pub(crate) struct Network {
    chance: Chance,
    record: Arc<Record>,
    /// Everybody takes everything: what is to come to an end can.
    calm: AtomicBool,
    heard: Mutex<Option<Heard>>,
}

/// Host names that routes may have. Where each leads is decided at each look-up.
pub(crate) const HOSTS: [&str; 4] = ["one.example.net", "two.example.net", "stalls.example.net", "rebinds.example.net"];

/// Addresses that nothing may be sent to, among those that the simulated resolver gives.
const FORBIDDEN: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x0a01, 0x0203)),
];

impl Network {
    /// A network of its own chance.
    pub(crate) fn new(seed: u64, record: Arc<Record>) -> Self {
        Self { chance: Chance::new(seed), record, calm: AtomicBool::new(false), heard: Mutex::default() }
    }

    /// Who is told of each request.
    pub(crate) fn set_heard(&self, heard: Heard) {
        *lock(&self.heard) = Some(heard);
    }

    /// From now on everybody takes everything at once.
    pub(crate) fn calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    fn behaviour(&self, host: &str) -> Behaviour {
        if self.calm.load(Ordering::SeqCst) {
            return Behaviour::Status(200, "");
        }
        if host == HOSTS[2] && self.chance.percent(60) {
            return Behaviour::Stall;
        }
        match self.chance.below(100) {
            0..50 => Behaviour::Status(200, ""),
            50..58 => Behaviour::Late(1 + self.chance.below(14), 200),
            58..68 => Behaviour::Status(500, ""),
            68..74 => Behaviour::Status(429, "retry-after: 7\r\n"),
            74..78 => Behaviour::Status(503, "retry-after: 100000\r\n"),
            78..80 => Behaviour::Status(410, ""),
            80..83 => Behaviour::Status(413, ""),
            83..86 => Behaviour::Status(302, "location: http://169.254.169.254/latest\r\n"),
            86..91 => Behaviour::Stall,
            91..95 => Behaviour::Reset,
            95..98 => Behaviour::Noise,
            _ => Behaviour::Endless,
        }
    }

    /// One connection, to its end.
    async fn serve(self: Arc<Self>, mut stream: DuplexStream) {
        let mut read = Vec::new();
        loop {
            let Some(head_end) = read_to(&mut stream, &mut read, |read| find(read, b"\r\n\r\n").map(|at| at + 4)).await
            else {
                return;
            };
            let head = String::from_utf8_lossy(&read[..head_end]).to_lowercase();
            let header = |name: &str| {
                let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                line.unwrap_or_default().to_owned()
            };
            let end = head_end + header("content-length").parse().unwrap_or(0);
            if read_to(&mut stream, &mut read, |read| (read.len() >= end).then_some(end)).await.is_none() {
                return;
            }
            let body = Bytes::copy_from_slice(&read[head_end..end]);
            read.drain(..end);
            let behaviour = self.behaviour(&header("host"));
            let json: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let echo = (json["type"] == "verification").then(|| format!("{{\"challenge\":{}}}", json["challenge"]));
            self.record.note(format!("{} {}: {behaviour:?}", header("host"), header("webhook-id")));
            let is_2xx = |status: &u16| (200..300).contains(status);
            let taken = match &behaviour {
                Behaviour::Status(status, _) | Behaviour::Late(_, status) => is_2xx(status),
                Behaviour::Endless => true,
                Behaviour::Stall | Behaviour::Reset | Behaviour::Noise => false,
            };
            let event_id = if echo.is_some() { String::new() } else { header("webhook-id") };
            if let Some(heard) = &*lock(&self.heard) {
                heard(Hit { event_id, head, body, taken });
            }
            if !answer(&mut stream, behaviour, &echo.unwrap_or_default()).await {
                return;
            }
        }
    }
}

/// Says whether the connection goes on.
async fn answer(stream: &mut DuplexStream, behaviour: Behaviour, body: &str) -> bool {
    let response = |status, headers| {
        let length = body.len();
        format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
    };
    let text = match behaviour {
        Behaviour::Status(status, headers) => response(status, headers),
        Behaviour::Late(seconds, status) => {
            sleep(Duration::from_secs(seconds)).await;
            response(status, "")
        }
        Behaviour::Stall => {
            let _ = stream.read(&mut [0; 16]).await; // until the other side gives up
            return false;
        }
        Behaviour::Reset => return false,
        Behaviour::Noise => "ICY 200 OK\r\n\r\n".to_owned(),
        Behaviour::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n").await;
            while stream.write_all(b"8\r\nnoendatl\r\n").await.is_ok() {
                sleep(Duration::from_millis(200)).await;
            }
            return false;
        }
    };
    stream.write_all(text.as_bytes()).await.is_ok()
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Reads until `whole` finds an end. `None`: the other side has closed.
async fn read_to(
    stream: &mut DuplexStream,
    read: &mut Vec<u8>,
    whole: impl Fn(&[u8]) -> Option<usize>,
) -> Option<usize> {
    loop {
        if let Some(end) = whole(read) {
            return Some(end);
        }
        if stream.read_buf(read).await.ok()? == 0 {
            return None;
        }
    }
}

/// The network as hubs use it.
pub(crate) struct Reach(pub(crate) Arc<Network>);

impl Net for Reach {
    fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let net = &self.0;
        let place = HOSTS.iter().position(|host| *host == name).unwrap_or(0);
        let public = IpAddr::V4(Ipv4Addr::new(8, 8, 4, u8::try_from(place).unwrap_or(0) + 1));
        if net.calm.load(Ordering::SeqCst) {
            return Ok(vec![public]);
        }
        if net.chance.percent(4) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such name"));
        }
        let Some(bad) = net.chance.one_of(&FORBIDDEN).filter(|_| name == HOSTS[3] && net.chance.percent(50)) else {
            return Ok(vec![public]);
        };
        Ok(match net.chance.below(3) {
            0 => vec![*bad],
            1 => vec![public, *bad],
            _ => vec![*bad, public],
        })
    }

    fn connect(&self, to: SocketAddr) -> io::Result<Box<dyn Stream>> {
        let net = &self.0;
        // I11, by what this network itself gave out and not by the rules of the core.
        net.record.hold("I11", !FORBIDDEN.contains(&to.ip()), || format!("connected to {to}"));
        net.record.hold("I11", to.port() == 80 || to.port() == 443, || format!("connected to {to}"));
        if !net.calm.load(Ordering::SeqCst) && net.chance.percent(4) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = tokio::io::duplex(16 << 10);
        tokio::spawn(Arc::clone(net).serve(theirs));
        Ok(Box::new(ours))
    }
}
