//! Owns the stories on the real cloud. Each is one of the product's own scenarios, with Neutron in
//! the simulation's place, and ends with the same audit.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cast::{Cast, SOON, Scene};
use super::proxy::{Call, Deed, Fault};
use super::rest::Rest;
use super::rig::id_of;
use crate::scenarios::all_are;
use crate::settings::Settings;
use crate::waiting::found;

/// What control-api says when somebody else writes at the same time.
const CONFLICT: [&str; 1] = ["somebody else"];
/// Warnings of answers that were lost.
const LOST: [&str; 2] = ["the cloud's answer", "cloud"];

/// Six addresses, three validators, two sites: all pass, and Neutron made every change.
pub(super) async fn happy_path(scene: &Scene<'_>) -> Result<String> {
    let addresses = &scene.addresses()[..6];
    let mut cast = Cast::new(scene, "happy_path").await?;
    cast.start().await?;
    let begun = tokio::time::Instant::now();
    cast.api.enqueue(addresses).await?;
    cast.all_ended().await?;
    let took = begun.elapsed();
    cast.demand(&all_are(addresses, "pass")).await?;
    for address in addresses {
        // An agent's report in between makes our view stale: then Neutron answers 412 first.
        let mut writes = cast.writes_to(*address);
        writes.retain(|call| call.status != Some(412));
        let kinds: Vec<_> = writes.iter().map(Call::is_association).collect();
        if kinds != [true, false] || writes.iter().any(|call| call.status != Some(200)) {
            bail!("{address} saw other writes than one there and one back: {writes:?}");
        }
    }
    cast.close(&[]).await?;
    Ok(format!("6 of 6 pass in {:.1} s", took.as_secs_f64()))
}

/// An address on somebody else's port is left alone.
pub(super) async fn occupied(scene: &Scene<'_>) -> Result<String> {
    let addresses = &scene.addresses()[..3];
    let foreign = addresses[0];
    let mut cast = Cast::new(scene, "occupied").await?;
    let port = scene.foreign(1)?;
    scene
        .ground
        .rest
        .bind(&fip(&cast, foreign)?, Some(port))
        .await?;
    cast.start().await?;
    cast.api.enqueue(addresses).await?;
    cast.all_ended().await?;
    cast.demand(&[
        (foreign, "occupied"),
        (addresses[1], "pass"),
        (addresses[2], "pass"),
    ])
    .await?;
    let writes = cast.writes_to(foreign);
    if !writes.is_empty() {
        bail!("the proxy saw writes to {foreign}: {writes:?}");
    }
    cast.demand_port(foreign, Some(port)).await?;
    cast.close(&[]).await?;
    Ok("no write to the foreign address".to_owned())
}

fn fip(cast: &Cast<'_>, address: Ipv4Addr) -> Result<String> {
    let id = cast.fips.get(&address).cloned();
    id.with_context(|| format!("there is no floating IP {address}"))
}

/// Somebody else binds this floating IP to this port.
fn take(rest: &Rest, port: &str) -> Deed {
    let (rest, port) = (rest.clone(), port.to_owned());
    Box::new(move |call| Box::pin(async move { rest.bind(id_of(&call), Some(&port)).await }))
}

fn next_association(scene: &Scene<'_>, fip: &str, fault: Fault) {
    let fip = fip.to_owned();
    let meets = move |call: &Call| call.is_association() && id_of(call) == fip;
    scene.network.next(meets, fault);
}

