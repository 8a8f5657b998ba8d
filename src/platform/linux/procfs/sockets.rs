//! Owns who listens on a TCP port of this network namespace: /proc/net/tcp and tcp6 name each listening socket with
//! its user and inode, /proc/PID/fd the sockets that a process has open.

use std::fs;
use std::io::{self, Read};

use super::{LARGE_FILE_BYTES, ProcError, Procfs};

/// The state TCP_LISTEN as these files write it.
const LISTEN: &str = "0A";

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub uid: u32,
    pub inode: u64,
}

impl Procfs {
    /// The sockets that take connections to 127.0.0.1 or `[::1]` at this port.
    pub fn listeners(&self, port: u16) -> Vec<Listener> {
        let mut listeners = Vec::new();
        for table in ["tcp", "tcp6"] {
            let text = self.socket_table(table).unwrap_or_default();
            listeners.extend(text.lines().filter_map(|line| listener(line, port)));
        }
        listeners
    }

    fn socket_table(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        let file = fs::File::open(self.root.join("net").join(name))?;
        file.take(LARGE_FILE_BYTES).read_to_string(&mut text)?;
        Ok(text)
    }

    /// The inodes of a process's open sockets. Needs its own user or root: else `Denied`.
    pub fn open_sockets(&self, pid: u32) -> Result<Vec<u64>, ProcError> {
        let files = self.open_files(pid)?.into_iter();
        Ok(files.filter_map(|(_, target)| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect())
    }
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`; an address is hexadecimal, in the
/// byte order of the machine, which does not matter for those that are all zero or the same read either way.
fn listener(line: &str, port: u16) -> Option<Listener> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, local_port) = fields.get(1)?.split_once(':')?;
    let here = [
        "00000000",
        "0100007F",
        "7F000001",
        "00000000000000000000000000000000",
        "00000000000000000000000001000000",
        "00000000000000000000000000000001",
    ];
    let ours = fields.get(3) == Some(&LISTEN) && here.contains(&address);
    let same = u16::from_str_radix(local_port, 16).ok() == Some(port);
    (ours && same).then_some(())?;
    Some(Listener { uid: fields.get(7)?.parse().ok()?, inode: fields.get(9)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn our_own_listener_is_found_with_its_socket() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(server) = TcpListener::bind(address) else { continue };
            let procfs = Procfs::default();
            let found = procfs.listeners(server.local_addr().unwrap().port());
            assert_eq!(found.len(), 1, "{address}");
            assert_eq!(found[0].uid, rustix::process::getuid().as_raw());
            assert!(procfs.open_sockets(std::process::id()).unwrap().contains(&found[0].inode));
        }
    }

    #[test]
    fn a_line_that_does_not_listen_here_is_none() {
        let line = |address: &str, state: &str| {
            format!("  0: {address}:2CAA 00000000:0000 {state} 0:0 00:0 00000000  997        0 4242 1 0 100 0 0 10 0")
        };
        assert_eq!(listener(&line("0100007F", "0A"), 11434), Some(Listener { uid: 997, inode: 4242 }));
        assert_eq!(listener(&line("0100007F", "0A"), 11435), None);
        assert_eq!(listener(&line("0100007F", "01"), 11434), None, "a connection");
        assert_eq!(listener(&line("0500A8C0", "0A"), 11434), None, "192.168.0.5");
        assert_eq!(listener("sl local_address", 11434), None);
    }
}
