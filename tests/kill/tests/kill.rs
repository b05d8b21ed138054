//! Whatever the step at which the server is killed (-9): an accepted config ends in exactly one firing, with one
//! webhook id, and nothing is told that was not committed.
//!
//! 260 kills, or with `TIDINGS_KILLS=1000` (`make kills`) at least so many. What fails says how to repeat it.

#![allow(clippy::panic, reason = "a helper of these tests ends what hangs")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidings::proto::webhook::{PrivateKey, decrypt};

/// Only ends a test that hangs; no test depends on how long anything takes. Longer than a lease, which is what is waited for
/// where a disk that stood still made a worker lose its own.
const HANG: Duration = Duration::from_secs(300);

/// One POST as it came.
#[derive(Clone, Debug)]
struct Post {
    id: String,
    body: String,
}

impl Post {
    /// The text after `name` up to the next quote: the bodies here are ours and hold no escapes.
    fn field(&self, name: &str) -> &str {
        let start = self.body.find(&format!("\"{name}\":\"")).expect("the field") + name.len() + 4;
        let rest = &self.body[start..];
        &rest[..rest.find('"').expect("its end")]
    }
}

/// A webhook receiver that answers 200 and keeps everything.
struct Receiver {
    endpoint: String,
    posts: Arc<(Mutex<Vec<Post>>, Condvar)>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}/hook", listener.local_addr().expect("its address"));
        let posts: Arc<(Mutex<Vec<Post>>, Condvar)> = Arc::default();
        let kept = Arc::clone(&posts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream, &kept));
            }
        });
        Self { endpoint, posts }
    }

    fn posts(&self) -> Vec<Post> {
        self.posts.0.lock().expect("posts").clone()
    }

    /// Waits for so many.
    fn wait_for_count(&self, count: usize) {
        let (posts, more) = &*self.posts;
        let few = |posts: &mut Vec<Post>| posts.len() < count;
        let (posts, timeout) = more.wait_timeout_while(posts.lock().expect("posts"), HANG, few).expect("posts");
        assert!(!timeout.timed_out(), "{count} posts were to come, there are {posts:?}");
    }

    /// Waits until each of these calls was heard of.
    fn wait_for(&self, calls: &BTreeSet<String>) {
        let (posts, more) = &*self.posts;
        let heard = |posts: &Vec<Post>| {
            let told: BTreeSet<_> = posts.iter().map(|post| post.field("callId").to_owned()).collect();
            calls.is_subset(&told)
        };
        let (posts, timeout) =
            more.wait_timeout_while(posts.lock().expect("posts"), HANG, |posts| !heard(posts)).expect("posts");
        assert!(!timeout.timed_out(), "accepted {calls:?}, told only {posts:?}");
    }
}

fn serve(stream: TcpStream, kept: &(Mutex<Vec<Post>>, Condvar)) {
    let mut reader = BufReader::new(stream);
    let (mut id, mut length) = (String::new(), 0);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        let (name, value) = line.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "webhook-id" => id = value.trim().to_owned(),
            "content-length" => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
        line.clear();
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() || id.is_empty() {
        return; // the sender died in the middle: nothing was told
    }
    let post = Post { id, body: String::from_utf8(body).expect("JSON text") };
    kept.0.lock().expect("posts").push(post);
    kept.1.notify_all();
    let _ = reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
}

/// A victim and the pipes to it.
struct Victim {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Victim {
    fn start(database: &Path, endpoint: &str, mode: &[&str], failpoint: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
        command.arg(database).arg(endpoint).args(mode).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env_remove("TIDINGS_FAILPOINT");
        if let Some(failpoint) = failpoint {
            command.env("TIDINGS_FAILPOINT", failpoint);
        }
        let mut child = command.spawn().expect("the victim starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("its stdout"));
        Self { child, stdin, stdout }
    }

    /// The next line, or `None` once it is dead.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line).expect("its stdout");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    fn kill(&mut self) {
        self.child.kill().expect("SIGKILL");
    }

