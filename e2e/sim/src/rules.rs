//! The twelve rules, looked at from outside: after every commit and every step, from the history,
//! the tables and the cloud, by code that shares nothing with the product's.

use std::collections::{BTreeMap, BTreeSet};

use civ_types::Clock as _;
use serde_json::Value;

use crate::verdict::{is_through, verdict};
use crate::view::{Event, Ip, Snap};
use crate::world::{Retries, SECOND, World, fip, port};

/// Timers of the run, in seconds: see `product`.
pub(crate) const LEASE: i64 = 20;
/// See [`LEASE`].
pub(crate) const WINDOW: i64 = 15;
/// See [`LEASE`].
pub(crate) const GRACE: i64 = 8;
/// See [`LEASE`].
pub(crate) const HEARTBEAT: i64 = 15;
/// See [`LEASE`].
pub(crate) const RECONCILE: i64 = 8;
/// How long a silent validator claims nothing if it says nothing.
const SILENCE: i64 = 300;
/// The shortest pause of claims after a fault of the cloud, in microseconds.
const PAUSE_LEAST: i64 = SECOND / 4;
/// What a claim may take in all: association, lease, window, release grace, and what a slow or
/// full disk adds.
const CLAIM_MAX: i64 = 4 + LEASE + WINDOW + GRACE + 15;
/// What is not on our port though it should be is noticed within this time, if the cloud is well.
const NOTICED: i64 = RECONCILE + 7;

/// The numbers between two `#`, which mark what we have sent.
fn marks(text: &str) -> impl Iterator<Item = u64> {
    text.split('#').filter_map(|part| part.parse().ok())
}

fn flag(payload: &str, name: &str) -> bool {
    let value: Value = serde_json::from_str(payload).unwrap_or_default();
    value[name] == Value::Bool(true)
}

/// From a state to a state, within one step of the machine.
fn is_edge(from: &str, to: &str) -> bool {
    match from {
        "queued" => matches!(to, "assigning_fip" | "failed"),
        "assigning_fip" => {
            matches!(to, "awaiting_self_check" | "occupied" | "queued" | "failed")
        }
        "awaiting_self_check" => matches!(to, "checking" | "queued" | "failed"),
        "checking" => matches!(to, "aggregating" | "queued" | "failed"),
        "aggregating" => matches!(to, "done" | "failed"),
        _ => to == "queued",
    }
}

impl World {
    /// Looks at what a commit of so many jobs has changed.
    pub(crate) fn observe(&mut self, jobs: usize) {
        let post = self.view.snap();
        let events = self.view.events(self.last_event);
        let pre = std::mem::take(&mut self.snap);
        for event in &events {
            self.event(event, &pre, &post, jobs == 1);
        }
        self.owners(&post);
        self.counters(&post);
        if jobs == 1 {
            self.changes(&pre, &post);
        }
        for ip in post.ips.values() {
            self.reach(&format!("state {}", ip.state));
        }
        self.snap = post;
    }

    fn event(&mut self, event: &Event, pre: &Snap, post: &Snap, alone: bool) {
        self.tell(|| {
            let Event {
                kind,
                address,
                validator,
                payload,
                ..
            } = event;
            format!("  {kind} (address {address}, v{validator}) {payload}")
        });
        if event.id != self.last_event + 1 && !self.cut {
            let text = format!("entry {} follows {}", event.id, self.last_event);
            self.broken("9", text);
        }
        self.last_event = event.id;
        self.n_events += 1;
        self.payload_sum += i64::try_from(event.payload.chars().count()).unwrap_or(0);
        let stale = marks(&event.payload).find(|mark| self.stale_marks.contains(mark));
        self.seen_marks.extend(marks(&event.payload));
        let key = event.ip.and_then(|ip| {
            let row = pre.ips.get(&ip).or_else(|| post.ips.get(&ip))?;
            Some((ip, row.attempt))
        });
        match event.kind.as_str() {
            "claimed" => self.claimed(event, pre, alone),
            "fip_associated" => {
                if self.stolen.remove(&event.address) {
                    let text = format!(
                        "address {} was taken from somebody else, and nobody noticed",
                        event.address
                    );
                    self.broken("2", text);
                }
                self.held.insert(event.validator, event.address);
            }
            "fip_released" if self.held.get(&event.validator) == Some(&event.address) => {
                self.held.remove(&event.validator);
            }
            "fip_conflict" => {
                self.stolen.remove(&event.address);
                if event.severity != "error" {
                    self.broken("2", "a conflict that is no error".to_owned());
                }
            }
            "requeued" | "cancelled" | "deleted" | "failed" => {
                self.stolen.remove(&event.address);
            }
            "self_check_result" => self.self_check(event, key, stale, pre),
            "lease_expired" => self.expired(event, key, pre),
            "reconciled" => {
                if let Some(key) = key {
                    self.retries(key).detached += 1;
                }
            }
            "aggregated" if alone => self.aggregated(event, pre, post),
            _ => {}
        }
    }

