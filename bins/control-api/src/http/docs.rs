//! The document as a page for people: server-rendered once, without scripts and without anything
//! from elsewhere.

use askama::Template;
use axum::body::Bytes;
use axum::extract::Extension;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The page's own style; the policy names its hash, so that no other can be smuggled in.
const STYLE: &str = include_str!("../../templates/docs.css");

const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// A text in which what stands between backticks is code.
struct Text(Vec<(bool, String)>);

impl Text {
    fn of(value: &Value) -> Self {
        let text = value.as_str().unwrap_or_default();
        let parts = text.split('`').enumerate();
        Self(
            parts
                .map(|(n, part)| (n % 2 == 1, part.to_owned()))
                .collect(),
        )
    }
}

/// What a value may be.
struct Kind {
    text: String,
    /// The name of a schema on this page.
    link: Option<String>,
}

/// A parameter, a header or a field.
struct Line {
    name: String,
    place: String,
    kind: Kind,
    required: bool,
    about: Text,
}

struct Answer {
    status: String,
    about: Text,
    kinds: Vec<(String, Kind)>,
    headers: Vec<String>,
}

struct Method {
    id: String,
    verb: String,
    path: String,
    summary: Text,
    about: Text,
    access: String,
    parameters: Vec<Line>,
    body: Option<Kind>,
    example: Option<String>,
    answers: Vec<Answer>,
}

struct Tag {
    name: String,
    about: Text,
    methods: Vec<Method>,
}

struct Shape {
    name: String,
    about: Text,
    kind: Kind,
    fields: Vec<Line>,
    example: Option<String>,
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Page {
    style: &'static str,
    title: String,
    version: String,
    about: Text,
    tags: Vec<Tag>,
    shapes: Vec<Shape>,
}

fn name_of(reference: &str) -> String {
    reference.rsplit('/').next().unwrap_or_default().to_owned()
}

fn word(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), |text| format!("\"{text}\""))
}

fn limits(schema: &Value) -> Vec<String> {
    let named = |key: &str, words: &str| {
        let value = &schema[key];
        (!value.is_null()).then(|| format!("{words} {}", value.to_string().trim_matches('"')))
    };
    [
        named("minimum", "at least"),
        named("maximum", "at most"),
        named("minLength", "length at least"),
        named("maxLength", "length at most"),
        named("minItems", "items at least"),
        named("maxItems", "items at most"),
        named("format", "format"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn kind(schema: &Value) -> Kind {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = name_of(reference);
        return Kind {
            text: name.clone(),
            link: Some(name),
        };
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(list) = schema[key].as_array() {
            let kinds: Vec<Kind> = list.iter().map(kind).collect();
            let link = kinds.iter().find_map(|kind| kind.link.clone());
            let title = |(kind, schema): (&Kind, &Value)| {
                let title = schema["title"].as_str();
                title.map_or_else(|| kind.text.clone(), str::to_owned)
            };
            let texts: Vec<_> = kinds.iter().zip(list).map(title).collect();
            return Kind {
                text: texts.join(" or "),
                link,
            };
        }
    }
    let mut link = None;
    let mut text = match &schema["type"] {
        Value::String(one) if one == "array" => {
            let items = kind(&schema["items"]);
            link = items.link;
            format!("list of {}", items.text)
        }
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            let names: Vec<_> = several.iter().filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        _ => "any value".to_owned(),
    };
    if let Some(words) = schema["enum"].as_array() {
        text = words.iter().map(word).collect::<Vec<_>>().join(", ");
    }
    let limits = limits(schema);
    if !limits.is_empty() {
        text = format!("{text}; {}", limits.join(", "));
    }
    Kind { text, link }
}

fn pretty(value: &Value) -> Option<String> {
    serde_json::to_string_pretty(value).ok()
}

/// What a reference points to, or the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    value["$ref"]
        .as_str()
        .and_then(|place| document.pointer(place.trim_start_matches('#')))
        .unwrap_or(value)
}

fn access(operation: &Value) -> String {
    let list = operation["security"].as_array();
    let mut names = list
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .map(|needs| needs.keys().next().map(String::as_str));
    match (names.next(), names.next()) {
        (Some(None), Some(Some(token))) => format!("open; the {token} token if so configured"),
        (Some(Some("page")), _) => "the admin token as the password".to_owned(),
        (Some(Some(token)), _) => format!("the {token} token"),
        _ => "open".to_owned(),
    }
}

fn parameter(value: &Value) -> Line {
    Line {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        place: value["in"].as_str().unwrap_or_default().to_owned(),
        kind: kind(&value["schema"]),
        required: value["required"] == true,
        about: Text::of(&value["description"]),
    }
}

fn answer(document: &Value, status: &str, value: &Value) -> Answer {
    let value = resolved(document, value);
    let content = value["content"].as_object();
    let headers = value["headers"].as_object();
    Answer {
        status: status.to_owned(),
        about: Text::of(&value["description"]),
        kinds: content
            .into_iter()
            .flatten()
            .map(|(media, content)| (media.clone(), kind(&content["schema"])))
            .collect(),
        headers: headers
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .filter(|name| name != "X-Request-Id")
            .collect(),
    }
}

fn method(document: &Value, verb: &str, path: &str, value: &Value) -> Method {
    let schema = &value["requestBody"]["content"]["application/json"]["schema"];
    let named = match &schema["oneOf"][0] {
        Value::Null => schema,
        first => first,
    };
    let example = &resolved(document, named)["examples"][0];
    let parameters = value["parameters"].as_array();
    let answers = value["responses"].as_object();
    Method {
        id: value["operationId"].as_str().unwrap_or_default().to_owned(),
        verb: verb.to_uppercase(),
        path: path.to_owned(),
        summary: Text::of(&value["summary"]),
        about: Text::of(&value["description"]),
        access: access(value),
        parameters: parameters.into_iter().flatten().map(parameter).collect(),
        body: (!schema.is_null()).then(|| kind(schema)),
        example: (!example.is_null()).then(|| pretty(example)).flatten(),
        answers: answers
            .into_iter()
            .flatten()
            .map(|(status, value)| answer(document, status, value))
            .collect(),
    }
}

fn methods(document: &Value, tag: &Value) -> Vec<Method> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for verb in METHODS {
            if &item[verb]["tags"][0] == tag {
                found.push(method(document, verb, path, &item[verb]));
            }
        }
    }
    found
}

