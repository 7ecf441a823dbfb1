//! What the server answers: Keystone's token and Neutron's pages, in their shapes.

/// Answers a request: status, a header, a body.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) token: bool,
    pub(super) body: String,
}

fn found(body: String) -> Reply {
    Reply {
        status: 200,
        token: false,
        body,
    }
}

pub(super) fn answer(base: &str, path: &str, query: &str, rows: u32) -> Reply {
    match path.trim_end_matches('/') {
        "/v3" => found(format!(
            r#"{{"version": {{"id": "v3.14", "status": "stable", "links": [{{"rel": "self", "href": "{base}/v3/"}}], "media-types": []}}}}"#
        )),
        "/v3/auth/tokens" => Reply {
            status: 201,
            token: true,
            body: token(base),
        },
        "/v2.0/floatingips" => found(page(base, query, rows)),
        _ => Reply {
            status: 404,
            token: false,
            body: "{}".to_owned(),
        },
    }
}

fn token(base: &str) -> String {
    let endpoint = format!(
        r#"{{"id": "e", "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "{base}"}}"#
    );
    let id = "0123456789abcdef0123456789abcdef";
    let domain = r#"{"id": "default", "name": "Default"}"#;
    format!(
        r#"{{"token": {{"methods": ["password"], "user": {{"id": "{id}", "name": "u", "domain": {domain}}},
        "issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2099-01-01T00:00:00.000000Z",
        "audit_ids": ["a"], "project": {{"id": "{id}", "name": "p", "domain": {domain}}}, "is_domain": false,
        "roles": [{{"id": "{id}", "name": "member"}}],
        "catalog": [{{"id": "c", "type": "network", "name": "neutron", "endpoints": [{endpoint}]}}]}}}}"#
    )
}

/// The keys of a row, in Neutron's order, with their values for the row `n`.
const KEYS: [&str; 18] = [
    "id",
    "tenant_id",
    "floating_ip_address",
    "floating_network_id",
    "router_id",
    "port_id",
    "fixed_ip_address",
    "status",
    "description",
    "qos_policy_id",
    "port_details",
    "dns_domain",
    "dns_name",
    "port_forwardings",
    "tags",
    "created_at",
    "updated_at",
    "revision_number",
];

fn value(key: &str, n: u32) -> String {
    match key {
        "id" => format!(r#""{}""#, id(n)),
        "tenant_id" => r#""0123456789abcdef0123456789abcdef""#.to_owned(),
        "floating_ip_address" => {
            let [_, b, c, d] = n.to_be_bytes();
            format!(r#""10.{b}.{c}.{d}""#)
        }
        "floating_network_id" => r#""9d1f2a54-4b7e-4d0c-9a3d-0c1c5e7b8a01""#.to_owned(),
        "status" => r#""DOWN""#.to_owned(),
        "description" | "dns_domain" | "dns_name" => r#""""#.to_owned(),
        "port_forwardings" | "tags" => "[]".to_owned(),
        "created_at" | "updated_at" => r#""2026-11-30T16:08:22Z""#.to_owned(),
        "revision_number" => "0".to_owned(),
        _ => "null".to_owned(),
    }
}

fn id(n: u32) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

fn page(base: &str, query: &str, rows: u32) -> String {
    let pairs = || query.split('&').filter_map(|pair| pair.split_once('='));
    let one = |name: &str| {
        pairs()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    let wanted: Vec<&str> = pairs()
        .filter(|(key, _)| *key == "fields")
        .map(|(_, value)| value)
        .collect();
    let marker = one("marker").and_then(|id| u32::from_str_radix(id.get(..8)?, 16).ok());
    let first = marker.map_or(0, |n| n + 1);
    let limit: u32 = one("limit")
        .and_then(|text| text.parse().ok())
        .unwrap_or(rows);
    let end = first.saturating_add(limit).min(rows);
    let mut body = String::from(r#"{"floatingips": ["#);
    for n in first..end {
        body.push_str(if n == first { "{" } else { ", {" });
        let shown = KEYS
            .iter()
            .filter(|key| wanted.is_empty() || wanted.contains(key));
        for (at, key) in shown.enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            body.push_str(&format!(r#"{comma}"{key}": {}"#, value(key, n)));
        }
        body.push('}');
    }
    body.push(']');
    if one("limit").is_some() {
        let kept: Vec<&str> = query
            .split('&')
            .filter(|pair| !pair.starts_with("marker="))
            .collect();
        let href =
            |marker: &str| format!("{base}/v2.0/floatingips?{}&marker={marker}", kept.join("&"));
        let mut links = Vec::new();
        if first < end && end - first == limit {
            links.push(format!(
                r#"{{"rel": "next", "href": "{}"}}"#,
                href(&id(end - 1))
            ));
        }
        links.push(format!(
            r#"{{"rel": "previous", "href": "{}&page_reverse=True"}}"#,
            href(&id(first))
        ));
        body.push_str(&format!(r#", "floatingips_links": [{}]"#, links.join(", ")));
    }
    body.push('}');
    body
}
