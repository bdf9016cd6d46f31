//! Typed metrics: the constant knows name, kind and labels, so a call cannot get them wrong.

use metrics::Label;

/// What kind of number a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations sorted into buckets with these upper bounds, in the metric's unit.
    Histogram(&'static [Bound]),
}

/// An upper bound in billionths of the unit; whole numbers, so that the table can be compared and kept constant.
pub type Bound = u64;

/// The description of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Full name.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// `bytes`, `seconds`, or what is counted.
    pub unit: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

macro_rules! handle {
    ($(#[$doc:meta])* $type:ident, $macro:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $type<const N: usize> {
            pub(super) name: &'static str,
            pub(super) labels: [&'static str; N],
        }

        impl<const N: usize> $type<N> {
            /// The handle for these label values, in the order of the table. Keep it: looking it up costs more than
            /// using it.
            pub fn with(&self, values: [&str; N]) -> metrics::$type {
                let labels: Vec<Label> =
                    self.labels.iter().zip(values).map(|(&name, value)| Label::new(name, value.to_owned())).collect();
                metrics::$macro!(self.name, labels)
            }
        }

        impl $type<0> {
            /// The handle.
            pub fn get(&self) -> metrics::$type {
                self.with([])
            }
        }
    };
}

handle! {
    /// A counter with `N` labels.
    Counter, counter
}
handle! {
    /// A gauge with `N` labels.
    Gauge, gauge
}
handle! {
    /// A histogram with `N` labels.
    Histogram, histogram
}
