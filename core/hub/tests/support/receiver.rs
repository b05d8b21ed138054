//! A webhook receiver on a port that the system chose.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use super::HANG;

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// `POST /hook HTTP/1.1`.
    pub line: String,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("JSON text")
    }

    /// The text member `name` of the body; the bodies of the tests hold no escapes in these.
    pub fn field(&self, name: &str) -> String {
        let start = self.text().find(&format!("\"{name}\":\"")).expect("the member") + name.len() + 4;
        self.text()[start..].split('"').next().expect("its end").to_owned()
    }
}

/// How a receiver answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A status and more header lines, without a body.
    Status(u16, &'static str),
    /// The raw bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// Nothing, until the sender gives up.
    Hang,
}

impl Reply {
    pub const OK: Self = Self::Status(200, "");

    /// 200 with this body.
    pub fn with(body: &str) -> Self {
        Self::Raw(format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
    }
}

/// A failure with a next attempt, which is due in one or two seconds and not at once: a wait that is drawn may be none.
pub const SOON: Reply = Reply::Status(503, "retry-after: 1\r\n");

type Script = dyn Fn(&Request, usize) -> Reply + Send + Sync;

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    connections: usize,
}

pub struct Receiver {
    pub endpoint: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Receiver {
    /// One that answers 200.
    pub fn ok() -> Self {
        Self::start(|_, _| Reply::OK)
    }

    /// One that gives these answers, the last one again and again.
    pub fn scripted(replies: Vec<Reply>) -> Self {
        Self::start(move |_, nth| replies[nth.min(replies.len() - 1)].clone())
    }

    /// One that asks `script` with each request and its number, from 0; the script may take its time.
    pub fn start(script: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1", script)
    }

    /// The same at another address of this machine.
    pub fn start_at(address: &str, script: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let endpoint = format!("http://{}/hook?a=b", listener.local_addr().expect("its address"));
        let state: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let (kept, script): (_, Arc<Script>) = (Arc::clone(&state), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                kept.0.lock().expect("state").connections += 1;
                kept.1.notify_all();
                let (kept, script) = (Arc::clone(&kept), Arc::clone(&script));
                std::thread::spawn(move || serve(stream, &kept, &*script));
            }
        });
        Self { endpoint, state }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.state.0.lock().expect("state").requests.clone()
    }

    pub fn connections(&self) -> usize {
        self.state.0.lock().expect("state").connections
    }

    /// Waits until so many requests have come in all.
    pub fn wait_for(&self, count: usize) -> Vec<Request> {
        let (state, changed) = &*self.state;
        let short = |state: &mut State| state.requests.len() < count;
        let (state, timeout) = changed.wait_timeout_while(state.lock().expect("state"), HANG, short).expect("state");
        assert!(!timeout.timed_out(), "{} of {count} requests came", state.requests.len());
        state.requests.clone()
    }
}

/// Something that scripts wait for.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().expect("a gate") = true;
        self.0.1.notify_all();
    }

    pub fn pass(&self) {
        let closed = self.0.0.lock().expect("a gate");
        drop(self.0.1.wait_timeout_while(closed, HANG, |open| !*open).expect("a gate"));
    }
}

fn serve(stream: TcpStream, kept: &(Mutex<State>, Condvar), script: &Script) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let mut request = Request { line: line.trim_end().to_owned(), headers: BTreeMap::new(), body: Vec::new() };
    loop {
        line.clear();
        if reader.read_line(&mut line).is_err() {
            return;
        }
        let Some((name, value)) = line.split_once(':') else { break };
        let before = request.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        assert!(before.is_none(), "{name} twice");
    }
    request.body = vec![0; request.header("content-length").parse().unwrap_or(0)];
    if reader.read_exact(&mut request.body).is_err() {
        return;
    }
    let mut state = kept.0.lock().expect("state");
    let nth = state.requests.len();
    state.requests.push(request.clone());
    drop(state);
    kept.1.notify_all();
    let reply = script(&request, nth);
    let stream = reader.get_mut();
    match reply {
        Reply::Status(status, headers) => {
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n{headers}\r\n");
            let _ = stream.write_all(head.as_bytes()); // the sender may be gone by now
        }
        Reply::Raw(bytes) => _ = stream.write_all(&bytes),
        Reply::Hang => _ = stream.read(&mut [0]),
    }
}
