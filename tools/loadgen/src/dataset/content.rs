//! The content of each record, and the check of one that was read.

use super::example::{self, Value};
use super::noise::Noise;
use super::{Manifest, Profile};

/// Purposes of the number streams, so that a record's size does not repeat in its payload.
const SIZE: u64 = 1;
const PAYLOAD: u64 = 2;
const ROW: u64 = 3;

const FLOATS: [&str; 13] =
    ["f00", "f01", "f02", "f03", "f04", "f05", "f06", "f07", "f08", "f09", "f10", "f11", "f12"];
const INTS: [&str; 13] =
    ["i00", "i01", "i02", "i03", "i04", "i05", "i06", "i07", "i08", "i09", "i10", "i11", "i12"];

/// Why a record is not the one that the manifest describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// No Example with an `id` in it.
    NotAnExample,
    /// An `id` that no record of the dataset has.
    UnknownId(i64),
    /// The payload does not have the CRC-32C that stands beside it: the record was damaged.
    Checksum {
        /// The record's id.
        id: u64,
    },
    /// Whole in itself but not what was written under this id: another dataset, or another seed.
    Content {
        /// The record's id.
        id: u64,
    },
}

impl Manifest {
    /// Appends record `id` to `out`, without its frame; `scratch` holds the payload meanwhile and spares allocations.
    pub fn append_record(&self, id: u64, out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        let signed = i64::try_from(id).expect("checked: fewer than 2^63 records");
        if self.profile == Profile::Tabular {
            return self.append_row(id, signed, out);
        }
        let wanted = self.profile.draw(self.record_bytes, Noise::new(self.seed, SIZE, id));
        // The features around a payload take about this much.
        let len = usize::try_from(wanted.saturating_sub(72)).expect("checked: a record is shorter than 2^32");
        scratch.clear();
        Noise::new(self.seed, PAYLOAD, id).append(scratch, len);
        let checksum = feedline::record::crc32c(scratch).to_le_bytes();
        let features = [
            ("checksum", Value::Bytes(&checksum)),
            ("id", Value::Int(signed)),
            ("payload", Value::Bytes(scratch)),
        ];
        example::append(out, &features);
    }

    fn append_row(&self, id: u64, signed: i64, out: &mut Vec<u8>) {
        let noise = Noise::new(self.seed, ROW, id);
        let mut row = [("id", Value::Int(signed)); 28];
        row[1] = ("label", Value::Int(i64::from(noise.at(0) & 3 == 0)));
        let mut n = 1;
        for (slot, name) in row[2..15].iter_mut().zip(FLOATS) {
            // A few digits, as measured values have: noise in every bit would not compress at all.
            let hundredths = i16::try_from(noise.at(n) % 10_000).expect("below 10000");
            *slot = (name, Value::Float(f32::from(hundredths) / 100.0));
            n += 1;
        }
        for (slot, name) in row[15..].iter_mut().zip(INTS) {
            // Counters and category numbers: mostly small, at times large.
            let bits = 1 + noise.at(n) % 32;
            *slot = (name, Value::Int((noise.at(n + 1) & ((1 << bits) - 1)).cast_signed()));
            n += 2;
        }
        example::append(out, &row);
    }

