//! Many deliveries to endpoints that fail at random, by a process that is killed (-9) three times: each ends in exactly one
//! final state, within its attempts, under one webhook id, and in the order of its key. Of twenty one is refused for good
//! and dies, one is handed over to its second route, and one has no time and may expire.
//!
//! `TIDINGS_STORM=deliveries,endpoints` makes it larger: `make storm` runs 100,000 to 100.

#![allow(clippy::panic, reason = "a helper of these tests ends what hangs")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidings::Hub;
use tidings::store::DeliveryState;

/// Only ends a test that hangs.
const HANG: Duration = Duration::from_secs(1_800);

/// Between two questions about what is still open: each is a look at every delivery there is.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls of a victim that are under way together, at most.
const AT_ONCE: i64 = 32;

/// One POST, and whether it was taken.
#[derive(Clone, Debug)]
struct Post {
    endpoint: String,
    id: String,
    number: i64,
    /// Its call ended as it should, not because its process was killed.
    completed: bool,
    taken: bool,
}

fn text<'a>(body: &'a str, before: &str, after: char) -> &'a str {
    let start = body.find(before).map_or(body.len(), |at| at + before.len());
    let rest = &body[start..];
    &rest[..rest.find(after).unwrap_or(rest.len())]
}

/// Answers 503 to three of ten requests, by a number of its own that only depends on how many came, and 413 to all for
/// `?dead`.
fn receiver() -> (String, Arc<Mutex<Vec<Post>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("its address"));
    let posts: Arc<Mutex<Vec<Post>>> = Arc::default();
    let kept = Arc::clone(&posts);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || while serve(&stream, &kept).is_some() {});
        }
    });
    (endpoint, posts)
}

