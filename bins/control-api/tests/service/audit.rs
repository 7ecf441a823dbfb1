//! Every administrative write leaves one event: who, from where, what, before and after.

use civ_testkit::addresses;
use serde_json::{Value, json};

use crate::ground::{ADMIN, AGENT, Ground, Service};

/// Type and payload of all events that are about no address, oldest first.
async fn told(service: &Service) -> Vec<(String, Value)> {
    let mut events = service.app.events_latest(1_000).await.unwrap();
    events.retain(|event| event.address.is_none());
    events.reverse();
    let read = |text: &str| serde_json::from_str(text).unwrap();
    events
        .into_iter()
        .map(|event| (event.event_type, read(&event.payload)))
        .collect()
}

/// A write, and the event that it leaves.
struct Case {
    method: &'static str,
    path: &'static str,
    body: Value,
    event_type: &'static str,
    before: Value,
    after: Value,
}

fn case(method: &'static str, path: &'static str, body: Value, event_type: &'static str) -> Case {
    Case {
        method,
        path,
        body,
        event_type,
        before: Value::Null,
        after: Value::Null,
    }
}

impl Case {
    fn before(self, before: Value) -> Self {
        Self { before, ..self }
    }

    fn after(self, after: Value) -> Self {
        Self { after, ..self }
    }
}

fn queue_writes() -> [Case; 5] {
    let listed = |list: &[&str]| json!({"count": list.len(), "first": list});
    let none = || listed(&[]);
    let one = || json!({"addresses": ["203.0.113.1"]});
    let row = |state: &str, result: &str| json!({"state": state, "overall_result": result});
    let address = "/ips/203.0.113.1";
    [
        case("POST", "/ips", one(), "admin_ips_enqueued").after(json!({
            "added": listed(&["203.0.113.1"]), "requeued": none(), "reordered": none(),
            "skipped_in_progress": none()})),
        case(
            "POST",
            "/ips/203.0.113.1/cancel",
            Value::Null,
            "admin_ip_cancelled",
        )
        .before(row("queued", ""))
        .after(row("failed", "cancelled")),
        case("DELETE", address, Value::Null, "admin_ip_deleted").before(row("failed", "cancelled")),
        case("POST", "/ips/delete", one(), "admin_ips_deleted").before(none()),
        case("POST", "/ips/clear", Value::Null, "queue_cleared").before(none()),
    ]
}

fn place_writes() -> [Case; 5] {
    let port = |port: &str| json!({"validator_id": "v9", "os_port_id": port});
    let slot = |site: &str| json!({"index": 1, "site_id": site});
    let (v9, to) = ("/config/validators/v9", json!({"os_port_id": "port-9"}));
    let next = json!({"site_id": "next"});
    [
        case(
            "POST",
            "/config/validators",
            port("port-8"),
            "config_validator_added",
        )
        .after(port("port-8")),
        case("PUT", v9, to, "config_validator_changed")
            .before(port("port-8"))
            .after(port("port-9")),
        case("DELETE", v9, Value::Null, "config_validator_deleted").before(port("port-9")),
        case("PUT", "/config/sites/1", next, "config_site_set")
            .before(slot("site-1"))
            .after(slot("next")),
        case(
            "DELETE",
            "/config/sites/1",
            Value::Null,
            "config_site_deleted",
        )
        .before(slot("next")),
    ]
}

