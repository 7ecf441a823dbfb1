//! OpenStack's client against the simulated OpenStack: logging in, tokens, faults, lists.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use std::path::PathBuf;
use std::time::Duration;

use civ_cloud::guard::{Association, OwnPorts, associate};
use civ_cloud::{
    Auth, Cloud, ConnectError, Domain, Fault, OpenStack, OpenStackConfig, Scope, User, WriteFault,
};
use civ_cloudsim::{Action, AnswerBody, Match, PortSetup, Setup};
use civ_types::{FipId, PortId};
use common::{Served, address, ip, port};
use futures_util::future::join_all;

const TOKENS: &str = "/v3/auth/tokens";
const FIPS: &str = "/v2.0/floatingips";

fn connect(served: &Served, change: impl FnOnce(&mut OpenStackConfig)) -> OpenStack {
    let mut config = served.config();
    change(&mut config);
    OpenStack::connect(config).unwrap()
}

#[track_caller]
fn cloud_fault<T: std::fmt::Debug>(outcome: Result<T, Fault>) -> (String, Option<Duration>) {
    match outcome {
        Err(Fault::Cloud { text, retry_after }) => (text, retry_after),
        other => panic!("{other:?}"),
    }
}

async fn id_of(cloud: &OpenStack, last: u8) -> FipId {
    cloud.find(address(last)).await.unwrap().unwrap().id
}

#[tokio::test]
async fn every_way_to_log_in_works() {
    let served = Served::new(Setup::default()).await;
    let setup = Setup::default();
    let domain = || Domain::Name("Default".to_owned());
    let user = || User::Name {
        name: setup.username.clone(),
        domain: domain(),
    };
    let ways = [
        Auth::Password {
            user: user(),
            password: setup.password.clone().into(),
            scope: Scope::ProjectName {
                name: setup.project.clone(),
                domain: domain(),
            },
        },
        Auth::AppCredential {
            id: setup.app_credential_id.clone(),
            secret: setup.app_credential_secret.clone().into(),
        },
        Auth::AppCredentialByName {
            name: setup.app_credential_name.clone(),
            user: user(),
            secret: setup.app_credential_secret.clone().into(),
        },
    ];
    for auth in ways {
        let cloud = connect(&served, |config| config.auth = auth);
        let fip = cloud.find(address(10)).await.unwrap().unwrap();
        assert_eq!((fip.address, fip.revision), (address(10), Some(0)));
    }
    let network_calls = served
        .sim
        .calls()
        .into_iter()
        .filter(|call| call.path == FIPS);
    let writers: Vec<String> = network_calls.map(|call| call.writer).collect();
    assert_eq!(
        writers,
        [
            "validator",
            "application_credential",
            "application_credential"
        ]
    );
}

#[tokio::test]
async fn a_refused_login_is_the_clouds_fault_and_tells_no_secret() {
    let served = Served::new(Setup::default()).await;
    let wrong = Auth::AppCredential {
        id: Setup::default().app_credential_id,
        secret: "not-the-secret".into(),
    };
    let cloud = connect(&served, |config| config.auth = wrong);
    let (text, _) = cloud_fault(cloud.find(address(10)).await);
    assert!(
        text.contains("POST /v3/auth/tokens was answered 401"),
        "{text}"
    );
    assert!(!format!("{text} {cloud:?}").contains("not-the-secret"));
    assert_eq!(
        (served.n_calls("POST", TOKENS), served.n_calls("GET", FIPS)),
        (1, 0)
    );
}

#[tokio::test]
async fn an_ended_token_is_renewed_once_and_the_call_repeated() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    let seen = cloud.find(address(10)).await.unwrap().unwrap();
    served.sim.expire_tokens();
    assert!(cloud.get(&seen.id).await.unwrap().is_some());
    served.sim.expire_tokens();
    cloud
        .set_port(&seen.id, Some(&port("port-1")), seen.revision)
        .await
        .unwrap();
    assert_eq!(served.n_calls("POST", TOKENS), 3);
    assert_eq!(served.n_calls("PUT", FIPS), 2);
}

