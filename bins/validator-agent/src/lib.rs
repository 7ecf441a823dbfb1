//! validator-agent: does what control-api assigns to the validators of this VM.
//!
//! One process serves several validators (slots), each with its own source address. It decides
//! nothing about an address but whether its own traffic leaves through it; what results mean is
//! control-api's business.
#![warn(missing_docs)]

mod checking;
pub mod config;
mod lifecycle;
mod responder;
mod self_check;
mod slot;

use std::sync::Arc;

use civ_boot::{Context, Refused};
use civ_checks::{Engine, Limits, Policy, Trust};
use civ_link::{Client, Endpoint, Seat};
use civ_proto::agent;
use civ_types::SystemClock;
use tokio_util::sync::CancellationToken;

use crate::config::{Settings, Validator};
use crate::responder::Plate;
use crate::slot::Slot;

/// How control-api is told that this agent serves the nonce of its assignment.
const RESPONDER: &str = "responder";

/// Serves all validators of the settings until the context's shutdown.
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
    let policy = Policy::from_inside(targets.allow.clone(), targets.deny.clone());
    let engine = Engine::new(limits, trust, policy)?;
    engine.log_icmp_mode();
    tracing::info!(slots = settings.validators.len(), "ready");
    let endpoint = Endpoint {
        url: settings.control_api.url.clone(),
        ca_file: settings.control_api.ca_file.clone(),
        cert_file: settings.control_api.cert_file.clone(),
        key_file: settings.control_api.key_file.clone(),
    };
    let client = Client::new(&endpoint).map_err(Refused::new)?;
    // Before anybody registers: what is announced must be served.
    let sockets = settings
        .responder
        .as_ref()
        .map(|wanted| responder::bind(wanted, &settings));
    let mut plates = Vec::new();
    for validator in &settings.validators {
        let ports = sockets
            .as_ref()
            .and_then(|bound| bound.http_ports(validator));
        let slot = slot(&settings, validator, ports, &context, &client, &engine)?;
        plates.push(Plate::new(validator, slot.seat.assigned()));
        let stop = context.shutdown.clone();
        context.tasks.spawn_essential("slot", run_slot(slot, stop));
    }
    if let Some(sockets) = sockets {
        sockets.serve(plates, &context)?;
    }
    context.shutdown.cancelled().await;
    Ok(())
}

async fn run_slot(slot: Slot, stop: CancellationToken) {
    slot.run(&stop).await;
}

fn slot(
    settings: &Settings,
    validator: &Validator,
    responder_ports: Option<Vec<u16>>,
    context: &Context,
    client: &Client,
    engine: &Engine,
) -> anyhow::Result<Slot> {
    let source = validator
        .token
        .as_ref()
        .unwrap_or(&settings.control_api.token);
    let token = source
        .read(context.environment.as_ref())
        .map_err(Refused::new)?;
    let id = validator.validator_id.as_str();
    if token.is_none() {
        tracing::warn!(
            id,
            "no agent token in {}: reports go without one",
            source.place()
        );
    }
    let register = agent::Register {
        validator_id: id.to_owned(),
        hostname: civ_link::hostname(),
        agent_version: Some(civ_boot::version().to_owned()),
        capabilities: responder_ports
            .is_some()
            .then(|| vec![RESPONDER.to_owned()]),
        responder_ports,
    };
    Ok(Slot {
        seat: Seat::new(client.clone(), id, token, register),
        engine: engine.clone(),
        clock: Arc::new(SystemClock),
        bind_address: validator.bind_address,
        self_check: settings.self_check.clone(),
    })
}
