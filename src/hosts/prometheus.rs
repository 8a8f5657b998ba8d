//! Owns which Prometheus server may be asked: one that answers on this machine. `families` knows what the exporters call
//! their figures and what is asked, `answer` reads what the server says, `readings` makes machines of it.

pub mod answer;
pub mod families;
pub mod readings;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// What most people have Prometheus listen on.
const USUAL_PORT: u16 = 9090;
/// Pages of its web interface, whose addresses people copy from a browser.
const PAGES: [&str; 6] = ["/api/v1", "/graph", "/query", "/targets", "/alerts", "/classic"];

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
        const EXAMPLE: &str = "give an address such as http://127.0.0.1:9090";
        let (scheme, rest) = text.split_once("://").ok_or(EXAMPLE)?;
        let is_plain = match scheme.to_ascii_lowercase().as_str() {
            "http" => true,
            "https" => false,
            _ => return Err(EXAMPLE.to_owned()),
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).ok_or(EXAMPLE)?;
        let (host, port) = host_and_port(authority).ok_or(EXAMPLE)?;
        let Some(address) = own_address(host) else {
            // A port that speaks HTTPS is not the one to tunnel to.
            let port = if is_plain { port } else { None };
            return Err(way_there(host, port));
        };
        if !is_plain {
            return Err("Prometheus is asked over plain HTTP; give the port where it speaks http".to_owned());
        }
        if !path.chars().all(|character| character.is_ascii_alphanumeric() || "-._~/".contains(character)) {
            return Err("give only what stands before /api/v1 in the address".to_owned());
        }
        let path = path.trim_end_matches('/');
        let path = PAGES.iter().find_map(|page| path.strip_suffix(page)).unwrap_or(path);
        let authority = format!("{address}:{}", port.unwrap_or(80));
        Ok(Server { authority, path: path.to_owned() })
    }
}

/// The two parts of an authority; `None` if it has more than these, such as a user.
fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
        _ => (authority, None),
    };
    // The host is printed inside of a command, so nothing that a shell or a program would interpret may be in it.
    let is_safe = !host.is_empty() && !host.starts_with('-') && (is_bare_name(host) || is_v6_address(host));
    is_safe.then_some((host, port))
}

fn is_bare_name(host: &str) -> bool {
    host.chars().all(|character| character.is_alphanumeric() || "-._".contains(character))
}

/// Such as `[::1]`.
fn is_v6_address(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// The host as an address of this machine's loopback; `None` if it is elsewhere. A name is not looked up.
fn own_address(host: &str) -> Option<String> {
    if host.eq_ignore_ascii_case("localhost") {
        return Some("127.0.0.1".to_owned());
    }
    let is_own = host == "[::1]" || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    is_own.then(|| host.to_owned())
}

/// Why another machine is not asked, and how its server is brought here.
fn way_there(host: &str, port: Option<u16>) -> String {
    let there = port.unwrap_or(USUAL_PORT);
    // A port below 1024 can be opened by root alone.
    let here = if there < 1024 { USUAL_PORT } else { there };
    let mut labels = host.split('.');
    let service = labels.next().unwrap_or(host);
    let (namespace, service) = match (labels.next(), labels.next()) {
        // Such as prometheus.monitoring.svc.cluster.local.
        (Some(namespace), Some("svc")) => (format!("-n {namespace} "), service),
        (None, _) => (String::new(), service),
        _ => ("-n NAMESPACE ".to_owned(), "SERVICE"),
    };
    let ssh_host = host.trim_start_matches('[').trim_end_matches(']');
    format!(
        "only a server of this machine is asked: run `ssh -N -L {here}:localhost:{there} {ssh_host}`, in Kubernetes \
         `kubectl {namespace}port-forward svc/{service} {here}:{there}`, and give http://127.0.0.1:{here}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(String, String), String> {
        text.parse().map(|server: Server| (server.authority, server.path))
    }

    #[test]
    fn a_server_of_this_machine_is_taken_with_its_prefix() {
        let cases = [
            ("http://127.0.0.1:9090", "127.0.0.1:9090", ""),
            ("http://localhost:9090/", "127.0.0.1:9090", ""),
            ("HTTP://LocalHost", "127.0.0.1:80", ""),
            ("http://[::1]:9090/graph", "[::1]:9090", ""),
            ("http://127.0.0.2:8481/select/0/prometheus/api/v1/", "127.0.0.2:8481", "/select/0/prometheus"),
        ];
        for (text, authority, path) in cases {
            assert_eq!(parsed(text), Ok((authority.to_owned(), path.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_this_machine_is_refused() {
        for text in [
            "127.0.0.1:9090",
            "http://",
            "http://:9090",
            "http://127.0.0.1:9090@evil.example/",
            "http://127.0.0.1@evil.example:9090/",
            "http://127.0.0.1.evil.example:9090",
            "http://localhost.evil.example",
            "http://0.0.0.0:9090",
            "http://127.1:9090",
            "http://[::ffff:127.0.0.1]:9090",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:9090?x=/",
            "http://127.0.0.1:9090/a?b",
            "http://127.0.0.1:9090/%2e%2e/",
            "http://-oProxyCommand=x:1",
            "http://$(reboot):9090",
            "https://127.0.0.1:9090",
            "ftp://127.0.0.1",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn another_machine_is_refused_with_the_commands_that_lead_there() {
        let refused = parsed("http://prom.lab:9091/x").unwrap_err();
        assert!(refused.contains("ssh -N -L 9091:localhost:9091 prom.lab`"), "{refused}");
        assert!(refused.contains("http://127.0.0.1:9091"), "{refused}");
        let refused = parsed("http://prometheus-server.monitoring.svc.cluster.local:80").unwrap_err();
        assert!(refused.contains("kubectl -n monitoring port-forward svc/prometheus-server 9090:80`"), "{refused}");
        let refused = parsed("https://[2001:db8::7]").unwrap_err();
        assert!(refused.contains("9090:localhost:9090 2001:db8::7`"), "{refused}");
    }
}
