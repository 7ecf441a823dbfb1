//! Quotas of a project: what it may have, and what it has.

use civ_simkit::Reply;
use serde_json::{Map, Value, json};

use super::{View, forbidden};
use crate::setup::Role;

/// Resources and their limits, unless the set-up says otherwise.
const LIMITS: [(&str, i64); 10] = [
    ("floatingip", -1),
    ("network", 100),
    ("port", 500),
    ("rbac_policy", 10),
    ("router", 10),
    ("router_route", 30),
    ("security_group", 10),
    ("security_group_rule", 100),
    ("subnet", 100),
    ("subnetpool", -1),
];

/// `GET /v2.0/quotas/{project}`, `…/details` and `…/default`.
pub(super) fn read(view: &View<'_>, rest: &[&str]) -> Option<Reply> {
    let (project, shows_details) = match rest {
        [project] => (*project, false),
        [project, "details.json" | "details"] => (*project, true),
        [_, "default" | "default.json"] => ("", false),
        _ => return None,
    };
    let is_own = view.caller.project.as_deref() == Some(project) || project.is_empty();
    if !is_own && view.caller.role != Role::Admin {
        return Some(forbidden("get_quota"));
    }
    let quota: Map<String, Value> = LIMITS
        .into_iter()
        .map(|(name, limit)| {
            let own = view.world.fip_quotas.get(project);
            let own = own.filter(|_| name == "floatingip");
            let limit = own.map_or(limit, |most| i64::from(*most));
            let value = if shows_details {
                json!({"limit": limit, "used": used(view, project, name), "reserved": 0})
            } else {
                json!(limit)
            };
            (name.to_owned(), value)
        })
        .collect();
    Some(Reply::json(200, &json!({ "quota": quota })))
}

fn used(view: &View<'_>, project: &str, name: &str) -> usize {
    let world = view.world;
    let of = |other: &String| other == project;
    match name {
        "floatingip" => world.fips().filter(|it| of(&it.project)).count(),
        "port" => world.ports().filter(|it| of(&it.project)).count(),
        "network" => world.networks.values().filter(|it| of(&it.project)).count(),
        "subnet" => world.subnets.values().filter(|it| of(&it.project)).count(),
        "router" => world.routers.values().filter(|it| of(&it.project)).count(),
        "security_group" => world.groups.values().filter(|it| of(&it.project)).count(),
        "security_group_rule" => {
            let groups = world.groups.values().filter(|it| of(&it.project));
            groups.map(|group| group.rules.len()).sum()
        }
        _ => 0,
    }
}
