//! How Neutron lists: filters, order, pages, fields. Knows rows only as JSON objects.

use civ_simkit::{Asked, Reply};
use serde_json::{Map, Value, json};

use crate::shapes;

/// Query keys that steer the listing and are no filters.
const STEERING: [&str; 6] = [
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "fields",
    "page_reverse",
];

/// Filters by tags: every collection has them.
const TAGS: [&str; 4] = ["tags", "tags-any", "not-tags", "not-tags-any"];

/// What rules do to a listing.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a rule of its own, and all may be in force at once"
)]
pub(crate) struct Twist {
    /// The marker is not looked at.
    pub(crate) repeats: bool,
    /// There are no links.
    pub(crate) drops_links: bool,
    /// There is no link to the next page.
    pub(crate) drops_next: bool,
    /// Filters leave nothing out.
    pub(crate) ignores_filters: bool,
    /// The most rows of a page.
    pub(crate) cap: Option<usize>,
}

/// A collection that can be listed.
#[derive(Debug)]
pub(crate) struct Collection<'a> {
    /// `floatingips`.
    pub(crate) name: &'a str,
    /// Keys that may be filtered by.
    pub(crate) filters: &'a [&'a str],
    /// The most rows of a page; `None`: all.
    pub(crate) page_max: Option<usize>,
    /// Where clients reach us, for links.
    pub(crate) base: &'a str,
    /// What rules do to it.
    pub(crate) twist: Twist,
    /// Whether its JSON has spaces.
    pub(crate) is_spaced: bool,
}

/// Answers `GET /v2.0/<name>`.
pub(crate) fn list(rows: Vec<Value>, asked: &Asked, collection: &Collection<'_>) -> Reply {
    page(rows, asked, collection).unwrap_or_else(|reply| reply)
}

fn page(rows: Vec<Value>, asked: &Asked, collection: &Collection<'_>) -> Result<Reply, Reply> {
    let mut rows = filtered(rows, asked, collection)?;
    sort(&mut rows, asked)?;
    let limit = limit(asked, collection)?;
    let is_reverse = asked.param("page_reverse").is_some_and(is_true);
    let mut body = Map::new();
    let key = collection.name.replace('-', "_");
    if let Some(limit) = limit {
        let marker = asked.param("marker").filter(|_| !collection.twist.repeats);
        rows = cut(rows, marker.unwrap_or_default(), limit, is_reverse);
        if !collection.twist.drops_links {
            let mut links = links(&rows, limit, is_reverse, asked, collection);
            links.retain(|link| !collection.twist.drops_next || link["rel"] != "next");
            body.insert(format!("{key}_links"), json!(links));
        }
    }
    let shown: Vec<Value> = rows.iter().map(|row| fields(row, asked)).collect();
    body.insert(key, json!(shown));
    let body = Value::Object(body);
    Ok(if collection.is_spaced {
        shapes::spaced(200, &body)
    } else {
        Reply::json(200, &body)
    })
}

/// One page. A marker that does not exist (any more) brings the first, without an error.
fn cut(mut rows: Vec<Value>, marker: &str, limit: usize, is_reverse: bool) -> Vec<Value> {
    let at = rows.iter().position(|row| row["id"] == marker);
    if is_reverse {
        let end = at.unwrap_or(rows.len());
        rows.truncate(end);
        return rows.split_off(end.saturating_sub(limit));
    }
    let start = at.map_or(0, |index| index + 1);
    rows.into_iter().skip(start).take(limit).collect()
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text == "1"
}

fn filtered(
    rows: Vec<Value>,
    asked: &Asked,
    collection: &Collection<'_>,
) -> Result<Vec<Value>, Reply> {
    let filters = asked
        .query
        .iter()
        .filter(|(key, _)| !STEERING.contains(&key.as_str()));
    let filters: Vec<_> = filters.collect();
    let is_known = |key: &str| collection.filters.contains(&key) || TAGS.contains(&key);
    if let Some((key, _)) = filters.iter().find(|(key, _)| !is_known(key)) {
        let message = format!("['{key}'] is invalid attribute for filtering");
        return Err(shapes::neutron(400, "HTTPBadRequest", &message));
    }
    if collection.twist.ignores_filters {
        return Ok(rows);
    }
    let keeps = |row: &Value| {
        filters.iter().all(|(key, value)| {
            if TAGS.contains(&key.as_str()) {
                return has_tags(row, key, value);
            }
            let mut same_key = filters.iter().filter(|(name, _)| name == key);
            same_key.any(|(_, wanted)| is_value(&row[key.as_str()], wanted))
        })
    };
    Ok(rows.into_iter().filter(keeps).collect())
}

