//! Tags: a sub-resource of everything that has them.

use civ_simkit::{Asked, Reply};
use serde_json::{Value, json};

use super::{View, kind_of};
use crate::shapes::neutron;
use crate::world::{Kind, World};

/// Longest tag, in characters.
const TAG_MAX: usize = 255;

/// The tags of an object that the caller sees.
fn tags_of<'w>(world: &'w World, kind: Kind, id: &str) -> Option<(&'w str, &'w [String])> {
    let found = match kind {
        Kind::Fip => world.fips.get(id).map(|it| (&it.project, &it.standard)),
        Kind::Port => world.ports.get(id).map(|it| (&it.project, &it.standard)),
        Kind::Network => world.networks.get(id).map(|it| (&it.project, &it.standard)),
        Kind::Subnet => world.subnets.get(id).map(|it| (&it.project, &it.standard)),
        Kind::Router => world.routers.get(id).map(|it| (&it.project, &it.standard)),
        Kind::Group => world.groups.get(id).map(|it| (&it.project, &it.standard)),
    };
    found.map(|(project, standard)| (project.as_str(), standard.tags.as_slice()))
}

/// The tags of an object that the caller may touch.
///
/// # Errors
/// What Neutron says of others': unlike everywhere else it is no 404.
fn own_tags<'w>(view: &View<'w>, kind: Kind, id: &str, verb: &str) -> Result<&'w [String], Reply> {
    match tags_of(view.world, kind, id) {
        Some((project, tags)) if view.sees(project) => Ok(tags),
        Some(_) => Err(super::forbidden(&format!("{verb}_{}:tags", name_of(kind)))),
        None => Err(super::refusals::server_error()),
    }
}

const fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Fip => "floatingip",
        Kind::Port => "port",
        Kind::Network => "network",
        Kind::Subnet => "subnet",
        Kind::Router => "router",
        Kind::Group => "security_group",
    }
}

fn no_such_tag(tag: &str) -> Reply {
    neutron(
        404,
        "TagNotFound",
        &format!("Tag {tag} could not be found."),
    )
}

/// `GET …/tags` and `GET …/tags/{tag}`.
pub(super) fn read(view: &View<'_>, collection: &str, id: &str, rest: &[&str]) -> Option<Reply> {
    let tags = match own_tags(view, kind_of(collection)?, id, "get") {
        Ok(tags) => tags,
        Err(reply) => return Some(reply),
    };
    match rest {
        [] => Some(Reply::json(200, &json!({ "tags": tags }))),
        [tag] if tags.iter().any(|own| own == tag) => Some(Reply::empty(204)),
        [tag] => Some(no_such_tag(tag)),
        _ => None,
    }
}

/// A change of tags: what they become, and the answer.
#[derive(Debug)]
pub(crate) struct TagChange {
    pub(crate) kind: Kind,
    pub(crate) tags: Vec<String>,
    pub(crate) reply: Reply,
}

/// What a write of `…/tags` or `…/tags/{tag}` asks for; `None`: it is not simulated.
///
/// # Errors
/// The answer, if it is refused.
pub(crate) fn write(
    asked: &Asked,
    view: &View<'_>,
    collection: &str,
    id: &str,
    rest: &[&str],
) -> Option<Result<TagChange, Reply>> {
    let kind = kind_of(collection)?;
    // What is wrong in itself is refused before anything is looked for.
    let given = match (asked.method.as_str(), rest) {
        ("PUT" | "POST", []) => given(asked),
        ("PUT", [tag]) if tag.chars().count() > TAG_MAX => Err(too_long(tag)),
        _ => Ok(Vec::new()),
    };
    let given = match given {
        Ok(given) => given,
        Err(reply) => return Some(Err(reply)),
    };
    let verb = match (asked.method.as_str(), rest) {
        ("POST", _) => "create",
        ("DELETE", _) => "delete",
        _ => "update",
    };
    let own = match own_tags(view, kind, id, verb) {
        Ok(own) => own,
        Err(reply) => return Some(Err(reply)),
    };
    let has = |tag: &str| own.iter().any(|other| other == tag);
    let (tags, reply) = match (asked.method.as_str(), rest) {
        ("PUT", []) => (given.clone(), Reply::json(200, &json!({ "tags": given }))),
        ("POST", []) => {
            let new = given.iter().filter(|tag| !has(tag)).cloned();
            let all = own.iter().cloned().chain(new).collect();
            (all, Reply::json(200, &json!({ "tags": given })))
        }
        ("DELETE", []) => (Vec::new(), Reply::empty(204)),
        ("PUT", [tag]) => {
            let mut all = own.to_vec();
            if !has(tag) {
                all.push((*tag).to_owned());
            }
            (all, Reply::json(201, &Value::Null))
        }
        ("DELETE", [tag]) if !has(tag) => return Some(Err(no_such_tag(tag))),
        ("DELETE", [tag]) => {
            let left = own.iter().filter(|other| other != tag).cloned();
            (left.collect(), Reply::empty(204))
        }
        _ => return None,
    };
    Some(Ok(TagChange { kind, tags, reply }))
}

fn refused(message: &str) -> Reply {
    let message = format!("Invalid input for operation: {message}.");
    neutron(400, "InvalidInput", &message)
}

fn too_long(tag: &str) -> Reply {
    refused(&format!("'{tag}' exceeds maximum length of {TAG_MAX}"))
}

/// `{"tags": […]}`: each once.
fn given(asked: &Asked) -> Result<Vec<String>, Reply> {
    let body = asked.json::<Value>().unwrap_or_default();
    let list = match &body["tags"] {
        Value::Array(list) => list,
        Value::Null => return Err(refused("Invalid tags body")),
        other => return Err(refused(&format!("{other} is not a list"))),
    };
    let mut tags: Vec<String> = Vec::new();
    for tag in list {
        let Some(tag) = tag.as_str() else {
            return Err(refused(&format!("{tag} is not a valid string")));
        };
        if tag.chars().count() > TAG_MAX {
            return Err(too_long(tag));
        }
        if tags.iter().any(|other| other == tag) {
            return Err(refused(&format!("Duplicate items in the list: '{tag}'")));
        }
        tags.push(tag.to_owned());
    }
    Ok(tags)
}