#[tokio::test]
async fn a_token_that_is_never_taken_ends_after_one_renewal() {
    let served = Served::new(Setup {
        token_ttl: Duration::ZERO,
        ..Setup::default()
    })
    .await;
    let (text, _) = cloud_fault(served.client().find(address(10)).await);
    assert!(text.contains("was answered 401"), "{text}");
    assert_eq!(
        (served.n_calls("POST", TOKENS), served.n_calls("GET", FIPS)),
        (2, 2)
    );
}

/// Lets that much time pass at once, for client and cloud alike.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_token_is_renewed_ahead_of_its_end() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    cloud.find(address(10)).await.unwrap();
    pass(Duration::from_secs(3_470)).await;
    cloud.find(address(10)).await.unwrap();
    assert_eq!(served.n_calls("POST", TOKENS), 1);
    pass(Duration::from_secs(20)).await;
    cloud.find(address(10)).await.unwrap();
    assert_eq!(served.n_calls("POST", TOKENS), 2, "120 s before its end");
    pass(Duration::from_secs(200)).await;
    cloud.find(address(10)).await.unwrap();
    assert_eq!(served.n_calls("POST", TOKENS), 2);
    assert!(served.sim.calls().iter().all(|call| call.status != 401));
}

#[tokio::test]
async fn calls_that_lose_the_token_together_cause_one_login() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    let id = id_of(&cloud, 10).await;
    served.sim.expire_tokens();
    let outcomes = join_all((0..20).map(|_| cloud.get(&id))).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(served.n_calls("POST", TOKENS), 2);
}

#[tokio::test]
async fn a_login_that_failed_answers_all_who_waited_for_it() {
    let served = Served::new(Setup::default()).await;
    served.rule(Match::next("POST", TOKENS), Action::DelayBefore { ms: 200 });
    let busy = Action::Answer {
        status: 503,
        body: AnswerBody::Html,
        retry_after: Some(5),
    };
    served.rule(Match::next("POST", TOKENS), busy);
    let cloud = served.client();
    for outcome in join_all((10..19).map(|last| cloud.find(address(last)))).await {
        let (text, retry_after) = cloud_fault(outcome);
        assert!(text.contains("503"), "{text}");
        assert_eq!(retry_after, Some(Duration::from_secs(5)));
    }
    assert_eq!(served.n_calls("POST", TOKENS), 1);
    assert!(
        cloud.find(address(10)).await.unwrap().is_some(),
        "and the next call tries again"
    );
}

#[tokio::test]
async fn keystone_may_be_away_while_the_token_lives() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    cloud.find(address(10)).await.unwrap();
    let away = Match {
        count: None,
        ..Match::next("POST", TOKENS)
    };
    let answer = Action::Answer {
        status: 503,
        body: AnswerBody::Html,
        retry_after: None,
    };
    served.rule(away, answer);
    pass(Duration::from_secs(3_500)).await;
    cloud.find(address(10)).await.unwrap();
    cloud.find(address(10)).await.unwrap();
    assert_eq!(
        served.n_calls("POST", TOKENS),
        2,
        "not tried again at every call"
    );
    pass(Duration::from_secs(200)).await;
    cloud_fault(cloud.find(address(10)).await);
}

#[tokio::test]
async fn whatever_a_read_meets_is_the_clouds_fault() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    let id = id_of(&cloud, 10).await;
    let answer = |status, body| Action::Answer {
        status,
        body,
        retry_after: None,
    };
    let troubles = [
        (answer(503, AnswerBody::Html), "made up by a rule"),
        (answer(500, AnswerBody::Empty), "500 without a reason"),
        (
            answer(
                403,
                AnswerBody::NeutronError("PolicyNotAuthorized".to_owned()),
            ),
            "PolicyNot",
        ),
        (answer(404, AnswerBody::Html), "404"),
        (
            answer(400, AnswerBody::NeutronError("BadRequest".to_owned())),
            "BadRequest",
        ),
        (answer(302, AnswerBody::Empty), "302"),
        (answer(200, AnswerBody::Garbage), "is not understood"),
        (answer(200, AnswerBody::Empty), "is not understood"),
        (Action::CutMidBody, "broke off"),
    ];
    for (trouble, words) in troubles {
        served.rule(Match::next("GET", FIPS), trouble.clone());
        let (text, _) = cloud_fault(cloud.get(&id).await);
        assert!(text.contains(words), "{trouble:?}: {text}");
    }
    served.rule(
        Match::next("GET", FIPS),
        Action::Drip {
            bytes: 100,
            every_ms: 1,
        },
    );
    assert!(
        cloud.get(&id).await.unwrap().is_some(),
        "a slow answer is an answer"
    );
}

