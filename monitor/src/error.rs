// SPDX-License-Identifier: MIT
//! What can go wrong, told so that a user knows what failed, why, and what to do.

use std::error;
use std::io;
use std::iter;
use std::path::PathBuf;

use crate::SocketName;

/// The step of an `Error::Socket`, where it is that.
pub(crate) const LISTENING: &str = "cannot listen on";

/// An error of the monitor's user half. `Display` says what failed, `source` why, [`Error::advice`] what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not describe its own types, so the BPF program cannot be fitted to it.
    #[error("this kernel has no BTF type information ({path})", path = path.display())]
    NoBtf { path: PathBuf, source: io::Error },

    /// Capabilities are missing; `missing` names them.
    #[error("not permitted to load a BPF program (missing {missing})")]
    NoPrivilege { missing: String },

    /// The kernel or its policy refused the BPF program.
    #[error("the kernel refused the monitor's BPF program while {step}")]
    Bpf {
        step: &'static str,
        source: io::Error,
    },

    /// The BPF program that counts was detached while the monitor served.
    #[error(
        "the kernel no longer runs the monitor's BPF program at context switches: something has detached it"
    )]
    Detached,

    /// Another monitor is alive at this address.
    #[error("a monitor already listens on {0}")]
    AlreadyListening(SocketName),

    /// Nobody listens at this address.
    #[error("no monitor listens on {0}")]
    NotListening(SocketName),

    /// A socket name that cannot be an address.
    #[error("{0:?} is not a usable socket name: {1}")]
    BadSocketName(String, &'static str),

    /// The socket could not be made, or talked to.
    #[error("{step} {socket}")]
    Socket {
        step: &'static str,
        socket: SocketName,
        source: io::Error,
    },

    /// The other side does not speak our protocol.
    #[error("{socket} gave an answer that is not a monitor's status: it may be another version")]
    Protocol { socket: SocketName },

    /// A monitor of another build, whose answers mean something else.
    #[error(
        "the monitor on {socket} is of another version: it speaks ABI {abi}, this command {own}",
        own = flexguard_abi::FG_ABI_VERSION
    )]
    OtherVersion { socket: SocketName, abi: u32 },

    /// What a successor needs could not be kept in, or taken from, a BPF file system.
    #[error("cannot keep the monitor's maps at {path}", path = path.display())]
    Pin { path: PathBuf, source: io::Error },

    /// The monitor's map could not be opened by its number.
    #[error("not permitted to trace: cannot open the monitor's map")]
    Trace { source: io::Error },

    /// The service manager has passed no socket, or something else.
    #[error("the descriptor that the service manager passed is not a listening Unix stream socket")]
    NoSocketPassed,

    /// A system call that should not fail did.
    #[error("{step}")]
    Os {
        step: &'static str,
        source: io::Error,
    },
}

impl Error {
    /// The system's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::NoBtf { source, .. }
            | Error::Bpf { source, .. }
            | Error::Socket { source, .. }
            | Error::Pin { source, .. }
            | Error::Trace { source }
            | Error::Os { source, .. } => source.raw_os_error(),
            Error::NoPrivilege { .. } => Some(libc::EPERM),
            _ => None,
        }
    }

    /// What failed and every cause, on one line.
    pub fn told(&self) -> String {
        let causes = iter::successors(Some(self as &dyn error::Error), |e| e.source());
        causes
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(": ")
    }

    /// What the user can do about it, where there is something to do.
    pub fn advice(&self) -> Option<String> {
        let advice = match self {
            Error::NoBtf { .. } => "run a kernel built with CONFIG_DEBUG_INFO_BTF=y (Debian's and Ubuntu's are)".into(),
            Error::NoPrivilege { .. } => {
                "run as root, or grant the command CAP_BPF and CAP_PERFMON (setcap cap_bpf,cap_perfmon+ep FILE)".into()
            }
            Error::Bpf { source, .. } => advice_for_errno(source.raw_os_error()?)?.into(),
            Error::Detached => {
                "find out what detaches BPF programs here (`bpftool link` lists what is attached), and start the \
                 monitor again".into()
            }
            Error::AlreadyListening(name) => format!("use that monitor, or choose another socket than {name}"),
            Error::NotListening(_) => "start one with `flexguard monitor`".into(),
            Error::BadSocketName(..) => "give an absolute path shorter than 108 bytes, or @name".into(),
            Error::OtherVersion { .. } => {
                "use the command that was installed with that monitor, or restart the service after an upgrade".into()
            }
            Error::Pin { .. } => {
                "give --pin a directory of a BPF file system that only you may write (mount -t bpf bpf DIRECTORY; systemd mounts one at \
                 /sys/fs/bpf), without links or files of others".into()
            }
            Error::Trace { .. } => "run it as root in the initial namespaces: this needs CAP_SYS_ADMIN, CAP_BPF and CAP_PERFMON".into(),
            Error::NoSocketPassed => "let the unit's socket have ListenStream=, as flexguard.socket does".into(),
            Error::Socket { step: LISTENING, .. } => {
                "choose another path with --socket: of a socket or of no file, in a directory that you may write".into()
            }
            Error::Socket { .. } | Error::Protocol { .. } | Error::Os { .. } => return None,
        };
        Some(advice)
    }
}

/// What usually is behind an errno of loading or attaching.
fn advice_for_errno(errno: i32) -> Option<&'static str> {
    Some(match errno {
        libc::EPERM => {
            "something above the capabilities forbids it: kernel lockdown in confidentiality mode \
             (/sys/kernel/security/lockdown), a container's seccomp profile, or a user namespace"
        }
        libc::EACCES | libc::EINVAL | libc::E2BIG => {
            "the kernel's verifier did not accept the program: Linux 6.1 or newer on x86-64 or arm64 is needed; \
             RUST_LOG=libbpf=info shows why"
        }
        libc::ENOENT | libc::ESRCH => {
            "the kernel lacks the sched_switch tracepoint or its type: Linux 6.1 or newer is needed"
        }
        libc::ENOMEM => "the kernel or this control group is out of memory",
        libc::ENOSYS => "the kernel was built without CONFIG_BPF_SYSCALL",
        _ => return None,
    })
}

/// For the many places that turn an errno of one step into an [`Error::Os`].
pub(crate) fn os(step: &'static str) -> impl FnOnce(nix::errno::Errno) -> Error {
    move |errno| Error::Os {
        step,
        source: errno.into(),
    }
}
