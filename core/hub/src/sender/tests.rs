//! The sender against receivers that mean harm: raw TCP, scripted.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidings_proto::address::{Network, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::*;

/// Ends a test that hangs; no test depends on how long anything takes.
pub(super) const HANG: Duration = Duration::from_secs(60);
/// The limit of attempts that run into it.
const SHORT: Duration = Duration::from_millis(150);

pub(super) fn options(timeout: Duration) -> Options {
    Options {
        attempt_timeout: timeout,
        address: Policy {
            allow_networks: vec![Network::parse("127.0.0.0/8").unwrap()],
            allow_hosts: vec!["vouched.internal".to_owned()],
            allow_http: true,
            ..Policy::default()
        },
        ..Options::default()
    }
}

pub(super) fn attempt(endpoint: &str) -> Attempt {
    let headers = vec![("webhook-id".to_owned(), "evt_1".to_owned())];
    Attempt {
        endpoint: endpoint.to_owned(),
        headers,
        body: Some(Bytes::from_static(b"{\"p\":1.0}")),
        media_type: JSON_MEDIA_TYPE,
        keep_for: None,
        keep: 0,
    }
}

pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(async { timeout(HANG, test).await.expect("this hangs") });
    runtime.shutdown_background();
    result
}

/// A server that does this with each connection, and how many there were.
pub(super) async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> (String, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let connections = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(serve(stream));
        }
    });
    (format!("127.0.0.1:{}", address.port()), count)
}

/// Reads the request, then writes these pieces, then waits for the sender to go.
async fn answering(pieces: &'static [&'static [u8]]) -> String {
    let serve = move |mut stream: TcpStream| async move {
        let mut buffer = [0; 4_096];
        let _ = stream.read(&mut buffer).await;
        for piece in pieces {
            let _ = stream.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    format!("http://{}/", server(serve).await.0)
}

/// Repeats a piece after a head for as long as the sender takes it.
async fn flooding(head: &'static [u8], piece: &'static [u8]) -> String {
    let serve = move |mut stream: TcpStream| async move {
        let _ = stream.read(&mut [0; 4_096]).await;
        let _ = stream.write_all(head).await;
        while stream.write_all(piece).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    format!("http://{}/", server(serve).await.0)
}

fn answered(status: u16) -> Sent {
    Sent::Response { status, retry_after: None, body: Bytes::new() }
}

async fn send(endpoint: &str, timeout: Duration) -> Sent {
    Sender::new(&options(timeout)).send(attempt(endpoint)).await
}

#[test]
fn an_answer_and_its_retry_after() {
    run(async {
        let endpoint = answering(&[b"HTTP/1.1 429 x\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n"]).await;
        let want = Sent::Response { status: 429, retry_after: Some("120".to_owned()), body: Bytes::new() };
        assert_eq!(send(&endpoint, HANG).await, want);
        let endpoint = answering(&[b"HTTP/1.1 503 x\r\nretry-after: \xff\r\ncontent-length: 0\r\n\r\n"]).await;
        assert_eq!(send(&endpoint, HANG).await, answered(503), "what is no text asks for nothing");
    });
}

/// What is written is written with `MSG_NOSIGNAL`, for a host that would be ended by `SIGPIPE`; see `quiet`.
#[test]
fn nothing_is_written_that_could_signal() {
    run(async {
        let (address, _) = server(async |mut stream: TcpStream| _ = stream.read(&mut [0; 1]).await).await;
        let stream = System.connect(address.parse().unwrap()).await.unwrap();
        assert!(!stream.is_write_vectored());
    });
}

#[test]
fn nobody_listens() {
    run(async {
        // Held, so that nobody else gets it: a socket that is bound and does not listen.
        let held = TcpSocket::new_v4().unwrap();
        held.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = held.local_addr().unwrap().port();
        let sent = send(&format!("http://127.0.0.1:{port}/"), HANG).await;
        assert_eq!(sent, Sent::Failed(Category::ConnectionRefused));
    });
}

/// Every way to keep a sender waiting ends at the attempt's own limit.
#[test]
fn whoever_does_not_answer_is_left_at_the_limit() {
    run(async {
        let nothing = answering(&[]).await;
        let half_a_head = answering(&[b"HTTP/1.1 200 OK\r\nx-a: b\r\n"]).await;
        let half_a_line = answering(&[b"HTTP/1."]).await;
        let informational = flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n").await;
        let processing = flooding(b"", b"HTTP/1.1 102 Processing\r\nx-y: z\r\n\r\n").await;
        let serve = async |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 4_096]).await;
            for byte in b"HTTP/1.1 200 OK\r\nx-slow: ".iter().chain(std::iter::repeat(&b'z')) {
                if stream.write_all(&[*byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await; // the attack itself: a byte now and then
            }
        };
        let loris = format!("http://{}/", server(serve).await.0);
        let serve = async |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 16]).await;
            tokio::time::sleep(HANG).await; // takes the connection, and no TLS
        };
        let tls_stall = format!("https://{}/", server(serve).await.0);
        for endpoint in [nothing, half_a_head, half_a_line, informational, processing, loris] {
            assert_eq!(send(&endpoint, SHORT).await, Sent::Failed(Category::Timeout), "{endpoint}");
        }
        let sender = Sender::new(&options(SHORT));
        // A machine without certificates does not get as far.
        let want = if sender.tls().is_some() { Category::Timeout } else { Category::TlsError };
        assert_eq!(sender.send(attempt(&tls_stall)).await, Sent::Failed(want));
    });
}

