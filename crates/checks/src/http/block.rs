//! How services say that they do not serve an address. Pure.

use std::fmt::Write;

use hyper::HeaderMap;

use crate::outcome::printable;

/// Sentences of the large networks' block pages, in lower case. Bot challenges are not among
/// them: they say nothing about the region of an address, and show as evidence instead.
const PAGES: [&str; 5] = [
    // Cloudflare 1009.
    "banned the country or region your ip address is in",
    "error code: 1009",
    // CloudFront.
    "configured to block access from your country",
    // Common wording.
    "not available in your country",
    "not available in your region",
];
/// Headers that say who answered in whose place.
const EVIDENCE: [&str; 4] = ["server", "cf-mitigated", "cf-ray", "x-amz-cf-pop"];

/// The sentence of a known block page, if the body holds one.
pub(super) fn page(body: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(body).to_lowercase();
    PAGES.into_iter().find(|sentence| text.contains(sentence))
}

/// ` server="cloudflare" cf-mitigated="challenge"`.
pub(super) fn evidence(headers: &HeaderMap) -> String {
    let mut out = String::new();
    for name in EVIDENCE {
        if let Some(value) = headers.get(name) {
            let value = printable(&String::from_utf8_lossy(value.as_bytes()), 64);
            // Writing to a String cannot fail.
            let _infallible = write!(out, " {name}={value:?}");
        }
    }
    out
}