    fn retries(&mut self, key: (i64, i64)) -> &mut Retries {
        self.retries.entry(key).or_default()
    }

    fn claimed(&mut self, event: &Event, pre: &Snap, alone: bool) {
        let payload: Value = serde_json::from_str(&event.payload).unwrap_or_default();
        let fence = payload["fence"].as_i64().unwrap_or(0);
        let v = event.validator;
        if let Some(address) = self.held.get(&v) {
            let text = format!(
                "v{v} claims address {} and still has address {address}",
                event.address
            );
            self.broken("5", text);
        }
        let up = self.clock.up();
        let claim = self.claims.entry(fence).or_default();
        claim.since = up;
        let now = self.clock.now().as_micros();
        if let Some((_, n)) = &mut self.outage {
            *n += 1;
        }
        // Where nothing is slow, no claim was decided upon before.
        let pause = self.refused_at.filter(|_| self.ground.slowness == 0.0);
        if pause.is_some_and(|at| self.clock.steady() < at + PAUSE_LEAST) {
            let text = format!("v{v} claims right after the cloud has refused everybody");
            self.broken("12", text);
        }
        let seen = self.contacts.get(&v).map_or(i64::MIN / 2, |one| one.0);
        // Who may claim is looked up a moment before.
        let is_set = self.clock.steady() < self.jumped_at + SECOND;
        if now > seen + (HEARTBEAT + 1) * SECOND && !is_set {
            let text = format!("v{v} claims without a sign of life");
            self.broken("claims", text);
        }
        let Some(one) = pre.validators.get(&v).filter(|_| alone) else {
            return;
        };
        let silent = one.silenced.is_some_and(|at| now < at + SILENCE * SECOND);
        let paused = one.paused.is_some_and(|until| now < until);
        if !one.registered || silent || paused {
            let text = format!("v{v} claims though it may not: {one:?}");
            self.broken("claims", text);
        }
    }

    fn self_check(
        &mut self,
        event: &Event,
        key: Option<(i64, i64)>,
        stale: Option<u64>,
        pre: &Snap,
    ) {
        let passed = flag(&event.payload, "success");
        if let Some(mark) = stale {
            let text = format!("the late self-check {mark} counted for {}", event.address);
            self.broken("7", text);
        }
        let sound = marks(&event.payload).any(|mark| self.sound_marks.contains(&mark));
        if passed && !sound {
            let text = format!("a self-check of address {} passed wrongly", event.address);
            self.broken("verdict", text);
        }
        if let Some(key) = key {
            if let Some(ip) = pre.ips.get(&key.0) {
                self.claims.entry(ip.claim).or_default().passed |= passed;
            }
            let retries = self.retries(key);
            retries.silent = 0;
            retries.failed += i64::from(!passed);
        }
    }

    fn expired(&mut self, event: &Event, key: Option<(i64, i64)>, pre: &Snap) {
        let silent = flag(&event.payload, "silent");
        let Some(key) = key else { return };
        let claim = pre.ips.get(&key.0).map_or(0, |ip| ip.claim);
        let heard = self.claims.get(&claim).is_some_and(|claim| claim.heard);
        if !silent && !heard {
            let text = format!(
                "the lease of address {} ended without a report, and counts against it",
                event.address
            );
            self.broken("claims", text);
        }
        let retries = self.retries(key);
        if silent {
            retries.silent += 1;
            if retries.silent == 3 {
                retries.silent = 0;
                retries.failed += 1;
            }
        } else {
            retries.silent = 0;
            retries.failed += 1;
        }
    }

