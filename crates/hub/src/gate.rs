//! Who may ask: the token, the name by which the hub was called, and the page that a request comes from.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Method, Uri, header};

use crate::api::ApiError;

/// The subprotocol that browsers ask for, and the one that carries the token beside it.
pub(crate) const PROTOCOL: &str = "neurogc.v1";
const TOKEN_PROTOCOL: &str = "token.";

/// Who gets in.
pub(crate) struct Gate {
    token: Option<String>,
    listen: SocketAddr,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not derived: the token is never shown.
        to.debug_struct("Gate").field("listen", &self.listen).finish_non_exhaustive()
    }
}

impl Gate {
    pub(crate) fn new(token: Option<String>, listen: SocketAddr) -> Self {
        Self { token, listen }
    }

    pub(crate) fn wants_token(&self) -> bool {
        self.token.is_some()
    }

    /// Lets a request in or says why not.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        // With a token a foreign page that has found a name for this address still knows no token.
        if self.token.is_none() && !self.is_own_name(host) {
            let message = "without a token the hub answers to localhost and its own address only";
            return Err(ApiError::forbidden(message));
        }
        let upgrades = headers.contains_key(header::UPGRADE);
        if (upgrades || !matches!(*method, Method::GET | Method::HEAD)) && !comes_from_here(headers, host) {
            return Err(ApiError::forbidden("cross-origin request refused"));
        }
        let guarded = uri.path().starts_with("/api") || uri.path() == "/metrics";
        match &self.token {
            Some(token) if guarded && !given(headers).is_some_and(|given| is_same(given, token)) => {
                Err(ApiError::unauthorized())
            }
            _ => Ok(()),
        }
    }

    fn is_own_name(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let own = |ip: IpAddr| ip.is_loopback() || ip == self.listen.ip();
        name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(own)
    }
}

/// Programs send no `Origin`; browsers send the one of the page.
fn comes_from_here(headers: &HeaderMap, host: &str) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let origin = origin.to_str().unwrap_or_default();
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

fn given(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    bearer.or_else(|| {
        let protocols = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
        protocols.split(',').find_map(|protocol| protocol.trim().strip_prefix(TOKEN_PROTOCOL))
    })
}

/// Compares in a time that does not tell how much of it was right.
fn is_same(given: &str, token: &str) -> bool {
    let (given, token) = (given.as_bytes(), token.as_bytes());
    let differences = token.iter().enumerate().fold(u8::from(given.len() != token.len()), |found, (place, byte)| {
        found | (byte ^ given.get(place).copied().unwrap_or(0))
    });
    std::hint::black_box(differences) == 0
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn check(token: Option<&str>, method: Method, path: &str, pairs: &[(&str, &str)], expect: bool) {
        let gate = Gate::new(token.map(str::to_owned), "127.0.0.1:7077".parse().unwrap());
        let headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| (name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        let checked = gate.check(&method, &path.parse().unwrap(), &headers);
        assert_eq!(checked.is_ok(), expect, "{method} {path} {pairs:?}");
    }

    #[test]
    fn a_name_that_somebody_has_given_this_address_is_refused() {
        for (host, expect) in [
            ("localhost:7077", true),
            ("127.0.0.1:7077", true),
            ("[::1]:7077", true),
            ("LOCALHOST", true),
            ("evil.example:7077", false),
            ("localhost.evil.example", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            check(None, Method::GET, "/api/v1/hub", &[("host", host)], expect);
        }
        check(Some("secret"), Method::GET, "/", &[("host", "hub.example")], true);
    }

    #[test]
    fn pages_of_others_change_nothing_and_listen_to_nothing() {
        let host = ("host", "localhost:7077");
        for (origin, expect) in [
            ("http://localhost:7077", true),
            ("http://localhost:8000", false),
            ("http://evil.example", false),
            ("null", false),
        ] {
            let headers = [host, ("origin", origin)];
            check(None, Method::POST, "/api/v1/processes/x/policy", &headers, expect);
            check(None, Method::GET, "/api/v1/live", &[host, ("origin", origin), ("upgrade", "websocket")], expect);
        }
        check(None, Method::POST, "/api/v1/ingest", &[host], true);
        check(None, Method::GET, "/api/v1/hub", &[host, ("origin", "http://evil.example")], true);
    }

    #[test]
    fn the_token_is_shown_to_nobody() {
        let gate = Gate::new(Some("secret".to_owned()), "127.0.0.1:7077".parse().unwrap());
        assert!(!format!("{gate:?}").contains("secret"));
    }

    #[test]
    fn a_token_is_wanted_where_there_are_data() {
        let host = ("host", "hub.example");
        for (given, expect) in
            [("Bearer secret", true), ("Bearer secreu", false), ("Bearer secret2", false), ("secret", false)]
        {
            check(Some("secret"), Method::GET, "/api/v1/hub", &[host, ("authorization", given)], expect);
        }
        check(Some("secret"), Method::GET, "/metrics", &[host], false);
        check(Some("secret"), Method::GET, "/index.html", &[host], true);
        let protocols = [host, ("sec-websocket-protocol", "neurogc.v1, token.secret"), ("upgrade", "websocket")];
        check(Some("secret"), Method::GET, "/api/v1/live", &protocols, true);
    }
}
