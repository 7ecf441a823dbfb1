//! What a verdict has to be, computed from the tables by nobody else's code.

use std::collections::BTreeSet;

use crate::view::{Basis, Spec};

/// What the verdict has to be.
pub(crate) fn verdict(basis: &Basis, missing_counts: bool) -> &'static str {
    let counted: BTreeSet<&Spec> = basis.expected.intersection(&basis.configured).collect();
    if counted.is_empty() {
        return "pass";
    }
    let origin = |spec: &Spec| (spec.0.clone(), spec.1.clone());
    let able: BTreeSet<_> = counted
        .iter()
        .filter(|spec| basis.results.contains_key(**spec))
        .map(|spec| origin(spec))
        .collect();
    let (mut passed, mut against) = (0, 0);
    for spec in counted {
        match basis.results.get(spec) {
            Some(true) => passed += 1,
            Some(false) => against += 1,
            None if basis.inconclusive.contains(spec) && able.contains(&origin(spec)) => {}
            None if missing_counts => against += 1,
            None => {}
        }
    }
    match (passed, against) {
        (0, _) => "fail",
        (_, 0) => "pass",
        _ => "partial",
    }
}

/// Whether nothing more was to be waited for.
pub(crate) fn is_through(basis: &Basis, egress_complete: bool) -> bool {
    let counted: Vec<&Spec> = basis.expected.intersection(&basis.configured).collect();
    let sites: BTreeSet<&String> = counted
        .iter()
        .map(|spec| &spec.1)
        .filter(|site| !site.is_empty())
        .collect();
    egress_complete
        && sites.into_iter().all(|site| {
            let unable = |spec: &&&Spec| {
                !basis.results.contains_key(**spec) && basis.inconclusive.contains(**spec)
            };
            basis.sites_complete.contains(site)
                || counted
                    .iter()
                    .filter(|spec| spec.1 == *site)
                    .all(|spec| unable(&spec))
        })
}