    fn aggregated(&mut self, event: &Event, pre: &Snap, post: &Snap) {
        let Some(ip) = event.ip.and_then(|ip| post.ips.get(&ip)) else {
            return;
        };
        let basis = self.view.basis(ip);
        let right = verdict(&basis, self.ground.missing_counts);
        if ip.verdict != right {
            let text = format!(
                "address {} is judged {}, and ought to be {right}: {basis:?}",
                ip.address, ip.verdict
            );
            self.broken("verdict", text);
        }
        self.reach(&format!("verdict {right}"));
        let now = self.clock.now().as_micros();
        let ends = pre.ips.get(&ip.id).and_then(|ip| ip.due);
        if ends.is_some_and(|ends| now < ends) && !is_through(&basis, ip.egress_complete) {
            let text = format!("address {} is judged before all is in", ip.address);
            self.broken("verdict", text);
        }
    }

    /// Who owns what, as the tables have it.
    fn owners(&mut self, post: &Snap) {
        let (mut validators, mut addresses) = (BTreeSet::new(), BTreeSet::new());
        let mut of_claim = BTreeMap::new();
        for lease in &post.leases {
            let twice = lease.validator != 0 && !validators.insert(lease.validator);
            if twice || !addresses.insert(lease.address) {
                self.broken("1", format!("owned twice: {lease:?}"));
            }
            let owner = lease.ip.and_then(|ip| post.ips.get(&ip));
            let owned = owner.is_some_and(|ip| ip.holds() && ip.claim == lease.claim);
            if !lease.releasing && !owned {
                self.broken("3", format!("a lease that nobody ends: {lease:?}"));
            }
            if lease.releasing && !lease.orders.1 {
                self.broken("3", format!("a lease that is never released: {lease:?}"));
            }
            of_claim.insert(lease.claim, lease);
        }
        for ip in post.ips.values().filter(|ip| ip.holds()) {
            match of_claim.get(&ip.claim) {
                Some(lease) if !lease.releasing => {
                    if ip.state == "assigning_fip" && !lease.orders.0 {
                        let text = format!("address {} waits for no call", ip.address);
                        self.broken("3", text);
                    }
                }
                _ => {
                    let text = format!("address {} is {} without a lease", ip.address, ip.state);
                    self.broken("1", text);
                }
            }
        }
        for ip in post.ips.values() {
            let waits = ip.holds() || ip.state == "aggregating";
            if waits && ip.due.is_none() {
                let text = format!("address {} is {} without an end", ip.address, ip.state);
                self.broken("8", text);
            }
        }
        for (v, one) in &post.validators {
            if one.paused.is_some() && !one.why {
                self.broken("12", format!("v{v} pauses and does not say why"));
            }
        }
    }

    /// Retries, as many as there were reasons for.
    fn counters(&mut self, post: &Snap) {
        let (most, most_assign) = (
            i64::from(self.ground.self_check_retries),
            i64::from(self.ground.assign_retries),
        );
        for ip in post.ips.values() {
            let faults = self.address_faults.get(&ip.address).copied().unwrap_or(0);
            let key = (ip.id, ip.attempt);
            let known = self.retries.entry(key).or_insert_with(|| Retries {
                faults_before: faults,
                ..Retries::default()
            });
            let (failed, reasons) = (known.failed, faults - known.faults_before + known.detached);
            if ip.self_check < failed.min(most) || (failed > most && !ip.ended()) {
                let text = format!(
                    "address {} failed {failed} times, {} are counted, {most} are allowed",
                    ip.address, ip.self_check
                );
                self.broken("8", text);
            }
            if ip.self_check > failed.min(most) {
                let text = format!(
                    "address {} has used up {} retries and failed {failed} times",
                    ip.address, ip.self_check
                );
                self.broken("12", text);
            }
            let used = ip.assign + i64::from(ip.cause == "assign_retries");
            if used > reasons || ip.assign > most_assign {
                let text = format!(
                    "address {} has used up {used} retries of its association for {reasons} faults",
                    ip.address
                );
                self.broken("12", text);
            }
        }
    }

