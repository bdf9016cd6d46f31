//! The description of a dataset: what was asked of `make`, which is all that a verifier needs.

use super::Profile;
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

/// Name of the manifest beside the shards. It is written last: where it stands, the dataset is whole.
pub const MANIFEST_NAME: &str = "_loadgen.json";

/// Version of the content rules; changed whenever the same numbers would give other bytes.
const VERSION: u32 = 1;

/// How a shard's object is compressed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Plain TFRecord
    None,
    /// One gzip stream (TensorFlow's `GZIP`)
    Gzip,
    /// One zlib stream (TensorFlow's `ZLIB`)
    Zlib,
}

/// Everything that the content of a dataset follows from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// What the records look like.
    pub profile: Profile,
    /// Number of shards, at least 1.
    pub shards: u64,
    /// Records in each shard.
    pub records_per_shard: u64,
    /// Mean length of a record in bytes, without the 16 bytes of its frame.
    pub record_bytes: u64,
    /// Compression of the objects.
    pub compression: Compression,
    /// Seed of sizes and payloads.
    pub seed: u64,
}

impl Manifest {
    /// A checked description.
    ///
    /// # Errors
    /// A number out of range, named with the range.
    pub fn new(
        profile: Profile,
        shards: u64,
        records_per_shard: u64,
        record_bytes: Option<u64>,
        compression: Compression,
        seed: u64,
    ) -> Result<Self> {
        let record_bytes = match (profile.usual_bytes(), record_bytes) {
            (_, Some(_)) if profile == Profile::Tabular => {
                anyhow::bail!("the rows of profile tabular have a fixed shape: leave out --record-bytes")
            }
            (_, Some(bytes)) | (Some(bytes), None) => bytes,
            (None, None) => anyhow::bail!("profile custom needs --record-bytes"),
        };
        let manifest =
            Self { version: VERSION, profile, shards, records_per_shard, record_bytes, compression, seed };
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<()> {
        ensure!(
            self.version == VERSION,
            "the dataset was made under content rules {}, this program knows {VERSION}: make it anew",
            self.version
        );
        ensure!((1..=99_999).contains(&self.shards), "--shards {} is not within 1 to 99999", self.shards);
        ensure!(
            (1..=1 << 40).contains(&self.records_per_shard),
            "--records {} is not within 1 to 2^40",
            self.records_per_shard
        );
        ensure!(
            (1..=1 << 28).contains(&self.record_bytes),
            "--record-bytes {} is not within 1 to 2^28",
            self.record_bytes
        );
        Ok(())
    }

    /// Records in all shards.
    pub const fn records(&self) -> u64 {
        self.shards * self.records_per_shard
    }

    /// Name of a shard, below the dataset's URL. Names sort as the shards are numbered.
    pub fn shard_name(&self, shard: u64) -> String {
        format!("shard-{shard:05}-of-{:05}.tfrecord", self.shards)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// Not a manifest, or one of other content rules.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let manifest: Self = serde_json::from_slice(bytes).context("not a manifest of feedline-loadgen")?;
        manifest.check()?;
        Ok(manifest)
    }

    /// The manifest as it is stored.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("numbers and names always serialize")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_manifest() {
        let manifest = Manifest::new(Profile::Small, 3, 10, None, Compression::Zlib, 9).unwrap();
        assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
        assert_eq!(manifest.record_bytes, 1_000);
        assert_eq!(manifest.shard_name(2), "shard-00002-of-00003.tfrecord");
    }

    #[test]
    fn what_cannot_be_made_is_refused_by_name() {
        let refused = |profile, shards, bytes| {
            Manifest::new(profile, shards, 10, bytes, Compression::None, 0).unwrap_err().to_string()
        };
        assert!(refused(Profile::Custom, 1, None).contains("--record-bytes"));
        assert!(refused(Profile::Tabular, 1, Some(5)).contains("--record-bytes"));
        assert!(refused(Profile::Small, 0, None).contains("--shards"));
        let other = br#"{"version":99,"profile":"tiny","shards":1,"records_per_shard":1,"record_bytes":1,"compression":"none","seed":0}"#;
        assert!(Manifest::from_json(other).unwrap_err().to_string().contains("content rules 99"));
    }
}
