//! Owns IPv4, IPv6 and MAC addresses. Those that every machine has (127.0.0.1, ::1, 0.0.0.0) stay, and so do versions
//! with four parts, which the text before them tells from addresses.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::table::{Pattern, group, table};

const IP: &str = "IP";
const MAC: &str = "MAC";
/// Bytes before an address that are read.
const BEFORE: usize = 48;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    v4: Pattern,
    v6: Pattern,
    macs: Pattern,
    told: Pattern,
    version: Pattern,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| table("addresses"));

/// The text without addresses.
pub(super) fn left_out(text: &str) -> String {
    let text = TABLE.macs.replace(text, |found| {
        let all = found.get(0)?;
        // Six pairs of digits with dashes may be a date or part of a longer name.
        let sure = group(found, "dashed").is_none_or(|mac| mac.bytes().any(|byte| byte.is_ascii_alphabetic()));
        (sure && alone(text, all.range(), &[':', '-'])).then(|| MAC.to_owned())
    });
    let text = TABLE.v6.replace(&text, |found| {
        let all = found.get(0)?;
        // A colon at the end belongs to the sentence: "fe80::1: unreachable".
        let bare = all.as_str().trim_end_matches(':');
        let address: Ipv6Addr = bare.split('%').next()?.parse().ok()?;
        let groups = bare.split(':').filter(|group| !group.is_empty()).count();
        let first = address.segments().first().copied().unwrap_or(0);
        // `c10::` and `add::fade` are names of C++.
        let four = address.to_ipv4_mapped();
        let same_everywhere = four.is_some_and(|four| four.is_loopback());
        let sure = groups >= 3 || four.is_some() || matches!(first, 0x2000..0x4000 | 0xfc00..0xff00) && groups >= 2;
        let rest = all.as_str().get(bare.len()..)?;
        (sure && !same_everywhere && alone(&text, all.range(), &['.'])).then(|| format!("{IP}{rest}"))
    });
    TABLE.v4.replace(&text, |found| {
        let all = found.get(0)?;
        let address: Ipv4Addr = all.as_str().parse().ok()?;
        let same_everywhere = address.is_loopback() || address.is_unspecified() || address.is_broadcast();
        (!same_everywhere && is_address(&text, all.range(), address)).then(|| IP.to_owned())
    })
}

fn is_address(text: &str, at: Range<usize>, address: Ipv4Addr) -> bool {
    if !alone(text, at.clone(), &['.', '_']) {
        return false;
    }
    let from = text.ceil_char_boundary(at.start.saturating_sub(BEFORE));
    let line = text.get(from..at.start).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
    let behind = text.get(at.end..).unwrap_or_default();
    let with_port = behind.strip_prefix(':').is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()));
    let [first, second, ..] = address.octets();
    // Versions do not have the numbers of private networks.
    let private = matches!((first, second), (192, 168) | (172, 16..=31) | (169, 254) | (100, 64..=127));
    if private {
        return !line.ends_with("==");
    }
    let told =
        with_port || TABLE.told.is_match(line) || [" port ", " - - [", "/"].iter().any(|sign| behind.starts_with(sign));
    told && !line.ends_with("==") || first == 10 && !TABLE.version.is_match(line)
}

/// Whether this is not part of a longer word, nor of one joined by these signs.
fn alone(text: &str, at: Range<usize>, signs: &[char]) -> bool {
    let before = text.get(..at.start).and_then(|before| before.chars().next_back());
    let mut behind = text.get(at.end..).unwrap_or_default().chars();
    let (after, next) = (behind.next(), behind.next());
    let begins = before.is_none_or(|c| !c.is_alphanumeric() && !signs.contains(&c));
    // A full stop ends a sentence, but before a letter or a digit it belongs to the word.
    let is_sign_within = next.is_some_and(char::is_alphanumeric);
    let ends = after.is_none_or(|c| !(c.is_alphanumeric() || signs.contains(&c) && is_sign_within));
    begins && ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go() {
        for (text, want) in [
            ("connect to 192.168.17.44 from 10.0.0.3.", "connect to IP from IP."),
            ("tcp://10.0.0.3:29500, /172.17.0.2:80", "tcp://IP:29500, /IP:80"),
            ("MASTER_ADDR=10.1.2.3 (IP: 172.24.0.226)", "MASTER_ADDR=IP (IP: IP)"),
            ("(pid=12, ip=10.0.0.3) x", "(pid=12, ip=IP) x"),
            ("Accepted publickey from 203.0.113.9 port 52111", "Accepted publickey from IP port 52111"),
            ("203.0.113.9 - - [26/May/2026]", "IP - - [26/May/2026]"),
            ("client 8.8.4.4 or peer: \"8.8.4.4\"", "client IP or peer: \"IP\""),
            (
                "inet 203.0.113.9/24 brd 203.0.113.255, X-Forwarded-For: 203.0.113.9",
                "inet IP/24 brd IP, X-Forwarded-For: IP",
            ),
            ("fe80::1ff:fe23:4567:890a%eth0 and 2001:db8::7, [fd00::3]:29500", "IP and IP, [IP]:29500"),
            ("fe80::1: unreachable", "IP: unreachable"),
            ("::ffff:10.0.0.3 said", "IP said"),
            ("link/ether 3c:ec:ef:12:34:56 brd ff:ff:ff:ff:ff:ff", "link/ether MAC brd MAC"),
            ("3C-EC-EF-12-34-56", "MAC"),
        ] {
            assert_eq!(left_out(text), want);
        }
    }

    #[test]
    fn what_only_looks_like_an_address_stays() {
        for text in [
            "http://127.0.0.1:7860 ::ffff:127.0.0.1 ::1 [::1]:80 0.0.0.0:8000 255.255.255.255 ::",
            "driver 570.124.06, CUDA 12.8.1, 550.54.15",
            "nvidia-cublas-cu12==12.8.4.1 nvidia-curand-cu12      10.3.9.90 nvidia-cudnn-cu12 9.10.2.21",
            "libcudnn.so.8.9.2.26 TensorRT 8.6.1.6 CUDA Version: 10.1.243.1 tensorrt v10.0.1.6",
            "Chrome/148.0.0.0 Safari/537.36 Edg/148.0.0.0 version 1.2.3.4, from 1.2.3.4 to 1.2.3.5",
            "2026-11-21 10:20:30 12:34:56.789 00000000:65:00.0 0000:01:00.0 at 0x7f3117e6c0c5",
            "c10::cuda::CUDACachingAllocator std::fade c10::add::bad torch.Size([10, 0, 0, 3]) a[::2] x[1::2]",
            "GPU-8f3b1c2a-1234-5678-9abc-def012345678 2026-11-21-10-20-30 20-11-21-10-20-30",
        ] {
            assert_eq!(left_out(text), text);
        }
    }
}
