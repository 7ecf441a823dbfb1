//! Which checks count, whether all are in, and what they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use civ_types::{CheckName, CheckSpec, SiteId, Source};

/// A site, and which checks beyond the contract its prober has said that it can do. Of a prober
/// that has not said so none is expected: it would never report them, and fail every address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its name.
    pub id: SiteId,
    /// It compares nonces.
    pub identity: bool,
    /// It checks that ports are closed.
    pub closed_ports: bool,
}

/// The configuration of checks, resolved: groups to targets, slots to sites.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configured {
    /// Enabled check types with their targets, in order of name.
    pub egress: Vec<(CheckName, Vec<String>)>,
    /// Sites, in order of slot.
    pub sites: Vec<Site>,
    /// TCP ports that every site checks.
    pub ports: Vec<u16>,
    /// TCP ports on which nothing is to answer.
    pub closed_ports: Vec<u16>,
    /// Whether every site sends echo requests.
    pub icmp: bool,
}

impl Configured {
    /// Checks that every prober knows: `tcp-<port>` for each port, `icmp` if on, `ssh` with 22,
    /// `tls-443` with 443.
    #[must_use]
    pub fn inbound_names(&self) -> Vec<CheckName> {
        let mut names: Vec<_> = self
            .ports
            .iter()
            .map(|port| CheckName::tcp(*port))
            .collect();
        if self.ports.contains(&22) {
            names.push(CheckName::ssh());
        }
        if self.ports.contains(&443) {
            names.push(CheckName::tls_443());
        }
        if self.icmp {
            names.push(CheckName::icmp());
        }
        names
    }

    /// Checks of the validator.
    #[must_use]
    pub fn egress_specs(&self) -> BTreeSet<CheckSpec> {
        let each = |(name, targets): &(CheckName, Vec<String>)| {
            let specs: Vec<_> = targets
                .iter()
                .map(|target| CheckSpec::egress(name.clone(), target))
                .collect();
            specs
        };
        self.egress.iter().flat_map(each).collect()
    }

    /// Checks of one site: what every prober knows, and what this one has said that it can do.
    /// `proves`: the validator serves the nonce of the claim that it is about.
    #[must_use]
    pub fn site_specs(&self, site: &Site, proves: bool) -> BTreeSet<CheckSpec> {
        let mut names = self.inbound_names();
        if site.closed_ports {
            names.extend(
                self.closed_ports
                    .iter()
                    .map(|port| CheckName::closed(*port)),
            );
        }
        if site.identity && proves {
            names.push(CheckName::identity());
        }
        names
            .into_iter()
            .map(|name| CheckSpec::inbound(site.id.clone(), name))
            .collect()
    }

    /// All checks, of the validator and of all sites, in a claim whose validator serves its nonce
    /// if `proves`.
    #[must_use]
    pub fn specs(&self, proves: bool) -> BTreeSet<CheckSpec> {
        let of_site = |site| self.site_specs(site, proves);
        let mut all = self.egress_specs();
        all.extend(self.sites.iter().flat_map(of_site));
        all
    }
}

/// What became of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// A result that says it works.
    Passed,
    /// A result that says it does not.
    Failed,
    /// It could not be carried out, for a reason of ours.
    Inconclusive,
}

/// What the checks of an attempt add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All that count succeeded.
    Pass,
    /// Some did.
    Partial,
    /// None did.
    Fail,
}

impl Verdict {
    /// The word of the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Partial => "partial",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A verdict with what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// How many expected checks passed.
    pub n_passed: usize,
    /// Expected checks that failed.
    pub failed: Vec<CheckSpec>,
    /// Expected checks that nobody reported, or of a source that could not check at all.
    pub missing: Vec<CheckSpec>,
    /// Expected checks that could not be carried out; they do not count.
    pub not_checked: Vec<CheckSpec>,
}

/// How far a claim has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Nothing more is to be waited for.
    pub complete: bool,
    /// The verdict if it were made now.
    pub judgement: Judgement,
}

impl Default for Tally {
    /// Nothing expected and nothing complete: what states other than `checking` are given.
    fn default() -> Self {
        let none = Progress::default();
        Self {
            complete: false,
            judgement: judge(&BTreeSet::new(), &none.reported, true),
        }
    }
}

