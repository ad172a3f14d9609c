//! Who may ask: the token, the name by which the hub was called, and the page that a request comes from.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Method, Uri, header};
use neurogc_wire::report::INGEST_PATH;

use crate::api::ApiError;
use crate::tokens::{TokenRole, Tokens};

/// The subprotocol that browsers ask for, and the one that carries the token beside it.
pub(crate) const PROTOCOL: &str = "neurogc.v1";
const TOKEN_PROTOCOL: &str = "token.";

/// How long a browser keeps the token: 30 days.
const KEPT_S: u64 = 30 * 86_400;

/// Paths that tell something about processes begin with these. The rest is the page itself.
const GUARDED: [&str; 4] = ["/api", "/metrics", "/debug", "/processes"];

/// Who gets in.
#[derive(Debug)]
pub(crate) struct Gate {
    tokens: Option<Tokens>,
    listen: SocketAddr,
}

impl Gate {
    pub(crate) fn new(tokens: Option<Tokens>, listen: SocketAddr) -> Self {
        Self { tokens, listen }
    }

    pub(crate) fn wants_token(&self) -> bool {
        self.tokens.is_some()
    }

    /// Lets a request in or says why not. Gives what its token allows.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<TokenRole, ApiError> {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        // With a token a foreign page that has found a name for this address still knows no token.
        if self.tokens.is_none() && !self.is_own_name(host) {
            let message = "without a token the hub answers to localhost and its own address only";
            return Err(ApiError::forbidden(message));
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD);
        if (headers.contains_key(header::UPGRADE) || changes) && !comes_from_here(headers, host) {
            return Err(ApiError::forbidden("the request comes from a page of another server"));
        }
        let guarded = GUARDED.iter().any(|start| uri.path().starts_with(start));
        let Some(tokens) = self.tokens.as_ref().filter(|_| guarded) else { return Ok(TokenRole::Full) };
        let given = given(headers).or_else(|| self.in_cookie(headers));
        let role = match given {
            None => return Err(ApiError::unauthorized("this hub needs its token")),
            Some(given) => tokens.role(given).ok_or_else(|| ApiError::unauthorized("this is not the hub's token"))?,
        };
        let reports = uri.path() == INGEST_PATH;
        match role {
            TokenRole::Full => Ok(role),
            TokenRole::Read if !changes => Ok(role),
            TokenRole::Report if reports => Ok(role),
            TokenRole::Read => Err(ApiError::forbidden("this token may look and not order; the full token is needed")),
            TokenRole::Report => Err(ApiError::forbidden("this token is for agents that report, and for nothing else")),
        }
    }

    /// The header that has a browser keep the token which the address of the page carries, if it is right.
    pub(crate) fn cookie(&self, uri: &Uri) -> Option<Result<String, ApiError>> {
        let tokens = self.tokens.as_ref()?;
        let given = uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))?;
        Some(match tokens.role(given) {
            Some(TokenRole::Full | TokenRole::Read) => {
                let name = self.cookie_name();
                Ok(format!("{name}={given}; Path=/; Max-Age={KEPT_S}; HttpOnly; SameSite=Strict"))
            }
            _ => Err(ApiError::unauthorized("the token in the address is not the hub's")),
        })
    }

    fn in_cookie<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
        cookies.flat_map(|cookies| cookies.split(';')).find_map(|cookie| {
            let (its_name, value) = cookie.trim().split_once('=')?;
            (its_name == name).then_some(value)
        })
    }

    /// Browsers keep cookies for a host, whatever its port: another hub of this machine has another name.
    fn cookie_name(&self) -> String {
        format!("neurogc_{}", self.listen.port())
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

/// Programs send no `Origin`; browsers send the one of the page, and whether that is of the same server.
fn comes_from_here(headers: &HeaderMap, host: &str) -> bool {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return false;
    }
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn gate(full: Option<&str>) -> Gate {
        let tokens =
            full.map(|full| Tokens { full: full.to_owned(), read: "looker".to_owned(), report: "agents".to_owned() });
        Gate::new(tokens, "127.0.0.1:7077".parse().unwrap())
    }

    fn check(token: Option<&str>, method: Method, path: &str, pairs: &[(&str, &str)], expect: bool) {
        let gate = gate(token);
        let headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| (name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        let checked = gate.check(&method, &path.parse().unwrap(), &headers);
        assert_eq!(checked.is_ok(), expect, "{method} {path} {pairs:?}");
    }

    #[test]
    fn a_foreign_name_of_this_address_is_refused() {
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
    fn the_token_is_never_shown() {
        assert!(!format!("{:?}", gate(Some("secret"))).contains("secret"));
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

    #[test]
    fn a_token_allows_what_it_is_for() {
        let (order, hub) = ("/api/v1/processes/x/policy", "/api/v1/hub");
        for (token, looks, orders, reports) in
            [("secret", true, true, true), ("looker", true, false, false), ("agents", false, false, true)]
        {
            let bearer = format!("Bearer {token}");
            let headers = [("host", "hub.example"), ("authorization", bearer.as_str())];
            check(Some("secret"), Method::GET, hub, &headers, looks);
            check(Some("secret"), Method::GET, "/metrics", &headers, looks);
            check(Some("secret"), Method::POST, order, &headers, orders);
            check(Some("secret"), Method::DELETE, "/api/v1/recordings/x", &headers, orders);
            check(Some("secret"), Method::POST, INGEST_PATH, &headers, reports);
        }
    }

    #[test]
    fn a_browser_keeps_the_token_of_the_address_in_a_cookie() {
        let cookie = |path: &str| gate(Some("secret")).cookie(&path.parse().unwrap()).map(Result::ok);
        let kept = cookie("/?x=1&token=secret").flatten().unwrap();
        assert!(kept.starts_with("neurogc_7077=secret; ") && kept.ends_with("; HttpOnly; SameSite=Strict"), "{kept}");
        assert!(cookie("/?token=looker").flatten().is_some());
        assert_eq!((cookie("/?token=agents"), cookie("/?token=x"), cookie("/")), (Some(None), Some(None), None));
        assert!(gate(None).cookie(&"/?token=x".parse().unwrap()).is_none());
        let host = ("host", "localhost:7077");
        for (cookie, expect) in [
            ("neurogc_7077=secret", true),
            ("a=b; neurogc_7077=looker", true),
            ("neurogc_7078=secret", false),
            ("neurogc_7077=", false),
        ] {
            check(Some("secret"), Method::GET, "/api/v1/hub", &[host, ("cookie", cookie)], expect);
        }
        // A page of another server on this machine is of the same site for a browser, and has its cookies sent.
        let order = "/api/v1/processes/x/policy";
        let cookie = ("cookie", "neurogc_7077=secret");
        for (site, expect) in [("same-origin", true), ("same-site", false), ("cross-site", false)] {
            check(Some("secret"), Method::POST, order, &[host, cookie, ("sec-fetch-site", site)], expect);
        }
    }
}
