//! Where a hub is, and the word that opens it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The port of a hub that was not told another one.
pub const HUB_PORT: u16 = 7077;

/// A hub that agents report to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    /// Where it listens.
    pub address: SocketAddr,
    /// The same as HTTP writes it.
    pub host: String,
    /// What stands before its paths, where a proxy wants that; without a slash at its end.
    pub prefix: String,
}

impl FromStr for HubAddress {
    type Err = String;

    /// Reads `http://ADDRESS[:PORT][/PREFIX]`. Names are not looked up: that may take long, and an agent must not wait.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.starts_with("https:") {
            return Err(
                "an agent speaks no TLS; name a hub or a proxy on this machine by http://127.0.0.1:PORT".to_owned()
            );
        }
        let rest = text.strip_prefix("http://").ok_or("it must look like http://127.0.0.1:7077")?;
        let (host, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let address = read_address(host)
            .ok_or("it must hold an IP address, because an agent looks no names up; `neurogc run --hub` does")?;
        if !prefix.bytes().all(|byte| byte.is_ascii_graphic()) || prefix.contains(['?', '#']) {
            return Err("the path in it must be plain".to_owned());
        }
        Ok(Self { address, host: address.to_string(), prefix: prefix.trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for HubAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "http://{}{}", self.host, self.prefix)
    }
}

fn read_address(host: &str) -> Option<SocketAddr> {
    if let Ok(address) = host.parse() {
        return Some(address);
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && !port.ends_with(']') => (name, port.parse().ok()?),
        _ => (host, HUB_PORT),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let ip = if name == "localhost" { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { name.parse().ok()? };
    Some(SocketAddr::new(ip, port))
}

/// A word that is not to be shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a word that can stand in a header.
    pub fn new(text: &str) -> Result<Self, String> {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
        if plain && text.len() <= 256 {
            Ok(Self(text.to_owned()))
        } else {
            Err("it may hold letters, digits and -._~ only, 256 at most".to_owned())
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The word itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(if self.is_empty() { "none" } else { "hidden" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let read = text.parse::<HubAddress>().map(|hub| format!("{} {:?}", hub.host, hub.prefix));
        assert!(read.clone().unwrap_or_else(|error| error).contains(expect), "{text}: {read:?}");
    }

    #[test]
    fn addresses_are_read() {
        check("http://127.0.0.1:8000", "127.0.0.1:8000 \"\"");
        check("http://10.1.2.3", "10.1.2.3:7077 \"\"");
        check("http://localhost/", "127.0.0.1:7077 \"\"");
        check("http://[::1]:80/gc/", "[::1]:80 \"/gc\"");
        check("http://[::1]", "[::1]:7077");
        check("https://10.1.2.3", "speaks no TLS");
        check("http://hub.example", "looks no names up");
        check("10.1.2.3:7077", "must look like");
        check("http://10.1.2.3/a b", "must be plain");
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("abcdef")), "Ok(hidden)");
        assert!(Secret::new("a\r\nb").is_err());
    }
}
