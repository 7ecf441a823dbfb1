//! Closed lists of words and bounded texts of the contract, as schemas of the OpenAPI document.
//!
//! The words stand here as the contract spells them; a test of control-api holds them against the
//! domain, which this crate does not know.

use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{Object, SchemaFormat};

/// States of an address in the queue.
pub const IP_STATES: [&str; 8] = [
    "queued",
    "assigning_fip",
    "awaiting_self_check",
    "checking",
    "aggregating",
    "done",
    "failed",
    "occupied",
];

/// Results of an address; an open one has the empty text instead.
pub const RESULTS: [&str; 4] = ["pass", "partial", "fail", "cancelled"];

/// States of a validator.
pub const VALIDATOR_STATES: [&str; 5] = [
    "unregistered",
    "idle",
    "assigned",
    "checking",
    "unreachable",
];

/// States of a site.
pub const SITE_STATES: [&str; 3] = ["unregistered", "idle", "unreachable"];

/// States of a scan.
pub const SCAN_STATES: [&str; 7] = [
    "idle",
    "clearing",
    "listing",
    "enqueuing",
    "done",
    "error",
    "cancelled",
];

/// Phases of the auto-cycle.
pub const CYCLE_PHASES: [&str; 3] = ["idle", "running", "waiting"];

/// Ends of a round of the auto-cycle.
pub const CYCLE_OUTCOMES: [&str; 5] = ["completed", "no_free_ips", "timeout", "error", "stopped"];

/// How much an operator should care about an event.
pub const SEVERITIES: [&str; 3] = ["info", "warning", "error"];

/// Longest name of a validator, site or port, in characters.
pub const NAME_CHARS_MAX: usize = 128;

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> Object {
    text().enum_values(Some(words)).build()
}

/// `ok` of an answer: true, always.
#[must_use]
pub fn yes() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Boolean)
        .enum_values(Some([true]))
        .description(Some("Always true: a failure is an error."))
        .build()
}

/// A state of an address.
#[must_use]
pub fn ip_state() -> Object {
    one_of(IP_STATES)
}

/// A result, or nothing while the address is open.
#[must_use]
pub fn result() -> Object {
    one_of(["", "pass", "partial", "fail", "cancelled"])
}

/// At most 16 ports of TCP, or nothing.
#[must_use]
pub fn few_ports() -> Schema {
    let port = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(u16::MAX));
    let ports = ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .items(port)
        .max_items(Some(16));
    Schema::Array(ports.build())
}

/// A state of a validator.
#[must_use]
pub fn validator_state() -> Object {
    one_of(VALIDATOR_STATES)
}

/// A state of an address, or nothing for one that is out of the queue.
#[must_use]
pub fn current_state() -> Object {
    one_of([""].into_iter().chain(IP_STATES))
}

/// A state of a site.
#[must_use]
pub fn site_state() -> Object {
    one_of(SITE_STATES)
}

/// How far a scan is.
#[must_use]
pub fn scan_state() -> Object {
    one_of(SCAN_STATES)
}

/// Where the auto-cycle is.
#[must_use]
pub fn cycle_phase() -> Object {
    one_of(CYCLE_PHASES)
}

/// How the last round of the auto-cycle ended, or nothing before the first end.
#[must_use]
pub fn cycle_outcome() -> Object {
    one_of([""].into_iter().chain(CYCLE_OUTCOMES))
}

/// Where a check looks from.
#[must_use]
pub fn source() -> Object {
    one_of(["egress", "inbound"])
}

/// How much an operator should care.
#[must_use]
pub fn severity() -> Object {
    one_of(SEVERITIES)
}

/// A name of 1 to 128 characters, without control characters and slashes.
#[must_use]
pub fn name() -> Object {
    text()
        .min_length(Some(1))
        .max_length(Some(NAME_CHARS_MAX))
        // At least one character that is neither white space nor forbidden.
        .pattern(Some(concat!(
            r"^[^/\u0000-\u001f\u007f-\u009f]*",
            r"[^/\s\u0000-\u001f\u007f-\u009f]",
            r"[^/\u0000-\u001f\u007f-\u009f]*$"
        )))
        .description(Some(
            "A name of 1 to 128 characters, without control characters and slashes.",
        ))
        .build()
}