    /// Checks a record and returns its id.
    ///
    /// # Errors
    /// The first difference from what the manifest describes.
    pub fn check_record(
        &self,
        record: &[u8],
        expected: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<u64, Mismatch> {
        let Some(Value::Int(signed)) = example::find(record, "id") else {
            return Err(Mismatch::NotAnExample);
        };
        let id = u64::try_from(signed)
            .ok()
            .filter(|id| *id < self.records())
            .ok_or(Mismatch::UnknownId(signed))?;
        expected.clear();
        self.append_record(id, expected, scratch);
        if record == expected.as_slice() {
            return Ok(id);
        }
        let whole = match (example::find(record, "checksum"), example::find(record, "payload")) {
            (Some(Value::Bytes(checksum)), Some(Value::Bytes(payload))) => {
                feedline::record::crc32c(payload).to_le_bytes() == checksum
            }
            _ => self.profile == Profile::Tabular,
        };
        Err(if whole { Mismatch::Content { id } } else { Mismatch::Checksum { id } })
    }

    /// How a mismatch reads in a report.
    pub fn describe(&self, mismatch: &Mismatch) -> String {
        match mismatch {
            Mismatch::NotAnExample => "a record is not an Example with an id".to_owned(),
            Mismatch::UnknownId(id) => {
                format!("a record has id {id}, the dataset has 0 to {}", self.records() - 1)
            }
            Mismatch::Checksum { id } => {
                format!("{}: the payload does not have its checksum", self.place(*id))
            }
            Mismatch::Content { id } => {
                format!("{}: whole, but not the content that seed {} gives", self.place(*id), self.seed)
            }
        }
    }

    /// Where a record stands, as a report names it.
    pub(crate) fn place(&self, id: u64) -> String {
        let (shard, record) = (id / self.records_per_shard, id % self.records_per_shard);
        format!("shard {} record {record} (id {id})", self.shard_name(shard))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Compression;
    use super::*;

    fn manifest(profile: Profile, seed: u64) -> Manifest {
        Manifest::new(profile, 2, 50, None, Compression::None, seed).unwrap()
    }

    fn record(manifest: &Manifest, id: u64) -> Vec<u8> {
        let mut out = Vec::new();
        manifest.append_record(id, &mut out, &mut Vec::new());
        out
    }

    fn check(manifest: &Manifest, record: &[u8]) -> Result<u64, Mismatch> {
        manifest.check_record(record, &mut Vec::new(), &mut Vec::new())
    }

    #[test]
    fn records_of_every_profile_verify() {
        for profile in [Profile::Images, Profile::Tabular, Profile::Small, Profile::Tiny] {
            let manifest = manifest(profile, 5);
            for id in [0, 1, 99] {
                assert_eq!(check(&manifest, &record(&manifest, id)), Ok(id), "{profile:?}");
            }
        }
    }

    #[test]
    fn damage_and_foreign_content_are_told_apart() {
        let ours = manifest(Profile::Small, 5);
        let mut damaged = record(&ours, 7);
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(check(&ours, &damaged), Err(Mismatch::Checksum { id: 7 }));
        assert!(
            ours.describe(&Mismatch::Checksum { id: 57 }).contains("shard-00001-of-00002.tfrecord record 7")
        );
        let other = manifest(Profile::Small, 6);
        assert_eq!(check(&ours, &record(&other, 7)), Err(Mismatch::Content { id: 7 }));
        assert_eq!(check(&ours, b"text"), Err(Mismatch::NotAnExample));
        let mut beyond = Vec::new();
        example::append(&mut beyond, &[("id", Value::Int(100))]);
        assert_eq!(check(&ours, &beyond), Err(Mismatch::UnknownId(100)));
    }

    #[test]
    fn rows_have_28_features_of_their_kinds() {
        let manifest = manifest(Profile::Tabular, 1);
        let row = record(&manifest, 3);
        for name in FLOATS {
            assert!(matches!(example::find(&row, name), Some(Value::Float(_))), "{name}");
        }
        for name in INTS.into_iter().chain(["id", "label"]) {
            assert!(matches!(example::find(&row, name), Some(Value::Int(_))), "{name}");
        }
        assert!((450..750).contains(&row.len()), "{} bytes", row.len());
    }

    /// The bytes may never change under one version of the content rules: datasets outlive the program.
    #[test]
    fn content_is_pinned() {
        let digest = |profile| {
            let manifest = manifest(profile, 2024);
            (0..100)
                .fold(0, |crc: u32, id| crc.rotate_left(1) ^ feedline::record::crc32c(&record(&manifest, id)))
        };
        let digests = [Profile::Images, Profile::Tabular, Profile::Small, Profile::Tiny].map(digest);
        assert_eq!(digests, [2_633_663_774, 2_336_116_397, 2_865_392_736, 531_970_108]);
    }
}
