// SPDX-License-Identifier: MIT
//! `flexguard memcached-load`: a memcached of its own under the load of memcaslap.
//!
//! `bench exec --preset memcached` runs it. Only the server runs under the lock; the load generator is the same for all.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};

/// What LD_PRELOAD is to be for the server.
pub const PRELOAD_ENV: &str = "FLEXGUARD_BENCH_PRELOAD";

/// How long the server may take to listen.
const START: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Load {
    /// The server's threads
    pub threads: u32,

    /// How long to load it
    pub seconds: u32,
}

/// A server that ends with this process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn run(load: Load) -> Result<Status> {
    let dir = tempfile::tempdir().context("cannot make a directory for memcached")?;
    let port_file = dir.path().join("port");
    let mut server = Server(start(&load, &port_file)?);
    let port = wait_for_port(&mut server, &port_file)?;
    // Two connections for each of the server's threads keep all of them busy.
    let status = Command::new("memcaslap")
        .arg(format!("--servers=127.0.0.1:{port}"))
        .args([
            "--threads=1",
            &format!("--concurrency={}", 2 * load.threads),
        ])
        .arg(format!("--time={}s", load.seconds))
        .stdin(Stdio::null())
        .status()
        .context("cannot start memcaslap (Debian: libmemcached-tools)")?;
    if let Some(ended) = server.0.try_wait().context("memcached")? {
        return Err(Failure::new(format_args!(
            "memcached ended under load: {ended}"
        )));
    }
    Ok(Status::Exited(status.code().unwrap_or(1) as u8))
}

fn start(load: &Load, port_file: &Path) -> Result<Child> {
    let mut command = Command::new("memcached");
    // As root memcached refuses to start without this option; otherwise it ignores it.
    command
        .args(["-u", "root", "-U", "0", "-l", "127.0.0.1", "-p", "-1", "-t"])
        .arg(load.threads.to_string())
        .env("MEMCACHED_PORT_FILENAME", port_file)
        .env_remove(PRELOAD_ENV)
        .stdin(Stdio::null());
    if let Some(preload) = std::env::var_os(PRELOAD_ENV) {
        command.env("LD_PRELOAD", preload);
    }
    command
        .spawn()
        .context("cannot start memcached (Debian: memcached)")
}

/// The port that the server chose. It writes the file under another name and renames it, so the file is always whole.
fn wait_for_port(server: &mut Server, port_file: &Path) -> Result<u16> {
    let deadline = Instant::now() + START;
    while Instant::now() < deadline {
        if let Some(ended) = server.0.try_wait().context("memcached")? {
            return Err(Failure::new(format_args!(
                "memcached did not start: {ended}"
            )));
        }
        if let Ok(text) = std::fs::read_to_string(port_file) {
            return find_port(&text).ok_or_else(|| {
                Failure::new(format_args!("memcached printed no port, but: {text}"))
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(Failure::new(format_args!(
        "memcached does not listen after {} s",
        START.as_secs()
    )))
}

fn find_port(text: &str) -> Option<u16> {
    let line = text.lines().find_map(|l| l.strip_prefix("TCP INET:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_its_file() {
        assert_eq!(find_port("TCP INET: 40123\nUDP INET: 0\n"), Some(40123));
        assert_eq!(find_port(""), None);
    }
}