fn check_writes() -> [Case; 7] {
    let web = || json!({"targets": ["https://a.example", "https://b.example"]});
    let kind = |enabled: bool| json!({"enabled": enabled, "targets": ["web"], "options": null});
    let told = |n: i64| json!({"fip_settle_seconds": n, "history_retention_cycles": 0});
    let inbound = |port: i64| json!({"ports": [port], "icmp": false});
    let (https, more) = ("/config/check-types/https", "/config/targets/more");
    let off = json!({"enabled": false, "targets": ["web"]});
    let settle = json!({"fip_settle_seconds": 4});
    [
        case("PUT", "/config/targets/web", web(), "config_targets_set")
            .before(web())
            .after(web()),
        case("PUT", more, web(), "config_targets_set").after(web()),
        case("DELETE", more, Value::Null, "config_targets_deleted").before(web()),
        case("PUT", https, off, "config_check_type_set")
            .before(kind(true))
            .after(kind(false)),
        case("DELETE", https, Value::Null, "config_check_type_deleted").before(kind(false)),
        case(
            "PUT",
            "/config/orchestrator",
            settle,
            "config_orchestrator_set",
        )
        .before(told(0))
        .after(told(4)),
        case(
            "PUT",
            "/config/inbound-checks",
            inbound(80),
            "config_inbound_checks_set",
        )
        .before(inbound(22))
        .after(inbound(80)),
    ]
}

fn job_writes() -> [Case; 6] {
    let (cycle, seconds) = ("/auto-cycle", json!({"interval_seconds": 60}));
    let told = |n: i64| json!({"interval_seconds": n, "max_run_seconds": 0});
    let on = |enabled: bool| json!({ "enabled": enabled });
    let switch = |path, event_type, from, to| {
        case("POST", path, Value::Null, event_type)
            .before(on(from))
            .after(on(to))
    };
    let (start, stop) = ("/auto-cycle/start", "/auto-cycle/stop");
    let (started, stopped) = ("admin_auto_cycle_started", "admin_auto_cycle_stopped");
    [
        case("PUT", cycle, seconds.clone(), "auto_cycle_configured")
            .before(told(3_600))
            .after(told(60)),
        // Nothing changes, and it is told who wanted it.
        case("PUT", cycle, seconds, "auto_cycle_configured")
            .before(told(60))
            .after(told(60)),
        switch(stop, stopped, false, false),
        switch(start, started, false, true),
        switch(start, started, true, true),
        switch(stop, stopped, true, false),
    ]
}

