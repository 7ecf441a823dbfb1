//! Owns the form of a case: what is broken, what is asked, what must be said. Pure.
//!
//! In faults, targets and options `{A}` is the case's own address of the server, `{6}` its IPv6
//! address, `{X}` the former in hexadecimal, `{N}` its number: `cN.ok.lab` is a name of it.

use std::net::Ipv4Addr;

use super::scripted::Act;

/// What is broken, on the way or at home.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// A rule of the router's forward chain.
    Router(&'static str),
    /// A rule for what the router itself sends.
    RouterOut(&'static str),
    /// A rule of the clients' output chain.
    Client(&'static str),
    /// A route of the clients, as `ip route add` takes it.
    Route(&'static str),
}

/// What the process that checks is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// An ordinary user with ping sockets.
    Ping,
    /// No ping sockets, but raw ones.
    Raw,
    /// Neither.
    Neither,
    /// May open so many descriptors.
    Descriptors(u32),
    /// Stands still while its SYN is under way.
    StandsStill,
}

/// What must be said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) verdict: &'static str,
    pub(crate) code: &'static str,
    pub(crate) stage: &'static str,
    /// Empty where nobody is.
    pub(crate) blame: &'static str,
    /// What must stand in the detail.
    pub(crate) fact: &'static str,
}

/// One fault and its check.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) faults: &'static [Fault],
    /// Who listens at port 7 of the case's address.
    pub(crate) peer: Option<Act>,
    pub(crate) asker: Asker,
    /// Check type and target.
    pub(crate) check: (&'static str, &'static str),
    pub(crate) args: &'static [&'static str],
    /// A program that a machine may lack.
    pub(crate) needs: Option<&'static str>,
    pub(crate) expected: Expected,
}

/// So little time is enough for silence.
pub(super) const SHORT: &[&str] = &["--timeout", "2"];

type Ends = (&'static str, &'static str, &'static str, &'static str);

const fn case(
    name: &'static str,
    check: (&'static str, &'static str),
    verdict: &'static str,
    (code, stage, blame, fact): Ends,
) -> Case {
    Case {
        name,
        faults: &[],
        peer: None,
        asker: Asker::Ping,
        check,
        args: &[],
        needs: None,
        expected: Expected {
            verdict,
            code,
            stage,
            blame,
            fact,
        },
    }
}

/// A case that fails with code, stage, blame and fact.
pub(super) const fn fails(
    name: &'static str,
    check: (&'static str, &'static str),
    ends: Ends,
) -> Case {
    case(name, check, "fail", ends)
}

/// The same, and it says nothing about the target.
pub(super) const fn unsure(
    name: &'static str,
    check: (&'static str, &'static str),
    ends: Ends,
) -> Case {
    case(name, check, "inconclusive", ends)
}

/// A case that passes.
pub(super) const fn passes(
    name: &'static str,
    check: (&'static str, &'static str),
    stage: &'static str,
    fact: &'static str,
) -> Case {
    case(name, check, "pass", ("ok", stage, "", fact))
}

/// The address of the case with this index.
pub(super) fn address(index: usize) -> Ipv4Addr {
    let last = u8::try_from(index + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(198, 51, 100, last)
}

/// `text` with the case's own addresses.
pub(super) fn filled(text: &str, index: usize) -> String {
    let address = address(index);
    let number = index + 1;
    text.replace("{A}", &address.to_string())
        .replace("{X}", &format!("{:#010x}", u32::from(address)))
        .replace("{6}", &format!("fd00:3::{number:x}"))
        .replace("{N}", &number.to_string())
}
