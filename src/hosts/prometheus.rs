//! Owns what a Prometheus server knows of GPUs: which exporters there are, what is asked, and what the answers mean.

use std::str::FromStr;

/// A server on this machine. No other machine can be named: what leads there is a tunnel of `ssh` or `kubectl`, which brings
/// its own encryption and rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Such as 127.0.0.1:9090.
    pub authority: String,
    /// What stands before `/api/v1`, without a slash at its end; mostly empty.
    pub path: String,
}

impl FromStr for Server {
    type Err = String;

    /// Fails on every address that is not this machine's own, with the commands that lead there.
    fn from_str(text: &str) -> Result<Server, String> {
        let rest = text.strip_prefix("http://").ok_or("give http://127.0.0.1:PORT")?;
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        if !["127.0.0.1", "localhost", "[::1]"].contains(&host) {
            return Err("only a server of this machine is asked".to_owned());
        }
        let path = if path.is_empty() { String::new() } else { format!("/{}", path.trim_end_matches('/')) };
        Ok(Server { authority: authority.to_owned(), path })
    }
}
