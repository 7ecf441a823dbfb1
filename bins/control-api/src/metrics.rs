//! What is counted for Prometheus, and how it is written. Knows neither HTTP, the store nor the
//! cloud: whoever does something says so here. No label is an address.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Names and values of labels.
type Labels = Vec<(&'static str, String)>;

/// Upper bounds of the duration of a request, in seconds; the last is the longest `?wait=`.
const BOUNDS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0];

/// Whatever a client makes up as a method is counted as this.
const OTHER: &str = "other";

fn histogram() -> Histogram {
    Histogram::new(BOUNDS)
}

/// What only grows.
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    replaced: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<Labels, Counter>::default();
        let new: fn() -> Histogram = histogram;
        let durations = Family::<Labels, Histogram, _>::new_with_constructor(new);
        let replaced = Counter::default();
        registry.register("civ_http_requests", "Answered requests", requests.clone());
        registry.register_with_unit(
            "civ_http_request_duration",
            "From the head of a request to its answer, waits for news included",
            Unit::Seconds,
            durations.clone(),
        );
        registry.register(
            "civ_checked_at_replaced",
            "Reported results whose checked_at was missing or not a time",
            replaced.clone(),
        );
        let build: Labels = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let info = Family::<Labels, Gauge>::default();
        info.get_or_create(&build).set(1);
        registry.register("civ_build_info", "The version of the program", info);
        Self {
            registry,
            requests,
            durations,
            replaced,
        }
    }
}

impl Metrics {
    /// A request to `route`, a template and never a path, was answered after `took`.
    pub fn answered(&self, method: &str, route: Option<&str>, status: u16, took: Duration) {
        let known = ["GET", "HEAD", "POST", "PUT", "DELETE"].contains(&method);
        let method = if known { method } else { OTHER };
        let labels = vec![
            ("method", method.to_owned()),
            ("route", route.unwrap_or(OTHER).to_owned()),
        ];
        let duration = self.durations.get_or_create(&labels).clone();
        duration.observe(took.as_secs_f64());
        let mut labels = labels;
        labels.push(("status", status.to_string()));
        self.requests.get_or_create(&labels).inc();
    }

    /// The time of so many results was replaced by the server's.
    pub fn replaced_checked_at(&self, n: usize) {
        self.replaced.inc_by(u64::try_from(n).unwrap_or(u64::MAX));
    }

    /// The whole text.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn text(&self, standing: &Standing) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &standing.registry)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// How the whole stands at the moment of a scrape.
#[derive(Debug, Default)]
pub struct Standing {
    registry: Registry,
}

impl Standing {
    /// One number.
    pub fn one(&mut self, name: &str, help: &str, value: u64) {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        self.registry.register(name, help, gauge);
    }

    /// A number for each value of `label`.
    pub fn each(
        &mut self,
        (name, help): (&str, &str),
        label: &'static str,
        rows: impl IntoIterator<Item = (String, u64)>,
    ) {
        let family = Family::<Labels, Gauge>::default();
        for (value, n) in rows {
            let gauge = family.get_or_create(&vec![(label, value)]).clone();
            gauge.set(i64::try_from(n).unwrap_or(i64::MAX));
        }
        self.registry.register(name, help, family);
    }
}
