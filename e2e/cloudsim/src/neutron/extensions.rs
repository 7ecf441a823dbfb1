//! Extensions that are simulated, and none besides.

use civ_simkit::Reply;
use serde_json::{Value, json};

/// Alias, name and what it is for.
const EXTENSIONS: [(&str, &str, &str); 24] = [
    ("router", "Neutron L3 Router", "Router abstraction."),
    (
        "external-net",
        "Neutron external network",
        "External networks.",
    ),
    (
        "dns-integration",
        "DNS Integration",
        "Names of ports and floating IPs.",
    ),
    (
        "qos-fip",
        "Floating IP QoS",
        "QoS policies of floating IPs.",
    ),
    (
        "fip-port-details",
        "Floating IP Port Details",
        "Adds port_details to floating IPs.",
    ),
    (
        "floating-ip-port-forwarding",
        "Floating IP Port Forwarding",
        "Ports of one floating IP that lead to several ports.",
    ),
    (
        "expose-port-forwarding-in-fip",
        "Expose Port Forwarding in FIP",
        "Adds port_forwardings to floating IPs.",
    ),
    (
        "floatingip-pools",
        "Floating IP Pools",
        "Pools of floating IPs.",
    ),
    ("standard-attr-tag", "Tag support for resources", "Tags."),
    (
        "standard-attr-revisions",
        "Resource revision numbers",
        "revision_number.",
    ),
    (
        "revision-if-match",
        "If-Match constraints",
        "If-Match with a revision.",
    ),
    (
        "standard-attr-timestamp",
        "Resource timestamps",
        "created_at and updated_at.",
    ),
    (
        "standard-attr-description",
        "standard-attr-description",
        "Descriptions.",
    ),
    ("pagination", "Pagination support", "Pages of lists."),
    ("sorting", "Sorting support", "Order of lists."),
    (
        "filter-validation",
        "Filter parameters validation",
        "Unknown filters are refused.",
    ),
    (
        "project-id",
        "project_id field enabled",
        "project_id beside tenant_id.",
    ),
    ("binding", "Port Binding", "Where ports are bound."),
    ("port-security", "Port Security", "port_security_enabled."),
    ("security-group", "security-group", "Security groups."),
    ("quotas", "Quota management support", "Quotas."),
    (
        "quota_details",
        "Quota details management support",
        "Quotas with what is used.",
    ),
    (
        "subnet_allocation",
        "Subnet Allocation",
        "Subnets from pools.",
    ),
    (
        "ext-gw-mode",
        "Neutron L3 Configurable external gateway mode",
        "enable_snat.",
    ),
];

fn value((alias, name, description): (&str, &str, &str)) -> Value {
    json!({"name": name, "alias": alias, "description": description, "links": [],
        "updated": "2013-01-01T00:00:00-00:00"})
}

/// `GET /v2.0/extensions` and one of them.
pub(super) fn read(rest: &[&str]) -> Option<Reply> {
    match rest {
        [] => Some(Reply::json(
            200,
            &json!({"extensions": EXTENSIONS.map(value)}),
        )),
        [alias] => {
            let found = EXTENSIONS.into_iter().find(|(known, ..)| known == alias);
            Some(match found {
                Some(found) => Reply::json(200, &json!({"extension": value(found)})),
                None => Reply::html(404, "Not Found"),
            })
        }
        _ => None,
    }
}