    /// What one job has changed.
    fn changes(&mut self, pre: &Snap, post: &Snap) {
        let queued = |snap: &Snap| -> Vec<Ip> {
            let mut all: Vec<Ip> = snap
                .ips
                .values()
                .filter(|ip| ip.state == "queued")
                .cloned()
                .collect();
            all.sort_by_key(|ip| ip.sequence);
            all
        };
        let before = queued(pre);
        let behind = before.iter().map(|ip| ip.sequence).max().unwrap_or(0);
        for old in pre.ips.values() {
            let Some(new) = post.ips.get(&old.id) else {
                continue;
            };
            if old.state != new.state && !is_edge(old.state, new.state) {
                let text = format!("address {}: {} > {}", old.address, old.state, new.state);
                self.broken("7", text);
            }
            let requeued = old.holds() && new.state == "queued";
            if requeued && new.sequence <= behind {
                let text = format!("address {} comes back in front of others", old.address);
                self.broken("11", text);
            }
        }
        let leased: BTreeSet<u8> = pre.leases.iter().map(|lease| lease.address).collect();
        let mut waits = before.iter().filter(|ip| !leased.contains(&ip.address));
        let is_new = |ip: &&Ip| {
            let old = pre.ips.get(&ip.id);
            ip.state == "assigning_fip" && old.is_some_and(|old| old.state == "queued")
        };
        let mut claimed: Vec<&Ip> = post.ips.values().filter(is_new).collect();
        claimed.sort_by_key(|ip| ip.sequence);
        for ip in claimed {
            let first = waits.next().map(|ip| ip.id);
            if first != Some(ip.id) {
                let text = format!("address {} was claimed before its turn", ip.address);
                self.broken("11", text);
            }
        }
    }

    /// What time does, looked at after each step.
    pub(crate) fn look(&mut self) {
        let (up, now) = (self.clock.up(), self.clock.steady());
        let snap = std::mem::take(&mut self.snap);
        for ip in snap.ips.values() {
            let open = ip.holds() || ip.state == "aggregating";
            let Some(claim) = self.claims.get(&ip.claim).filter(|_| open) else {
                continue;
            };
            let lasts = (up - claim.since - claim.set_back) / SECOND;
            if lasts > CLAIM_MAX {
                let text = format!("address {} is {} for {lasts} s", ip.address, ip.state);
                self.broken("8", text);
            }
        }
        let mut off = BTreeMap::new();
        for lease in snap
            .leases
            .iter()
            .filter(|one| one.attached && !one.releasing)
        {
            if self.fake.port_of(&fip(lease.address)) == Some(port(lease.port)) {
                continue;
            }
            let since = self.off_since.get(&lease.claim).copied().unwrap_or(now);
            off.insert(lease.claim, since);
            // Changes that seem to be yet to come are left alone.
            let claim = self.claims.get(&lease.claim);
            let set_back = claim.map_or(0, |claim| claim.set_back);
            let quiet = now - since.max(self.cloud_well_since) - set_back;
            if quiet > NOTICED * SECOND {
                let text = format!("address {} is not on its port any more", lease.address);
                self.broken("3", text);
            }
        }
        self.off_since = off;
        self.snap = snap;
        self.outages(now);
    }

    /// Claims while the cloud is away.
    fn outages(&mut self, now: i64) {
        if !self.is_away() {
            self.outage = None;
            return;
        }
        let (since, n) = *self.outage.get_or_insert((now, 0));
        let quarters = u32::try_from((now - since) / (SECOND / 4)).unwrap_or(u32::MAX);
        // Pauses double from a quarter of a second at least; calls under way may add to it.
        let most = 3 * self.ground.parallel + quarters.saturating_add(1).ilog2() + 4;
        if n > most {
            let text = format!("{n} claims while the cloud is away, {most} at most");
            self.broken("12", text);
        }
    }

