//! How services say that they do not serve an address. Pure.

use std::fmt::Write;

use hyper::{HeaderMap, StatusCode};

use crate::outcome::printable;

/// Sentences of the large networks' block pages, in lower case.
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
/// How the large networks ask for a proof of being human, in lower case.
const CHALLENGES: [&str; 9] = [
    "<title>just a moment...</title>",
    "/cdn-cgi/challenge-platform/",
    "attention required! | cloudflare",
    "captcha-delivery.com",
    "px-captcha",
    "_incapsula_resource",
    "g-recaptcha",
    "hcaptcha.com",
    "awswafintegration",
];
/// Headers that say who answered in whose place.
const EVIDENCE: [&str; 4] = ["server", "cf-mitigated", "cf-ray", "x-amz-cf-pop"];

/// The sentence of a known block page, if the body holds one.
pub(super) fn page(body: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(body).to_lowercase();
    PAGES.into_iter().find(|sentence| text.contains(sentence))
}

/// What shows that a proof of being human is wanted, if anything does. The statuses are those
/// that such pages come with; a page that is served may hold a form of that kind anywhere.
pub(super) fn challenge(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<&'static str> {
    if !matches!(status.as_u16(), 401 | 403 | 405 | 429 | 503) {
        return None;
    }
    let mitigated = headers
        .get("cf-mitigated")
        .or_else(|| headers.get("x-amzn-waf-action"));
    if mitigated.is_some_and(|value| value == "challenge" || value == "captcha") {
        return Some("a challenge, as the answer itself says");
    }
    let text = String::from_utf8_lossy(body).to_lowercase();
    CHALLENGES.into_iter().find(|mark| text.contains(mark))
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

#[cfg(test)]
mod tests {
    use super::{HeaderMap, StatusCode, challenge, page};

    #[test]
    fn blocks_and_challenges_are_told_apart() {
        let none = HeaderMap::new();
        let geo = b"<p>not available in your COUNTRY</p>";
        let human = b"<html><title>Just a moment...</title>";
        assert!(page(geo).is_some() && page(human).is_none());
        let asked = |status, body: &[u8]| challenge(status, &none, body).is_some();
        assert!(asked(StatusCode::FORBIDDEN, human) && !asked(StatusCode::FORBIDDEN, geo));
        assert!(asked(StatusCode::SERVICE_UNAVAILABLE, human));
        assert!(!asked(StatusCode::NOT_FOUND, human));
        let mut headers = HeaderMap::new();
        headers.insert("cf-mitigated", "challenge".parse().unwrap());
        assert!(challenge(StatusCode::FORBIDDEN, &headers, b"").is_some());
    }
}