    fn wait_killed(&mut self) {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait().expect("its end");
        assert_eq!(status.signal(), Some(9), "the victim was to be killed, and ended by itself: {status}");
    }

    /// Asks which deliveries are not finished until there are none.
    fn settle(&mut self) {
        let start = std::time::Instant::now();
        let mut line = String::new();
        while start.elapsed() < HANG {
            let stdin = self.stdin.as_mut().expect("open");
            stdin.write_all(b"?\n").expect("it lives");
            line = self.line().expect("an answer");
            if line == "open" {
                return;
            }
            std::thread::yield_now();
        }
        panic!("deliveries stay: {line}");
    }

    fn stop(mut self) {
        self.stdin = None;
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "{status}");
    }
}

/// What the victim said before it died.
#[derive(Default)]
struct Said {
    accepted: BTreeSet<String>,
    ended: BTreeMap<String, String>,
}

fn listen(victim: &mut Victim, until: impl Fn(&str) -> bool) -> Said {
    let mut said = Said::default();
    while let Some(line) = victim.line() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["accepted", call] => _ = said.accepted.insert((*call).to_owned()),
            ["ended", call, outcome] => _ = said.ended.insert((*call).to_owned(), (*outcome).to_owned()),
            _ => {}
        }
        if until(&line) {
            break;
        }
    }
    said
}

/// How many kills there are in one round of all tests of this file.
const ROUND: usize = 60 + 40 + 50 + 50 + 40 + 20;
/// At least so many kills, in whole rounds.
const KILLS: &str = "TIDINGS_KILLS";
/// Only the kills at this failpoint.
const AT: &str = "TIDINGS_KILL_AT";

fn rounds() -> usize {
    let kills = std::env::var(KILLS).map(|kills| kills.parse().expect("TIDINGS_KILLS is a number of kills"));
    kills.unwrap_or(ROUND).div_ceil(ROUND)
}

/// One kill that is being tried. Says how to repeat it when the test fails.
struct Kill<'a> {
    test: &'static str,
    failpoint: Option<&'a str>,
}

impl<'a> Kill<'a> {
    /// `None`: another one is to be repeated.
    fn at(test: &'static str, failpoint: Option<&'a str>) -> Option<Self> {
        let only = std::env::var(AT).ok();
        let wanted = only.is_none_or(|only| failpoint.is_none_or(|failpoint| failpoint == only));
        wanted.then_some(Self { test, failpoint })
    }
}

impl Drop for Kill<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let at = self.failpoint.map_or_else(String::new, |failpoint| format!("{AT}={failpoint} "));
            eprintln!("to repeat it: {at}{KILLS}=1000 cargo test -p tidings-kill --test kill -- --exact {}", self.test);
        }
    }
}

/// Kills at `failpoint` (or from outside where there is none), restarts, and checks what was told. `None`: not this time.
fn run(test: &'static str, mode: &[&str], failpoint: Option<&str>, may_repeat: bool) -> Option<Said> {
    let _kill = Kill::at(test, failpoint)?;
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("tidings.db");
    let receiver = Receiver::start();

    let mut victim = Victim::start(&database, &receiver.endpoint, mode, failpoint);
    let said = listen(&mut victim, |line| failpoint.is_none() && line == "ready");
    if failpoint.is_none() {
        victim.kill();
    }
    victim.wait_killed();

    let mut heir = Victim::start(&database, &receiver.endpoint, &["recover"], None);
    listen(&mut heir, |line| line == "ready");
    receiver.wait_for(&said.accepted);
    heir.settle();
    heir.stop();

    let mut firings: BTreeMap<String, BTreeMap<String, Vec<Post>>> = BTreeMap::new();
    for post in receiver.posts() {
        assert_eq!(post.id, post.field("eventId"), "the webhook id is the firing's");
        let of_call = firings.entry(post.field("callId").to_owned()).or_default();
        of_call.entry(post.id.clone()).or_default().push(post);
    }
    for (call, ids) in &firings {
        assert_eq!(ids.len(), 1, "{call} fired {} times: {ids:?}", ids.len());
        for posts in ids.values() {
            assert!(posts.iter().all(|post| post.body == posts[0].body), "attempts differ: {posts:?}");
            assert!(posts.len() == 1 || (may_repeat && posts.len() == 2), "told {} times: {posts:?}", posts.len());
            let told = posts[0].field("status");
            match said.ended.get(call) {
                Some(outcome) => assert_eq!(told, outcome, "{call}"),
                // It died before it could say: the outcome was committed, or the heir found the call lost.
                None => assert!(matches!(told, "completed" | "failed"), "{call}: {told}"),
            }
            if told == "failed" {
                assert_eq!(posts[0].field("reason"), "server_lost");
            }
        }
    }
    assert!(said.accepted.iter().all(|call| firings.contains_key(call)));
    // A call whose acceptance was on disk before the victim could say so is one more, never more than one.
    assert!(firings.len() <= said.accepted.len() + 1, "{firings:?}");
    Some(said)
}