    /// What must not be lost.
    pub(crate) fn look_at_history(&mut self) {
        let n_checks = self.view.count("SELECT COUNT(*) FROM checks", []);
        if !self.cut {
            let n = self.view.count("SELECT COUNT(*) FROM events", []);
            let sum = self
                .view
                .count("SELECT SUM(LENGTH(payload)) FROM events", []);
            if n != self.n_events || sum != self.payload_sum {
                let text = format!("{n} entries of {} are left or unchanged", self.n_events);
                self.broken("9", text);
            }
            if n_checks < self.n_checks {
                let text = format!("{n_checks} results of {} are left", self.n_checks);
                self.broken("9", text);
            }
            let kept: Vec<_> = self
                .accepted
                .iter()
                .filter(|(_, one)| one.under_way == 0)
                .filter_map(|(key, one)| Some((key.clone(), one.detail.clone()?)))
                .collect();
            for ((ip, attempt, spec), detail) in kept {
                let stored = self.view.result(ip, attempt, &spec).map(|(text, _)| text);
                if stored.as_deref() != Some(&detail) {
                    let text = format!("{spec:?} was accepted as {detail}, and is {stored:?}");
                    self.broken("6", text);
                }
            }
        }
        self.n_checks = n_checks;
    }

    /// Whether nothing moves any more.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.late.is_empty()
            && self.snap.leases.is_empty()
            && self.snap.ips.values().all(Ip::ended)
            && self.on_our_ports().is_empty()
    }

    /// Addresses that hang on ports of ours. What somebody hung there is ours to free only as long
    /// as the port is.
    pub(crate) fn on_our_ports(&self) -> Vec<u8> {
        let ours = |n: &u8| {
            let on = self.fake.port_of(&fip(*n));
            let mut validators = self.snap.validators.values();
            on.is_some_and(|on| {
                on.as_str().starts_with("port-")
                    && (!self.by_hand.contains(n) || validators.any(|one| port(one.port) == on))
            })
        };
        (1..=crate::story::ADDRESSES).filter(ours).collect()
    }

    /// What must have come to its end when all has been well for long.
    pub(crate) fn look_at_end(&mut self) {
        let bound = self.on_our_ports();
        if !bound.is_empty() {
            self.broken("3", format!("still on our ports: {bound:?}"));
        }
        if let Some(lease) = self.snap.leases.first().cloned() {
            self.broken("3", format!("never released: {lease:?}"));
        }
        let open: Vec<_> = self
            .snap
            .ips
            .values()
            .filter(|ip| !ip.ended())
            .map(|ip| (ip.address, ip.state))
            .collect();
        if !open.is_empty() {
            self.broken("8", format!("never ended: {open:?}"));
        }
        self.look_at_history();
    }

    /// A restart has moved the moments by the time that the process was down, and nothing else.
    pub(crate) fn look_at_restart(
        &mut self,
        before: &(BTreeMap<String, i64>, Option<i64>),
        snap: &Snap,
    ) {
        let after = self.view.moments();
        let now = self.clock.now().as_micros();
        // Backwards, if the clock was set back meanwhile.
        let down = before.1.map_or(0, |alive| now - alive);
        for contact in self.contacts.values_mut() {
            contact.0 += down;
        }
        // Whoever has a report to make gets the time to come back with it.
        let back = now + down.min(10 * SECOND) + 2 * SECOND;
        let moved: BTreeMap<String, i64> = before
            .0
            .iter()
            .map(|(name, at)| {
                let is_awaited = 0 < down && name.starts_with("report of ");
                let at = at + down;
                (name.clone(), if is_awaited { at.max(back) } else { at })
            })
            .collect();
        if moved != after.0 {
            let differs: Vec<_> = moved
                .iter()
                .filter(|(name, at)| after.0.get(*name) != Some(at))
                .map(|(name, at)| (name, at, after.0.get(name)))
                .collect();
            let text = format!("down for {down} us, and {differs:?}");
            self.broken("10", text);
        }
        let fresh = self.view.snap();
        let still = |snap: &Snap| -> Vec<_> {
            let of = |ip: &Ip| (ip.id, ip.state, ip.attempt, ip.claim, ip.sequence);
            snap.ips.values().map(of).collect()
        };
        if still(snap) != still(&fresh) || snap.leases != fresh.leases {
            self.broken("10", "a restart has changed something".to_owned());
        }
        self.snap = fresh;
    }
}
