//! The dashboard's files, which the hub carries with it.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

/// What is of no kind that a page is made of.
const OTHER: &str = "application/octet-stream";

type Asset = (&'static str, &'static [u8]);

/// Path and bytes of each, from `dashboard/dist`.
const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

const WITHOUT: &str = "<!doctype html><title>NeuroGC</title><p>This hub was built without its dashboard. \
    The API is at <a href=\"/api/v1/processes\">/api/v1/processes</a>.";

/// A file, or the page for every path that is none: its views have paths of their own.
pub(crate) fn serve(path: &str, headers: &HeaderMap) -> Response {
    let find = |path: &str| ASSETS.iter().find(|(name, _)| *name == path);
    // Names of processes hold dots, too.
    let looks_like_a_file = content_type(path) != OTHER;
    match find(path).or_else(|| if looks_like_a_file { None } else { find("/index.html") }) {
        Some(asset) => answer(asset, headers),
        None if looks_like_a_file => StatusCode::NOT_FOUND.into_response(),
        None => Html(WITHOUT).into_response(),
    }
}

fn answer((name, bytes): &Asset, headers: &HeaderMap) -> Response {
    let tag = tag(bytes);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let head = [(header::ETAG, tag), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if known {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, [(header::CONTENT_TYPE, content_type(name))], *bytes).into_response()
}

fn tag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_the_page_and_a_missing_file_is_missing() {
        let headers = HeaderMap::new();
        assert_eq!(serve("/process/web-1", &headers).status(), StatusCode::OK);
        assert_eq!(serve("/nothing.js", &headers).status(), StatusCode::NOT_FOUND);
        assert_eq!(serve("/process/web-1.example-7-9", &headers).status(), StatusCode::OK);
    }
}
