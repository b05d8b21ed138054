//! A connection whose end kills nobody.
//!
//! Who writes to a connection that the other side has closed is sent `SIGPIPE`, which ends a process that did nothing about it.
//! Rust's programs, Python, Node.js and Go ignore it; a C program that has this library in it may not. The standard library asks the
//! system for no signal (`MSG_NOSIGNAL`) when it writes one buffer, and cannot when it writes several at once (`writev`). So
//! nothing is written that way here; hyper then puts a request's head and body into one buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection that writes one buffer at a time.
pub(super) struct Quiet(pub(super) TcpStream);

impl AsyncRead for Quiet {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

/// `poll_write_vectored` stays what it is by default: it writes the first buffer.
impl AsyncWrite for Quiet {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
