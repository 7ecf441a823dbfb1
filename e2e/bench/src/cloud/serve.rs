//! The server: HTTP/1.1 with connections that are kept, on a loopback port.

use std::convert::Infallible;

use anyhow::Result;
use clap::Args;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::answers::answer;
use crate::say;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Floating IPs of the project
    #[arg(long)]
    rows: u32,
}

pub(crate) async fn serve(args: &ServeArgs) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    say(&format!("{base}/v3"));
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (base, rows) = (base.clone(), args.rows);
        connections.spawn(async move {
            let service = service_fn(move |request| reply(base.clone(), rows, request));
            // How a connection ends is the client's business.
            drop(
                http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn reply(
    base: String,
    rows: u32,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    // A login's body says nothing that matters here.
    drop(body.collect().await);
    let query = head.uri.query().unwrap_or_default();
    let made = answer(&base, head.uri.path(), query, rows);
    let mut response = Response::new(Full::new(Bytes::from(made.body)));
    *response.status_mut() = StatusCode::from_u16(made.status).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(
        "content-type",
        hyper::header::HeaderValue::from_static("application/json"),
    );
    if made.token {
        headers.insert(
            "x-subject-token",
            hyper::header::HeaderValue::from_static("gAAAAAtoken"),
        );
    }
    Ok(response)
}
