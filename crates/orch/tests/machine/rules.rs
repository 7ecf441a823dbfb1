//! The rules of the domain that are decided by the machine alone, each by its name.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{associated, fresh, place};
use civ_orch::attempt::{
    Attempt, Cause, Ctx, Effect, Event, Fact, FaultKind, Order, Policy, Refused, Report,
    SILENT_LEASES_MAX, StateName, Step,
};
use civ_orch::expected::{Configured, Progress, Reported, Site, Verdict, judge, tally, unseen};
use civ_types::{CheckName, CheckSpec, ClaimNo, SiteId, Utc};

const POLICY: Policy = Policy {
    answer_secs: 60,
    lease_secs: 60,
    window_secs: 60,
    release_grace_secs: 60,
    assign_retries_max: 3,
    self_check_retries_max: 3,
};

struct Run {
    attempt: Attempt,
    now: Utc,
    heard: bool,
    effects: Vec<Effect>,
}

impl Run {
    fn new() -> Self {
        Self {
            attempt: fresh(),
            now: Utc::EPOCH,
            heard: true,
            effects: Vec::new(),
        }
    }

    fn event(mut self, event: &Event) -> Self {
        let tally = crate::world::tally(false);
        let (now, heard) = (self.now, self.heard);
        let ctx = Ctx {
            now,
            policy: &POLICY,
            tally: &tally,
            heard,
            queue_end: 5,
        };
        let Step { next, effects } = self.attempt.step(event, &ctx).unwrap();
        self.attempt = next.unwrap();
        self.effects = effects;
        self
    }

    fn claim(self, n: u8) -> Self {
        let claim = ClaimNo(self.attempt.head().claim.0 + 1);
        self.event(&Event::Order(Order::Claim {
            claim,
            place: place(n),
        }))
    }

    fn report(self, report: Report) -> Self {
        let claim = self.attempt.head().claim;
        self.event(&Event::Report(claim, report))
    }

    fn late_tick(mut self) -> Self {
        self.now = self.now.plus_secs(61);
        self.event(&Event::Order(Order::Tick))
    }

    fn failed(self, kind: FaultKind) -> Self {
        self.report(Report::CloudFailed {
            kind,
            why: "told".to_owned(),
        })
    }
}

fn refusal(attempt: Attempt, event: &Event) -> Refused {
    let tally = crate::world::tally(true);
    let ctx = Ctx {
        now: Utc::EPOCH,
        policy: &POLICY,
        tally: &tally,
        heard: true,
        queue_end: 5,
    };
    attempt.step(event, &ctx).unwrap_err()
}

#[test]
fn rule_07_late_report_changes_nothing() {
    let again = Run::new()
        .claim(1)
        .failed(FaultKind::Cloud)
        .claim(2)
        .report(associated());
    let late = Event::Report(
        ClaimNo(1),
        Report::SelfCheck {
            passed: true,
            detail: String::new(),
        },
    );
    let stale = Refused::Stale {
        got: ClaimNo(1),
        current: ClaimNo(2),
    };
    assert_eq!(refusal(again.attempt, &late), stale);
}

#[test]
fn rule_08_every_claim_ends_with_everybody_dead() {
    let mut run = Run::new();
    run.heard = false;
    let mut n_claims = 0;
    while !run.attempt.name().is_terminal() {
        n_claims += 1;
        assert!(n_claims <= 100, "claims go on for ever");
        run = run.claim(1).report(associated()).late_tick();
    }
    assert_eq!(run.attempt.to_row().cause, Some(Cause::SelfCheckRetries));
    // Each forgiven expiry, and the last one, stands for that many silent leases.
    assert_eq!(
        n_claims,
        (POLICY.self_check_retries_max + 1) * SILENT_LEASES_MAX
    );
}

#[test]
fn rule_11_a_requeued_address_goes_behind_those_who_wait() {
    for kind in [FaultKind::Address, FaultKind::Port, FaultKind::Cloud] {
        let run = Run::new().claim(1).failed(kind);
        assert_eq!(run.attempt.head().sequence, 5);
    }
}

#[test]
fn rule_12_an_outage_or_a_sick_port_uses_up_no_retry() {
    let mut run = Run::new();
    for _ in 0..20 {
        run = run
            .claim(1)
            .failed(FaultKind::Cloud)
            .claim(1)
            .failed(FaultKind::Port);
    }
    assert_eq!(run.attempt.name(), StateName::Queued);
    assert_eq!(run.attempt.head().retries.assign, 0);
    assert_eq!(
        run.attempt.head().avoid.as_ref().map(|v| v.as_str()),
        Some("v1")
    );
    assert!(
        run.effects
            .iter()
            .any(|e| matches!(e, Effect::PausePort { why, .. } if why == "told"))
    );
}

