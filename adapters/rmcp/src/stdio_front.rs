//! What rmcp does not hand on of a request over stdio: its `notificationConfig`, or the whole filter of a listener.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Value, json};
use tidings::proto::wire::sep992::NOTIFICATION_CONFIG;
use tokio::io::{AsyncRead, ReadBuf};

use crate::front::{Asked, asked};
use crate::listening::set_aside;

/// Bytes that are read at once.
const CHUNK: usize = 8 << 10;

/// What [`Front`](crate::Front) is over HTTP, for messages that come line by line: stands before the reader that rmcp reads.
///
/// rmcp reads a request into types that have no room for `params.notificationConfig`; here it is moved into `_meta`, where it is
/// found. The same goes for `taskIds` in the filter of `subscriptions/listen`, where
/// [`Adapter::stdio_front`](crate::Adapter::stdio_front) has made this, for the handlers of
/// [`Adapter::watch`](crate::Adapter::watch). Everything else goes on byte for byte. Without it a client has to put its config
/// into `_meta` itself, and hears of no tasks.
#[derive(Debug)]
pub struct StdioFront<R> {
    inner: R,
    listens: bool,
    /// A line that has not ended.
    line: Vec<u8>,
    /// Lines to be read by rmcp, from `at` on.
    ready: Vec<u8>,
    at: usize,
}

impl<R> StdioFront<R> {
    /// Before that reader.
    pub fn new(reader: R) -> Self {
        Self { inner: reader, listens: false, line: Vec::new(), ready: Vec::new(), at: 0 }
    }

    /// See [`Front::listening`](crate::Front).
    pub(crate) fn listening(mut self, listens: bool) -> Self {
        self.listens = listens;
        self
    }

    fn take(&mut self, mut read: &[u8]) {
        self.ready.clear();
        self.at = 0;
        while let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = read.split_at(end + 1);
            self.line.extend_from_slice(line);
            self.pass();
            read = rest;
        }
        self.line.extend_from_slice(read);
    }

    fn pass(&mut self) {
        match moved(&self.line, self.listens) {
            Some(line) => self.ready.extend_from_slice(&line),
            None => self.ready.extend_from_slice(&self.line),
        }
        self.line.clear();
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for StdioFront<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let left = this.ready.get(this.at..).unwrap_or_default();
            if !left.is_empty() {
                let some = left.get(..buf.remaining().min(left.len())).unwrap_or_default();
                buf.put_slice(some);
                this.at += some.len();
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [0; CHUNK];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                // What is left of the last line is rmcp's to judge.
                this.take(b"");
                this.pass();
                if this.ready.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            this.take(read.filled());
        }
    }
}

/// A request with its config in `_meta`, or with its filter set aside; `None`: it has none, or cannot be read.
fn moved(line: &[u8], listens: bool) -> Option<Vec<u8>> {
    let has = |text: &str| line.windows(text.len()).any(|part| part == text.as_bytes());
    // Most lines cost no more than this look; letters may be written as escapes.
    let concerns = has(NOTIFICATION_CONFIG) || has("\\u") || (listens && has("listen"));
    if !concerns {
        return None;
    }
    let mut line = match asked(line)? {
        Asked::Call(_) => with_config(line)?,
        Asked::Listen if listens => set_aside(line)?,
        Asked::Listen => return None,
    };
    line.push(b'\n');
    Some(line)
}

/// A tool call with its config in `_meta`.
fn with_config(line: &[u8]) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    let params = message.get_mut("params")?.as_object_mut()?;
    let config = params.remove(NOTIFICATION_CONFIG)?;
    params.entry("_meta").or_insert_with(|| json!({})).as_object_mut()?.insert(NOTIFICATION_CONFIG.to_owned(), config);
    serde_json::to_vec(&message).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out of what goes in, in reads of `size` bytes.
    fn through(text: &str, size: usize) -> String {
        let mut front = StdioFront::new(text.as_bytes()).listening(true);
        let mut out = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        loop {
            let mut chunk = vec![0; size];
            let mut read = ReadBuf::new(&mut chunk);
            let Poll::Ready(Ok(())) = Pin::new(&mut front).poll_read(&mut cx, &mut read) else { break };
            if read.filled().is_empty() {
                break;
            }
            out.extend_from_slice(read.filled());
        }
        String::from_utf8(out).expect("whole characters")
    }

    #[test]
    fn what_has_no_config_goes_on_as_it_is() {
        for text in [
            "",
            "\n\r\n",
            "{\"jsonrpc\" : \"2.0\", \"method\":\"ping\",\"id\":1}\r\n{\"x\":1}\n",
            "{\"method\":\"x/notificationConfig\",\"params\":{\"notificationConfig\":{}}}\n",
            "{\"method\":\"tools/call\",\"params\":{\"name\":\"notificationConfig\"}}\n",
            "{\"method\":\"tools/call\",\"params\":{\"notificationConfig\":{},\"_meta\":7}}\n",
            "{\"method\":\"tools/call\",\"params\":{\"notificationConfig\":{}\n",
            "an ü and no end",
        ] {
            for size in [1, 7, 100_000] {
                assert_eq!(through(text, size), text);
            }
        }
    }

    #[test]
    fn what_letters_are_written_as_escapes_is_found_too() {
        let call =
            r#"{"id":1,"method":"tools/c\u0061ll","params":{"notific\u0061tionConfig":{"a":1},"_meta":{"b":2}}}"#;
        let listen = r#"{"id":2,"method":"subscriptions/list\u0065n","params":{"notifications":{"taskIds":["t"]}}}"#;
        let out = through(&format!("{call}\n{listen}\n"), 100_000);
        let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines[0]["params"], json!({"_meta": {"b": 2, "notificationConfig": {"a": 1}}}));
        assert_eq!(lines[1]["params"], json!({"io.tidings/notifications": {"taskIds": ["t"]}}));
    }

    #[test]
    fn a_config_is_moved_to_where_it_is_found() {
        let call =
            r#"{"id":1,"method":"tools/call","params":{"name":"t","notificationConfig":{"routes":[{"id":"ü"}]}}}"#;
        let text = format!("{{\"id\":0}}\n{call}\n{{\"id\":2}}\n");
        for size in [1, 100_000] {
            let out = through(&text, size);
            let lines: Vec<&str> = out.lines().collect();
            assert_eq!((lines.len(), lines[0], lines[2]), (3, "{\"id\":0}", "{\"id\":2}"));
            let moved: Value = serde_json::from_str(lines[1]).expect("JSON");
            let expected = json!({"name": "t", "_meta": {"notificationConfig": {"routes": [{"id": "ü"}]}}});
            assert_eq!(moved, json!({"id": 1, "method": "tools/call", "params": expected}));
        }
    }
}
