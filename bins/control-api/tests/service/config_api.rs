//! `/admin/config`: every row of the contract's table, its success and each of its errors.

use civ_testkit::{address, eventually};
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

/// Calls `/admin/config…` and gives the status and the text of the error, or the body.
async fn call(service: &Service, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = Some(body).filter(|body| !body.is_null());
    let told = service.admin(method, &format!("/config{path}"), body).await;
    if told.status < 400 {
        (told.status, told.json())
    } else {
        (told.status, Value::from(told.error(told.status)))
    }
}

async fn get(service: &Service, path: &str) -> Value {
    let (status, body) = call(service, "GET", path, Value::Null).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// The write is accepted with that status and `{"ok":true}`.
async fn accepted(service: &Service, method: &str, path: &str, body: Value, status: u16) {
    let told = call(service, method, path, body).await;
    assert_eq!(told, (status, json!({"ok": true})), "{method} {path}");
}

/// The write is refused with that status and a text that has all these parts.
async fn refused(
    service: &Service,
    method: &str,
    path: &str,
    body: Value,
    expected: (u16, &[&str]),
) {
    let (status, text) = call(service, method, path, body.clone()).await;
    let text = text.to_string();
    assert_eq!(status, expected.0, "{method} {path} {body}: {text}");
    for part in expected.1 {
        assert!(
            text.contains(part),
            "{method} {path} {body}: {part} in {text}"
        );
    }
}

fn validator_row(id: &str, port: &str) -> Value {
    json!({"validator_id": id, "os_port_id": port, "state": "unregistered"})
}

#[tokio::test]
async fn validators_are_listed_added_moved_and_deleted() {
    let service = Ground::new("").start().await;
    let list = get(&service, "/validators").await;
    assert_eq!(
        list,
        json!([validator_row("v1", "port-1"), validator_row("v2", "port-2")])
    );
    // Names of people's own making, in order of name; a port is any text.
    let new = json!({"validator_id": "a b", "os_port_id": "any text at all"});
    accepted(&service, "POST", "/validators", new, 201).await;
    let moved = json!({"os_port_id": "port-3"});
    accepted(&service, "PUT", "/validators/v2", moved.clone(), 200).await;
    // The same once more is no conflict with itself.
    accepted(&service, "PUT", "/validators/v2", moved, 200).await;
    accepted(&service, "DELETE", "/validators/v1", Value::Null, 200).await;
    let list = get(&service, "/validators").await;
    assert_eq!(
        list,
        json!([
            validator_row("a b", "any text at all"),
            validator_row("v2", "port-3")
        ])
    );
    accepted(&service, "DELETE", "/validators/a%20b", Value::Null, 200).await;
    // A port that was left is free.
    let new = json!({"validator_id": "v3", "os_port_id": "port-2"});
    accepted(&service, "POST", "/validators", new, 201).await;
    service.end().await;
}

#[tokio::test]
async fn validators_are_refused_with_a_reason() {
    let service = Ground::new("").start().await;
    let body = |id: &str, port: &str| json!({"validator_id": id, "os_port_id": port});
    let long = "x".repeat(129);
    for (new, status, parts) in [
        (body("v1", "port-9"), 409, ["v1", "exists"]),
        (body("v9", "port-1"), 409, ["port-1", "validator v1"]),
        (body("", "port-9"), 400, ["validator_id", "empty"]),
        (body("v9", " "), 400, ["os_port_id", "empty"]),
        (body("a/b", "port-9"), 400, ["validator_id", "a/b"]),
        (body("v9", &long), 400, ["os_port_id", "128 characters"]),
        (
            json!({"validator_id": "v9"}),
            400,
            ["missing", "os_port_id"],
        ),
        (json!({"os_port_id": "p"}), 400, ["missing", "validator_id"]),
        (
            json!({"validator_id": "v9", "os_port_id": 7}),
            400,
            ["os_port_id", "7"],
        ),
        (
            json!({"validator_id": "v9", "os_port_id": "p", "port": "q"}),
            400,
            ["unknown field", "port"],
        ),
        (json!([]), 400, ["body", ""]),
        (Value::Null, 400, ["body", "empty"]),
    ] {
        refused(&service, "POST", "/validators", new, (status, &parts)).await;
    }
    let port = |port: &str| json!({"os_port_id": port});
    for (id, body, status, parts) in [
        ("nobody", port("port-9"), 404, ["nobody", "not configured"]),
        ("a%2Fb", port("port-9"), 404, ["a/b", "not configured"]),
        ("v1", port("port-2"), 409, ["port-2", "validator v2"]),
        ("v1", port(""), 400, ["os_port_id", "empty"]),
        ("v1", json!({}), 400, ["missing", "os_port_id"]),
        (
            "v1",
            json!({"os_port_id": "p", "validator_id": "v9"}),
            400,
            ["unknown field", "validator_id"],
        ),
    ] {
        let path = format!("/validators/{id}");
        refused(&service, "PUT", &path, body, (status, &parts)).await;
    }
    for id in ["nobody", "%20"] {
        let path = format!("/validators/{id}");
        let parts = ["not configured"];
        refused(&service, "DELETE", &path, Value::Null, (404, &parts)).await;
    }
    let list = get(&service, "/validators").await;
    assert_eq!(list.as_array().unwrap().len(), 2, "nothing was applied");
    service.end().await;
}

#[tokio::test]
async fn a_validator_that_owns_an_address_stays_until_it_is_released() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    service.assignment("v1").await;
    let state = get(&service, "/validators").await[0]["state"].take();
    assert_eq!(state, "assigned");
    let parts = ["v1", "203.0.113.1", "release"];
    refused(
        &service,
        "DELETE",
        "/validators/v1",
        Value::Null,
        (409, &parts),
    )
    .await;
    // The release is pending while the cloud is away.
    let outage = civ_cloud::Fault::cloud("away");
    ground.cloud.set_outage(Some(outage));
    service.admin("DELETE", "/ips/203.0.113.1", None).await;
    refused(
        &service,
        "DELETE",
        "/validators/v1",
        Value::Null,
        (409, &parts),
    )
    .await;
    ground.cloud.set_outage(None);
    eventually("the validator can go", async || {
        let told = call(&service, "DELETE", "/validators/v1", Value::Null).await;
        (told.0 == 200).then_some(())
    })
    .await;
    assert_eq!(ground.cloud.port_of(&civ_testkit::fip(address(1))), None);
    let told = service
        .open("GET", "/api/v1/agents/v1/assignment", None)
        .await;
    assert!(told.error(404).contains("not configured"));
    service.end().await;
}