/// `tags` has all of them, `tags-any` one; the others are their opposites.
fn has_tags(row: &Value, key: &str, wanted: &str) -> bool {
    let has = |tag: &str| {
        let tags = row["tags"].as_array();
        tags.is_some_and(|tags| tags.iter().any(|own| own == tag))
    };
    let mut wanted = wanted.split(',');
    match key {
        "tags" => wanted.all(has),
        "tags-any" => wanted.any(has),
        "not-tags" => !wanted.all(has),
        _ => !wanted.any(has),
    }
}

/// Nothing finds null: Neutron has no filter for what is not associated.
fn is_value(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Number(number) => number.to_string() == wanted,
        Value::Bool(truth) => *truth == is_true(wanted),
        // `fixed_ips=subnet_id=…` and `ip_address=…` of ports.
        Value::Array(items) => items.iter().any(|item| {
            let pair = wanted.split_once('=');
            pair.is_some_and(|(key, text)| item[key] == text)
        }),
        Value::Null | Value::Object(_) => false,
    }
}

fn sort(rows: &mut [Value], asked: &Asked) -> Result<(), Reply> {
    let keys: Vec<&str> = asked.params("sort_key").collect();
    let directions: Vec<&str> = asked.params("sort_dir").collect();
    if keys.len() != directions.len() {
        let message = "The number of sort_keys and sort_dirs must be same";
        return Err(shapes::neutron(400, "HTTPBadRequest", message));
    }
    // As text, addresses too; a stable sort from the least key to the first.
    rows.sort_by_cached_key(|row| row["id"].to_string());
    for (key, direction) in keys.iter().zip(&directions).rev() {
        rows.sort_by_cached_key(|row| row[*key].to_string());
        if *direction == "desc" {
            rows.reverse();
        }
    }
    Ok(())
}

fn limit(asked: &Asked, collection: &Collection<'_>) -> Result<Option<usize>, Reply> {
    let most = collection.twist.cap.map(|rows| rows.max(1));
    let most = most.or(collection.page_max);
    let Some(text) = asked.param("limit") else {
        return Ok(most);
    };
    let limit: usize = text.parse().map_err(|_e| {
        let message = format!("Invalid input for operation: limit {text} is no integer from 0.");
        shapes::neutron(400, "BadRequest", &message)
    })?;
    let wanted = (limit > 0).then_some(limit);
    Ok(match (wanted, most) {
        (Some(wanted), Some(most)) => Some(wanted.min(most)),
        (wanted, most) => wanted.or(most),
    })
}

/// `next` whenever the page is full, also if nothing follows; `previous` on every page. Backwards
/// it is the other way round.
fn links(
    rows: &[Value],
    limit: usize,
    is_reverse: bool,
    asked: &Asked,
    collection: &Collection<'_>,
) -> Vec<Value> {
    let link = |rel: &str, row: Option<&Value>, more: &str| {
        let kept = asked.raw_query.split('&').filter(|pair| {
            let is_ours = pair.starts_with("marker=") || pair.starts_with("page_reverse=");
            !pair.is_empty() && !is_ours
        });
        let mut query: Vec<String> = kept.map(str::to_owned).collect();
        let id = row.and_then(|row| row["id"].as_str());
        query.extend(id.map(|id| format!("marker={id}")));
        query.extend((!more.is_empty()).then(|| more.to_owned()));
        let (base, name) = (collection.base, collection.name);
        json!({"rel": rel, "href": format!("{base}/v2.0/{name}?{}", query.join("&"))})
    };
    let is_full = rows.len() == limit;
    let mut links = Vec::new();
    if is_full || is_reverse {
        links.push(link("next", rows.last(), ""));
    }
    if is_full || !is_reverse {
        links.push(link("previous", rows.first(), "page_reverse=True"));
    }
    links
}

/// `fields=id&fields=status`: only these keys.
pub(crate) fn fields(row: &Value, asked: &Asked) -> Value {
    let wanted: Vec<&str> = asked.params("fields").collect();
    match row {
        Value::Object(all) if !wanted.is_empty() => {
            let kept = all.iter().filter(|(key, _)| wanted.contains(&key.as_str()));
            Value::Object(
                kept.map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}
