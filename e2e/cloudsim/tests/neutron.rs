//! Neutron over HTTP: every resource, who may do what, and every error with its type, in the
//! standard scenario, whose ids are real ones.
#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use civ_cloudsim::{Scenario, Setup};
use common::{FIPS, Stage, eventually};
use reqwest::Method;
use serde_json::{Value, json};

const ABSENT: &str = "00000000-0000-4000-8000-000000000000";

async fn standard() -> Stage {
    Stage::new(Scenario::standard().setup).await
}

/// Ids of what the tests use.
struct Ids {
    network: String,
    ports: Vec<String>,
    inside: String,
}

async fn ids(stage: &Stage) -> Ids {
    let of = async |path: &str, key: &str| -> Vec<Value> {
        stage.get(path).await.body[key].as_array().unwrap().clone()
    };
    let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
    let networks = of(
        "/v2.0/networks?router:external=True&name=public",
        "networks",
    )
    .await;
    let ports = of(
        "/v2.0/ports?device_owner=compute:nova&sort_key=name&sort_dir=asc",
        "ports",
    )
    .await;
    let ours = |row: &&Value| row["name"].as_str().unwrap().starts_with("validator");
    Ids {
        network: id(&networks[0]),
        inside: ports[0]["network_id"].as_str().unwrap().to_owned(),
        ports: ports.iter().filter(ours).map(id).collect(),
    }
}

fn floating(changes: &Value) -> Value {
    json!({ "floatingip": changes })
}

#[tokio::test]
async fn an_address_is_made_described_tagged_and_deleted() {
    let (stage, ids) = {
        let stage = standard().await;
        let ids = ids(&stage).await;
        (stage, ids)
    };
    let new = json!({"floating_network_id": ids.network, "description": "d",
        "port_id": ids.ports[0]});
    let made = stage.post(FIPS, floating(&new)).await;
    let row = &made.body["floatingip"];
    assert_eq!(
        (made.status, &row["status"]),
        (201, &json!("DOWN")),
        "{}",
        made.text
    );
    assert_eq!(
        (&row["description"], &row["port_id"]),
        (&json!("d"), &json!(ids.ports[0]))
    );
    assert_eq!(row["revision_number"], 0);
    assert_eq!(row["port_details"]["device_owner"], "compute:nova");
    let address = row["floating_ip_address"].as_str().unwrap().to_owned();
    assert_eq!(
        stage.plane.told().last().unwrap(),
        &format!("+ {address} 10.77.0.11")
    );
    let path = format!("{FIPS}/{}", row["id"].as_str().unwrap());

    let told = stage.put(&path, json!({"description": "e"})).await;
    let row = &told.body["floatingip"];
    assert_eq!(
        (&row["description"], &row["port_id"]),
        (&json!("e"), &json!(ids.ports[0]))
    );
    assert_eq!(row["revision_number"], 1);

    assert_eq!(stage.delete(&path).await.status, 204);
    assert_eq!(
        stage.plane.told().last().unwrap(),
        &format!("- {address} 10.77.0.11")
    );
    assert_eq!(
        stage.delete(&path).await.error(),
        (404, "FloatingIPNotFound")
    );
    assert!(stage.sim.faults().is_empty() && stage.sim.unknown_calls().is_empty());
}