/// Once the status is there the verdict stands: the body decides nothing, and is not waited for beyond the limit.
#[test]
fn what_comes_after_the_status_changes_nothing() {
    run(async {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = b"5\r\nhello\r\n";
        let cases = [
            answering(&[b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345"]).await,
            answering(&[b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"]).await,
            answering(&[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"]).await,
            answering(&[b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\xff\xff"])
                .await,
            answering(&[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-trailer: 1\r\n"]).await,
            flooding(head, chunk).await,
            flooding(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 4_096]).await,
            flooding(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x-trailer: 1\r\n").await,
        ];
        let sends = cases.map(|endpoint| tokio::spawn(async move { (send(&endpoint, HANG).await, endpoint) }));
        for sent in sends {
            let (sent, endpoint) = sent.await.unwrap();
            assert_eq!(sent, answered(200), "{endpoint}");
        }
    });
}

/// A body that goes on beyond the attempt's limit does not turn an answer into a timeout. On a busy machine the head may
/// come too late for such a limit now and then, so one answer of many is enough.
#[test]
fn a_body_beyond_the_limit() {
    run(async {
        let endless = answering(&[b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345"]).await;
        for _ in 0..50 {
            if send(&endless, SHORT).await == answered(200) {
                return;
            }
        }
        panic!("never answered");
    });
}

/// Reset after the head: the rest is lost, the answer is not.
#[test]
fn a_reset_after_the_head() {
    run(async {
        let (reset, resets) = tokio::sync::watch::channel(false);
        let serve = move |mut stream: TcpStream| {
            let mut resets = resets.clone();
            async move {
                let _ = stream.read(&mut [0; 4_096]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 100\r\n\r\n1").await;
                let _ = resets.wait_for(|reset| *reset).await;
                let _ = stream.set_zero_linger(); // closing is a reset
            }
        };
        let endpoint = format!("http://{}/", server(serve).await.0);
        let (sent, rest) = Sender::new(&options(HANG)).exchange(attempt(&endpoint)).await.ok().unwrap();
        reset.send_replace(true);
        rest.drain().await;
        assert_eq!(sent.status, 200);
    });
}

#[test]
fn what_is_no_answer() {
    run(async {
        let long: &'static [u8] = Vec::leak([b"HTTP/1.1 200 OK\r\nx-a: ".to_vec(), vec![b'z'; 64 << 10]].concat());
        let many = (0..100).map(|n| format!("x-{n}: 1\r\n")).collect::<String>();
        let many: &'static [u8] = Vec::leak(format!("HTTP/1.1 200 OK\r\n{many}\r\n").into_bytes());
        let pieces = |piece: &'static [u8]| -> &'static [&'static [u8]] { Vec::leak(vec![piece]) };
        for (piece, category) in [
            (&b"SSH-2.0-OpenSSH_9.9\r\n\r\n"[..], Category::ProtocolError),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", Category::ProtocolError),
            (b"HTTP/1.1 99 x\r\n\r\n", Category::ProtocolError),
            (b"HTTP/1.1 abc x\r\n\r\n", Category::ProtocolError),
            (b"HTTP/2 200 x\r\n\r\n", Category::ProtocolError),
            (long, Category::ResponseTooLarge),
            (many, Category::ResponseTooLarge),
        ] {
            let endpoint = answering(pieces(piece)).await;
            let shown = String::from_utf8_lossy(&piece[..piece.len().min(30)]).into_owned();
            assert_eq!(send(&endpoint, HANG).await, Sent::Failed(category), "{shown}");
        }
        let serve = async |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 4_096]).await; // and goes without a word
        };
        let sent = send(&format!("http://{}/", server(serve).await.0), HANG).await;
        assert_eq!(sent, Sent::Failed(Category::ConnectionRefused));
        let sent = send(&answering(&[b"plain text"]).await.replace("http://", "https://"), HANG).await;
        assert_eq!(sent, Sent::Failed(Category::TlsError));
    });
}

/// Answers what it is told, one lookup after the other; at the end it never answers.
struct Stub {
    answers: Mutex<VecDeque<io::Result<Vec<IpAddr>>>>,
    lookups: Arc<AtomicUsize>,
}

impl Net for Stub {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> Lookup<'a> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

pub(super) fn resolving(
    timeout: Duration,
    policy: Policy,
    answers: Vec<io::Result<Vec<IpAddr>>>,
) -> (Sender, Arc<AtomicUsize>) {
    let options = Options { attempt_timeout: timeout, address: policy, ..Options::default() };
    resolving_with(&options, answers)
}

pub(super) fn resolving_with(options: &Options, answers: Vec<io::Result<Vec<IpAddr>>>) -> (Sender, Arc<AtomicUsize>) {
    let lookups = Arc::new(AtomicUsize::new(0));
    let stub = Stub { answers: Mutex::new(answers.into()), lookups: Arc::clone(&lookups) };
    (Sender::with_net(options, Box::new(stub)), lookups)
}

pub(super) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 215, 14));

/// The three requests that are made of an endpoint: a delivery, a challenge, and the look at what its origin publishes.
fn each_request(endpoint: &str) -> [(&'static str, Attempt); 3] {
    let delivery = Attempt { keep_for: Some(EndpointKey([1; 32])), ..attempt(endpoint) };
    let challenge = Attempt { keep: 4 << 10, ..attempt(endpoint) };
    let well_known = Attempt { headers: Vec::new(), body: None, keep: 64 << 10, ..attempt(endpoint) };
    [("delivery", delivery), ("challenge", challenge), ("well-known", well_known)]
}

/// This machine, private networks and metadata services, in every way that a URL can write them.
pub(super) const DENIED_HOSTS: [&str; 32] = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0X7F.0.0.0x1",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.01",
    "%31%32%37.0.0.1",
    "127.0.0.1.",
    "0.0.0.0",
    "0",
    "10.0.0.5",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::7f00:1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "user@127.0.0.1",
    "127.0.0.1:1@127.0.0.1",
];

/// What a resolver can answer that must not be connected to: each class of the deny list, and what is embedded in others.
pub(super) const DENIED_ANSWERS: [&str; 19] = [
    "127.0.0.1",
    "::1",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2001::7f00:1",
    "10.0.0.5",
    "100.64.0.1",
    "169.254.169.254",
    "168.63.129.16",
    "192.168.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
];

/// Names that lead to them by what they are.
pub(super) const DENIED_NAMES: [&str; 6] =
    ["localhost", "LOCALHOST", "localhost.", "a.localhost", "metadata.google.internal", "l\u{24de}calhost"];

/// Literal addresses in every encoding, and names that need no lookup: no packet leaves.
#[test]
fn denied_addresses_are_never_connected_to() {
    run(async {
        let (address, connections) = server(async |_| {}).await;
        let port = address.rsplit(':').next().unwrap().to_owned();
        // `http` and the port are allowed, so that nothing but the address is in the way.
        let policy = Policy { allow_http: true, allow_ports: vec![port.parse().unwrap()], ..Policy::default() };
        for host in DENIED_HOSTS.into_iter().chain(DENIED_NAMES) {
            for (kind, attempt) in each_request(&format!("http://{host}:{port}/")) {
                let (sender, lookups) = resolving(HANG, policy.clone(), vec![Ok(vec![LOCAL])]);
                let sent = sender.send(attempt).await;
                let looked_up = lookups.load(Ordering::SeqCst);
                assert_eq!((sent, looked_up), (Sent::Failed(Category::Denied), 0), "{kind}: {host}");
            }
        }
        assert_eq!(connections.load(Ordering::SeqCst), 0);
    });
}

/// What a name resolves to is judged as a whole: one denied answer among good ones is enough.
#[test]
fn names_that_resolve_to_denied_addresses_are_never_connected_to() {
    run(async {
        let (address, connections) = server(async |_| {}).await;
        let port = address.rsplit(':').next().unwrap().to_owned();
        let policy = Policy { allow_http: true, allow_ports: vec![port.parse().unwrap()], ..Policy::default() };
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let (v4, v6) = (PUBLIC, ip("2606:2800:21f:cb07:6820:80da:af6b:8b2c"));
        for bad in DENIED_ANSWERS.map(ip) {
            for answers in [vec![bad], vec![v4, bad], vec![bad, v4], vec![v6, bad], vec![v4, v6, bad]] {
                for (kind, attempt) in each_request(&format!("http://rebind.example:{port}/")) {
                    let (sender, lookups) = resolving(HANG, policy.clone(), vec![Ok(answers.clone())]);
                    let sent = sender.send(attempt).await;
                    let looked_up = lookups.load(Ordering::SeqCst);
                    assert_eq!((sent, looked_up), (Sent::Failed(Category::Denied), 1), "{kind}: {answers:?}");
                }
            }
        }
        assert_eq!(connections.load(Ordering::SeqCst), 0);
    });
}

/// A connection that is never established: the queue of the listener is full, and packets to it are dropped.
#[test]
fn a_connect_that_leads_nowhere_ends_at_the_limit() {
    run(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(1).unwrap(); // which nobody accepts from
        let address = listener.local_addr().unwrap();
        let mut filling = tokio::task::JoinSet::new();
        for _ in 0..16 {
            filling.spawn(TcpStream::connect(address));
        }
        // As many as are taken in at all; the others stay on their way.
        let mut taken = Vec::new();
        while let Ok(Some(stream)) = timeout(SHORT, filling.join_next()).await {
            taken.push(stream);
        }
        let sent = send(&format!("http://{address}/"), SHORT).await;
        assert_eq!(sent, Sent::Failed(Category::Timeout));
        drop((taken, listener));
    });
}

/// A name whose answer changes: the checked answer is the one that is connected to, with one lookup an attempt.
#[test]
fn rebinding_between_lookups_gains_nothing() {
    run(async {
        let (address, connections) = server(async |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        })
        .await;
        let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
        let policy = Policy {
            allow_http: true,
            allow_ports: vec![port],
            allow_networks: vec![Network::parse("127.0.0.1/32").unwrap()],
            ..Policy::default()
        };
        let private: IpAddr = "127.0.0.2".parse().unwrap();
        let answers = vec![Ok(vec![LOCAL]), Ok(vec![private]), Ok(vec![LOCAL])];
        let (sender, lookups) = resolving(HANG, policy, answers);
        let endpoint = format!("http://rebind.example:{port}/");
        for (nth, want) in [answered(200), Sent::Failed(Category::Denied), answered(200)].into_iter().enumerate() {
            assert_eq!(sender.send(attempt(&endpoint)).await, want);
            assert_eq!(lookups.load(Ordering::SeqCst), nth + 1, "what was checked is what is used");
        }
        assert_eq!(connections.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn names_that_do_not_resolve() {
    run(async {
        let policy = || Policy { allow_http: true, allow_ports: vec![80], ..Policy::default() };
        let missing = || Err(io::Error::from(io::ErrorKind::NotFound));
        for answer in [missing(), Ok(Vec::new())] {
            let (sender, _) = resolving(HANG, policy(), vec![answer]);
            assert_eq!(sender.send(attempt("http://gone.example/")).await, Sent::Failed(Category::DnsError));
        }
        let (sender, _) = resolving(SHORT, policy(), Vec::new());
        let sent = sender.send(attempt("http://silent.example/")).await;
        assert_eq!(sent, Sent::Failed(Category::Timeout), "a lookup that never ends is inside the limit");
    });
}

/// A vouched name may lead to private addresses, and to metadata addresses not even so.
#[test]
fn vouched_names() {
    run(async {
        let (address, connections) = server(async |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        })
        .await;
        let port = address.rsplit(':').next().unwrap();
        let policy =
            || Policy { allow_http: true, allow_hosts: vec!["vouched.internal".to_owned()], ..Policy::default() };
        let endpoint = format!("http://vouched.internal:{port}/");
        // The first address does not answer, the second one does.
        let nobody: IpAddr = "127.0.0.2".parse().unwrap();
        let (sender, _) = resolving(HANG, policy(), vec![Ok(vec![nobody, LOCAL])]);
        assert_eq!(sender.send(attempt(&endpoint)).await, answered(200));
        let metadata: IpAddr = "169.254.169.254".parse().unwrap();
        let (sender, _) = resolving(HANG, policy(), vec![Ok(vec![LOCAL, metadata])]);
        assert_eq!(sender.send(attempt(&endpoint)).await, Sent::Failed(Category::Denied));
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    });
}

/// A name with hundreds of addresses is no means to knock at all of them.
#[test]
fn few_addresses_of_a_name_are_tried() {
    run(async {
        // All on one port that nobody listens on but the last address' owner; the others are held, so that nobody else can.
        let (listener, _held) = loop {
            let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 99), 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let held = (1..=98).map(|n| {
                let socket = TcpSocket::new_v4()?;
                socket.bind((Ipv4Addr::new(127, 0, 0, n), port).into())?;
                Ok(socket)
            });
            if let Ok(held) = held.collect::<std::io::Result<Vec<_>>>() {
                break (listener, held);
            }
        };
        let port = listener.local_addr().unwrap().port();
        let answers: Vec<IpAddr> = (1..=99).map(|n| IpAddr::V4(Ipv4Addr::new(127, 0, 0, n))).collect();
        let policy = Policy { allow_http: true, allow_hosts: vec!["vouched.internal".to_owned()], ..Policy::default() };
        let (sender, _) = resolving(HANG, policy, vec![Ok(answers)]);
        let sent = sender.send(attempt(&format!("http://vouched.internal:{port}/"))).await;
        assert_eq!(sent, Sent::Failed(Category::ConnectionRefused));
    });
}

/// The request as the receiver reads it: no more than it needs, and nothing that a header could smuggle in.
#[test]
fn a_stored_header_that_is_none_is_not_sent() {
    run(async {
        let (address, _) = server(async |_| {}).await;
        for (name, value) in [("x-a", "b\r\nx-evil: 1"), ("x a", "b"), ("", "b"), ("x-\u{e9}", "b")] {
            let headers = vec![(name.to_owned(), value.to_owned())];
            let bad = Attempt { headers, ..attempt(&format!("http://{address}/")) };
            let sent = Sender::new(&options(HANG)).send(bad).await;
            assert_eq!(sent, Sent::Failed(Category::ProtocolError), "{name:?}: {value:?}");
        }
    });
}