/// The address is free when we read it, and somebody else's a moment later: before our write,
/// before it and with our condition lost on the way, and between our write and our reading back.
pub(super) async fn race(scene: &Scene<'_>) -> Result<String> {
    let all = scene.addresses();
    let [refused, unseen, taken] = [all[0], all[1], all[2]];
    let mut cast = Cast::new(scene, "race").await?;
    let rest = &scene.ground.rest;
    let deed = |n| anyhow::Ok(take(rest, scene.foreign(n)?));
    next_association(scene, &fip(&cast, refused)?, Fault::Before(deed(1)?));
    next_association(scene, &fip(&cast, unseen)?, Fault::BeforeUnseen(deed(2)?));
    next_association(scene, &fip(&cast, taken)?, Fault::After(deed(3)?));
    cast.start().await?;
    let addresses = [refused, unseen, taken];
    cast.api.enqueue(&addresses).await?;
    cast.all_ended().await?;
    cast.demand(&all_are(&addresses, "occupied")).await?;
    cast.demand_port(refused, Some(scene.foreign(1)?)).await?;
    cast.demand_port(taken, Some(scene.foreign(3)?)).await?;
    let stale: Vec<_> = cast
        .writes_to(refused)
        .iter()
        .map(|call| call.status)
        .collect();
    if stale != [Some(412)] {
        bail!("Neutron did not refuse the stale write to {refused}: {stale:?}");
    }
    for address in [unseen, taken] {
        let details = cast.api.details(&address.to_string()).await?;
        let mut events = details.events.iter();
        if !events.any(|e| e.event_type == "fip_conflict" && e.severity == "error") {
            bail!("{address} was lost to somebody else and no fip_conflict tells it");
        }
    }
    cast.close(&CONFLICT).await?;
    Ok("412, a move without our condition, and a move before the read-back".to_owned())
}

/// Answers are lost, before and after the effect, of associations and of releases: nothing is
/// attached twice, nothing is left behind.
pub(super) async fn lost_answer(scene: &Scene<'_>) -> Result<String> {
    let addresses = &scene.addresses()[..5];
    let mut cast = Cast::new(scene, "lost_answer").await?;
    let ids: Vec<String> = addresses
        .iter()
        .map(|a| fip(&cast, *a))
        .collect::<Result<_>>()?;
    next_association(scene, &ids[0], Fault::CutAfter);
    next_association(scene, &ids[1], Fault::CutBefore);
    next_association(scene, &ids[2], Fault::AnswerAfter(504));
    for (id, fault) in [
        (&ids[3], Fault::CutAfter),
        (&ids[4], Fault::AnswerAfter(502)),
    ] {
        let id = id.clone();
        let meets = move |call: &Call| call.is_release() && id_of(call) == id;
        scene.network.next(meets, fault);
    }
    cast.start().await?;
    cast.api.enqueue(addresses).await?;
    cast.all_ended().await?;
    cast.demand(&all_are(addresses, "pass")).await?;
    for (address, expected) in addresses.iter().zip([1, 2, 1, 1, 1]) {
        let writes = cast.writes_to(*address);
        let n = writes.iter().filter(|call| call.is_association()).count();
        if n != expected {
            bail!("{address} was associated by {n} writes, not {expected}: {writes:?}");
        }
    }
    cast.close(&LOST).await?;
    Ok("3 associations and 2 releases whose answers were lost".to_owned())
}