fn shape(name: &str, value: &Value) -> Shape {
    let required = value["required"].as_array();
    let needed = |field: &str| {
        let mut names = required.into_iter().flatten();
        names.any(|name| name == field)
    };
    let fields = value["properties"].as_object();
    let example = &value["examples"][0];
    Shape {
        name: name.to_owned(),
        about: Text::of(&value["description"]),
        kind: kind(value),
        fields: fields
            .into_iter()
            .flatten()
            .map(|(field, schema)| Line {
                name: field.clone(),
                place: String::new(),
                kind: kind(schema),
                required: needed(field),
                about: Text::of(&schema["description"]),
            })
            .collect(),
        example: (!example.is_null()).then(|| pretty(example)).flatten(),
    }
}

/// Renders the page.
///
/// # Errors
/// The template's, which a text cannot cause.
pub(super) fn render(document: &Value) -> Result<String, askama::Error> {
    let tags = document["tags"].as_array().into_iter().flatten();
    let shapes = document["components"]["schemas"].as_object();
    Page {
        style: STYLE,
        title: document["info"]["title"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        version: document["info"]["version"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        about: Text::of(&document["info"]["description"]),
        tags: tags
            .map(|tag| Tag {
                name: tag["name"].as_str().unwrap_or_default().to_owned(),
                about: Text::of(&tag["description"]),
                methods: methods(document, &tag["name"]),
            })
            .filter(|tag| !tag.methods.is_empty())
            .collect(),
        shapes: shapes
            .into_iter()
            .flatten()
            .map(|(name, value)| shape(name, value))
            .collect(),
    }
    .render()
}

/// The page as it is served.
#[derive(Debug, Clone)]
pub(super) struct Docs(pub(super) Bytes);

/// This page
///
/// The same as `/openapi.json`, for people.
#[utoipa::path(
    get, path = "/docs", tag = "service", operation_id = "docs_page",
    responses((status = 200, description = "The page.", body = String, content_type = "text/html"))
)]
pub(super) async fn page(Extension(Docs(page)): Extension<Docs>) -> Response {
    let hash = BASE64.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    let policy =
        HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let headers = [
        (header::CONTENT_TYPE, html),
        (header::CONTENT_SECURITY_POLICY, policy),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
    ];
    (headers, page).into_response()
}
