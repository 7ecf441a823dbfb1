//! `control-api check-cloud` as a process, against the simulated cloud.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use civ_cloudsim::{Action, AnswerBody, Match, NoDataPlane, PortSetup, Rule, Setup, Sim};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;

/// A cloud, a folder with the settings, and the variables.
struct Place {
    sim: Sim,
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
    _server: JoinSet<()>,
}

struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    async fn new(setup: Setup, yaml: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v3", listener.local_addr().unwrap());
        let variables = vec![
            ("OS_AUTH_URL", url),
            ("OS_USERNAME", setup.username.clone()),
            ("OS_PASSWORD", setup.password.clone()),
            ("OS_PROJECT_NAME", setup.project.clone()),
        ];
        let sim = Sim::new(setup, Arc::new(NoDataPlane)).unwrap();
        let mut server = JoinSet::new();
        let serving = sim.clone();
        server.spawn(async move { serving.serve(listener).await.unwrap() });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("control-api.yaml"), yaml).unwrap();
        Self {
            sim,
            folder,
            variables,
            _server: server,
        }
    }

    async fn check(&self, more: &[&str]) -> Ended {
        let output = Command::new(env!("CARGO_BIN_EXE_control-api"))
            .args(["check-cloud", "--config", "control-api.yaml"])
            .args(more)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .await
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

const VALIDATORS: &str = "validators: [{ validator_id: v1, os_port_id: port-1 },
    { validator_id: v2, os_port_id: port-2 }]\n";

#[tokio::test]
async fn a_cloud_as_it_should_be_is_told_line_by_line() {
    let place = Place::new(Setup::default(), VALIDATORS).await;
    let ended = place.check(&[]).await;
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{}", ended.out);
    for line in [
        "ok       login from: the variables",
        "ok       token: for 3",
        "ok       neutron: answers",
        "ok       extension revision-if-match: offered",
        "ok       quota of floating IPs: used: 10",
        "10, of these 10 free",
        "ok       port port-1 of v1 (YAML): 10.77.0.1",
        "The cloud is as it should be.",
    ] {
        assert!(ended.out.contains(line), "{line}: {}", ended.out);
    }
    assert!(!ended.out.contains("validator-password"));
    let changed = place
        .sim
        .calls()
        .into_iter()
        .any(|call| call.method == "PUT");
    assert!(!changed, "nothing is changed there");
}

#[tokio::test]
async fn what_is_in_the_way_is_named_with_its_remedy() {
    let mut setup = Setup::default();
    setup.ports.push(PortSetup {
        id: "double".to_owned(),
        fixed_ip: IpAddr::V4(Ipv4Addr::new(10, 77, 0, 9)),
        ours: true,
    });
    setup.two_address_ports.push("double".to_owned());
    let yaml = "openstack: { floating_network: nowhere }
validators: [{ validator_id: v1, os_port_id: absent }, { validator_id: v2, os_port_id: double }]\n";
    let place = Place::new(setup, yaml).await;
    let ended = place.check(&["--json"]).await;
    assert_eq!(ended.code, 1, "{}", ended.out);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["fit"], false);
    let found = |check: &str| {
        let all = document["findings"].as_array().unwrap();
        let mut same = all.iter().filter(|one| {
            let name = one["check"].as_str().unwrap();
            name == check || name.starts_with(&format!("{check} of "))
        });
        same.next().cloned().unwrap()
    };
    let network = found("floating_network");
    assert_eq!(network["state"], "missing");
    assert!(
        network["remedy"]
            .as_str()
            .unwrap()
            .contains("network list --external")
    );
    assert_eq!(found("port absent")["state"], "missing");
    let double = found("port double");
    assert!(
        double["text"]
            .as_str()
            .unwrap()
            .contains("several fixed IPv4"),
        "{double}"
    );
    assert_eq!(found("token")["blocks"], false);
}

#[tokio::test]
async fn a_refused_login_ends_the_check_and_tells_no_secret() {
    let mut place = Place::new(Setup::default(), VALIDATORS).await;
    place.variables[2].1 = "swordfish".to_owned();
    let ended = place.check(&[]).await;
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .out
            .contains("failed   token: POST /v3/auth/tokens was answered 401")
    );
    assert!(ended.out.ends_with("In the way: 1.\n"), "{}", ended.out);
    assert!(!format!("{}{}", ended.out, ended.err).contains("swordfish"));
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_code_2() {
    let place = Place::new(Setup::default(), "openstack: { cloud: mine }\n").await;
    let ended = place.check(&[]).await;
    assert_eq!(ended.code, 2);
    assert!(
        ended
            .err
            .contains("there is no clouds.yaml for the cloud \"mine\""),
        "{}",
        ended.err
    );
    let clouds = "clouds: { mine: { auth: { auth_url: 'http://k', username: u } } }";
    std::fs::write(place.folder.path().join("clouds.yaml"), clouds).unwrap();
    let ended = place.check(&[]).await;
    assert_eq!(ended.code, 2);
    assert!(
        ended.err.contains("clouds.mine.auth.password is missing"),
        "{}",
        ended.err
    );
}

#[tokio::test]
async fn the_database_is_asked_for_ports_and_not_made() {
    let place = Place::new(Setup::default(), "database: { path: here.db }\n").await;
    let ended = place.check(&[]).await;
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .out
            .contains("missing  validator ports: there are none"),
        "{}",
        ended.out
    );
    assert!(!place.folder.path().join("here.db").exists());
    std::fs::write(place.folder.path().join("here.db"), "no database").unwrap();
    let ended = place.check(&[]).await;
    assert!(
        ended
            .out
            .contains("failed   database: here.db cannot be read"),
        "{}",
        ended.out
    );
}

#[tokio::test]
async fn what_the_cloud_lacks_is_told_with_what_follows() {
    let place = Place::new(Setup::default(), VALIDATORS).await;
    let matches = Match {
        count: None,
        ..Match::next("GET", "/v2.0/quotas")
    };
    place.sim.add_rule(Rule {
        name: "no quotas".to_owned(),
        matches,
        action: Action::Answer {
            status: 403,
            body: AnswerBody::NeutronError("PolicyNotAuthorized".to_owned()),
            retry_after: None,
        },
    });
    let ended = place.check(&[]).await;
    assert_eq!(ended.code, 0, "{}", ended.out);
    let line = "missing  quota of floating IPs: not shown to us -- a scan is read twice";
    assert!(ended.out.contains(line), "{}", ended.out);
}