#[tokio::test]
async fn an_open_lease_keeps_its_port_when_the_validator_is_moved() {
    let ground = Ground::new("").with_fips(&[address(1), address(2)]);
    ground
        .cloud
        .add_port(civ_types::PortId::parse("port-3").unwrap());
    let service = ground.start().await;
    service.register("v1").await;
    service.enqueue(&["203.0.113.1"]).await;
    let work = service.assignment("v1").await;
    let moved = json!({"os_port_id": "port-3"});
    accepted(&service, "PUT", "/validators/v1", moved, 200).await;
    // Its old port is still in use: nobody else gets it, by any of the two ways.
    let parts = ["port-1", "validator v1"];
    let body = json!({"validator_id": "v9", "os_port_id": "port-1"});
    refused(&service, "POST", "/validators", body, (409, &parts)).await;
    let body = json!({"os_port_id": "port-1"});
    refused(&service, "PUT", "/validators/v2", body, (409, &parts)).await;
    service.check("v1", &work, true).await;
    let row = service.reached("203.0.113.1", "done").await;
    assert_eq!(row["OverallResult"], "pass");
    service.enqueue(&["203.0.113.2"]).await;
    service.assignment("v1").await;
    let to: Vec<_> = ground
        .cloud
        .writes()
        .into_iter()
        .map(|write| write.port.map(|port| port.to_string()))
        .collect();
    let on = |port: &str| Some(port.to_owned());
    assert_eq!(to, [on("port-1"), None, on("port-3")]);
    let body = json!({"validator_id": "v9", "os_port_id": "port-1"});
    accepted(&service, "POST", "/validators", body, 201).await;
    service.end().await;
}

#[tokio::test]
async fn a_new_validator_is_another_one_even_with_the_same_name() {
    let ground = Ground::new("").with_fips(&[address(1)]);
    let service = ground.start().await;
    service.register("v1").await;
    assert_eq!(get(&service, "/validators").await[0]["state"], "idle");
    accepted(&service, "DELETE", "/validators/v1", Value::Null, 200).await;
    let body = json!({"validator_id": "v1", "os_port_id": "port-1"});
    accepted(&service, "POST", "/validators", body, 201).await;
    let row = service.admin("GET", "/validators", None).await.json()[0].take();
    assert_eq!(row["State"], "unregistered");
    assert_eq!(row["LastHeartbeatAt"], Value::Null);
    service.enqueue(&["203.0.113.1"]).await;
    let told = service
        .open("GET", "/api/v1/agents/v1/assignment", None)
        .await;
    assert_eq!(told.status, 204, "nobody has registered");
    service.register("v1").await;
    service.assignment("v1").await;
    service.end().await;
}