/// 60 kills: each commit of the path is the one that never happens, the call's begin and its outcome included. Where
/// it was the note that a webhook was taken, the same webhook comes again.
#[test]
fn before_a_commit() {
    let run = |mode: &[&str], at: &str, may_repeat| run("before_a_commit", mode, Some(at), may_repeat);
    for _ in 0..rounds() {
        for nth in 1..=30 {
            run(&["run", "60"], &format!("before_commit:{nth}"), true);
        }
        for _ in 0..15 {
            let said = run(&["run", "1"], "before_outcome_commit", false);
            assert!(said.is_none_or(|said| (said.accepted.len(), said.ended.len()) == (1, 0)));
        }
        for nth in 1..=15 {
            let said = run(&["run", "15"], &format!("before_outcome_commit:{nth}"), true);
            let in_time = said.is_none_or(|said| (said.accepted.len(), said.ended.len()) == (nth, nth - 1));
            assert!(in_time, "killed in the {nth}th call");
        }
    }
}

/// 40 kills: the outcome and its delivery are committed, and nobody has sent anything.
#[test]
fn after_the_commit_before_the_dispatch() {
    for _ in 0..40 * rounds() {
        let at = Some("after_commit_before_dispatch");
        let said = run("after_the_commit_before_the_dispatch", &["run", "1"], at, false);
        assert!(said.is_none_or(|said| (said.accepted.len(), said.ended.len()) == (1, 0)));
    }
}

/// 50 kills: the receiver has it, and the sender dies before it can note that: it comes twice, under the same id.
#[test]
fn after_the_post_before_the_ack() {
    for _ in 0..rounds() {
        for nth in 1..=50 {
            let at = format!("after_post_before_ack:{nth}");
            run("after_the_post_before_the_ack", &["run", "60"], Some(&at), true);
        }
    }
}

/// RFC 7518 appendix C, Bob's key, and RFC 7748 section 6.1, Alice's.
const KEYS: [&str; 2] = [
    r#"{"kty":"EC","crv":"P-256","x":"weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ","y":"e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck","kid":"bob","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw"}"#,
    r#"{"kty":"OKP","crv":"X25519","x":"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo","d":"dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo"}"#,
];

