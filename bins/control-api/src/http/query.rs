//! Query parameters and answers of lists, as the document shows them; reading them is the
//! handlers' job, which says more about a bad one than a deserializer.

use civ_proto::admin::Page;
use civ_proto::{read_model, registry, words};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

/// One or several states, separated by commas.
fn states() -> Array {
    ArrayBuilder::new().items(words::ip_state()).build()
}

fn results() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words::RESULTS))
        .into()
}

fn orders() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["sequence", "aggregated_at_desc"]))
        .into()
}

/// Parameters of `GET /admin/ips`. One that is there and empty is as good as missing.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a part of the document, never a value")]
pub(super) struct Listing {
    /// Length of a page; without it the whole list comes, as an array.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Rows before the page; only together with `limit`.
    #[param(minimum = 0, maximum = 9_223_372_036_854_775_807_i64)]
    offset: Option<u64>,
    /// One or several states, separated by commas.
    #[param(schema_with = states, explode = false, style = Form, required = false)]
    state: Option<Vec<String>>,
    /// Part of the address.
    #[param(max_length = 64)]
    q: Option<String>,
    /// The result.
    #[param(schema_with = results, required = false)]
    result: Option<String>,
    /// By place in the queue, or the latest result first and never aggregated ones last.
    #[param(schema_with = orders, required = false)]
    order: Option<String>,
}

/// The whole list, or one page of it.
#[derive(ToSchema)]
#[schema(as = IpList)]
#[expect(dead_code, reason = "a part of the document, never a value")]
#[serde(untagged)]
pub(super) enum IpsListed {
    /// Without `limit`.
    Whole(Vec<read_model::Ip>),
    /// With `limit`.
    Page(Page<read_model::Ip>),
}

fn formats() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["csv", "jsonl"]))
        .description(Some("`csv` if left out."))
        .into()
}

/// Parameters of `GET /admin/events`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a part of the document, never a value")]
pub(super) struct Paging {
    /// Entries with an `ID` above this; without it the latest ones.
    #[param(minimum = 0, maximum = 9_223_372_036_854_775_807_i64)]
    after: Option<i64>,
    /// Length of a page; 100 if left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The type of the event; an empty one is as good as missing.
    #[param(max_length = 64)]
    r#type: Option<String>,
    /// How much an operator should care.
    #[param(schema_with = words::severity, required = false)]
    severity: Option<String>,
    /// The address.
    #[param(schema_with = words::ip_address, required = false)]
    ip: Option<String>,
}

/// Parameters of `GET /admin/registry/export`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a part of the document, never a value")]
pub(super) struct RegistryExport {
    /// How the file is written.
    #[param(schema_with = formats, required = false)]
    format: Option<String>,
}

/// Parameters of `GET /admin/checks/export`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a part of the document, never a value")]
pub(super) struct ChecksExport {
    /// How the file is written.
    #[param(schema_with = formats, required = false)]
    format: Option<String>,
    /// Of this address alone.
    #[param(schema_with = words::ip_address, required = false)]
    address: Option<String>,
    /// Received at this moment or later.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Received before this moment.
    #[param(format = DateTime)]
    until: Option<String>,
}

/// Parameters of `GET /admin/registry`. One that is there and empty is as good as missing.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a part of the document, never a value")]
pub(super) struct RegistryListing {
    /// Length of a page; without it the whole list comes, as an array.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Rows before the page; only together with `limit`.
    #[param(minimum = 0, maximum = 9_223_372_036_854_775_807_i64)]
    offset: Option<u64>,
    /// Part of the address.
    #[param(max_length = 64)]
    q: Option<String>,
    /// The latest result.
    #[param(schema_with = results, required = false)]
    last_result: Option<String>,
}

/// The whole list, or one page of it.
#[derive(ToSchema)]
#[schema(as = RegistryList)]
#[expect(dead_code, reason = "a part of the document, never a value")]
#[serde(untagged)]
pub(super) enum RegistryListed {
    /// Without `limit`.
    Whole(Vec<registry::RegistryEntry>),
    /// With `limit`.
    Page(Page<registry::RegistryEntry>),
}

fn truth() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["true", "false", "1", "0"]))
        .into()
}

/// Parameters of `POST /admin/ips/scan`. One that is there and empty is as good as missing.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a part of the document, never a value")]
pub(super) struct Scanning {
    /// Count only, and enqueue nothing; false if left out.
    #[param(schema_with = truth, required = false)]
    dry_run: Option<String>,
    /// Answer when the scan has ended; false if left out.
    #[param(schema_with = truth, required = false)]
    wait: Option<String>,
}

/// A name of a target group.
pub(super) struct GroupName;

impl PartialSchema for GroupName {
    fn schema() -> RefOr<Schema> {
        words::name().into()
    }
}

impl ToSchema for GroupName {}

/// A check type that agents know.
pub(super) struct EgressCheck;

impl PartialSchema for EgressCheck {
    fn schema() -> RefOr<Schema> {
        words::egress_check().into()
    }
}

impl ToSchema for EgressCheck {}
