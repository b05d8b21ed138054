//! Ringing the process at the other end of stdio, for routes of type `signal`. Here, because Node.js has neither pidfds nor the
//! credentials of a socket.

use napi::bindgen_prelude::Either;
use napi_derive::napi;

use crate::convert::{Result, entry};

/// The process at the other end of stdin, pinned.
#[napi]
pub struct Doorbell {
    inner: peer::Peer,
}

#[napi]
impl Doorbell {
    /// Sends the signal of that name (`SIGUSR1`, `SIGUSR2` or `SIGRTMIN+n`), unless the peer is gone or would not survive it:
    /// `rung`, or `unreachable`, `not_ready`, `refused` or `failed`.
    #[napi(ts_return_type = "'rung' | 'unreachable' | 'not_ready' | 'refused' | 'failed'")]
    pub fn ring(&self, signal: String) -> Result<&'static str> {
        entry("Doorbell.ring", || Ok(self.inner.ring(&signal)))
    }
}

/// The doorbell of the process at the other end of stdin, or why there is none.
#[napi]
pub fn doorbell_of_stdio(as_root: bool) -> Result<Either<Doorbell, String>> {
    entry("doorbellOfStdio", || {
        Ok(match peer::Peer::of_stdio(as_root) {
            Ok(inner) => Either::A(Doorbell { inner }),
            Err(why) => Either::B(why),
        })
    })
}

#[cfg(target_os = "linux")]
mod peer {
    use std::fs;
    use std::io::stdin;
    use std::mem::size_of;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{FileType, fstat};
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getppid, pidfd_open, pidfd_send_signal};

    /// Lines of proc_pid_status(5): a signal in one of them does not end the process.
    const MASKS: [&str; 3] = ["SigBlk:", "SigIgn:", "SigCgt:"];

    /// A process, pinned by a pidfd before anything is sent: a number from the wire is never used, and a process that took the
    /// number of one that died never gets its signal.
    pub(super) struct Peer {
        pid: Pid,
        fd: OwnedFd,
    }

    impl Peer {
        pub(super) fn of_stdio(as_root: bool) -> Result<Self, String> {
            let pid = at_other_end(stdin().as_fd())?;
            if geteuid().is_root() && !as_root {
                return Err("this process is root's; signalAsRoot: true allows it".to_owned());
            }
            let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| error.to_string())?;
            // Whose number it is now: the peer's, if it was the peer's after it was pinned, too.
            if at_other_end(stdin().as_fd())? != pid || effective_user(pid) != Some(geteuid().as_raw()) {
                return Err("the process at the other end is another user's, or gone".to_owned());
            }
            Ok(Self { pid, fd })
        }

        pub(super) fn ring(&self, name: &str) -> &'static str {
            let Some(number) = number(name) else { return "refused" };
            // The default action of each of these ends a process that does not handle it.
            let waits = self.waits_for(number);
            // Asked last: what was read before was the peer's, if it is still there.
            if self.is_gone() {
                return "unreachable";
            }
            if !waits {
                return "not_ready";
            }
            // SAFETY: `number` is SIGUSR1, SIGUSR2 or between SIGRTMIN and SIGRTMAX as libc counts them: a signal that there is,
            // and none that libc keeps for itself.
            #[allow(unsafe_code, reason = "rustix has names for the signals that are not real-time only")]
            let signal = unsafe { Signal::from_raw_unchecked(number) };
            match pidfd_send_signal(&self.fd, signal) {
                Ok(()) => "rung",
                Err(Errno::SRCH) => "unreachable",
                Err(Errno::PERM) => "refused",
                // Its queue is full, which may pass.
                Err(_) => "failed",
            }
        }

        fn waits_for(&self, number: i32) -> bool {
            let Ok(status) = fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero())) else {
                return false;
            };
            let masks = status.lines().filter_map(|line| {
                let rest = MASKS.iter().find_map(|name| line.strip_prefix(name))?;
                u64::from_str_radix(rest.trim(), 16).ok()
            });
            masks.fold(0, |all, mask| all | mask) >> (number - 1) & 1 == 1
        }

        fn is_gone(&self) -> bool {
            let mut watched = [PollFd::new(&self.fd, PollFlags::IN)];
            poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
        }
    }

    fn at_other_end(fd: BorrowedFd<'_>) -> Result<Pid, String> {
        let mode = fstat(fd).map_err(|error| error.to_string())?.st_mode;
        let pid = match FileType::from_raw_mode(mode) {
            FileType::Socket => socket_peer(fd)?,
            FileType::Fifo => getppid(),
            _ => return Err("stdin is no pipe and no socket".to_owned()),
        };
        // 1 is who adopts the children of the dead.
        pid.filter(|pid| *pid != Pid::INIT).ok_or_else(|| "the process at the other end cannot be told".to_owned())
    }

    fn socket_peer(fd: BorrowedFd<'_>) -> Result<Option<Pid>, String> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
        // SAFETY: `fd` is open, and `found` and `length` are as SO_PEERCRED wants them, see unix(7); both outlive the call.
        #[allow(unsafe_code, reason = "the feature of rustix that has it would be built for every crate")]
        let failed = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        if failed != 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        Ok(Pid::from_raw(found.pid))
    }

    fn effective_user(pid: Pid) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        users.split_whitespace().nth(1)?.parse().ok() // real, effective, saved, file system
    }

    /// The core lets no other names in.
    fn number(name: &str) -> Option<i32> {
        match name {
            "SIGUSR1" => Some(libc::SIGUSR1),
            "SIGUSR2" => Some(libc::SIGUSR2),
            _ => {
                let nth: i32 = name.strip_prefix("SIGRTMIN+")?.parse().ok()?;
                let number = libc::SIGRTMIN().checked_add(nth)?;
                (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number).then_some(number)
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod peer {
    pub(super) struct Peer;

    impl Peer {
        pub(super) fn of_stdio(_as_root: bool) -> Result<Self, String> {
            Err("routes of type signal need Linux".to_owned())
        }

        pub(super) fn ring(&self, _name: &str) -> &'static str {
            "unreachable"
        }
    }
}