/// 20 kills: the receiver has an encrypted body, and the sender dies before it can note that. Whoever sends it again encrypts
/// anew, and to the same bytes.
#[test]
fn between_two_encrypted_attempts() {
    let at = "after_post_before_ack";
    for (nth, key) in (0..20 * rounds()).map(|nth| (nth, KEYS[nth % KEYS.len()])) {
        let Some(_kill) = Kill::at("between_two_encrypted_attempts", Some(at)) else { return };
        let key = PrivateKey::parse(key).expect("a key");
        let dir = tempfile::tempdir().expect("a directory");
        let database = dir.path().join("tidings.db");
        let receiver = Receiver::start();
        let mode = ["encrypted", &key.public_key().to_json()];
        let mut victim = Victim::start(&database, &receiver.endpoint, &mode, Some(at));
        listen(&mut victim, |_| false);
        victim.wait_killed();

        let mut heir = Victim::start(&database, &receiver.endpoint, &["recover"], None);
        listen(&mut heir, |line| line == "ready");
        receiver.wait_for_count(2);
        heir.settle();
        heir.stop();

        let posts = receiver.posts();
        assert_eq!(posts.len(), 2, "kill {nth}: {posts:?}");
        assert_eq!((&posts[1].id, &posts[1].body), (&posts[0].id, &posts[0].body), "kill {nth}");
        assert!(!posts[0].body.contains("eventId"), "nothing of it is in the clear");
        let read = decrypt(&[key], posts[0].body.as_bytes()).expect("readable");
        let read = String::from_utf8(read).expect("text");
        assert!(read.contains(&format!(r#""eventId":"{}""#, posts[0].id)), "{read}");
    }
}

/// 50 kills: the tool is at work.
#[test]
fn during_the_tool() {
    for _ in 0..50 * rounds() {
        let said = run("during_the_tool", &["hold"], None, false);
        assert!(said.is_none_or(|said| (said.accepted.len(), said.ended.len()) == (1, 0)));
    }
}

/// 40 kills in the midst of a group of four calls, each with a time: whichever commit never happens, the group is told once
/// if all four were accepted, and each time fires at most once.
#[test]
fn groups_and_times() {
    let (mut whole, mut tried) = (0, 0);
    for _ in 0..rounds() {
        for (failpoint, runs) in [("before_commit", 24), ("before_outcome_commit", 4), ("after_post_before_ack", 12)] {
            for nth in 1..=runs {
                let came_so_far = run_group(&format!("{failpoint}:{nth}"));
                tried += usize::from(came_so_far.is_some());
                whole += usize::from(came_so_far == Some(true));
            }
        }
    }
    assert!(tried < 40 || whole >= 10, "only {whole} runs of {tried} came as far as a whole group");
}

/// Whether the victim came as far as to have the whole group accepted. `None`: not this time.
fn run_group(failpoint: &str) -> Option<bool> {
    let _kill = Kill::at("groups_and_times", Some(failpoint))?;
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("tidings.db");
    let receiver = Receiver::start();
    let mut victim = Victim::start(&database, &receiver.endpoint, &["group", "4"], Some(failpoint));
    let said = listen(&mut victim, |line| line == "ready");
    victim.kill(); // where the failpoint was never reached
    victim.wait_killed();

    let mut heir = Victim::start(&database, &receiver.endpoint, &["recover"], None);
    listen(&mut heir, |line| line == "ready");
    let whole = said.accepted.len() == 4;
    let is_group = |post: &Post| post.field("name").starts_with("tool_call.group");
    if whole {
        let (posts, more) = &*receiver.posts;
        let (posts, timeout) = more
            .wait_timeout_while(posts.lock().expect("posts"), HANG, |posts| !posts.iter().any(is_group))
            .expect("posts");
        assert!(!timeout.timed_out(), "{failpoint}: the group was not told of: {posts:?}");
    }
    heir.settle();
    heir.stop();

    let mut firings: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for post in receiver.posts() {
        let about = if is_group(&post) { String::new() } else { post.field("callId").to_owned() };
        firings.entry((post.field("name").to_owned(), about)).or_default().insert(post.id.clone());
    }
    for (about, ids) in &firings {
        assert_eq!(ids.len(), 1, "{failpoint}: {about:?} fired {} times", ids.len());
    }
    let groups: Vec<_> = firings.keys().filter(|(_, call)| call.is_empty()).collect();
    // A fourth call may have been accepted on disk before the victim could say so.
    assert!(groups.len() == usize::from(whole) || said.accepted.len() == 3, "{failpoint}: {groups:?}");
    assert!(groups.iter().all(|(name, _)| name == "tool_call.group"), "{failpoint}: {groups:?}");
    Some(whole)
}