#[tokio::test]
async fn a_read_that_was_cut_is_repeated_once() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    let id = id_of(&cloud, 10).await;
    let before = served.n_calls("GET", FIPS);
    served.rule(Match::next("GET", FIPS), Action::CutBefore);
    assert!(cloud.get(&id).await.unwrap().is_some());
    assert_eq!(served.n_calls("GET", FIPS), before + 2);
    let always = Match {
        count: None,
        ..Match::next("GET", FIPS)
    };
    served.rule(always, Action::CutBefore);
    let (text, _) = cloud_fault(cloud.get(&id).await);
    assert!(text.contains("closed without an answer"), "{text}");
    assert_eq!(served.n_calls("GET", FIPS), before + 4);
}

#[tokio::test]
async fn writes_tell_refused_from_lost() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    let id = id_of(&cloud, 10).await;
    let answer = |status| Action::Answer {
        status,
        body: AnswerBody::Empty,
        retry_after: Some(3),
    };
    let troubles = [
        (answer(413), "refused"),
        (answer(429), "refused"),
        (answer(403), "refused"),
        (answer(500), "lost"),
        (answer(504), "lost"),
        (answer(200), "lost"),
        (answer(412), "stale"),
        (Action::CutBefore, "lost"),
        (Action::CutMidBody, "lost"),
        (Action::DelayAfter { ms: 60_000 }, "lost"),
    ];
    for (trouble, expected) in troubles {
        served.rule(Match::next("PUT", FIPS), trouble.clone());
        let before = served.n_calls("PUT", FIPS);
        let fault = cloud.set_port(&id, None, None).await.unwrap_err();
        let kind = match &fault {
            WriteFault::Stale => "stale",
            WriteFault::AnswerLost { .. } => "lost",
            WriteFault::Fault(Fault::Cloud { .. }) => "refused",
            WriteFault::Fault(_) => "another",
        };
        assert_eq!(kind, expected, "{trouble:?}: {fault:?}");
        let after = served.n_calls("PUT", FIPS);
        assert!(
            after <= before + 1,
            "a write is never repeated below the guard"
        );
    }
}

