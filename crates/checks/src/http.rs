//! HTTP and HTTPS: a real request over HTTP/1.1 or HTTP/2, certificate judged, redirects followed
//! within the family. Latency is the time from the request to the first byte of the final answer.

use std::net::IpAddr;
use std::time::Duration;

use civ_types::Family;
use hyper::StatusCode;
use url::Url;

use crate::EchoError;
use crate::engine::{Check, family_of};
use crate::limits::Budget;
use crate::net::Reach;
use crate::options::Options;
use crate::outcome::{Code, Fault, Hop, Seen, Trail, millis, printable};
use crate::policy::Policy;
use crate::target::Kind;
use crate::trust::Trust;

mod block;
mod first_byte;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod h2;
mod request;
mod signature;

use request::{Page, Request};
pub use signature::Signature;

/// Most redirects of one check.
const REDIRECTS_MAX: usize = 5;
/// Most body of one answer that is read, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Most body of an IP-echo service, in bytes: an address has 45.
const ECHO_BYTES_MAX: usize = 256;
/// Longest URL in a detail, in bytes.
const URL_SHOWN_MAX: usize = 200;

/// Requests the URL and judges the final status.
pub(crate) async fn probe(
    check: &Check,
    reach: Reach<'_>,
    trust: &Trust,
    budget: &Budget,
    trail: &mut Trail,
) -> Result<Seen, Fault> {
    let url = check.target.url(check.kind);
    let mut url = url.map_err(|e| Fault::new(Code::Internal, e.to_string()))?;
    let mut hops = String::new();
    for _hop in 0..=REDIRECTS_MAX {
        let request = Request {
            url: &url,
            reach,
            body_max: BODY_BYTES_MAX,
            insecure: check.options.insecure,
            trust,
        };
        let page = request.send(budget, trail).await;
        let page = page.map_err(|fault| fault.context(&format!("{}{hops}", shown(&url))))?;
        // A redirect could lead to the right one from anywhere.
        if let Some(signature) = &check.options.signature {
            return signature.judge(&url, &page);
        }
        let wanted = check.options.expect_status == Some(page.status.as_u16());
        let Some(location) = page.location().filter(|_| !wanted) else {
            return judge(&url, &page, &hops, &check.options);
        };
        let next = next_url(&url, location)?;
        trail.hop(Hop {
            status: page.status.as_u16(),
            url: shown(&url),
            address: page.peer,
        });
        hops.push_str(&format!(" via {} {}", page.status.as_u16(), shown(&url)));
        url = next;
    }
    let facts = format!("more than {REDIRECTS_MAX}{hops} to {}", shown(&url));
    Err(Fault::new(Code::TooManyRedirects, printable(&facts, 900)))
}

fn shown(url: &Url) -> String {
    printable(url.as_str(), URL_SHOWN_MAX)
}

/// The target of a redirect, if it is one that can be followed.
fn next_url(url: &Url, location: &str) -> Result<Url, Fault> {
    let bad = |why: String| {
        let location = printable(location, URL_SHOWN_MAX);
        Fault::new(Code::NotHttp, format!("redirect to {location:?}: {why}"))
    };
    let next = url.join(location).map_err(|e| bad(e.to_string()))?;
    if kind_of(&next).is_none() || next.host().is_none() {
        return Err(bad("neither http nor https".to_owned()));
    }
    Ok(next)
}

/// The check that a URL's scheme stands for.
fn kind_of(url: &Url) -> Option<Kind> {
    match url.scheme() {
        "http" => Some(Kind::Http),
        "https" => Some(Kind::Https),
        _ => None,
    }
}

/// Below 400 passes, unless something else is expected; a service that refuses the address, or
/// wants to see a human, is told apart from one that is down.
fn judge(url: &Url, page: &Page, hops: &str, options: &Options) -> Result<Seen, Fault> {
    let status = page.status;
    let latency = page.first_byte;
    let facts = format!(
        "{} {} first_byte={} body={}{} {}{hops}",
        status.as_u16(),
        shown(url),
        millis(latency),
        page.body.len(),
        if page.cut { "+" } else { "" },
        page.facts,
    );
    let passes = match options.expect_status {
        Some(expected) => status.as_u16() == expected,
        None => status.as_u16() < 400,
    };
    let unmatched = options
        .expect_body
        .as_ref()
        .filter(|p| !p.is_in(&page.body));
    let (code, facts) = match (passes, unmatched) {
        (true, None) => return Ok(Seen { latency, facts }),
        (true, Some(pattern)) => {
            let pattern = printable(pattern.as_str(), URL_SHOWN_MAX);
            let facts = format!("no {pattern:?} in what was read: {facts}");
            (Code::BodyMismatch, facts)
        }
        (false, _) => refused(page, &facts),
    };
    Err(Fault {
        code,
        facts,
        latency: Some(latency),
    })
}