#[tokio::test]
async fn the_jobs_that_an_administrator_begins_and_ends_are_told_too() {
    let service = Ground::new("").with_tokens().start().await;
    // The jobs themselves write events of their own, in between.
    let of_type = async |event_type: &str| {
        let events = told(&service).await.into_iter();
        let mut payloads = Vec::new();
        payloads.extend(events.filter(|(found, _)| found == event_type));
        payloads
    };
    // First, so that they do not join a scan of the auto-cycle's that is about to be broken off.
    for (query, dry_run) in [("?dry_run=true&wait=true", true), ("?wait=true", false)] {
        let answer = service
            .admin("POST", &format!("/ips/scan{query}"), None)
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let events = of_type("admin_scan_requested").await;
        let expected = json!({"who": "admin", "from": "127.0.0.1", "what": "ips scan",
            "before": null, "after": {"dry_run": dry_run}});
        assert_eq!(events.last().unwrap().1, expected);
    }
    for write in job_writes() {
        let n_before = of_type(write.event_type).await.len();
        let body = Some(write.body).filter(|body| !body.is_null());
        let answer = service.admin(write.method, write.path, body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let events = of_type(write.event_type).await;
        assert_eq!(events.len(), n_before + 1, "{}", write.path);
        let (_, payload) = events.last().unwrap();
        let expected = json!({"who": "admin", "from": "127.0.0.1", "what": "auto-cycle",
            "before": write.before, "after": write.after});
        assert_eq!(*payload, expected, "{}", write.path);
    }
    service.end().await;
}

#[tokio::test]
async fn every_administrative_write_leaves_one_event() {
    let service = Ground::new("").with_tokens().start().await;
    let writes = queue_writes().into_iter().chain(place_writes());
    for write in writes.chain(check_writes()) {
        let (method, path) = (write.method, write.path);
        let n_before = told(&service).await.len();
        let body = Some(write.body).filter(|body| !body.is_null());
        let answer = service.admin(method, path, body).await;
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        let events = told(&service).await;
        assert_eq!(events.len(), n_before + 1, "{method} {path}");
        let (told_type, payload) = events.last().unwrap();
        assert_eq!(told_type, write.event_type);
        assert_eq!(payload["before"], write.before, "{method} {path}");
        assert_eq!(payload["after"], write.after, "{method} {path}");
        assert_eq!(payload["who"], "admin");
        assert_eq!(payload["from"], "127.0.0.1");
        let what = payload["what"].as_str().unwrap();
        let place = path.trim_start_matches('/').replace('/', " ");
        assert!(
            place.starts_with(what.split(' ').next().unwrap()),
            "{what} of {place}"
        );
    }
    service.end().await;
}

#[tokio::test]
async fn reads_and_refusals_leave_none_and_events_of_an_address_stay_as_they_are() {
    let ground = Ground::new("").with_tokens().with_fips(&addresses(1));
    let service = ground.start().await;
    for (method, path, body) in [
        ("GET", "/config/validators", None),
        ("GET", "/registry", None),
        ("DELETE", "/config/validators/nobody", None),
        ("POST", "/ips/203.0.113.1/cancel", None),
        ("PUT", "/config/targets/web", Some(json!({"targets": []}))),
    ] {
        service.admin(method, path, body).await;
    }
    let wrong = service
        .client
        .json("POST", "/api/v1/admin/ips/clear", None, Some(AGENT))
        .await;
    assert_eq!(wrong.status, 401);
    assert_eq!(told(&service).await, []);
    service.enqueue(&["203.0.113.1"]).await;
    service.admin("POST", "/ips/203.0.113.1/cancel", None).await;
    let events = service.details("203.0.113.1").await["events"].take();
    let types: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["EventType"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["enqueued", "cancelled"]);
    service.end().await;
}

#[tokio::test]
async fn an_event_says_which_token_it_was_and_never_the_token() {
    let old = "old-admin-0123456789";
    let new = "new-admin-0123456789";
    let ground = Ground::new("").with_tokens_of(&format!("{old},{new}"), AGENT);
    let service = ground.start().await;
    for token in [new, old] {
        let path = "/api/v1/admin/ips/clear";
        service.client.json("POST", path, None, Some(token)).await;
    }
    let events = told(&service).await;
    let who: Vec<_> = events
        .iter()
        .map(|(_, payload)| payload["who"].clone())
        .collect();
    assert_eq!(who, ["admin-2", "admin"]);
    let text = format!("{events:?}");
    assert!(!text.contains(old) && !text.contains(new), "{text}");
    service.end().await;
    let service = Ground::new("").start().await;
    service.admin("POST", "/ips/clear", None).await;
    assert_eq!(told(&service).await[0].1["who"], "open");
    service.end().await;
}

#[tokio::test]
async fn an_event_says_whom_a_trusted_proxy_names() {
    for (proxies, from) in [("[127.0.0.0/8]", "198.51.100.9"), ("[]", "127.0.0.1")] {
        let server =
            format!("server: {{ listen_addr: \"127.0.0.1:0\", trusted_proxies: {proxies} }}");
        let service = Ground::whole(&server).start().await;
        let forwarded = [
            ("x-forwarded-for", "192.0.2.1, 198.51.100.9"),
            ("authorization", &format!("Bearer {ADMIN}")),
        ];
        let path = "/api/v1/admin/ips/clear";
        let answer = service.client.send("POST", path, &forwarded, None).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(told(&service).await[0].1["from"], from);
        service.end().await;
    }
}

#[tokio::test]
async fn a_long_list_is_told_by_its_number_and_its_beginning() {
    let service = Ground::new("").start().await;
    service.enqueue(&["198.18.0.0/24"]).await;
    let (_, payload) = told(&service).await.remove(0);
    let added = &payload["after"]["added"];
    assert_eq!(added["count"], 256);
    assert_eq!(added["first"].as_array().unwrap().len(), 50);
    assert_eq!(added["first"][0], "198.18.0.0");
    service.end().await;
}