/// A check type: lower-case letters, digits, `-` and `_`.
#[must_use]
pub fn check_name() -> Object {
    text()
        .pattern(Some("^[a-z0-9_-]{1,64}$"))
        .examples(["https", "icmp", "tcp-443"])
        .description(Some("The check type."))
        .build()
}

/// A check type that agents know.
#[must_use]
pub fn egress_check() -> Object {
    text()
        .pattern(Some(format!(
            "^(icmp|tcp|ssh|tls|https|http|dns|(tcp|tls|closed)-{PORT})$"
        )))
        .examples(["https", "icmp", "tcp-443"])
        .build()
}

/// Options of a check type; which of them it has depends on its name.
#[must_use]
pub fn check_options() -> Object {
    let flag = || ObjectBuilder::new().schema_type(Type::Boolean);
    let status = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(100))
        .maximum(Some(599));
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .property(
            "expect_status",
            status.description(Some(
                "`http`, `https`: the final status; else any below 400.",
            )),
        )
        .property(
            "expect_body",
            text().description(Some(
                "`http`, `https`: a regular expression that the first 64 KiB of the body match.",
            )),
        )
        .property(
            "insecure",
            flag().description(Some("`https`: the certificate is not judged.")),
        )
        .property(
            "ssh_hostkey",
            flag().description(Some(
                "`ssh`: the key exchange is completed and the host key's fingerprint reported.",
            )),
        )
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .description(Some(
            "Left out, the options stay as they are; `{}` removes them. An option that the check \
             type does not have is refused.",
        ))
        .build()
}

/// URLs, hosts or `host:port`.
#[must_use]
pub fn target_list() -> Schema {
    let entry = text().pattern(Some(r"^[^\s\u0000-\u001f\u007f-\u009f]+$"));
    let list = ArrayBuilder::new().items(entry).min_items(Some(1));
    let about = "URLs, hosts or `host:port`, at least one, without white space.";
    Schema::Array(list.description(Some(about)).build())
}

/// TCP ports, each once.
#[must_use]
pub fn port_list() -> Schema {
    let entry = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(65_535));
    let list = ArrayBuilder::new().items(entry).unique_items(true);
    let about = "TCP ports that every site checks, each once; none is a valid list.";
    Schema::Array(list.description(Some(about)).build())
}

/// Ports on which nothing is to answer; null stands for what there is.
#[must_use]
pub fn closed_port_list() -> Schema {
    let entry = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(65_535));
    let list = ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .items(entry)
        .unique_items(true);
    let about = "TCP ports on which nothing is to answer (ours), each once and none of `ports`: \
                 left out, they stay as they are; an empty list removes them.";
    Schema::Array(list.description(Some(about)).build())
}

/// A port that is not 0.
const PORT: &str =
    "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";

/// A dotted quad.
const V4: &str = concat!(
    r"((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}",
    "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
);

/// One address.
#[must_use]
pub fn ip_address() -> Schema {
    let v4 = text().pattern(Some(format!("^{V4}$"))).title(Some("IPv4"));
    let v6 = text().format(Some(SchemaFormat::Custom("ipv6".to_owned())));
    AnyOfBuilder::new().item(v4).item(v6).build().into()
}

/// Addresses, prefixes and ranges.
#[must_use]
pub fn address_list() -> Schema {
    let pattern = |pattern: String| text().pattern(Some(pattern));
    let entry = AnyOfBuilder::new()
        .item(pattern(format!("^{V4}$")).title(Some("IPv4 address")))
        .item(text().format(Some(SchemaFormat::Custom("ipv6".to_owned()))))
        .item(pattern(format!("^{V4}/(1[6-9]|2[0-9]|3[0-2])$")).title(Some("IPv4 prefix")))
        .item(pattern(format!("^{V4}-{V4}$")).title(Some("IPv4 range, the lower address first")));
    Schema::Array(ArrayBuilder::new().items(entry).min_items(Some(1)).build())
}
