//! Bodies: JSON whatever `Content-Type` says, bounded, and read to the end before a refusal, so
//! that the sender of too much gets to read why.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use super::Web;
use super::error::ApiError;

/// Bytes beyond the limit that are read and dropped before 413, in limits: more is cut off.
const DRAIN_LIMITS: usize = 8;

/// Bytes of memory that a body takes at a time.
const PIECE: usize = 64 * 1_024;

/// How long a sender of too much is listened to.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// A JSON body.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

/// A JSON body that may be missing.
#[derive(Debug)]
pub(super) struct MaybeBody<T>(pub(super) T);

fn too_large(limit: usize) -> ApiError {
    let text = format!("the body is larger than {limit} bytes: send it in parts");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

/// Reads and drops a body that is not looked at, within the bounds of one that is too large.
pub(super) async fn discard(body: Body, limit: usize) {
    drain(body, limit.saturating_mul(DRAIN_LIMITS)).await;
}

async fn drain(mut body: Body, mut allowance: usize) {
    let rest = async {
        while let Some(Ok(frame)) = body.frame().await {
            let n = frame.data_ref().map_or(0, Bytes::len);
            allowance = allowance.saturating_sub(n);
            if allowance == 0 {
                break;
            }
        }
    };
    // Whoever is slower than that has had time enough to be told.
    drop(tokio::time::timeout(DRAIN_TIME, rest).await);
}

/// Reads a body of at most `limit` bytes.
async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, ApiError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(limit);
    // Memory is taken as bytes come: what is only announced would be held for nothing, and a
    // buffer that grows would be there twice.
    let mut full: Vec<Vec<u8>> = Vec::new();
    let mut last = Vec::with_capacity(announced.min(PIECE));
    let mut len = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_error| ApiError::bad_input("the body broke off: send it again");
        let frame = frame.map_err(broken)?;
        let Some(mut data) = frame.data_ref().map(Bytes::as_ref) else {
            continue;
        };
        len += data.len();
        if limit < len {
            drop((full, last));
            discard(body, limit).await;
            return Err(too_large(limit));
        }
        while let Some((fits, rest)) = data.split_at_checked(PIECE - last.len())
            && !rest.is_empty()
        {
            last.extend_from_slice(fits);
            full.push(std::mem::replace(&mut last, Vec::with_capacity(PIECE)));
            data = rest;
        }
        last.extend_from_slice(data);
    }
    if full.is_empty() {
        return Ok(last);
    }
    full.push(last);
    Ok(full.concat())
}

/// What is wrong with a body, and with which field of it.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // Serde would take an array for an object, field by field.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(ApiError::bad_input("the body: must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        let field = if field == "." {
            String::new()
        } else {
            format!("{field}: ")
        };
        ApiError::bad_input(format!("the body: {field}{}", error.inner()))
    })?;
    json.end()
        .map_err(|error| ApiError::bad_input(format!("the body: {error}")))?;
    Ok(value)
}

async fn bytes_of(request: Request, web: &Web) -> Result<Vec<u8>, ApiError> {
    let limit = web.body_limit;
    let announced = request.body().size_hint().lower();
    let is_asked_for = request.headers().contains_key(header::EXPECT);
    if usize::try_from(announced).is_ok_and(|n| n <= limit) {
        return read(request.into_body(), limit).await;
    }
    // Looking at the body of a sender that asks first would tell it to go on.
    if !is_asked_for {
        discard(request.into_body(), limit).await;
    }
    Err(too_large(limit))
}

impl<T: DeserializeOwned> FromRequest<Web> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, web: &Web) -> Result<Self, ApiError> {
        let bytes = bytes_of(request, web).await?;
        if bytes.is_empty() {
            return Err(ApiError::bad_input(
                "the body is empty: it must be a JSON object",
            ));
        }
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Web> for MaybeBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, web: &Web) -> Result<Self, ApiError> {
        let bytes = bytes_of(request, web).await?;
        if bytes.trim_ascii().is_empty() {
            return Ok(Self(T::default()));
        }
        // `null` says as little as nothing.
        let body: Option<T> = parse(&bytes)?;
        Ok(Self(body.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use civ_proto::config::{InboundChecksBody, Targets};

    use super::*;

    async fn text<T: DeserializeOwned + std::fmt::Debug>(body: &str) -> String {
        let refused = parse::<T>(body.as_bytes()).unwrap_err().into_response();
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_body_of_any_length_and_in_any_frames_is_read_whole() {
        let whole: Vec<u8> = (0..3 * PIECE + 7).map(|n| n.to_le_bytes()[0]).collect();
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, whole.len()] {
            for frame in [1_000, PIECE - 1, PIECE, PIECE + 1, whole.len()] {
                let frames: Vec<_> = whole[..len].chunks(frame).map(<[u8]>::to_vec).collect();
                let frames = frames.into_iter().map(Ok::<_, std::convert::Infallible>);
                let body = Body::from_stream(futures_util::stream::iter(frames));
                assert_eq!(
                    read(body, len).await.unwrap(),
                    whole[..len],
                    "{len} by {frame}"
                );
                let body = Body::from(whole[..len].to_vec());
                assert_eq!(read(body, len.saturating_sub(1)).await.is_err(), len != 0);
            }
        }
    }

    #[tokio::test]
    async fn a_refusal_names_the_field() {
        let ports = text::<InboundChecksBody>(r#"{"ports":[22,"x"],"icmp":true}"#).await;
        assert!(ports.contains("ports[1]: invalid type: string"), "{ports}");
        let missing = text::<Targets>("{}").await;
        assert!(
            missing.contains("the body: missing field `targets`"),
            "{missing}"
        );
        let unknown = text::<Targets>(r#"{"tragets":[]}"#).await;
        assert!(unknown.contains("unknown field `tragets`"), "{unknown}");
        let tail = text::<Targets>(r#"{"targets":["a"]} x"#).await;
        assert!(tail.contains("trailing"), "{tail}");
    }
}
