//! The contract's own walk-through, word for word with curl, against an instance without tokens.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::scenarios::SOON;
use crate::settings::Settings;
use crate::stage::netns::Rights;
use crate::stage::plan::Place;
use crate::stage::tool;
use crate::world::{House, World};

const BASE: &str = "BASE=http://127.0.0.1:8080\n";
const REGISTER: &str = r#"curl -s -X POST "$BASE/api/v1/agents/register" \
  -d '{"validator_id":"validator_01","hostname":"debug-host","agent_version":"manual"}'"#;
const ASSIGNMENT: &str = r#"curl -s "$BASE/api/v1/agents/validator_01/assignment""#;
const ECHO: &str = r#"curl -s "https://api.ipify.org""#;
const SELF_CHECK: &str = r#"curl -s -X POST "$BASE/api/v1/agents/validator_01/self-check" \
  -d '{"ip_id":1,"detected_egress_ip":"203.0.113.10","success":true,"detail":"matched"}'"#;
const RESULTS: &str = r#"curl -s -X POST "$BASE/api/v1/agents/validator_01/results" \
  -d '{"results":[{"ip_id":1,"check_type":"https","target":"https://github.com","success":true,"latency_ms":80,"checked_at":"2026-08-21T09:00:00Z"}]}'"#;
const COMPLETE: &str =
    r#"curl -s -X POST "$BASE/api/v1/agents/validator_01/complete" -d '{"ip_id":1}'"#;
const PROBER: &str = r#"curl -s -X POST "$BASE/api/v1/probers/register" -d '{"site_id":"site-1"}'"#;
const PROBER_ASSIGNMENTS: &str = r#"curl -s "$BASE/api/v1/probers/site-1/assignments""#;
const PROBER_RESULTS: &str = r#"curl -s -X POST "$BASE/api/v1/probers/site-1/results" \
  -d '{"results":[{"ip_id":1,"ip_address":"203.0.113.10","check_type":"icmp","success":true,"latency_ms":5,"checked_at":"2026-08-21T09:00:01Z","complete":true}]}'"#;
const RESULT: &str = r#"curl -s "$BASE/api/v1/admin/ips/203.0.113.10" | python3 -m json.tool"#;

pub(super) async fn play(house: &House) -> Result<String> {
    let address = Ipv4Addr::new(203, 0, 113, 10);
    let settings = Settings {
        validators: 1,
        sites: 1,
        tokens: false,
        lease_ttl: 60,
        checking_window: 60,
        heartbeat_timeout: 60,
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))),
        web_targets: Some(vec!["https://github.com".to_owned()]),
        check_types: Some(vec!["https"]),
        ports: Some(Vec::new()),
        ip_addresses: vec![address],
        ..Settings::default()
    };
    let mut world = World::new(house, "walk_through", settings, &[address], &[]).await?;
    world.start_control().await?;
    say_ok(&world, REGISTER).await?;
    let assignment = until_said(&world, ASSIGNMENT).await?;
    demand(&assignment, "ip_id", &Value::from(1))?;
    demand(&assignment, "ip_address", &Value::from("203.0.113.10"))?;
    demand(&assignment, "phase", &Value::from("awaiting_self_check"))?;
    let echoed = say_in(&world, Place::Vm(1), ECHO).await?;
    if echoed.trim() != "203.0.113.10" {
        bail!("the IP-echo service said {echoed:?} through the floating address");
    }
    for step in [SELF_CHECK, RESULTS, COMPLETE, PROBER] {
        say_ok(&world, step).await?;
    }
    let assignments = parse(&say(&world, PROBER_ASSIGNMENTS).await?)?;
    let first = assignments.get(0).context("the prober has no assignment")?;
    demand(first, "ip_id", &Value::from(1))?;
    demand(first, "icmp", &Value::from(true))?;
    say_ok(&world, PROBER_RESULTS).await?;
    world.all_ended(SOON).await?;
    let result = parse(&say(&world, &without_missing_python(&world).await).await?)?;
    let ip = result.get("ip").context("no ip in the answer")?;
    demand(ip, "OverallResult", &Value::from("pass"))?;
    demand(ip, "State", &Value::from("done"))?;
    if !world
        .writes_to(address)
        .iter()
        .any(|call| call.address == Some(IpAddr::V4(address)))
    {
        bail!("the walk-through ended well and the cloud was never asked");
    }
    // Without tokens both levels are open, and control-api says so at its start.
    world.close(&["_TOKEN holds no token"]).await?;
    Ok("11 calls, as the contract writes them".to_owned())
}

/// Runs a step's text in a shell beside control-api, as a reader of the contract would.
async fn say(world: &World, step: &str) -> Result<String> {
    say_in(world, Place::Mgmt, step).await
}

async fn say_in(world: &World, place: Place, step: &str) -> Result<String> {
    let mut shell = world.stage.command(place, Rights::Own, Path::new("bash"));
    shell
        .args(["-c", &format!("set -o pipefail\n{BASE}{step}")])
        .env("CURL_CA_BUNDLE", world.stage.ca_file());
    tool::feed(&mut shell, "")
        .await
        .with_context(|| step.to_owned())
}

async fn say_ok(world: &World, step: &str) -> Result<()> {
    let said = say(world, step).await?;
    demand(&parse(&said)?, "ok", &Value::from(true)).with_context(|| step.to_owned())
}

/// Asks again until there is an answer: 204 has no body.
async fn until_said(world: &World, step: &str) -> Result<Value> {
    let end = Instant::now() + SOON;
    loop {
        let said = say(world, step).await?;
        if !said.trim().is_empty() {
            return parse(&said);
        }
        if Instant::now() > end {
            bail!("no answer within {SOON:?} to {step}");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The last call pretty-prints by Python, which a small machine may lack.
async fn without_missing_python(world: &World) -> String {
    let has_python = say(world, "command -v python3").await.is_ok();
    let (call, _) = RESULT.split_once(" | ").unwrap_or((RESULT, ""));
    if has_python { RESULT } else { call }.to_owned()
}

fn parse(said: &str) -> Result<Value> {
    serde_json::from_str(said).with_context(|| format!("no JSON: {said:?}"))
}

fn demand(value: &Value, field: &str, expected: &Value) -> Result<()> {
    let got = value.get(field);
    if got != Some(expected) {
        bail!("{field} is {got:?}, not {expected}, in {value}");
    }
    Ok(())
}