#[tokio::test]
async fn tags_are_replaced_added_and_removed() {
    let stage = standard().await;
    let path = stage.path(20).await;
    let tags = format!("{path}/tags");
    let put = async |path: &str, body: Option<Value>| stage.send(Method::PUT, path, body).await;
    assert_eq!(
        put(&tags, Some(json!({"tags": ["b", "a"]}))).await.status,
        200
    );
    let added = stage.post(&tags, json!({"tags": ["c"]})).await;
    assert_eq!(added.body, json!({"tags": ["c"]}));
    let one = put(&format!("{tags}/x"), None).await;
    assert_eq!((one.status, one.text.as_str()), (201, "null"));
    assert_eq!(
        stage.get(&tags).await.body,
        json!({"tags": ["b", "a", "c", "x"]})
    );
    assert_eq!(stage.get(&format!("{tags}/x")).await.status, 204);
    assert_eq!(stage.delete(&format!("{tags}/x")).await.status, 204);
    assert_eq!(
        stage.get(&format!("{tags}/x")).await.error(),
        (404, "TagNotFound")
    );
    assert_eq!(
        stage.delete(&format!("{tags}/x")).await.error(),
        (404, "TagNotFound")
    );
    let long = "x".repeat(256);
    assert_eq!(
        put(&tags, Some(json!({"tags": [long]}))).await.error(),
        (400, "InvalidInput")
    );
    assert_eq!(
        put(&tags, Some(json!({"tags": "x"}))).await.error(),
        (400, "InvalidInput")
    );
    for (filter, n) in [
        ("tags=a,b", 1),
        ("tags=a,z", 0),
        ("tags-any=a,z", 1),
        ("not-tags=a", 15),
        ("not-tags-any=a,z", 15),
    ] {
        let rows = stage.get(&format!("{FIPS}?{filter}")).await;
        assert_eq!(
            rows.body["floatingips"].as_array().unwrap().len(),
            n,
            "{filter}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_made_is_refused_with_its_type() {
    let stage = standard().await;
    let ids = ids(&stage).await;
    let net = &ids.network;
    for (body, status, kind) in [
        (json!({}), 400, "HTTPBadRequest"),
        (json!([]), 400, "HTTPBadRequest"),
        (json!({"floatingips": []}), 400, "HTTPBadRequest"),
        (floating(&json!({})), 400, "HTTPBadRequest"),
        (
            floating(&json!({"floating_network_id": ids.inside})),
            400,
            "BadRequest",
        ),
        (
            floating(&json!({"floating_network_id": ABSENT})),
            404,
            "NetworkNotFound",
        ),
        (
            floating(&json!({"floating_network_id": "x"})),
            400,
            "HTTPBadRequest",
        ),
        (
            floating(&json!({"floating_network_id": net, "tags": []})),
            400,
            "HTTPBadRequest",
        ),
        (
            floating(&json!({"floating_network_id": net, "x": 1})),
            400,
            "HTTPBadRequest",
        ),
        (
            floating(&json!({"floating_network_id": net, "port_id": ABSENT})),
            404,
            "PortNotFound",
        ),
        (
            floating(&json!({"floating_network_id": net, "port_id": "x"})),
            400,
            "HTTPBadRequest",
        ),
        (
            floating(&json!({"floating_network_id": net, "fixed_ip_address": "10.77.0.11"})),
            400,
            "BadRequest",
        ),
        (
            floating(&json!({"floating_network_id": net, "floating_ip_address": "203.0.113.99"})),
            403,
            "PolicyNotAuthorized",
        ),
        (
            floating(&json!({"floating_network_id": net, "description": "x".repeat(256)})),
            400,
            "HTTPBadRequest",
        ),
    ] {
        let answer = stage.post(FIPS, body.clone()).await;
        assert_eq!(answer.error(), (status, kind), "{body}: {}", answer.text);
    }
    assert!(
        stage.plane.told().len() < 4,
        "nothing was bound: {:?}",
        stage.plane.told()
    );
}

#[tokio::test]
async fn a_body_must_be_json() {
    let stage = standard().await;
    let text = Some("{".to_owned());
    let answer = stage.try_send(Method::POST, FIPS, text, &[]).await.unwrap();
    assert_eq!(answer.error(), (400, "MalformedRequestBody"));
    let answer = stage.send(Method::POST, FIPS, None).await;
    assert_eq!(answer.error(), (400, "BadRequest"));
}

#[tokio::test]
async fn quota_and_addresses_run_out() {
    let mut stage = standard().await;
    let pools = stage.get("/v2.0/floatingip_pools").await.body;
    let pools = pools["floatingip_pools"].as_array().unwrap();
    let small = pools.iter().find(|pool| pool["network_name"] == "public2");
    let small = floating(&json!({"floating_network_id": small.unwrap()["network_id"]}));
    for _ in 0..13 {
        assert_eq!(stage.post(FIPS, small.clone()).await.status, 201);
    }
    let full = stage.post(FIPS, small).await;
    assert_eq!(full.error(), (409, "IpAddressGenerationFailure"));

    let network = ids(&stage).await.network;
    stage.become_user("other", "other").await;
    let new = floating(&json!({ "floating_network_id": network }));
    assert_eq!(stage.post(FIPS, new.clone()).await.status, 201);
    let over = stage.post(FIPS, new).await;
    assert_eq!(over.error(), (409, "OverQuota"));
    let message = &over.body["NeutronError"]["message"];
    assert_eq!(message, "Quota exceeded for resources: ['floatingip'].");
}

#[tokio::test]
async fn projects_do_not_see_each_other() {
    let mut stage = standard().await;
    let ours = ids(&stage).await;
    let own = stage.path(20).await;
    let (project, quota) = {
        let row = stage.get(&own).await.body;
        let project = row["floatingip"]["project_id"].as_str().unwrap().to_owned();
        (project.clone(), format!("/v2.0/quotas/{project}"))
    };
    assert_eq!(stage.get(&quota).await.body["quota"]["floatingip"], 50);
    let details = stage.get(&format!("{quota}/details")).await.body;
    assert_eq!(
        details["quota"]["floatingip"],
        json!({"limit": 50, "used": 16, "reserved": 0})
    );

    stage.become_user("other", "other").await;
    assert_eq!(
        stage.get(FIPS).await.body["floatingips"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let listed = stage.get(&format!("{FIPS}?project_id={project}")).await;
    assert_eq!(
        (listed.status, &listed.body["floatingips"]),
        (200, &json!([]))
    );
    assert_eq!(stage.get(&own).await.error(), (404, "FloatingIPNotFound"));
    assert_eq!(
        stage.put(&own, json!({"port_id": null})).await.error(),
        (404, "FloatingIPNotFound")
    );
    assert_eq!(
        stage.delete(&own).await.error(),
        (404, "FloatingIPNotFound")
    );
    let free = stage.get(&format!("{FIPS}?status=DOWN")).await.body;
    let free = format!("{FIPS}/{}", free["floatingips"][0]["id"].as_str().unwrap());
    let foreign = stage.put(&free, json!({"port_id": ours.ports[0]})).await;
    assert_eq!(foreign.error(), (404, "PortNotFound"));
    let port = format!("/v2.0/ports/{}", ours.ports[0]);
    assert_eq!(stage.get(&port).await.error(), (404, "PortNotFound"));
    assert_eq!(
        stage.get(&quota).await.error(),
        (403, "PolicyNotAuthorized")
    );
}

#[tokio::test]
async fn readers_change_nothing() {
    let mut stage = standard().await;
    let (ours, own) = (ids(&stage).await, stage.path(20).await);
    stage.become_user("auditor", "validation").await;
    assert_eq!(stage.get(&own).await.status, 200);
    let denied = stage.put(&own, json!({"port_id": ours.ports[0]})).await;
    assert_eq!(denied.error(), (403, "PolicyNotAuthorized"));
    assert_eq!(
        stage.delete(&own).await.error(),
        (403, "PolicyNotAuthorized")
    );
    let new = floating(&json!({"floating_network_id": ours.network}));
    assert_eq!(
        stage.post(FIPS, new).await.error(),
        (403, "PolicyNotAuthorized")
    );
}

#[tokio::test]
async fn administrators_see_and_do_more() {
    let mut stage = standard().await;
    let (ours, own) = (ids(&stage).await, stage.path(20).await);
    let port = format!("/v2.0/ports/{}", ours.ports[0]);
    let row = stage.get(&own).await.body;
    let project = row["floatingip"]["project_id"].as_str().unwrap();
    stage.become_user("admin", "admin").await;
    assert_eq!(
        stage.get(FIPS).await.body["floatingips"]
            .as_array()
            .unwrap()
            .len(),
        18
    );
    let port = stage.get(&port).await.body;
    assert_eq!(port["port"]["binding:vif_type"], "ovs");
    let external = stage
        .get("/v2.0/ports?device_owner=network:floatingip")
        .await
        .body;
    assert_eq!(external["ports"].as_array().unwrap().len(), 18);
    let taken = json!({"floating_network_id": ours.network, "floating_ip_address": "203.0.113.20"});
    let taken = stage.post(FIPS, floating(&taken)).await;
    assert_eq!(taken.error(), (409, "IpAddressAlreadyAllocated"));
    let outside = json!({"floating_network_id": ours.network, "floating_ip_address": "192.0.2.1"});
    let outside = stage.post(FIPS, floating(&outside)).await;
    assert_eq!(outside.error(), (400, "InvalidIpForNetwork"));
    let chosen = json!({"floating_network_id": ours.network, "project_id": project,
        "floating_ip_address": "203.0.113.99"});
    assert_eq!(stage.post(FIPS, floating(&chosen)).await.status, 201);
}

#[tokio::test]
async fn writes_are_refused_with_their_types() {
    let scenario = "cloud: {unrouted_ports: 1, two_address_ports: 1}";
    let stage = Stage::new(Scenario::parse("s", scenario).unwrap().setup).await;
    let ports = stage
        .get("/v2.0/ports?device_owner=compute:nova")
        .await
        .body;
    let ports = ports["ports"].as_array().unwrap();
    let double = ports
        .iter()
        .find(|row| row["fixed_ips"].as_array().unwrap().len() == 2)
        .unwrap();
    let unrouted = stage.get("/v2.0/networks?name=isolated").await.body;
    let unrouted = unrouted["networks"][0]["id"].as_str().unwrap();
    let unrouted = ports
        .iter()
        .find(|row| row["network_id"] == unrouted)
        .unwrap();
    let plain = ports
        .iter()
        .find(|row| row["name"] == "validator-port-10.77.0.11")
        .unwrap();
    let (path, other) = (stage.path(20).await, stage.path(21).await);
    let bound = stage.put(&other, json!({"port_id": plain["id"]})).await;
    assert_eq!(bound.status, 200);
    for (changes, status, kind) in [
        (
            json!({"port_id": plain["id"]}),
            409,
            "FloatingIPPortAlreadyAssociated",
        ),
        (
            json!({"port_id": unrouted["id"]}),
            404,
            "ExternalGatewayForFloatingIPNotFound",
        ),
        (json!({"port_id": double["id"]}), 400, "BadRequest"),
        (json!({"port_id": ABSENT}), 404, "PortNotFound"),
        (json!({"port_id": "bogus"}), 400, "HTTPBadRequest"),
        (json!({"port_id": ""}), 400, "HTTPBadRequest"),
        (json!({"port_id": []}), 400, "HTTPBadRequest"),
        (json!({"fixed_ip_address": "10.77.0.11"}), 400, "BadRequest"),
        (
            json!({"port_id": plain["id"], "fixed_ip_address": "10.9.9.9"}),
            400,
            "BadRequest",
        ),
        (json!({"status": "ACTIVE"}), 400, "HTTPBadRequest"),
        (json!({"tags": []}), 400, "HTTPBadRequest"),
        (
            json!({"floating_ip_address": "203.0.113.9"}),
            400,
            "HTTPBadRequest",
        ),
        (json!({"nosuch": 1}), 400, "HTTPBadRequest"),
        (json!({"description": null}), 400, "HTTPBadRequest"),
        (
            json!({"description": "x".repeat(256)}),
            400,
            "HTTPBadRequest",
        ),
    ] {
        let answer = stage.put(&path, changes.clone()).await;
        assert_eq!(answer.error(), (status, kind), "{changes}: {}", answer.text);
    }
}

#[tokio::test]
async fn what_is_no_uuid_is_said_so() {
    let stage = standard().await;
    let path = stage.path(20).await;
    let bogus = stage.put(&path, json!({"port_id": "bogus"})).await.body;
    assert_eq!(
        bogus["NeutronError"]["message"],
        "Invalid input for port_id. Reason: 'bogus' is not a valid UUID."
    );
}

#[tokio::test]
async fn a_port_with_two_addresses_may_have_two_floating_ips() {
    let scenario = "cloud: {two_address_ports: 1}";
    let stage = Stage::new(Scenario::parse("s", scenario).unwrap().setup).await;
    let ports = stage
        .get("/v2.0/ports?device_owner=compute:nova")
        .await
        .body;
    let two = |row: &&Value| row["fixed_ips"].as_array().unwrap().len() == 2;
    let double = ports["ports"].as_array().unwrap().iter().find(two).unwrap();
    let (path, other) = (stage.path(20).await, stage.path(21).await);
    // With the address named, each of the two may have one.
    for (path, fixed) in [
        (&path, &double["fixed_ips"][0]),
        (&other, &double["fixed_ips"][1]),
    ] {
        let changes = json!({"port_id": double["id"], "fixed_ip_address": fixed["ip_address"]});
        assert_eq!(stage.put(path, changes).await.status, 200);
    }
    for path in [format!("{FIPS}/{ABSENT}"), format!("{FIPS}/bogus")] {
        let answer = stage.put(&path, json!({"port_id": null})).await;
        assert_eq!(answer.error(), (404, "FloatingIPNotFound"));
    }
    assert!(stage.sim.faults().is_empty());
}

#[tokio::test]
async fn conditions_hold_for_changing_and_deleting() {
    let stage = standard().await;
    let path = stage.path(20).await;
    let send = async |method: Method, condition: &[(&str, &str)]| {
        let body = (method == Method::PUT).then(|| floating(&json!({"description": "x"})));
        stage.send_with(method, &path, body, condition).await
    };
    let stale = send(Method::DELETE, &[("if-match", "revision_number=5")]).await;
    assert_eq!(stale.error(), (412, "RevisionNumberConstraintFailed"));
    let message = "Constrained to 5, but current revision is 0";
    assert_eq!(stale.body["NeutronError"]["message"], message);
    for condition in ["revision_number=x", "revision_number=0,revision_number=1"] {
        let answer = send(Method::PUT, &[("if-match", condition)]).await;
        assert_eq!(answer.status, 400, "{condition}");
    }
    assert_eq!(send(Method::PUT, &[("if-match", "*")]).await.status, 200);
    assert_eq!(
        send(Method::GET, &[("if-match", "revision_number=9")])
            .await
            .status,
        200
    );
    let fresh = send(Method::DELETE, &[("if-match", "revision_number=1")]).await;
    assert_eq!(fresh.status, 204);
}

#[tokio::test]
async fn port_forwardings_keep_an_address_from_being_free() {
    let stage = standard().await;
    let ids = ids(&stage).await;
    let path = stage.path(20).await;
    let list = format!("{path}/port_forwardings");
    let new = json!({"port_forwarding": {"protocol": "tcp", "internal_ip_address": "10.77.0.11",
        "internal_port": 22, "internal_port_id": ids.ports[0], "external_port": 2222}});
    let made = stage.post(&list, new.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let again = stage.post(&list, new.clone()).await;
    assert_eq!(again.error(), (400, "BadRequest"));
    let row = stage.get(&path).await.body;
    let row = &row["floatingip"];
    assert!(row["port_id"].is_null() && row["router_id"].is_string());
    assert_eq!(row["port_forwardings"][0]["external_port"], 2222);
    assert_eq!(
        stage.get(&list).await.body["port_forwardings"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let bind = stage.put(&path, json!({"port_id": ids.ports[1]})).await;
    assert_eq!(bind.error(), (409, "FipInUseByPortForwarding"));
    assert_eq!(
        stage.delete(&path).await.error(),
        (409, "FipInUseByPortForwarding")
    );
    assert_eq!(stage.put(&path, json!({"port_id": null})).await.status, 200);
    let one = format!(
        "{list}/{}",
        made.body["port_forwarding"]["id"].as_str().unwrap()
    );
    assert_eq!(stage.get(&one).await.status, 200);
    assert_eq!(stage.delete(&one).await.status, 204);
    assert_eq!(
        stage.delete(&one).await.error(),
        (404, "PortForwardingNotFound")
    );
    assert!(stage.get(&path).await.body["floatingip"]["router_id"].is_null());
    assert_eq!(
        stage
            .put(&path, json!({"port_id": ids.ports[1]}))
            .await
            .status,
        200
    );
    assert_eq!(
        stage.post(&list, new).await.error(),
        (409, "PortHasBindingFloatingIP")
    );
}

#[tokio::test]
async fn a_deleted_port_frees_its_address() {
    let stage = standard().await;
    let (ids, path) = (ids(&stage).await, stage.path(20).await);
    stage.put(&path, json!({"port_id": ids.ports[0]})).await;
    let port = format!("/v2.0/ports/{}", ids.ports[0]);
    assert_eq!(stage.delete(&port).await.status, 204);
    assert_eq!(stage.delete(&port).await.error(), (404, "PortNotFound"));
    let row = stage.get(&path).await.body;
    assert!(row["floatingip"]["port_id"].is_null());
    assert_eq!(row["floatingip"]["revision_number"], 2);
    assert_eq!(
        stage.plane.told().last().unwrap(),
        "- 203.0.113.20 10.77.0.11"
    );
}

#[tokio::test]
async fn other_resources_are_listed_and_shown() {
    let stage = standard().await;
    for (collection, key, one, missing) in [
        ("networks", "networks", "network", "NetworkNotFound"),
        ("subnets", "subnets", "subnet", "SubnetNotFound"),
        ("ports", "ports", "port", "PortNotFound"),
        ("routers", "routers", "router", "RouterNotFound"),
        (
            "security-groups",
            "security_groups",
            "security_group",
            "SecurityGroupNotFound",
        ),
        (
            "security-group-rules",
            "security_group_rules",
            "security_group_rule",
            "SecurityGroupRuleNotFound",
        ),
    ] {
        let path = format!("/v2.0/{collection}");
        let listed = stage.get(&path).await;
        let row = &listed.body[key][0];
        let id = row["id"].as_str().unwrap();
        let shown = stage.get(&format!("{path}/{id}")).await;
        assert_eq!((shown.status, &shown.body[one]), (200, row), "{collection}");
        let some = stage.get(&format!("{path}?limit=1&fields=id")).await.body;
        assert_eq!(some[key], json!([{ "id": id }]), "{collection}");
        assert!(some[format!("{key}_links")].is_array(), "{collection}");
        let absent = stage.get(&format!("{path}/{ABSENT}")).await;
        assert_eq!(absent.error(), (404, missing));
        let filter = stage.get(&format!("{path}?nosuch=1")).await;
        assert_eq!(filter.status, 400, "{collection}");
    }
    let router = stage.get("/v2.0/routers").await.body["routers"][0].clone();
    let gateway = &router["external_gateway_info"];
    assert!(gateway["enable_snat"] == true && gateway["external_fixed_ips"][0].is_object());
    let extensions = stage.get("/v2.0/extensions").await.body;
    assert!(extensions["extensions"].as_array().unwrap().len() > 20);
    let known = stage.get("/v2.0/extensions/revision-if-match").await;
    assert_eq!(known.body["extension"]["alias"], "revision-if-match");
    let unknown = stage.get("/v2.0/extensions/nosuch").await;
    assert!(unknown.status == 404 && unknown.text.contains("<html>"));
    assert_eq!(stage.get("/v2.0").await.status, 404);
    assert!(stage.get("/v2.0/").await.body["resources"].is_array());
    assert_eq!(stage.get("/healthcheck").await.text, "OK");
    assert_eq!(stage.get("/nosuch").await.status, 404);
    assert_eq!(
        stage.get("/v2.0/nosuch").await.error(),
        (404, "HTTPNotFound")
    );
    assert_eq!(stage.get("/v2.0/qos/policies").await.status, 501);
    assert_eq!(stage.sim.unknown_calls(), ["GET /v2.0/qos/policies"]);
    assert_eq!(stage.send(Method::PATCH, FIPS, None).await.status, 405);
    assert_eq!(stage.get("/v2.0/floatingips.json").await.status, 200);
    assert_eq!(stage.get("/v2.0/floatingips/").await.status, 200);
}

#[tokio::test]
async fn pages_go_backwards_and_are_capped() {
    let setup = Setup {
        page_max: Some(4),
        ..Setup::default()
    };
    let stage = Stage::new(setup).await;
    let rows = |body: &Value| -> Vec<String> {
        let rows = body["floatingips"].as_array().unwrap();
        rows.iter().map(|row| row["id"].to_string()).collect()
    };
    for query in ["", "?limit=0", "?limit=500"] {
        let page = stage.get(&format!("{FIPS}{query}")).await.body;
        assert_eq!(
            (rows(&page).len(), page["floatingips_links"].is_array()),
            (4, true),
            "{query}"
        );
    }
    let first = stage.get(&format!("{FIPS}?limit=3")).await.body;
    let link = |body: &Value, rel: &str| {
        let links = body["floatingips_links"].as_array().unwrap();
        let found = links.iter().find(|link| link["rel"] == rel);
        found.map(|link| link["href"].as_str().unwrap().to_owned())
    };
    let second = stage.get(&link(&first, "next").unwrap()).await.body;
    let back = stage.get(&link(&second, "previous").unwrap()).await.body;
    assert_eq!(rows(&back), rows(&first), "ascending, and the same");
    let forward = stage.get(&link(&back, "next").unwrap()).await.body;
    assert_eq!(rows(&forward), rows(&second));
    let before = stage.get(&link(&back, "previous").unwrap()).await.body;
    assert!(rows(&before).is_empty() && link(&before, "previous").is_none());
    let seen = link(&first, "next").unwrap();
    assert!(
        seen.contains("limit=3") && seen.starts_with(&stage.url),
        "{seen}"
    );
}

#[tokio::test]
async fn agents_may_fail_or_be_silent() {
    let address = |last| [203, 0, 113, last].into();
    let setup = Setup {
        status_never: vec![address(10)],
        status_error: vec![address(11)],
        ..Setup::default()
    };
    let stage = Stage::new(setup).await;
    let (silent, failing, well) = (
        stage.path(10).await,
        stage.path(11).await,
        stage.path(12).await,
    );
    for (path, port) in [(&silent, "port-1"), (&failing, "port-2"), (&well, "port-x")] {
        stage.put(path, json!({ "port_id": port })).await;
    }
    let status = async |path: &str| stage.get(path).await.body["floatingip"]["status"].clone();
    eventually(async || status(&well).await == "ACTIVE").await;
    eventually(async || status(&failing).await == "ERROR").await;
    assert_eq!(status(&silent).await, "DOWN");
}

#[tokio::test]
async fn without_plug_ins_their_keys_are_absent() {
    let setup = Setup {
        has_plugins: false,
        ..Setup::default()
    };
    let stage = Stage::new(setup).await;
    let row = stage.get(&stage.path(10).await).await.body;
    let row = row["floatingip"].as_object().unwrap();
    for key in [
        "qos_policy_id",
        "dns_domain",
        "dns_name",
        "port_forwardings",
    ] {
        assert!(!row.contains_key(key), "{key}");
    }
    assert!(row.contains_key("port_details") && row.contains_key("tags"));
}

#[tokio::test]
async fn a_compute_service_lists_an_instance_for_each_port() {
    let setup = Setup {
        has_compute: true,
        ..Setup::default()
    };
    let stage = Stage::new(setup).await;
    stage
        .put(&stage.path(10).await, json!({"port_id": "port-1"}))
        .await;
    let servers = stage.get("/compute/v2.1/servers/detail").await.body;
    let servers = servers["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 3);
    let addresses = &servers
        .iter()
        .find(|one| one["name"] == "instance-of-port-1")
        .unwrap();
    let addresses = addresses["addresses"]["private"].as_array().unwrap();
    let kinds: Vec<&Value> = addresses
        .iter()
        .map(|one| &one["OS-EXT-IPS:type"])
        .collect();
    assert_eq!(kinds, ["fixed", "floating"]);
}
