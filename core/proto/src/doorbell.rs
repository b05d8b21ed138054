//! Signals that a route of type `signal` may ring with.
//!
//! A signal is a doorbell, not a message: it carries nothing, two of them may arrive as one, and whoever hears it reads what
//! happened over the ordinary channel.

use core::fmt;

/// The highest n of `SIGRTMIN+n`; POSIX promises eight real-time signals, Linux has more.
const MAX_REAL_TIME: u8 = 15;

/// One of the few signals that may be sent. The default action of each ends a process that does not handle it, so the
/// client has to name the one it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// `SIGUSR1`. In a Node process without a handler it opens the debugger (field report B28).
    Usr1,
    /// `SIGUSR2`.
    Usr2,
    /// `SIGRTMIN+n`. Never a number: where the range begins differs from libc to libc.
    RealTime(u8),
}

impl Doorbell {
    /// Reads `SIGUSR1`, `SIGUSR2` or `SIGRTMIN+n` with n from 0 to 15.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "SIGUSR1" => Some(Self::Usr1),
            "SIGUSR2" => Some(Self::Usr2),
            _ => {
                let digits = text.strip_prefix("SIGRTMIN+")?;
                let plain = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
                let n = digits.parse().ok().filter(|n| plain && *n <= MAX_REAL_TIME)?;
                Some(Self::RealTime(n))
            }
        }
    }
}

impl fmt::Display for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usr1 => f.write_str("SIGUSR1"),
            Self::Usr2 => f.write_str("SIGUSR2"),
            Self::RealTime(n) => write!(f, "SIGRTMIN+{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_may_ring() {
        for good in ["SIGUSR1", "SIGUSR2", "SIGRTMIN+0", "SIGRTMIN+7", "SIGRTMIN+15"] {
            assert_eq!(Doorbell::parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "SIGTERM",
            "SIGKILL",
            "SIGSTOP",
            "SIGHUP",
            "SIGCHLD",
            "SIGFOO",
            "0",
            "64",
            "10",
            "USR1",
            "sigusr1",
            "SIGRTMIN",
            "SIGRTMIN+16",
            "SIGRTMIN+01",
            "SIGRTMIN+-1",
            "SIGRTMIN++1",
            "SIGRTMIN+ 1",
            "SIGRTMAX",
            "SIGRTMAX-1",
            "SIGUSR1 ",
        ] {
            assert_eq!(Doorbell::parse(bad), None, "{bad}");
        }
    }
}
