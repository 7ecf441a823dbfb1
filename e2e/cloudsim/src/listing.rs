//! How Neutron lists: filters, order, pages, fields. Knows rows only as JSON objects.

use serde_json::{Map, Value, json};

use crate::reply::{Asked, Reply};

/// Query keys that steer the listing and are no filters.
const STEERING: [&str; 6] = [
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "fields",
    "page_reverse",
];

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
}

/// Answers `GET /v2.0/<name>`; `None` if it asks for something that is not simulated.
pub(crate) fn list(rows: Vec<Value>, asked: &Asked, collection: &Collection<'_>) -> Option<Reply> {
    let is_simulated = |key: &str| !key.contains("tags") && key != "page_reverse";
    if !asked.query.iter().all(|(key, _)| is_simulated(key)) {
        return None;
    }
    Some(page(rows, asked, collection).unwrap_or_else(|reply| reply))
}

fn page(rows: Vec<Value>, asked: &Asked, collection: &Collection<'_>) -> Result<Reply, Reply> {
    let mut rows = filtered(rows, asked, collection)?;
    sort(&mut rows, asked)?;
    let limit = limit(asked, collection)?;
    let Some(limit) = limit else {
        let rows = rows
            .iter()
            .map(|row| fields(row, asked))
            .collect::<Vec<_>>();
        return Ok(Reply::json(200, &json!({ collection.name: rows })));
    };
    // A marker that does not exist (any more) brings the first page, without an error.
    let marker = asked.param("marker").unwrap_or_default();
    let after = rows.iter().position(|row| row["id"] == marker);
    let rows: Vec<Value> = rows
        .into_iter()
        .skip(after.map_or(0, |index| index + 1))
        .take(limit)
        .collect();
    let links = links(&rows, limit, asked, collection);
    let shown: Vec<Value> = rows.iter().map(|row| fields(row, asked)).collect();
    let mut body = Map::new();
    body.insert(collection.name.to_owned(), json!(shown));
    body.insert(format!("{}_links", collection.name), json!(links));
    Ok(Reply::json(200, &Value::Object(body)))
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
    let unknown = filters
        .iter()
        .find(|(key, _)| !collection.filters.contains(&key.as_str()));
    if let Some((key, _)) = unknown {
        let message = format!("['{key}'] is invalid attribute for filtering");
        return Err(Reply::neutron(400, "HTTPBadRequest", &message));
    }
    let keeps = |row: &Value| {
        filters.iter().all(|(key, _)| {
            let mut same_key = filters.iter().filter(|(name, _)| name == key);
            same_key.any(|(_, wanted)| is_value(&row[key.as_str()], wanted))
        })
    };
    Ok(rows.into_iter().filter(keeps).collect())
}

/// Nothing finds null: Neutron has no filter for what is not associated.
fn is_value(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Number(number) => number.to_string() == wanted,
        Value::Bool(truth) => truth.to_string() == wanted.to_lowercase(),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn sort(rows: &mut [Value], asked: &Asked) -> Result<(), Reply> {
    let of = |wanted: &str| {
        let pairs = asked.query.iter().filter(|(key, _)| key == wanted);
        pairs.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let (keys, directions) = (of("sort_key"), of("sort_dir"));
    if keys.len() != directions.len() {
        let message = "The number of sort_keys and sort_dirs must be same";
        return Err(Reply::neutron(400, "HTTPBadRequest", message));
    }
    // As text, addresses too; a stable sort from the least key to the first.
    rows.sort_by_key(|row| row["id"].to_string());
    for (key, direction) in keys.iter().zip(&directions).rev() {
        rows.sort_by_key(|row| row[key.as_str()].to_string());
        if direction == "desc" {
            rows.reverse();
        }
    }
    Ok(())
}

fn limit(asked: &Asked, collection: &Collection<'_>) -> Result<Option<usize>, Reply> {
    let Some(text) = asked.param("limit") else {
        return Ok(collection.page_max);
    };
    let limit: usize = text.parse().map_err(|_e| {
        let message =
            format!("Bad floatingip request: Limit must be an integer 0 or greater: {text}.");
        Reply::neutron(400, "BadRequest", &message)
    })?;
    let wanted = (limit > 0).then_some(limit);
    Ok(match (wanted, collection.page_max) {
        (Some(wanted), Some(most)) => Some(wanted.min(most)),
        (wanted, most) => wanted.or(most),
    })
}

/// `next` whenever the page is full, also if nothing follows; `previous` on every page.
fn links(rows: &[Value], limit: usize, asked: &Asked, collection: &Collection<'_>) -> Vec<Value> {
    let link = |rel: &str, row: Option<&Value>, more: &str| {
        let kept = asked.raw_query.split('&');
        let kept = kept.filter(|pair| !pair.is_empty() && !pair.starts_with("marker="));
        let mut query: Vec<String> = kept.map(str::to_owned).collect();
        let id = row.and_then(|row| row["id"].as_str());
        query.extend(id.map(|id| format!("marker={id}")));
        query.extend((!more.is_empty()).then(|| more.to_owned()));
        let (base, name) = (collection.base, collection.name);
        json!({"rel": rel, "href": format!("{base}/v2.0/{name}?{}", query.join("&"))})
    };
    let mut links = Vec::new();
    if rows.len() == limit {
        links.push(link("next", rows.last(), ""));
    }
    links.push(link("previous", rows.first(), "page_reverse=True"));
    links
}

/// `fields=id&fields=status`: only these keys.
pub(crate) fn fields(row: &Value, asked: &Asked) -> Value {
    let wanted = asked.query.iter().filter(|(key, _)| key == "fields");
    let wanted: Vec<&str> = wanted.map(|(_, value)| value.as_str()).collect();
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