/// Why a status is none that passes.
fn refused(page: &Page, facts: &str) -> (Code, String) {
    let facts = format!("{facts}{}", block::evidence(&page.headers));
    let blocked = match page.status {
        StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS => Some("status 451"),
        StatusCode::FORBIDDEN => block::page(&page.body),
        _ => None,
    };
    if let Some(marker) = blocked {
        return (Code::HttpGeoBlocked, format!("{marker:?} {facts}"));
    }
    match block::challenge(page.status, &page.headers, &page.body) {
        Some(marker) => (Code::HttpChallenge, format!("{marker:?} {facts}")),
        None => (Code::HttpStatus(page.status.as_u16()), facts),
    }
}

/// See [`crate::Engine::echo`].
pub(crate) async fn echo(
    trust: &Trust,
    url: &str,
    source: Option<IpAddr>,
    family: Family,
    timeout: Duration,
) -> Result<IpAddr, EchoError> {
    let bad_url = |why: &str| EchoError::Url(url.to_owned(), why.to_owned());
    let parsed = Url::parse(url).map_err(|e| bad_url(&e.to_string()))?;
    if kind_of(&parsed).is_none() || parsed.host().is_none() {
        return Err(bad_url("the scheme must be http or https"));
    }
    // The service is named by the operator of this host, so it may be next door.
    let policy = Policy::anywhere();
    let request = Request {
        url: &parsed,
        reach: Reach {
            source,
            family,
            policy: &policy,
        },
        body_max: ECHO_BYTES_MAX,
        insecure: false,
        trust,
    };
    let mut trail = Trail::default();
    let page = Box::pin(request.send(&Budget::start(timeout), &mut trail)).await;
    let page = page.map_err(|fault| EchoError::Unanswered {
        code: fault.code,
        detail: printable(&fault.facts, URL_SHOWN_MAX * 2),
    })?;
    let body = String::from_utf8_lossy(&page.body);
    if page.status != StatusCode::OK {
        return Err(EchoError::Status {
            status: page.status.as_u16(),
            body: printable(&body, ECHO_BYTES_MAX),
        });
    }
    let address = if page.cut {
        None
    } else {
        echoed(&body, family)
    };
    address.ok_or_else(|| EchoError::NotAnAddress(printable(&body, ECHO_BYTES_MAX)))
}

/// Exactly one address of the family, plain or as member `ip` of a JSON object.
fn echoed(body: &str, family: Family) -> Option<IpAddr> {
    let body = body.trim();
    let ip: IpAddr = match body.parse() {
        Ok(ip) => ip,
        Err(_) => {
            let json: serde_json::Value = serde_json::from_str(body).ok()?;
            json.as_object()?.get("ip")?.as_str()?.trim().parse().ok()?
        }
    };
    // A dual-stack service may show an IPv4 client as ::ffff:192.0.2.1.
    let ip = ip.to_canonical();
    (family_of(ip) == family).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::{Family, Url, echoed, next_url};

    #[test]
    fn exactly_one_address_is_taken() {
        let v4 = |text: &str| echoed(text, Family::V4).map(|ip| ip.to_string());
        assert_eq!(v4(" 203.0.113.7\n").as_deref(), Some("203.0.113.7"));
        assert_eq!(v4("::ffff:203.0.113.7").as_deref(), Some("203.0.113.7"));
        assert_eq!(
            v4(r#"{"ip":"203.0.113.7","x":1}"#).as_deref(),
            Some("203.0.113.7")
        );
        for wrong in [
            "",
            "203.0.113.7 203.0.113.8",
            "<p>203.0.113.7</p>",
            "203.0.113",
            "2001:db8::1",
            r#"{"address":"203.0.113.7"}"#,
            r#"["203.0.113.7"]"#,
            r#""203.0.113.7""#,
        ] {
            assert_eq!(v4(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn redirects_stay_on_the_web() {
        let from = Url::parse("https://a.test/x/y").unwrap();
        assert_eq!(next_url(&from, "z").unwrap().as_str(), "https://a.test/x/z");
        assert_eq!(
            next_url(&from, "//b.test").unwrap().as_str(),
            "https://b.test/"
        );
        assert!(next_url(&from, "ftp://b.test/").is_err());
        assert!(next_url(&from, "file:///etc/passwd").is_err());
    }
}
