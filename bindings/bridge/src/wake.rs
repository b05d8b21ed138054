//! What tells a host's event loop to come and drain: a file descriptor, or a function of the host.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Error, ErrorCode};

/// How a port wakes its event loop.
pub(crate) enum Wake {
    /// Loops that watch descriptors.
    Descriptor(WakeFd),
    /// Loops that do not, as Node's. Called from any thread; it must not block, and must not call back into the port.
    Call(Box<dyn Fn() + Send + Sync>),
}

impl Wake {
    pub(crate) fn wake(&self) {
        match self {
            Self::Descriptor(fd) => fd.wake(),
            Self::Call(call) => call(),
        }
    }

    /// Takes the wake back. One by call stands for itself: the host drains once for each.
    pub(crate) fn clear(&self) {
        match self {
            Self::Descriptor(fd) => fd.clear(),
            Self::Call(_) => {}
        }
    }

    pub(crate) fn descriptor(&self) -> Option<&WakeFd> {
        match self {
            Self::Descriptor(fd) => Some(fd),
            Self::Call(_) => None,
        }
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Descriptor(_) => "Wake::Descriptor",
            Self::Call(_) => "Wake::Call",
        })
    }
}

/// An eventfd, or a pipe where there is none. Non-blocking at both ends and closed on exec.
#[derive(Debug)]
pub(crate) struct WakeFd {
    read: OwnedFd,
    /// The pipe's other end; an eventfd is both.
    write: Option<OwnedFd>,
}

impl WakeFd {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    pub(crate) fn new() -> Result<Self, Error> {
        use rustix::event::{EventfdFlags, eventfd};

        let read = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(cannot)?;
        Ok(Self { read, write: None })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    pub(crate) fn new() -> Result<Self, Error> {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        use rustix::io::{FdFlags, fcntl_setfd};

        let (read, write) = rustix::pipe::pipe().map_err(cannot)?;
        for end in [&read, &write] {
            fcntl_setfd(end, FdFlags::CLOEXEC).map_err(cannot)?;
            fcntl_setfl(end, fcntl_getfl(end).map_err(cannot)? | OFlags::NONBLOCK).map_err(cannot)?;
        }
        Ok(Self { read, write: Some(write) })
    }

    /// Makes the descriptor readable.
    pub(crate) fn wake(&self) {
        // It fails only when it is full, and then the descriptor is readable.
        let _ = rustix::io::write(self.write.as_ref().unwrap_or(&self.read), &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable again.
    pub(crate) fn clear(&self) {
        // One read empties an eventfd; a pipe rarely holds more than one number.
        let mut buffer = [0; 64];
        while rustix::io::read(&self.read, &mut buffer) == Ok(buffer.len()) {}
    }

    /// Waits until the descriptor is readable, at most `timeout`; `false` also when a signal came.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let timeout =
            Timespec { tv_sec: timeout.as_secs().min(1 << 30) as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.read, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&timeout)), Ok(ready) if ready > 0)
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

fn cannot(error: Errno) -> Error {
    Error::new(ErrorCode::Unavailable, format!("cannot make a wake descriptor: {error}"))
}
