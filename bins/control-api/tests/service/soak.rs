//! Agents, a prober and an operator at random, a cloud that fails at random, restarts in between:
//! in the end everything has ended, every floating IP is free, and nothing foreign was touched.

use std::time::Duration;

use civ_cloud::Fault;
use civ_cloud::fake::{FakeCloud, Trouble};
use civ_testkit::{addresses, eventually, fip};
use civ_types::PortId;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::ground::{Ground, Service};

const ADDRESSES: u8 = 5;

const YAML: &str = "
orchestrator:
  { poll_interval_seconds: 1, lease_ttl_seconds: 3, self_check_timeout_seconds: 1,
    checking_window_seconds: 2, release_grace_seconds: 2, reconcile_interval_seconds: 1,
    inbound_checks: { ports: [22], icmp: false } }
openstack: { request_timeout_seconds: 1 }
validators:
  - { validator_id: v1, os_port_id: port-1 }
  - { validator_id: v2, os_port_id: port-2 }
sites: [{ site_id: site-1 }]
targets: { web: [https://a.example, https://b.example] }
check_types: [{ name: https, enabled: true, targets: [web] }]
";

/// What is told is either taken or refused as stale.
fn taken(status: u16) {
    assert!([200, 204, 304, 409].contains(&status), "{status}");
}

async fn agent(service: &Service, name: &str, mut rng: Rng) {
    service.register(name).await;
    loop {
        let path = format!("/api/v1/agents/{name}/assignment?wait=1");
        let told = service.open("GET", &path, None).await;
        taken(told.status);
        if told.status != 200 {
            continue;
        }
        let work = told.json();
        let report = match (work["phase"].as_str().unwrap(), rng.u8(0..10)) {
            // Says nothing this time.
            (_, 0) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
            ("awaiting_self_check", n) => {
                let told = json!({"success": n > 1});
                service.report(name, "self-check", &work, told).await
            }
            (_, n) => {
                let row = json!({"ip_id": work["ip_id"], "check_type": "https",
                    "target": "https://a.example", "success": n > 2, "fence": work["fence"]});
                let rows = json!({"results": [row]});
                let path = format!("/api/v1/agents/{name}/results");
                taken(service.agent("POST", &path, Some(rows)).await.status);
                service.report(name, "complete", &work, json!({})).await
            }
        };
        taken(report.status);
    }
}

async fn prober(service: &Service) {
    let mut tag = String::new();
    loop {
        let path = "/api/v1/probers/site-1/assignments?wait=1";
        let headers = [("if-none-match", tag.as_str())];
        let told = service.client.send("GET", path, &headers, None).await;
        taken(told.status);
        if told.status == 200 {
            tag = told.header("etag").to_owned();
            for work in told.json().as_array().unwrap() {
                assert_eq!(service.inbound(work, true).await.status, 200);
            }
        }
    }
}

async fn operator(service: &Service, mut rng: Rng) {
    loop {
        tokio::time::sleep(Duration::from_millis(rng.u64(20..120))).await;
        let ip = format!("203.0.113.{}", rng.u8(1..=ADDRESSES));
        match rng.u8(0..8) {
            0 => drop(
                service
                    .admin("POST", &format!("/ips/{ip}/cancel"), None)
                    .await,
            ),
            1 => drop(service.admin("DELETE", &format!("/ips/{ip}"), None).await),
            _ => drop(service.enqueue(&[&ip]).await),
        }
    }
}

/// Faults of every kind, one after the other; a foreigner takes and gives back.
async fn weather(cloud: &FakeCloud, mut rng: Rng) {
    let foreign = PortId::parse("foreign").unwrap();
    // One ahead of the writes, so that none is left when the weather has cleared up.
    let mut n_scripted = cloud.writes().len() + 1;
    loop {
        tokio::time::sleep(Duration::from_millis(rng.u64(20..120))).await;
        if cloud.writes().len() < n_scripted {
            continue;
        }
        n_scripted = cloud.writes().len() + 1;
        let text = "of its own".to_owned();
        cloud.script(match rng.u8(0..7) {
            0 => Trouble::LostBefore,
            1 => Trouble::LostAfter,
            2 => Trouble::LandsAfterReads(rng.u32(0..6)),
            3 => Trouble::TakenBefore(foreign.clone()),
            4 => Trouble::TakenAfter(foreign.clone()),
            _ => Trouble::Refused(Fault::Address { text }),
        });
        if rng.u8(0..4) == 0 {
            let list = addresses(ADDRESSES);
            let one = fip(*rng.choice(&list).unwrap());
            if cloud.port_of(&one).as_ref() == Some(&foreign) {
                cloud.rebind(&one, None);
            }
        }
    }
}

async fn everything(service: &Service, [first, second]: [Rng; 2]) {
    tokio::join!(
        agent(service, "v1", first),
        agent(service, "v2", second),
        prober(service),
    );
}

/// Nothing is under way any more, and nothing of ours hangs on a port.
async fn settled(service: &Service, ground: &Ground) {
    let ours = ["port-1", "port-2"].map(|name| PortId::parse(name).unwrap());
    let over = async || {
        let list = service.admin("GET", "/ips", None).await.json();
        let ended = |row: &Value| {
            let state = row["State"].as_str().unwrap();
            ["done", "failed", "occupied"].contains(&state)
        };
        let bound = |address: &civ_types::Address| {
            let port = ground.cloud.port_of(&fip(*address));
            port.is_some_and(|port| ours.contains(&port))
        };
        let ended = list.as_array().unwrap().iter().all(ended);
        (ended && !addresses(ADDRESSES).iter().any(bound)).then_some(())
    };
    eventually("everything has ended and is free", over).await;
    let writes = ground.cloud.writes();
    assert!(writes.len() > 20, "hardly anything happened: {writes:?}");
    for write in writes {
        let foreign = write
            .replaced
            .as_ref()
            .is_some_and(|port| !ours.contains(port));
        assert!(!foreign || write.revision.is_none(), "{write:?}");
    }
}

#[tokio::test]
async fn rule_02_to_12_hold_through_faults_and_restarts() {
    let mut rng = Rng::with_seed(7);
    let ground = Ground::of(YAML).with_fips(&addresses(ADDRESSES));
    for _ in 0..3 {
        let service = ground.start().await;
        let (agents, first, second) = ([rng.fork(), rng.fork()], rng.fork(), rng.fork());
        let troubled = async {
            tokio::join!(
                everything(&service, agents),
                operator(&service, first),
                weather(&ground.cloud, second),
            )
        };
        drop(tokio::time::timeout(Duration::from_secs(2), troubled).await);
        service.end().await;
    }
    let service = ground.start().await;
    tokio::select! {
        () = everything(&service, [rng.fork(), rng.fork()]) => {}
        () = settled(&service, &ground) => {}
    }
    service.end().await;
}