#[tokio::test]
async fn a_gateway_that_gave_up_after_the_effect_is_settled_by_reading() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    let gave_up = Action::AnswerAfter {
        status: 504,
        body: AnswerBody::Html,
        retry_after: None,
    };
    served.rule(Match::next_association(ip(10)), gave_up);
    let own = OwnPorts::new([port("port-1")]);
    let seen = cloud.find(address(10)).await.unwrap().unwrap();
    let end = associate(&cloud, seen, &own.own(&port("port-1")).unwrap(), &own).await;
    assert!(
        matches!(end, Association::Associated { adopted: true, .. }),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_cloud_without_revisions_is_read_back_all_the_same() {
    let served = Served::new(Setup {
        has_revisions: false,
        ..Setup::default()
    })
    .await;
    let cloud = served.client();
    let own = OwnPorts::new([port("port-1")]);
    let ours = own.own(&port("port-1")).unwrap();
    let seen = cloud.find(address(10)).await.unwrap().unwrap();
    assert_eq!(seen.revision, None);
    let taken = Action::TakeAfter {
        port: "port-x".to_owned(),
    };
    served.rule(Match::next("PUT", FIPS), taken);
    let end = associate(&cloud, seen, &ours, &own).await;
    assert!(
        matches!(end, Association::Conflict { ours: false, .. }),
        "{end:?}"
    );
    let seen = cloud.find(address(11)).await.unwrap().unwrap();
    let end = associate(&cloud, seen, &ours, &own).await;
    assert!(
        matches!(end, Association::Associated { adopted: false, .. }),
        "{end:?}"
    );
    assert!(
        served
            .sim
            .calls()
            .iter()
            .all(|call| call.if_match.is_none())
    );
}

#[tokio::test]
async fn ports_faults_are_told_by_neutrons_own_types() {
    let fixed_ip = ip(200);
    let mut setup = Setup::default();
    setup
        .ports
        .extend(["unrouted", "double"].map(|id| PortSetup {
            id: id.to_owned(),
            fixed_ip,
            ours: true,
        }));
    setup.unrouted_ports.push("unrouted".to_owned());
    setup.two_address_ports.push("double".to_owned());
    let served = Served::new(setup).await;
    let cloud = served.client();
    let id = id_of(&cloud, 10).await;
    for name in ["unrouted", "double", "absent"] {
        let fault = cloud
            .set_port(&id, Some(&port(name)), None)
            .await
            .unwrap_err();
        assert!(
            matches!(fault, WriteFault::Fault(Fault::Port { .. })),
            "{name}: {fault:?}"
        );
    }
}

#[tokio::test]
async fn nobody_there_is_a_fault_of_the_cloud_and_no_lost_write() {
    let served = Served::new(Setup::default()).await;
    // A port that was ours a moment ago and that nobody listens on now.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let cloud = connect(&served, |config| config.auth_url.clone_from(&nowhere));
    let (text, _) = cloud_fault(cloud.find(address(10)).await);
    assert!(text.contains("no connection"), "{text}");
    let cloud = connect(&served, |config| config.endpoint_override = Some(nowhere));
    let id = FipId::parse("f").unwrap();
    let fault = cloud.set_port(&id, None, None).await.unwrap_err();
    assert!(
        matches!(fault, WriteFault::Fault(Fault::Cloud { .. })),
        "{fault:?}"
    );
}

#[tokio::test]
async fn the_catalog_is_searched_by_region_and_interface() {
    let served = Served::new(Setup::default()).await;
    let internal = connect(&served, |config| {
        config.region = None;
        config.interface = "internalURL".to_owned();
    });
    assert!(internal.find(address(10)).await.unwrap().is_some());
    let elsewhere = connect(&served, |config| {
        config.region = Some("RegionTwo".to_owned());
    });
    let (text, _) = cloud_fault(elsewhere.find(address(10)).await);
    assert!(
        text.contains("interface public in region RegionTwo"),
        "{text}"
    );
}

#[tokio::test]
async fn only_addresses_of_the_configured_network_are_found() {
    let served = Served::new(Setup::default()).await;
    let network = |name: &str| {
        let name = Some(name.to_owned());
        connect(&served, |config| config.floating_network = name)
    };
    for name in ["public", Setup::default().network_id.as_str()] {
        let cloud = network(name);
        assert!(cloud.find(address(10)).await.unwrap().is_some());
        cloud.find(address(11)).await.unwrap();
    }
    let calls = served.sim.calls();
    let filtered = calls.iter().filter(|call| call.path == FIPS);
    assert!(
        filtered
            .clone()
            .all(|call| call.query.contains("floating_network_id=9d1f2a54"))
    );
    assert_eq!(filtered.count(), 4);
    let looked_up = calls.iter().filter(|call| call.path == "/v2.0/networks");
    assert_eq!(
        looked_up.count(),
        3,
        "each client looked it up once: by id, then by name"
    );
    let (text, _) = cloud_fault(network("nowhere").find(address(10)).await);
    assert!(text.contains("openstack.floating_network"), "{text}");
    assert_eq!(served.sim.unknown_calls(), Vec::<String>::new());
}

#[tokio::test]
async fn a_list_is_followed_to_its_end_whatever_the_size_of_its_pages() {
    let mut setup = Setup {
        page_max: Some(3),
        ..Setup::default()
    };
    setup.ports = (0..130)
        .map(|n| PortSetup {
            id: format!("p-{n}"),
            fixed_ip: [10, 77, 1, n].into(),
            ours: true,
        })
        .collect();
    for (fip, n) in setup
        .fips
        .iter_mut()
        .zip([0, 1, 2, 3, 4, 5, 6, 99, 100, 129])
    {
        fip.port = Some(format!("p-{n}"));
    }
    let ports: Vec<PortId> = setup.ports.iter().map(|setup| port(&setup.id)).collect();
    let served = Served::new(setup).await;
    for page_size in [1, 2, 200] {
        let cloud = connect(&served, |config| config.list_page_size = page_size);
        let listed = cloud.on_ports(&ports).await.unwrap();
        assert_eq!(listed.len(), 10, "pages of {page_size}");
        assert!(listed.is_sorted_by_key(|fip| fip.id.clone()));
    }
    let one_page = Match {
        count: None,
        ..Match::next("GET", FIPS)
    };
    let broken = Action::Answer {
        status: 500,
        body: AnswerBody::Empty,
        retry_after: None,
    };
    served.rule(Match { nth: 3, ..one_page }, broken);
    let cloud = connect(&served, |config| config.list_page_size = 2);
    cloud_fault(cloud.on_ports(&ports).await);
}

#[tokio::test]
async fn a_page_says_whether_it_is_worth_asking_again() {
    let served = Served::new(Setup::default()).await;
    let cloud = served.client();
    let answer = |status, retry_after| Action::Answer {
        status,
        body: AnswerBody::Empty,
        retry_after,
    };
    for (trouble, passes) in [
        (answer(500, None), true),
        (answer(503, None), true),
        (answer(429, Some(7)), true),
        (answer(400, None), false),
        (answer(403, None), false),
        (Action::CutMidBody, true),
    ] {
        served.rule(Match::next("GET", FIPS), trouble.clone());
        let fault = cloud.page(None, 5).await.unwrap_err();
        assert_eq!(fault.passes, passes, "{trouble:?}: {fault}");
        let wish = fault.retry_after.map(|time| time.as_secs());
        assert_eq!(
            wish,
            matches!(trouble, Action::Answer { status: 429, .. }).then_some(7)
        );
    }
    served.rule(Match::next("POST", TOKENS), answer(401, None));
    let fault = served.client().page(None, 5).await.unwrap_err();
    assert!(!fault.passes, "{fault}");
}

#[tokio::test]
async fn a_page_asks_for_no_more_than_it_needs() {
    let served = Served::new(Setup::default()).await;
    let network = Setup::default().network_name;
    let cloud = connect(&served, |config| config.floating_network = Some(network));
    assert_eq!(cloud.page(None, 4).await.unwrap().rows.len(), 4);
    let calls = served.sim.calls();
    let query = &calls.iter().find(|call| call.path == FIPS).unwrap().query;
    for part in [
        "fields=port_id",
        "fields=router_id",
        "limit=4",
        "floating_network_id=",
    ] {
        assert!(query.contains(part), "{query}");
    }
}

#[tokio::test]
async fn a_configuration_is_checked_without_the_network() {
    let served = Served::new(Setup::default()).await;
    let refused = |change: &dyn Fn(&mut OpenStackConfig)| {
        let mut config = served.config();
        change(&mut config);
        OpenStack::connect(config).unwrap_err()
    };
    let fault = refused(&|config| config.auth_url = "keystone:5000".to_owned());
    assert!(
        matches!(
            fault,
            ConnectError::Url {
                what: "auth URL",
                ..
            }
        ),
        "{fault}"
    );
    let fault = refused(&|config| config.endpoint_override = Some("nowhere".to_owned()));
    assert!(matches!(fault, ConnectError::Url { .. }), "{fault}");
    let fault = refused(&|config| config.auth_url = "http://keystone:5000/v2.0/".to_owned());
    assert!(matches!(fault, ConnectError::OldIdentity(_)), "{fault}");
    let fault = refused(&|config| config.list_page_size = 0);
    assert!(matches!(fault, ConnectError::PageSize(0)), "{fault}");
    let fault = refused(&|config| config.ca_file = Some(PathBuf::from("absent.pem")));
    assert!(matches!(fault, ConnectError::CaFile { .. }), "{fault}");
    let fault = refused(&|config| config.ca_file = Some(PathBuf::from("Cargo.toml")));
    assert!(
        matches!(fault, ConnectError::NoCertificate { .. }),
        "{fault}"
    );
    assert_eq!(served.sim.calls(), []);
}