/// Keystone takes the token back while addresses are being checked.
pub(super) async fn token_revoked(scene: &Scene<'_>) -> Result<String> {
    let addresses = &scene.addresses()[..6];
    let mut cast = Cast::new(scene, "token_revoked").await?;
    let admin = Rest::login(scene.facts, "admin").await?;
    cast.start().await?;
    cast.api.enqueue(addresses).await?;
    let used = found("an address was associated", SOON, async || {
        let mut calls = scene.network.calls();
        calls.retain(|call| call.is_association() && call.status == Some(200));
        Ok(calls.pop().map(|call| call.token))
    })
    .await?;
    admin.revoke(&scene.facts.auth_url, &used).await?;
    // Neutron remembers for a few seconds that the token was good.
    found("Neutron refuses the token", SOON, async || {
        let refused = |call: &Call| call.status == Some(401);
        if cast
            .api
            .queue()
            .await?
            .iter()
            .all(crate::audit::is_terminal)
        {
            cast.api.enqueue(addresses).await?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(scene.network.calls().iter().any(refused).then_some(()))
    })
    .await?;
    cast.all_ended().await?;
    cast.demand(&all_are(addresses, "pass")).await?;
    let (logins, refused) = (logins(&cast), refusals(scene).len());
    if logins != 2 {
        bail!("{logins} logins for one token that was taken back, after {refused} refused calls");
    }
    cast.close(&[]).await?;
    Ok(format!(
        "{refused} calls refused with 401, one new login, 6 of 6 pass"
    ))
}

fn logins(cast: &Cast<'_>) -> usize {
    let calls = cast.keystone.calls();
    calls
        .iter()
        .filter(|call| call.path.ends_with("/auth/tokens"))
        .count()
}

/// Calls that Neutron refused because of their token.
fn refusals(scene: &Scene<'_>) -> Vec<Call> {
    let mut calls = scene.network.calls();
    calls.retain(|call| call.status == Some(401));
    calls
}

/// Says of a token that it lives for long.
fn never_ending(answer: &mut serde_json::Value) {
    answer["token"]["expires_at"] = "2999-01-01T00:00:00.000000Z".into();
}

/// Tokens end after a quarter of a minute. Of the first we are told otherwise, so that it ends in
/// the middle of the work; those after it are renewed ahead of their end.
pub(super) async fn token_expiry(scene: &Scene<'_>) -> Result<String> {
    let addresses = &scene.addresses()[..6];
    let mut cast = Cast::new(scene, "token_expiry").await?;
    cast.keystone = std::sync::Arc::clone(&scene.brief);
    let is_login = |call: &Call| call.path.ends_with("/auth/tokens");
    scene.brief.next(is_login, Fault::Rewrite(never_ending));
    cast.start().await?;
    found("four logins", SOON, async || {
        let rows = cast.api.queue().await?;
        if rows.iter().all(crate::audit::is_terminal) {
            cast.api.enqueue(addresses).await?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok((logins(&cast) >= 4).then_some(()))
    })
    .await?;
    cast.all_ended().await?;
    cast.demand(&all_are(addresses, "pass")).await?;
    let refused = refusals(scene);
    let first = scene.network.calls().first().map(|call| call.token.clone());
    let others = refused
        .iter()
        .filter(|call| Some(&call.token) != first.as_ref());
    if refused.is_empty() || others.count() > 0 {
        bail!("Neutron refused other tokens than the first: {refused:?}");
    }
    let (logins, refused) = (logins(&cast), refused.len());
    cast.close(&[]).await?;
    Ok(format!(
        "{refused} calls refused at a token's end, {logins} logins, 6 of 6 pass"
    ))
}

/// A project of some hundred floating IPs: counted first, then put into the queue.
pub(super) async fn scan(scene: &Scene<'_>) -> Result<String> {
    let facts = scene.facts;
    let settings = Settings {
        request_timeout: 30,
        page_size: 50,
        port_ids: Some(facts.ports.clone()),
        ..Settings::default()
    };
    let mut cast = Cast::with(scene, "scan", "validator", settings).await?;
    let validator = Rest::login(facts, "validator").await?;
    let before = validator
        .all("floatingips", "sort_key=id&sort_dir=asc")
        .await?;
    let free = before.iter().filter(|row| row["port_id"].is_null()).count();
    if before.len() < 300 || before.len() - free != facts.customer_ports.len() {
        bail!("the lab has {free} free of {} floating IPs", before.len());
    }
    cast.start_control().await?;
    let counted = cast.api.scan_to_the_end(true).await?.scanned_free;
    if !cast.api.queue().await?.is_empty() {
        bail!("the dry run put addresses into the queue");
    }
    let begun = tokio::time::Instant::now();
    let scanned = cast.api.scan_to_the_end(false).await?.scanned_free;
    let took = begun.elapsed();
    let queued = cast.api.queue().await?.len();
    if [counted, scanned, u64::try_from(queued)?] != [u64::try_from(free)?; 3] {
        bail!("{free} are free, {counted} counted, {scanned} scanned, {queued} queued");
    }
    if scene.network.calls().iter().any(Call::is_write) {
        bail!("the scan changed something");
    }
    if validator
        .all("floatingips", "sort_key=id&sort_dir=asc")
        .await?
        != before
    {
        bail!("the floating IPs are not what they were before the scan");
    }
    let rows = cast.api.queue().await?;
    for row in rows {
        cast.api.delete(row.ip_address.parse()?).await?;
    }
    cast.close(&[]).await?;
    let (all, took) = (before.len(), took.as_secs_f64());
    Ok(format!(
        "{free} free of {all} in pages of 50, in {took:.1} s"
    ))
}
