//! What a generated dataset contains.
//!
//! Why: a load generator that only counts bytes cannot tell a right byte from a wrong one. Here each record carries its
//! id and a checksum, and its whole content follows from the [`Manifest`], so that a reader can tell three faults apart:
//! a record that was damaged, a record that is whole but belongs somewhere else, and a record lost or seen twice.
//!
//! Record `i` of shard `s` has id `s * records + i` and is a serialized `tf.train.Example` ([`example`]). Sizes and
//! payloads come from a counter-based generator ([`noise`]), so any record is made without the ones before it, and from
//! integer and basic IEEE arithmetic only, so every machine makes the same bytes.
//!
//! Limits: payloads do not compress (as JPEG does not); only the `tabular` profile does. Fewer than 2^63 records.

mod content;
pub mod example;
mod manifest;
mod noise;
mod profile;

pub use content::Mismatch;
pub use manifest::{Compression, MANIFEST_NAME, Manifest};
pub use profile::Profile;