#[tokio::test]
async fn sites_are_put_into_any_slot_and_taken_out() {
    let service = Ground::new("").start().await;
    let row = |index: i64, id: &str| {
        json!({"index": index, "site_id": id, "hostname": "", "state": "unregistered",
            "last_heartbeat_at": null})
    };
    assert_eq!(get(&service, "/sites").await, json!([row(1, "site-1")]));
    let name = |name: &str| json!({"site_id": name});
    accepted(&service, "PUT", "/sites/700", name("far away"), 200).await;
    accepted(&service, "PUT", "/sites/2", name("site-2"), 200).await;
    accepted(&service, "PUT", "/sites/1", name("other"), 200).await;
    let list = json!([row(1, "other"), row(2, "site-2"), row(700, "far away")]);
    assert_eq!(get(&service, "/sites").await, list, "by index");
    for index in [1, 2, 700] {
        accepted(
            &service,
            "DELETE",
            &format!("/sites/{index}"),
            Value::Null,
            200,
        )
        .await;
    }
    assert_eq!(get(&service, "/sites").await, json!([]));
    service.end().await;
}

#[tokio::test]
async fn sites_are_refused_with_a_reason() {
    let service = Ground::new("").start().await;
    let name = |name: &str| json!({"site_id": name});
    for (index, body, status, parts) in [
        ("0", name("s"), 400, ["index", "from 1"]),
        ("-1", name("s"), 400, ["index", "-1"]),
        ("one", name("s"), 400, ["index", "one"]),
        ("99999999999999999999", name("s"), 400, ["index", "from 1"]),
        ("2", name("site-1"), 409, ["site-1", "slot 1"]),
        ("2", name(""), 400, ["site_id", "empty"]),
        ("2", name("a/b"), 400, ["site_id", "a/b"]),
        ("2", json!({}), 400, ["missing", "site_id"]),
        (
            "2",
            json!({"site_id": "s", "hostname": "h"}),
            400,
            ["unknown field", "hostname"],
        ),
    ] {
        let path = format!("/sites/{index}");
        refused(&service, "PUT", &path, body, (status, &parts)).await;
    }
    for index in ["2", "0", "one"] {
        let path = format!("/sites/{index}");
        refused(
            &service,
            "DELETE",
            &path,
            Value::Null,
            (404, &["slot", index]),
        )
        .await;
    }
    assert_eq!(get(&service, "/sites").await.as_array().unwrap().len(), 1);
    service.end().await;
}

#[tokio::test]
async fn a_put_on_a_slot_is_a_new_identity_even_with_the_same_name() {
    let ground = Ground::new("");
    let service = ground.start().await;
    let register = json!({"site_id": "site-1", "hostname": "probe"});
    let path = "/api/v1/probers/register";
    service.open("POST", path, Some(register.clone())).await;
    let row = get(&service, "/sites").await[0].take();
    assert_eq!(
        (row["state"].as_str(), row["hostname"].as_str()),
        (Some("idle"), Some("probe"))
    );
    assert!(row["last_heartbeat_at"].is_string());
    accepted(
        &service,
        "PUT",
        "/sites/1",
        json!({"site_id": "site-1"}),
        200,
    )
    .await;
    let fresh = json!([{"index": 1, "site_id": "site-1", "hostname": "", "state": "unregistered",
        "last_heartbeat_at": null}]);
    assert_eq!(get(&service, "/sites").await, fresh);
    service.end().await;
    // Nothing of the former one was written down behind it.
    let service = ground.start().await;
    assert_eq!(get(&service, "/sites").await, fresh);
    service.open("POST", path, Some(register)).await;
    assert_eq!(get(&service, "/sites").await[0]["state"], "idle");
    // Another name in the slot: the former one is unknown.
    accepted(&service, "PUT", "/sites/1", json!({"site_id": "next"}), 200).await;
    let told = service
        .open("POST", "/api/v1/probers/site-1/heartbeat", None)
        .await;
    assert!(told.error(404).contains("site-1"));
    service.end().await;
}

