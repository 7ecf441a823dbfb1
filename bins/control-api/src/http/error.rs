//! The one table from what went wrong to a status and `{"error":"text"}`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use civ_proto::ErrorBody;

use crate::app::AppError;

/// A refusal as it goes out.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    text: String,
    header: Option<(header::HeaderName, HeaderValue)>,
}

/// The answer to a path that has no route.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotFound;

impl ApiError {
    /// A refusal with that status.
    #[must_use]
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            header: None,
        }
    }

    /// 400: the text names the field, the value and what is allowed.
    #[must_use]
    pub fn bad_input(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 404.
    #[must_use]
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 503.
    #[must_use]
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.header = Some((name, value));
        self
    }
}

impl From<AppError> for ApiError {
    fn from(error: AppError) -> Self {
        match error {
            AppError::BadInput(text) => Self::bad_input(text),
            AppError::NotFound(text) => Self::not_found(text),
            AppError::Conflict(text) => Self::new(StatusCode::CONFLICT, text),
            AppError::Cloud(text) => Self::new(StatusCode::BAD_GATEWAY, text),
            AppError::Unavailable(text) => Self::unavailable(text),
            AppError::Store(_) => {
                // The chain is for the log alone: no SQL text goes out.
                tracing::error!(error = %civ_boot::chain::Chain(&error), "a request failed");
                Self::unavailable("the database is not available: try again in a moment")
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorBody { error: self.text })).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl IntoResponse for NotFound {
    fn into_response(self) -> Response {
        ApiError::not_found("there is no such path: see docs/API.md").into_response()
    }
}

#[cfg(test)]
mod tests {
    use civ_store::StoreError;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn each_failure_has_its_status_and_the_cause_stays_inside() {
        let said = || "said".to_owned();
        let database = StoreError::Corrupt {
            what: "a row with a secret".to_owned(),
        };
        for (error, status, text) in [
            (AppError::BadInput(said()), 400, "said"),
            (AppError::NotFound(said()), 404, "said"),
            (AppError::Conflict(said()), 409, "said"),
            (AppError::Cloud(said()), 502, "said"),
            (AppError::Unavailable(said()), 503, "said"),
            (
                AppError::Store(database),
                503,
                "the database is not available: try again in a moment",
            ),
        ] {
            let answer = ApiError::from(error).into_response();
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let expected = format!("{{\"error\":\"{text}\"}}");
            assert_eq!(String::from_utf8_lossy(&body), expected);
        }
    }
}
