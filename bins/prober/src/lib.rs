//! prober: checks from an outside site every address that control-api has under test.
//!
//! It decides nothing about an address; what results mean is control-api's business.
#![warn(missing_docs)]

pub mod config;
mod identity;
mod pass;
mod schedule;
mod site;

use std::sync::Arc;

use civ_boot::{Context, Refused};
use civ_checks::{Engine, Limits, Policy, Trust};
use civ_link::{Client, Endpoint, Prober, Seat};
use civ_proto::prober;
use civ_types::SystemClock;

use crate::config::Settings;
use crate::site::Site;

/// What this prober can do beyond the contract: it compares nonces, and checks that ports are
/// closed.
const CAPABILITIES: [&str; 2] = ["identity", "closed_ports"];

/// Probes for the site of the settings until the context's shutdown.
///
/// # Errors
/// What only the start can find out: certificates that cannot be used, a token file that can not
/// be read. An absent control-api is no error, it is waited for.
pub async fn run(settings: Settings, context: Context) -> anyhow::Result<()> {
    let trust = Trust::native().map_err(Refused::new)?;
    let limits = Limits {
        max_concurrent: settings.checks.max_concurrent,
        timeout: settings.checks.timeout,
        icmp_packets_per_second: settings.checks.icmp_packets_per_second,
    };
    let targets = &settings.checks.targets;
    let policy = Policy::from_outside(targets.allow.clone(), targets.deny.clone());
    let engine = Engine::new(limits, trust, policy)?;
    engine.log_icmp_mode();
    tracing::info!(site = %settings.site_id, "ready");
    let site = Site {
        seat: Arc::new(seat(&settings, &context)?),
        engine,
        clock: Arc::new(SystemClock),
        bind_address: settings.bind_address,
        patience: settings.checks.timeout,
        tasks: context.tasks,
    };
    site.run(&context.shutdown).await;
    Ok(())
}

fn seat(settings: &Settings, context: &Context) -> anyhow::Result<Seat<Prober>> {
    let control_api = &settings.control_api;
    let endpoint = Endpoint {
        url: control_api.url.clone(),
        ca_file: control_api.ca_file.clone(),
        cert_file: control_api.cert_file.clone(),
        key_file: control_api.key_file.clone(),
    };
    let client = Client::new(&endpoint).map_err(Refused::new)?;
    let token = control_api
        .token
        .read(context.environment.as_ref())
        .map_err(Refused::new)?;
    if token.is_none() {
        let place = control_api.token.place();
        tracing::warn!("no agent token in {place}: reports go without one");
    }
    let site_id = settings.site_id.as_str();
    let register = prober::Register {
        site_id: site_id.to_owned(),
        hostname: civ_link::hostname(),
        capabilities: Some(CAPABILITIES.map(str::to_owned).to_vec()),
    };
    Ok(Seat::new(client, site_id, token, register))
}
