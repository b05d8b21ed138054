//! A sink for webhooks, as a process of its own: answers every POST with 200 and an empty body, on connections that stay
//! open, reads what comes by its lengths, and looks at nothing else but whether the path is one that hangs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Result;

/// Where it listens …
pub const HOST: &str = "127.0.0.1";
/// … and where as well, at the same port.
pub const OTHER_HOST: &str = "127.0.0.2";
/// Requests to paths that begin with this are never answered.
pub const HANGS: &str = "/hangs/";

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// The sink, seen from the bench. Ends with it.
pub struct Sink {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Where it listens.
    pub port: u16,
    /// Where nobody does: a connection is refused at once.
    pub dead: u16,
}

impl Sink {
    /// Starts this program with `--sink`, whose `main` calls [`serve`].
    pub fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--sink")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        let (port, dead) = line.trim().split_once(' ').ok_or("the sink did not start")?;
        let (port, dead) = (port.parse()?, dead.parse()?);
        Ok(Self { stdin: child.stdin.take(), child, port, dead })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        drop(self.stdin.take()); // which it waits for
        let _ = self.child.wait();
    }
}

/// The sink itself: prints its port and a dead one, and ends with its stdin.
pub fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let dead = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    runtime.block_on(async {
        let listener = TcpListener::bind((HOST, 0)).await?;
        let other = TcpListener::bind((OTHER_HOST, listener.local_addr()?.port())).await?;
        #[allow(clippy::print_stdout, reason = "it says so there")]
        {
            println!("{} {dead}", listener.local_addr()?.port());
        }
        std::thread::spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(0);
        });
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                accepted = other.accept() => accepted,
            };
            tokio::spawn(answer(accepted?.0));
        }
    })
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut data = Vec::with_capacity(16 << 10);
    loop {
        if stream.read_buf(&mut data).await? == 0 {
            return Ok(());
        }
        while let Some(length) = request(&data) {
            if data.strip_prefix(b"POST ").is_some_and(|rest| rest.starts_with(HANGS.as_bytes())) {
                std::future::pending::<()>().await;
            }
            data.drain(..length);
            stream.write_all(ANSWER).await?;
        }
    }
}

/// How long the first request is, once it is whole.
fn request(data: &[u8]) -> Option<usize> {
    let head = data.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(data.get(..head)?).ok()?;
    // Half of the senders write the names of headers with capitals.
    let header = |line: &str| {
        line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1.trim().parse().ok()
    };
    let body: usize = text.lines().find_map(header).unwrap_or(0);
    (data.len() >= head + body).then_some(head + body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_where_their_lengths_say() {
        let one = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(request(one), Some(one.len()));
        assert_eq!(request(&one[..one.len() - 1]), None);
        assert_eq!(request(&[&one[..], b"POST"].concat()), Some(one.len()));
        assert_eq!(request(b"GET / HTTP/1.1\r\n\r\n"), Some(18));
        assert_eq!(request(b"GET / HTTP/1.1\r\n"), None);
    }
}