#[tokio::test]
async fn targets_and_check_types_refer_to_each_other() {
    let service = Ground::new("").start().await;
    let web = json!({"name": "web", "targets": ["https://a.example", "https://b.example"]});
    assert_eq!(get(&service, "/targets").await, json!([web]));
    let https = json!({"name": "https", "enabled": true, "targets": ["web"]});
    assert_eq!(get(&service, "/check-types").await, json!([https]));
    let dns = json!({"targets": ["192.0.2.53"]});
    accepted(&service, "PUT", "/targets/dns%20servers", dns, 200).await;
    let icmp = json!({"enabled": false, "targets": ["web", "dns servers"]});
    accepted(&service, "PUT", "/check-types/icmp", icmp, 200).await;
    accepted(
        &service,
        "PUT",
        "/check-types/tcp-53",
        json!({"enabled": true, "targets": []}),
        200,
    )
    .await;
    assert_eq!(
        get(&service, "/check-types").await,
        json!([
            https,
            {"name": "icmp", "enabled": false, "targets": ["web", "dns servers"]},
            {"name": "tcp-53", "enabled": true, "targets": []}
        ]),
        "by name"
    );
    let names = get(&service, "/targets").await;
    assert_eq!(
        (&names[0]["name"], &names[1]["name"]),
        (&json!("dns servers"), &json!("web"))
    );
    let parts = ["dns servers", "icmp"];
    refused(
        &service,
        "DELETE",
        "/targets/dns%20servers",
        Value::Null,
        (409, &parts),
    )
    .await;
    refused(
        &service,
        "DELETE",
        "/targets/web",
        Value::Null,
        (409, &["https, icmp"]),
    )
    .await;
    accepted(&service, "DELETE", "/check-types/icmp", Value::Null, 200).await;
    accepted(
        &service,
        "DELETE",
        "/targets/dns%20servers",
        Value::Null,
        200,
    )
    .await;
    assert_eq!(get(&service, "/targets").await, json!([web]));
    service.end().await;
}

#[tokio::test]
async fn targets_are_refused_with_a_reason() {
    let service = Ground::new("").start().await;
    let long = "x".repeat(129);
    for (group, body, parts) in [
        ("web", json!({"targets": []}), ["targets", "empty"]),
        ("web", json!({"targets": ["a", ""]}), ["targets", "URL"]),
        ("web", json!({"targets": ["a b"]}), ["targets", "a b"]),
        ("web", json!({"targets": ["a", 7]}), ["targets[1]", "7"]),
        ("web", json!({"targets": "a"}), ["targets", "sequence"]),
        ("web", json!({}), ["missing", "targets"]),
        (
            "web",
            json!({"targets": ["a"], "name": "x"}),
            ["unknown field", "name"],
        ),
        ("%20", json!({"targets": ["a"]}), ["group", "1 to 128"]),
        ("a%2Fb", json!({"targets": ["a"]}), ["group", "a/b"]),
        (&long, json!({"targets": ["a"]}), ["group", "1 to 128"]),
    ] {
        let path = format!("/targets/{group}");
        refused(&service, "PUT", &path, body, (400, &parts)).await;
    }
    let parts = ["nothing", "no target group"];
    refused(
        &service,
        "DELETE",
        "/targets/nothing",
        Value::Null,
        (404, &parts),
    )
    .await;
    service.end().await;
}

