//! The one variable part of a path: an id or an address, percent-decoded.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::Web;
use super::error::ApiError;

/// A part of the path as text. What is no text names nothing that there is.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

impl FromRequestParts<Web> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, web).await;
        let Path(text) = path.map_err(|_rejection| {
            ApiError::not_found("the path is not UTF-8 text: there is no such thing")
        })?;
        Ok(Self(text))
    }
}