fn serve(mut stream: &TcpStream, kept: &Mutex<Vec<Post>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let endpoint = line.split(' ').nth(1)?.to_owned();
    let (mut id, mut length) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "webhook-id" => id = value.trim().to_owned(),
            "content-length" => length = value.trim().parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    let number = text(&body, "\"requestId\":", ',').parse().ok()?;
    let completed = text(&body, "\"status\":\"", '"') == "completed";
    let status = {
        let mut posts = kept.lock().expect("posts");
        let mixed = (posts.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let taken = mixed % 10 >= 3 && !endpoint.ends_with("?dead");
        let status = match taken {
            true => 200,
            false if endpoint.ends_with("?dead") => 413,
            false => 503,
        };
        posts.push(Post { endpoint, id, number, completed, taken });
        status
    };
    stream.write_all(format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n").as_bytes()).ok()
}

fn start(database: &Path, endpoint: &str, mode: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
    command.arg(database).arg(endpoint).args(mode).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("it starts")
}

#[test]
fn endpoints_that_fail_at_random_and_three_kills() {
    let size = std::env::var("TIDINGS_STORM").unwrap_or_else(|_| "300,10".to_owned());
    let (deliveries, endpoints) = size.split_once(',').expect("deliveries,endpoints");
    let (deliveries, endpoints): (i64, i64) =
        (deliveries.parse().expect("a number"), endpoints.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("storm.db");
    let (endpoint, posts) = receiver();

    let third = deliveries / 3;
    for round in 0..3 {
        let mode = ["storm".to_owned(), (round * third).to_string(), third.to_string(), endpoints.to_string()];
        let mut victim = start(&database, &endpoint, &mode);
        let lines = BufReader::new(victim.stdout.take().expect("its stdout")).lines();
        // Dead in the middle of its deliveries, and the last one with calls still to come.
        let stop = (round + 1) * third - if round == 2 { third / 4 } else { 1 };
        for line in lines.map_while(Result::ok) {
            if line.strip_prefix("ended ").is_some_and(|number| number.parse() == Ok(stop)) {
                break;
            }
        }
        victim.kill().expect("SIGKILL");
        victim.wait().expect("its end");
    }
    let mut heir = start(&database, &endpoint, &["storm-over".to_owned()]);
    let mut lines = BufReader::new(heir.stdout.take().expect("its stdout")).lines().map_while(Result::ok);
    let mut stdin = heir.stdin.take().expect("its stdin");
    let began = Instant::now();
    assert_eq!(lines.next().as_deref(), Some("ready"));
    loop {
        stdin.write_all(b"?\n").expect("it lives");
        if lines.next().as_deref() == Some("open") {
            break;
        }
        assert!(began.elapsed() < HANG, "deliveries stay open");
        std::thread::sleep(PAUSE);
    }
    drop(stdin);
    assert!(heir.wait().expect("its end").success());

    let hub = Hub::open(&format!("sqlite:{}", database.display())).expect("a hub");
    let all = hub.deliveries(None, None, None, u32::MAX).expect("reads");
    for one in &all {
        // A kill may cost an attempt that nobody settled. 413 is final, and a route with a successor gets fewer attempts.
        let (states, attempts) = match one.route_id.as_str() {
            "main" | "second" => (&[DeliveryState::Delivered][..], 1..=12),
            "short" => (&[DeliveryState::Delivered, DeliveryState::Expired][..], 0..=12),
            "dead" => (&[DeliveryState::Dead][..], 1..=4),
            "first" => (&[DeliveryState::Superseded][..], 1..=4),
            other => panic!("no such route: {other}"),
        };
        assert!(states.contains(&one.state) && attempts.contains(&one.attempts), "{one:?}");
    }
    let of = |wanted: &[&str]| -> Vec<&str> {
        let routes = all.iter().filter(|one| wanted.contains(&one.route_id.as_str()));
        routes.map(|one| one.event_id.as_str()).collect()
    };
    let fired = of(&["main", "short", "dead", "first"]);
    let ids: BTreeSet<_> = fired.iter().copied().collect();
    assert_eq!(ids.len(), fired.len(), "one firing, one delivery on its first route");
    let (mut first, mut second) = (of(&["first"]), of(&["second"]));
    first.sort_unstable();
    second.sort_unstable();
    assert_eq!(first, second, "each that was handed over, once and with its id");
    // What was just beginning at a kill never was.
    let cut = 3 * (endpoints.min(AT_ONCE) + 1);
    assert!(fired.len() as i64 >= deliveries - third / 4 - cut, "{} of {deliveries}", fired.len());

    let posts = posts.lock().expect("posts").clone();
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    for post in posts.iter().filter(|post| post.taken) {
        *taken.entry(&post.id).or_default() += 1;
    }
    let delivered = all.iter().filter(|one| one.state == DeliveryState::Delivered);
    let delivered: BTreeSet<_> = delivered.map(|one| one.event_id.as_str()).collect();
    let came: BTreeSet<_> = taken.keys().copied().collect();
    assert!(delivered.is_subset(&came), "each was taken");
    // What was taken right before a kill and had no time left is not known to have been.
    let short: BTreeSet<_> = of(&["short"]).into_iter().collect();
    assert!(came.difference(&delivered).all(|id| short.contains(id)), "nothing else was");
    let twice = taken.values().filter(|times| **times > 1).count();
    assert!(twice <= 3 * 128, "{twice} came twice: at most what was under way at a kill");
    assert!(taken.values().all(|times| *times <= 4), "once more for each kill at most");

    // Of each endpoint and key: nothing is tried before what fired earlier was taken.
    let mut last: BTreeMap<(&str, i64), i64> = BTreeMap::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for post in posts.iter().filter(|post| post.completed && !post.endpoint.contains('?')) {
        let key = (post.endpoint.as_str(), post.number / endpoints % 3);
        let newest = last.entry(key).or_insert(post.number);
        assert!(post.number >= *newest || done.contains(post.id.as_str()), "{post:?} after {newest}");
        *newest = post.number.max(*newest);
        if post.taken {
            done.insert(&post.id);
        }
    }
    assert!(hub.close(Duration::from_secs(60)));
}