#[tokio::test]
async fn check_types_are_refused_with_a_reason() {
    let service = Ground::new("").start().await;
    let body = |more: Value| {
        let mut body = json!({"enabled": true, "targets": ["web"]});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    for (name, more, parts) in [
        (
            "htps",
            json!({}),
            [
                "htps",
                "icmp, tcp, tcp-PORT, closed-PORT, ssh, tls, tls-PORT, https, http, dns",
            ],
        ),
        ("tcp-0", json!({}), ["tcp-0", "tcp-PORT"]),
        ("HTTPS", json!({}), ["HTTPS", "https"]),
        (
            "https",
            json!({"targets": ["web", "wbe"]}),
            ["wbe", "target groups web"],
        ),
        ("https", json!({"targets": null}), ["targets", "null"]),
        ("https", json!({"enabled": "yes"}), ["enabled", "yes"]),
        (
            "https",
            json!({"target": ["web"]}),
            ["unknown field", "target"],
        ),
        (
            "https",
            json!({"options": {"insecure": 1}}),
            ["options.insecure", "true or false"],
        ),
        (
            "https",
            json!({"options": {"expect_status": 600}}),
            ["options.expect_status", "100 to 599"],
        ),
        (
            "https",
            json!({"options": {"expect_body": "("}}),
            ["options.expect_body", "regular expression"],
        ),
        (
            "https",
            json!({"options": {"ssh_hostkey": true}}),
            [
                "options.ssh_hostkey",
                "expect_body, expect_status, insecure",
            ],
        ),
        (
            "closed-25",
            json!({"options": {"insecure": true}}),
            ["options.insecure", "no options"],
        ),
        ("closed-0", json!({}), ["closed-0", "closed-PORT"]),
        ("https", json!({"options": [1]}), ["options", "map"]),
    ] {
        let path = format!("/check-types/{name}");
        refused(&service, "PUT", &path, body(more), (400, &parts)).await;
    }
    service.end().await;
}

#[tokio::test]
async fn a_check_type_needs_both_fields_and_an_existing_group() {
    let service = Ground::new("").start().await;
    let body = || json!({"enabled": true, "targets": ["web"]});
    let https = "/check-types/https";
    for missing in ["enabled", "targets"] {
        let mut body = body();
        body.as_object_mut().unwrap().remove(missing);
        refused(&service, "PUT", https, body, (400, &["missing", missing])).await;
    }
    for name in ["ssh", "NO%20NAME"] {
        let path = format!("/check-types/{name}");
        refused(
            &service,
            "DELETE",
            &path,
            Value::Null,
            (404, &["not configured"]),
        )
        .await;
    }
    let none = json!({"enabled": true, "targets": ["web"], "options": {}});
    accepted(&service, "PUT", https, none, 200).await;
    accepted(&service, "DELETE", "/check-types/https", Value::Null, 200).await;
    accepted(&service, "DELETE", "/targets/web", Value::Null, 200).await;
    let parts = ["web", "no target groups"];
    refused(&service, "PUT", "/check-types/https", body(), (400, &parts)).await;
    service.end().await;
}

fn told(settle: i64, keep: i64) -> Value {
    json!({"fip_settle_seconds": settle, "history_retention_cycles": keep})
}

#[tokio::test]
async fn the_orchestrator_is_told_in_whole_or_in_part() {
    let ground = Ground::of("orchestrator: { lease_ttl_seconds: 60, fip_settle_seconds: 3 }");
    let service = ground.start().await;
    let path = "/orchestrator";
    assert_eq!(get(&service, path).await, told(3, 0), "the seed");
    for (body, settle, keep) in [
        (told(5, 7), 5, 7),
        (json!({"fip_settle_seconds": 29}), 29, 7),
        (json!({"history_retention_cycles": 1}), 29, 1),
        (json!({}), 29, 1),
        (json!({"fip_settle_seconds": null}), 29, 1),
        (told(0, 0), 0, 0),
        (told(1, 9), 1, 9),
    ] {
        accepted(&service, "PUT", path, body, 200).await;
        assert_eq!(get(&service, path).await, told(settle, keep));
    }
    for (body, parts) in [
        (
            json!({"fip_settle_seconds": -1}),
            ["fip_settle_seconds", "-1"],
        ),
        (told(2, -1), ["history_retention_cycles", "-1"]),
        // 30 + 30 is not below 60.
        (
            told(30, 2),
            ["self_check_timeout_seconds (30)", "lease_ttl_seconds (60)"],
        ),
        (
            json!({"fip_settle_seconds": 1.5}),
            ["fip_settle_seconds", "1.5"],
        ),
        (
            json!({"fip_settle_seconds": "1"}),
            ["fip_settle_seconds", "string"],
        ),
        (
            json!({"fip_settle_seconds": 99_999_999_999_i64}),
            ["fip_settle_seconds", "99999999999"],
        ),
        (
            json!({"fip_settle_second": 1}),
            ["unknown field", "fip_settle_second"],
        ),
    ] {
        refused(&service, "PUT", path, body, (400, &parts)).await;
    }
    assert_eq!(get(&service, path).await, told(1, 9), "nothing was applied");
    service.end().await;
    // Kept across a restart; YAML is a seed.
    let service = ground.start().await;
    assert_eq!(get(&service, path).await, told(1, 9));
    service.end().await;
}

#[tokio::test]
async fn inbound_checks_are_told_as_a_whole() {
    let ground = Ground::new("");
    let service = ground.start().await;
    let path = "/inbound-checks";
    let now = |ports: &[i64], icmp: bool| json!({"ports": ports, "icmp": icmp});
    assert_eq!(get(&service, path).await, now(&[22], false));
    for (ports, icmp) in [(&[443, 1, 65535][..], true), (&[], false), (&[8080], false)] {
        accepted(&service, "PUT", path, now(ports, icmp), 200).await;
        assert_eq!(get(&service, path).await, now(ports, icmp));
    }
    for (body, parts) in [
        (now(&[0], true), ["ports: 0", "1 to 65535"]),
        (now(&[22, 65536], true), ["ports: 65536", "1 to 65535"]),
        (now(&[-22], true), ["ports: -22", "1 to 65535"]),
        (now(&[22, 80, 22], true), ["ports: 22", "once"]),
        (json!({"ports": [22]}), ["missing", "icmp"]),
        (json!({"icmp": true}), ["missing", "ports"]),
        (
            json!({"ports": ["22"], "icmp": true}),
            ["ports[0]", "string"],
        ),
        (json!({"ports": [], "icmp": 1}), ["icmp", "1"]),
        (
            json!({"ports": [], "icmp": true, "udp": []}),
            ["unknown field", "udp"],
        ),
    ] {
        refused(&service, "PUT", path, body, (400, &parts)).await;
    }
    assert_eq!(get(&service, path).await, now(&[8080], false));
    service.end().await;
    let service = ground.start().await;
    assert_eq!(get(&service, path).await, now(&[8080], false));
    service.end().await;
}

#[tokio::test]
async fn a_change_survives_a_restart_and_yaml_does_not_come_back() {
    let ground = Ground::new("");
    let service = ground.start().await;
    accepted(&service, "DELETE", "/validators/v2", Value::Null, 200).await;
    accepted(&service, "PUT", "/sites/5", json!({"site_id": "five"}), 200).await;
    accepted(
        &service,
        "PUT",
        "/targets/dns",
        json!({"targets": ["192.0.2.53"]}),
        200,
    )
    .await;
    let off = json!({"enabled": false, "targets": ["dns"]});
    accepted(&service, "PUT", "/check-types/https", off, 200).await;
    let paths = ["/validators", "/sites", "/targets", "/check-types"];
    let mut before = Vec::new();
    for path in paths {
        before.push(get(&service, path).await);
    }
    service.end().await;
    let service = ground.start().await;
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(get(&service, path).await, before, "{path}");
    }
    service.end().await;
}