#[test]
fn rule_12_a_fault_of_the_address_is_its_own() {
    let mut run = Run::new();
    for _ in 0..POLICY.assign_retries_max {
        run = run.claim(1).failed(FaultKind::Address);
        assert_eq!(run.attempt.name(), StateName::Queued);
    }
    run = run.claim(1).failed(FaultKind::Address);
    assert_eq!(run.attempt.to_row().cause, Some(Cause::AssignRetries));
}

#[test]
fn a_silent_lease_is_the_validators_fault() {
    let mut run = Run::new().claim(1).report(associated());
    run.heard = false;
    run = run.late_tick();
    assert_eq!(run.attempt.head().retries.self_check, 0);
    assert_eq!(
        run.attempt.head().avoid.as_ref().map(|v| v.as_str()),
        Some("v1")
    );
    assert!(
        run.effects
            .iter()
            .any(|e| matches!(e, Effect::Silence(v) if v.as_str() == "v1"))
    );
    let silent = |e: &Effect| matches!(e, Effect::Record(Fact::LeaseExpired { silent: true }));
    assert!(run.effects.iter().any(silent));
}

#[test]
fn who_was_in_between_keeps_the_address() {
    let theirs = Run::new().claim(1).report(Report::Conflict {
        ours: false,
        seen: "x".into(),
    });
    assert_eq!(theirs.attempt.name(), StateName::Occupied);
    assert!(
        theirs
            .effects
            .iter()
            .any(|e| matches!(e, Effect::Forget(_)))
    );
    let ours = Run::new().claim(1).report(Report::Conflict {
        ours: true,
        seen: "x".into(),
    });
    assert_eq!(ours.attempt.name(), StateName::Occupied);
    assert!(ours.effects.iter().any(|e| matches!(e, Effect::Release(_))));
}

fn site(n: u8) -> SiteId {
    SiteId::parse(&format!("site-{n}")).unwrap()
}

fn prober(n: u8) -> Site {
    Site {
        id: site(n),
        identity: false,
        closed_ports: false,
    }
}

fn configured() -> Configured {
    let https = CheckName::parse("https").unwrap();
    Configured {
        egress: vec![(https, vec!["https://a".to_owned(), "https://b".to_owned()])],
        sites: vec![prober(1), prober(2)],
        ports: vec![22, 80, 443],
        closed_ports: vec![23],
        icmp: true,
    }
}

fn all(specs: &BTreeSet<CheckSpec>, how: Reported) -> BTreeMap<CheckSpec, Reported> {
    specs.iter().map(|spec| (spec.clone(), how)).collect()
}

#[test]
fn what_is_expected_follows_the_configuration() {
    let names: Vec<_> = configured()
        .site_specs(&prober(1), false)
        .iter()
        .map(|s| s.name.to_string())
        .collect();
    assert_eq!(
        names,
        ["icmp", "ssh", "tcp-22", "tcp-443", "tcp-80", "tls-443"]
    );
    assert_eq!(configured().specs(false).len(), 2 + 2 * 6);
}

#[test]
fn the_verdict_follows_the_expected_checks() {
    let expected = configured().specs(false);
    let verdict = |reported, counts| judge(&expected, &reported, counts).verdict;
    let passed = all(&expected, Reported::Passed);
    assert_eq!(verdict(passed.clone(), true), Verdict::Pass);
    assert_eq!(
        verdict(all(&expected, Reported::Failed), true),
        Verdict::Fail
    );
    let mut one_missing = passed.clone();
    one_missing.pop_first();
    assert_eq!(verdict(one_missing.clone(), true), Verdict::Partial);
    assert_eq!(verdict(one_missing, false), Verdict::Pass);
    assert_eq!(verdict(BTreeMap::new(), true), Verdict::Fail);
    assert_eq!(
        verdict(BTreeMap::new(), false),
        Verdict::Fail,
        "nothing reported is no pass"
    );
    assert_eq!(
        judge(&BTreeSet::new(), &passed, true).verdict,
        Verdict::Pass
    );
}

#[test]
fn an_inconclusive_check_does_not_count_unless_its_source_could_not_check_at_all() {
    let expected = configured().specs(false);
    let mut reported = all(&expected, Reported::Passed);
    let icmp = CheckSpec::inbound(site(1), CheckName::icmp());
    reported.insert(icmp.clone(), Reported::Inconclusive);
    let judgement = judge(&expected, &reported, true);
    assert_eq!(
        (judgement.verdict, judgement.not_checked),
        (Verdict::Pass, vec![icmp])
    );
    reported.extend(all(
        &configured().site_specs(&prober(1), false),
        Reported::Inconclusive,
    ));
    let judgement = judge(&expected, &reported, true);
    assert_eq!(judgement.verdict, Verdict::Partial);
    assert_eq!(judgement.missing.len(), 6);
}