/// What is known of a claim in `checking`.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// As configured when checking began, and what was handed out since.
    pub counted: BTreeSet<CheckSpec>,
    /// What came in, of this claim.
    pub reported: BTreeMap<CheckSpec, Reported>,
    /// The validator served the nonce of this claim when checking began, and still does.
    pub proves: bool,
    /// The agent has said that it is through.
    pub egress_complete: bool,
    /// Sites that have said that they are through.
    pub sites_complete: BTreeSet<SiteId>,
}

/// How far a claim has come, under the configuration as it is now.
///
/// A check that was removed meanwhile no longer counts; one that was added counts once it has
/// been handed out. A site of which nothing is expected is not waited for, nor is one that could
/// not carry out a single one of its checks: it has no result to say `complete` with.
#[must_use]
pub fn tally(progress: &Progress, configured: &Configured, missing_counts: bool) -> Tally {
    let now = if civ_planted::is!(RemovedCounts) {
        progress.counted.clone()
    } else {
        configured.specs(progress.proves)
    };
    let expected: BTreeSet<_> = progress.counted.intersection(&now).cloned().collect();
    let sites: BTreeSet<_> = expected
        .iter()
        .filter_map(|spec| spec.site.as_ref())
        .collect();
    let unable = |site: &SiteId| {
        let inconclusive = |spec| progress.reported.get(spec) == Some(&Reported::Inconclusive);
        let of_site = |spec: &&CheckSpec| spec.site.as_ref() == Some(site);
        expected.iter().filter(of_site).all(inconclusive)
    };
    let all_sites = sites
        .iter()
        .all(|site| progress.sites_complete.contains(*site) || unable(site));
    Tally {
        complete: progress.egress_complete && all_sites,
        judgement: judge(&expected, &progress.reported, missing_counts),
    }
}

/// Checks that had not been handed out yet when a reporter began, of which nothing came in.
///
/// `counted`: what counts, each with the revision of the assignment that it was first in; `seen`:
/// the revision that the reporter worked from. What it reported all the same, it has done.
#[must_use]
pub fn unseen(
    counted: &BTreeMap<CheckSpec, i64>,
    reported: &BTreeMap<CheckSpec, Reported>,
    seen: i64,
) -> BTreeSet<CheckSpec> {
    let newer = counted.iter().filter(|(_, revision)| seen < **revision);
    newer
        .map(|(spec, _)| spec)
        .filter(|spec| !reported.contains_key(*spec))
        .cloned()
        .collect()
}

type Origin<'a> = (Source, Option<&'a SiteId>);

const fn origin(spec: &CheckSpec) -> Origin<'_> {
    (spec.source, spec.site.as_ref())
}

/// The verdict on what was expected.
///
/// With nothing expected the passed self-check alone makes `pass`. With nothing expected passed
/// it is `fail`, so an attempt of which nothing was reported is never a `pass`.
#[must_use]
pub fn judge(
    expected: &BTreeSet<CheckSpec>,
    reported: &BTreeMap<CheckSpec, Reported>,
    missing_counts: bool,
) -> Judgement {
    let able: BTreeSet<Origin<'_>> = expected
        .iter()
        .filter(|spec| {
            matches!(
                reported.get(spec),
                Some(Reported::Passed | Reported::Failed)
            )
        })
        .map(origin)
        .collect();
    let mut judgement = Judgement {
        verdict: Verdict::Pass,
        n_passed: 0,
        failed: Vec::new(),
        missing: Vec::new(),
        not_checked: Vec::new(),
    };
    for spec in expected {
        match reported.get(spec) {
            Some(Reported::Passed) => judgement.n_passed += 1,
            Some(Reported::Failed) => judgement.failed.push(spec.clone()),
            Some(Reported::Inconclusive) if civ_planted::is!(InconclusivePasses) => {
                judgement.n_passed += 1;
            }
            Some(Reported::Inconclusive) if able.contains(&origin(spec)) => {
                judgement.not_checked.push(spec.clone());
            }
            Some(Reported::Inconclusive) | None => judgement.missing.push(spec.clone()),
        }
    }
    let against = judgement.failed.len()
        + if missing_counts && !civ_planted::is!(MissingPasses) {
            judgement.missing.len()
        } else {
            0
        };
    judgement.verdict = match (judgement.n_passed, against) {
        _ if expected.is_empty() => Verdict::Pass,
        (0, _) => Verdict::Fail,
        (_, 0) => Verdict::Pass,
        (_, _) => Verdict::Partial,
    };
    judgement
}