#[tokio::test]
async fn a_table_that_was_emptied_stays_empty() {
    let ground = Ground::new("");
    let service = ground.start().await;
    for path in [
        "/sites/1",
        "/check-types/https",
        "/targets/web",
        "/validators/v1",
        "/validators/v2",
    ] {
        accepted(&service, "DELETE", path, Value::Null, 200).await;
    }
    service.end().await;
    let service = ground.start().await;
    for path in ["/validators", "/sites", "/targets", "/check-types"] {
        assert_eq!(get(&service, path).await, json!([]), "{path}");
    }
    service.end().await;
}

#[tokio::test]
async fn every_method_asks_for_the_admin_token_and_other_methods_are_told() {
    let service = Ground::new("").with_tokens().start().await;
    for (method, path, allow) in [
        ("GET", "/config/validators", "GET,HEAD,POST"),
        ("PUT", "/config/validators/v1", "PUT,DELETE"),
        ("PUT", "/config/sites/1", "PUT,DELETE"),
        ("GET", "/config/targets", "GET,HEAD"),
        ("DELETE", "/config/targets/web", "PUT,DELETE"),
        ("PUT", "/config/check-types/https", "PUT,DELETE"),
        ("PUT", "/config/orchestrator", "GET,HEAD,PUT"),
        ("GET", "/config/inbound-checks", "GET,HEAD,PUT"),
        ("POST", "/ips/delete", "POST"),
        ("POST", "/ips/clear", "POST"),
        ("GET", "/registry", "GET,HEAD"),
        ("GET", "/registry/203.0.113.1", "GET,HEAD"),
    ] {
        let full = format!("/api/v1/admin{path}");
        for token in [None, Some(crate::ground::AGENT)] {
            let told = service.client.json(method, &full, None, token).await;
            assert_eq!(told.error(401), "unauthorized", "{path}");
        }
        let told = service.admin("PATCH", path, None).await;
        told.error(405);
        assert_eq!(told.header("allow"), allow, "{path}");
    }
    service.end().await;
}
