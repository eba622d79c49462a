//! Metrics as a message of OTLP (`opentelemetry/proto/collector/metrics/v1/metrics_service.proto`).

use std::time::SystemTime;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data as Sent;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as SentMetric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use super::settings::Settings;
use crate::metrics::{Data, Metric, PREFIX, Sample, Unit, Value};

/// From when to when something was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) begun: SystemTime,
    pub(super) now: SystemTime,
}

/// The content of one export.
pub(super) fn request(metrics: &[Metric], times: Times, settings: &Settings) -> Vec<u8> {
    let resource = settings.resource.iter();
    let scope = InstrumentationScope {
        name: PREFIX.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: resource
                    .map(|(name, value)| attribute(name, value))
                    .collect(),
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope),
                metrics: metrics.iter().map(|metric| sent(metric, times)).collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    };
    request.encode_to_vec()
}

fn attribute(name: &str, value: &str) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue {
            value: Some(Any::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

/// Nanoseconds since 1970.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn sent(metric: &Metric, times: Times) -> SentMetric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match &metric.data {
        Data::Counter(samples) => Sent::Sum(Sum {
            data_points: points(samples, times),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        Data::Gauge(samples) => Sent::Gauge(Gauge {
            data_points: points(samples, times),
        }),
        Data::Histogram(histogram) => Sent::Histogram(Histogram {
            data_points: vec![HistogramDataPoint {
                start_time_unix_nano: nanos(times.begun),
                time_unix_nano: nanos(times.now),
                count: histogram.count(),
                sum: Some(histogram.sum),
                bucket_counts: histogram.counts.clone(),
                explicit_bounds: histogram.bounds.clone(),
                ..HistogramDataPoint::default()
            }],
            aggregation_temporality: cumulative,
        }),
    };
    SentMetric {
        // Prometheus makes an underscore of the dot, and words of the units (UCUM).
        name: format!("{PREFIX}.{}", metric.name),
        description: metric.help.to_owned(),
        unit: match metric.unit {
            None => "",
            Some(Unit::Seconds) => "s",
            Some(Unit::Bytes) => "By",
        }
        .to_owned(),
        data: Some(data),
        ..SentMetric::default()
    }
}

fn points(samples: &[Sample], times: Times) -> Vec<NumberDataPoint> {
    let point = |sample: &Sample| NumberDataPoint {
        attributes: sample
            .label
            .iter()
            .map(|(name, value)| attribute(name, value))
            .collect(),
        start_time_unix_nano: nanos(times.begun),
        time_unix_nano: nanos(times.now),
        value: Some(match sample.value {
            Value::Whole(value) => Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX)),
            Value::Real(value) => Number::AsDouble(value),
        }),
        ..NumberDataPoint::default()
    };
    samples.iter().map(point).collect()
}
