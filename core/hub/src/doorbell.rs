//! Ringing the process at the other end of stdio, for routes of type `signal`.

use tidings_proto::doorbell::Doorbell;

use crate::outlet::Refusal;

/// The process at the other end of this process's stdin, which routes of type `signal` ring. Linux only.
///
/// It is pinned by a pidfd before anything is sent: a number from the wire is never used, and a process that took the number of
/// one that died never gets its signal. The default action of every signal that may ring ends a process that does not handle it,
/// so that each time it is looked whether the peer does.
#[derive(Debug)]
pub struct StdioPeer(os::Peer);

impl StdioPeer {
    /// The process at the other end of stdin: the parent where stdin is a pipe, the connected one where it is a socket.
    ///
    /// # Errors
    /// Why there is none, for the operator's log: not Linux, stdin is neither, the peer is another user's or gone, or this process
    /// is root's and `as_root` does not allow that.
    pub fn of_stdin(as_root: bool) -> Result<Self, String> {
        os::Peer::of_stdin(as_root).map(Self)
    }

    /// Sends it that signal. It carries nothing, and two of them may arrive as one.
    ///
    /// # Errors
    /// [`Refusal::Unreachable`]: the peer is gone. [`Refusal::NotReady`]: it would not survive the signal.
    /// [`Refusal::Refused`]: this process may not. [`Refusal::Failed`]: the peer's queue is full, which may pass.
    pub fn ring(&self, bell: Doorbell) -> Result<(), Refusal> {
        self.0.ring(bell)
    }
}

#[cfg(target_os = "linux")]
mod os {
    use std::fs;
    use std::io::stdin;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{FileType, fstat};
    use rustix::io::Errno;
    use rustix::net::sockopt::socket_peercred;
    use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getppid, pidfd_open, pidfd_send_signal};
    use rustix_libc_wrappers::process::SignalExt;
    use tidings_proto::doorbell::Doorbell;

    use crate::outlet::Refusal;

    /// Lines of proc_pid_status(5): a signal in one of them does not end the process.
    const MASKS: [&str; 3] = ["SigBlk:", "SigIgn:", "SigCgt:"];

    #[derive(Debug)]
    pub(super) struct Peer {
        pid: Pid,
        fd: OwnedFd,
    }

    impl Peer {
        pub(super) fn of_stdin(as_root: bool) -> Result<Self, String> {
            let pid = at_other_end(stdin().as_fd())?;
            if geteuid().is_root() && !as_root {
                return Err("this process is root's, which has to be allowed".to_owned());
            }
            let peer = Self::pinned(pid)?;
            // Whose number it is now: the peer's, if it was the peer's after it was pinned, too.
            if at_other_end(stdin().as_fd())? != pid || effective_user(pid) != Some(geteuid().as_raw()) {
                return Err("the process at the other end is another user's, or gone".to_owned());
            }
            Ok(peer)
        }

        pub(super) fn pinned(pid: Pid) -> Result<Self, String> {
            let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| error.to_string())?;
            Ok(Self { pid, fd })
        }

        pub(super) fn ring(&self, bell: Doorbell) -> Result<(), Refusal> {
            let signal = match bell {
                Doorbell::Usr1 => Some(Signal::USR1),
                Doorbell::Usr2 => Some(Signal::USR2),
                Doorbell::RealTime(nth) => Signal::rt(i32::from(nth)),
            };
            let Some(signal) = signal else { return Err(Refusal::Refused) };
            let waits = self.waits_for(signal);
            // Asked last: what was read before was the peer's, if it is still there.
            if self.is_gone() {
                return Err(Refusal::Unreachable);
            }
            if !waits {
                return Err(Refusal::NotReady);
            }
            pidfd_send_signal(&self.fd, signal).map_err(|error| match error {
                Errno::SRCH => Refusal::Unreachable,
                Errno::PERM => Refusal::Refused,
                _ => Refusal::Failed,
            })
        }

        fn waits_for(&self, signal: Signal) -> bool {
            let Ok(status) = fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero())) else {
                return false;
            };
            let masks = status.lines().filter_map(|line| {
                let rest = MASKS.iter().find_map(|name| line.strip_prefix(name))?;
                u64::from_str_radix(rest.trim(), 16).ok()
            });
            masks.fold(0, |all, mask| all | mask) >> (signal.as_raw() - 1) & 1 == 1
        }

        fn is_gone(&self) -> bool {
            let mut watched = [PollFd::new(&self.fd, PollFlags::IN)];
            poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
        }
    }

    fn at_other_end(fd: BorrowedFd<'_>) -> Result<Pid, String> {
        let mode = fstat(fd).map_err(|error| error.to_string())?.st_mode;
        let pid = match FileType::from_raw_mode(mode) {
            FileType::Socket => Some(socket_peercred(fd).map_err(|error| error.to_string())?.pid),
            FileType::Fifo => getppid(),
            _ => return Err("stdin is no pipe and no socket".to_owned()),
        };
        // 1 is who adopts the children of the dead.
        pid.filter(|pid| *pid != Pid::INIT).ok_or_else(|| "the process at the other end cannot be told".to_owned())
    }

    fn effective_user(pid: Pid) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        users.split_whitespace().nth(1)?.parse().ok() // real, effective, saved, file system
    }

    #[cfg(test)]
    mod tests {
        use std::io::{BufRead, BufReader};
        use std::process::{Child, Command, Stdio};

        use super::*;

        /// A shell that waits for SIGUSR2 only, and says when it does.
        fn child() -> Child {
            let script = "trap 'kill $!; exit 7' USR2; sleep 1000 & echo; wait";
            let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("a shell");
            let out = child.stdout.take().expect("its output");
            BufReader::new(out).read_line(&mut String::new()).expect("it is ready");
            child
        }

        fn peer(child: &Child) -> Peer {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
            Peer::pinned(pid).expect("it is there")
        }

        /// Field case B28: a signal that its process does not wait for would end it.
        #[test]
        fn only_what_the_peer_waits_for_is_sent() {
            let mut child = child();
            let peer = peer(&child);
            assert_eq!(peer.ring(Doorbell::Usr1), Err(Refusal::NotReady));
            assert_eq!(peer.ring(Doorbell::RealTime(3)), Err(Refusal::NotReady));
            assert_eq!(child.try_wait().expect("a child"), None, "it goes on");
            assert_eq!(peer.ring(Doorbell::Usr2), Ok(()));
            assert_eq!(child.wait().expect("a child").code(), Some(7), "it heard it");
            assert_eq!(peer.ring(Doorbell::Usr2), Err(Refusal::Unreachable), "nobody gets it instead");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    use tidings_proto::doorbell::Doorbell;

    use crate::outlet::Refusal;

    #[derive(Debug)]
    pub(super) struct Peer;

    impl Peer {
        pub(super) fn of_stdin(_as_root: bool) -> Result<Self, String> {
            Err("routes of type signal need Linux".to_owned())
        }

        pub(super) fn ring(&self, _bell: Doorbell) -> Result<(), Refusal> {
            Err(Refusal::Unreachable)
        }
    }
}