#[test]
fn a_change_of_the_configuration_makes_no_healthy_address_partial() {
    let before = configured();
    let mut progress = Progress {
        counted: before.specs(false),
        reported: all(&before.specs(false), Reported::Passed),
        egress_complete: true,
        sites_complete: [site(1), site(2)].into(),
        proves: false,
    };
    let mut after = configured();
    after.ports.push(8080);
    after.sites.push(prober(3));
    let told = tally(&progress, &after, true);
    assert!(
        told.complete,
        "a check that was not handed out is not waited for"
    );
    assert_eq!(told.judgement.verdict, Verdict::Pass);
    after.sites.remove(0);
    progress.sites_complete.remove(&site(1));
    assert!(
        tally(&progress, &after, true).complete,
        "a site that was removed is not waited for"
    );
    progress
        .counted
        .insert(CheckSpec::inbound(site(2), CheckName::tcp(8080)));
    assert_eq!(
        tally(&progress, &after, true).judgement.verdict,
        Verdict::Partial
    );
}

#[test]
fn an_attempt_is_complete_when_the_agent_and_every_site_are() {
    let mut progress = Progress {
        counted: configured().specs(false),
        ..Progress::default()
    };
    let complete = |progress: &Progress| tally(progress, &configured(), true).complete;
    progress.egress_complete = true;
    progress.sites_complete.insert(site(1));
    assert!(!complete(&progress));
    progress.sites_complete.insert(site(2));
    assert!(complete(&progress));
    progress.egress_complete = false;
    assert!(!complete(&progress));
}

#[test]
fn a_site_that_could_check_nothing_is_not_waited_for() {
    let mut progress = Progress {
        counted: configured().specs(false),
        egress_complete: true,
        sites_complete: [site(1)].into(),
        ..Progress::default()
    };
    let told = |progress: &Progress| tally(progress, &configured(), true);
    progress.reported = all(
        &configured().site_specs(&prober(2), false),
        Reported::Inconclusive,
    );
    assert!(told(&progress).complete);
    progress.reported.pop_first();
    assert!(
        !told(&progress).complete,
        "one check may still be under way"
    );
}

/// A site whose prober knows everything.
fn able(n: u8) -> Site {
    Site {
        identity: true,
        closed_ports: true,
        ..prober(n)
    }
}

#[test]
fn a_site_is_asked_only_for_what_its_prober_has_said_that_it_can_do() {
    let beyond = |site: &Site, proves| {
        let specs = configured().site_specs(site, proves);
        let usual = configured().site_specs(&prober(1), true);
        let names = specs.difference(&usual).map(|spec| spec.name.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(beyond(&able(1), true), ["closed-23", "identity"]);
    assert_eq!(beyond(&able(1), false), ["closed-23"]);
    assert!(beyond(&prober(1), true).is_empty());
}

#[test]
fn a_proof_that_comes_or_goes_midway_makes_no_healthy_address_partial() {
    let mut configured = configured();
    configured.sites = vec![able(1)];
    for (at_first, later) in [(true, false), (false, true), (true, true), (false, false)] {
        let counted = configured.specs(at_first);
        let done = configured.specs(at_first && later);
        let progress = Progress {
            reported: all(&done, Reported::Passed),
            counted,
            egress_complete: true,
            sites_complete: [site(1)].into(),
            proves: later,
        };
        let told = tally(&progress, &configured, true);
        assert!(told.complete, "{at_first} {later}");
        assert_eq!(told.judgement.verdict, Verdict::Pass, "{at_first} {later}");
    }
}

#[test]
fn another_host_on_the_address_is_a_failed_identity() {
    let mut configured = configured();
    configured.sites = vec![able(1)];
    let expected = configured.specs(true);
    let mut reported = all(&expected, Reported::Passed);
    let identity = CheckSpec::inbound(site(1), CheckName::identity());
    reported.insert(identity.clone(), Reported::Failed);
    let judgement = judge(&expected, &reported, true);
    assert_eq!(judgement.verdict, Verdict::Partial);
    assert_eq!(judgement.failed, [identity]);
}

#[test]
fn what_a_reporter_had_not_been_handed_is_unseen_unless_it_reported_it() {
    let spec = |port| CheckSpec::inbound(site(1), CheckName::tcp(port));
    let counted = [(spec(1), 0), (spec(2), 1), (spec(3), 2), (spec(4), 2)].into();
    let reported = [(spec(4), Reported::Failed)].into();
    let unseen = |seen| unseen(&counted, &reported, seen);
    assert_eq!(unseen(0), [spec(2), spec(3)].into());
    assert_eq!(unseen(1), [spec(3)].into());
    assert!(unseen(2).is_empty());
}
