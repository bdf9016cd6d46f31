//! Options of stores, and which of them apply to a URL.

use super::secret::Secret;
use super::url::SourceUrl;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// One option that cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The option with its section, as written in the configuration.
    pub option: String,
    /// The value found; never a secret.
    pub value: String,
    /// What would be accepted.
    pub allowed: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: allowed is {}", self.option, self.value, self.allowed)
    }
}

/// How the bucket is put into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// `virtual` for AWS, Volcengine, BytePlus and Aliyun hosts, `path` for every other endpoint.
    #[default]
    Auto,
    /// `https://bucket.host/key`.
    Virtual,
    /// `https://host/bucket/key`.
    Path,
}

/// Options of one store, or of a group of them. Everything left out is inherited from the next shorter URL prefix,
/// then from the defaults, then from the environment, then built in.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SourceSettings {
    /// Root of the service, without the bucket: `https://host[:port]`. Built from the region if left out.
    pub endpoint: Option<String>,
    /// Region for the signature and for built endpoints; `us-east-1` with a custom endpoint.
    pub region: Option<String>,
    /// Access key id. For `az` the name of the storage account.
    pub access_key: Option<Secret>,
    /// Secret of the access key. For `az` the account key.
    pub secret_key: Option<Secret>,
    /// Token of temporary keys.
    pub session_token: Option<Secret>,
    /// How the bucket is put into a request; `auto` if left out.
    pub addressing: Option<Addressing>,
    /// Send no credentials at all, for public buckets.
    pub anonymous: Option<bool>,
    /// Permit an `http://` endpoint: the secret key is never sent, but data travel in the clear. Always permitted
    /// for loopback addresses.
    pub allow_http: Option<bool>,
    /// PEM file with additional certificate authorities.
    pub ca_bundle: Option<PathBuf>,
    /// Proxy URL, or `off` to ignore `HTTP_PROXY` and its kin, which apply otherwise. Never used for loopback addresses.
    pub proxy: Option<String>,
    /// Use the TOS hosts that only the private network of the region can reach.
    pub internal: Option<bool>,
    /// Use the hosts of BytePlus instead of Volcengine for `tos`.
    pub byteplus: Option<bool>,
    /// A read is tried again when no byte arrived for this long: 100ms..10m, default 10s.
    #[serde(deserialize_with = "duration")]
    pub stall_timeout: Option<Duration>,
    /// Time for a connection to be made: 10ms..2m, default 3s.
    #[serde(deserialize_with = "duration")]
    pub connect_timeout: Option<Duration>,
    /// Attempts that may fail in a row without progress before a range fails: 0..=100, default 10.
    pub retries: Option<u32>,
}

/// The `store` section of the configuration: defaults, and options for URLs that start with a prefix.
///
/// ```
/// # use feedline::source::StoreSettings;
/// let settings: StoreSettings = toml::from_str(r#"
///     [default]
///     region = "cn-beijing"
///     [at."s3://lab/"]
///     endpoint = "http://127.0.0.1:8333"
/// "#).unwrap();
/// assert!(settings.mistakes().is_empty());
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// Options for every URL.
    pub default: SourceSettings,
    /// Options by URL prefix, such as `s3://` or `tos://bucket/`; where several apply the longest wins, option by
    /// option. A pattern takes the options of its literal beginning.
    pub at: BTreeMap<String, SourceSettings>,
}

impl StoreSettings {
    /// The prefixes that apply to URLs beginning with `literal`, shortest first.
    fn sections<'a>(&'a self, literal: &str) -> Vec<(&'a str, &'a SourceSettings)> {
        let mut found: Vec<_> = self
            .at
            .iter()
            .filter(|(prefix, _)| literal.starts_with(prefix.as_str()))
            .map(|(prefix, settings)| (prefix.as_str(), settings))
            .collect();
        found.sort_by_key(|(prefix, _)| prefix.len());
        found
    }

    /// The longest prefix that applies to `url`, empty if only the defaults do.
    pub(crate) fn section_of(&self, url: &SourceUrl) -> String {
        self.sections(&url.literal_prefix())
            .last()
            .map_or_else(String::new, |(prefix, _)| (*prefix).to_owned())
    }

    /// The options for the section named by [`Self::section_of`], inheritance applied.
    pub(crate) fn merged(&self, section: &str) -> SourceSettings {
        let layers = self.sections(section).into_iter().map(|(_, settings)| settings);
        layers.fold(self.default.clone(), |below, above| above.over(&below))
    }

    /// Every option that cannot be used, in all sections; empty if all is well.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut out = Vec::new();
        super::validate::check(&self.default, "store.default", &mut out);
        for (prefix, settings) in &self.at {
            let section = format!("store.at.{prefix:?}");
            super::validate::check_prefix(prefix, &section, &mut out);
            super::validate::check(settings, &section, &mut out);
        }
        out
    }
}

impl SourceSettings {
    /// `self`, with what it leaves out taken from `below`. Keys go together: a section with its own access key never
    /// inherits the secret or token of another.
    fn over(&self, below: &Self) -> Self {
        let keys = if self.access_key.is_some() { self } else { below };
        Self {
            endpoint: self.endpoint.clone().or_else(|| below.endpoint.clone()),
            region: self.region.clone().or_else(|| below.region.clone()),
            access_key: keys.access_key.clone(),
            secret_key: keys.secret_key.clone(),
            session_token: keys.session_token.clone(),
            addressing: self.addressing.or(below.addressing),
            anonymous: self.anonymous.or(below.anonymous),
            allow_http: self.allow_http.or(below.allow_http),
            ca_bundle: self.ca_bundle.clone().or_else(|| below.ca_bundle.clone()),
            proxy: self.proxy.clone().or_else(|| below.proxy.clone()),
            internal: self.internal.or(below.internal),
            byteplus: self.byteplus.or(below.byteplus),
            stall_timeout: self.stall_timeout.or(below.stall_timeout),
            connect_timeout: self.connect_timeout.or(below.connect_timeout),
            retries: self.retries.or(below.retries),
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parsed = humantime::parse_duration(&text);
    parsed
        .map(Some)
        .map_err(|error| serde::de::Error::custom(format!("{text:?} is not a duration like 10s: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> StoreSettings {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_longest_prefix_wins_option_by_option() {
        let settings = parse(
            r#"
            [default]
            region = "r0"
            retries = 1
            access_key = "default"
            secret_key = "s"
            session_token = "t"
            [at."s3://"]
            region = "r1"
            stall_timeout = "5s"
            [at."s3://b/"]
            region = "r2"
            access_key = "own"
            secret_key = "own-secret"
            "#,
        );
        let of = |url: &str| settings.merged(&settings.section_of(&SourceUrl::parse(url).unwrap()));
        let plain = of("gs://x/y");
        assert_eq!((plain.region.as_deref(), plain.stall_timeout), (Some("r0"), None));
        let s3 = of("s3://bb/y");
        assert_eq!((s3.region.as_deref(), s3.retries), (Some("r1"), Some(1)));
        assert_eq!(s3.access_key.unwrap().expose(), "default");
        let bucket = of("s3://b/y*");
        assert_eq!(bucket.region.as_deref(), Some("r2"));
        assert_eq!(bucket.stall_timeout, Some(Duration::from_secs(5)));
        assert_eq!(bucket.access_key.unwrap().expose(), "own");
        assert_eq!(bucket.session_token, None, "a token belongs to its key");
    }

    #[test]
    fn unknown_options_and_bad_durations_are_refused() {
        for text in ["[default]\nreggion = 'x'", "[default]\nstall_timeout = 'soon'", "[defaults]"] {
            assert!(toml::from_str::<StoreSettings>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_mistake_is_found_and_no_secret_shown() {
        let settings = parse(
            r#"
            [default]
            retries = 1000
            stall_timeout = "1ms"
            connect_timeout = "1h"
            access_key = "AKIDHIDDEN"
            [at."s3:/b"]
            endpoint = "http://example.com"
            addressing = "virtual"
            [at."tos://b/"]
            endpoint = "https://tos-cn-beijing.volces.com"
            [at."s3://x/"]
            endpoint = "https://user:hunter2@example.com/"
            proxy = "ftp://p"
            region = "not a region"
            ca_bundle = "relative.pem"
            secret_key = "HIDDEN"
            anonymous = true
            [at."s3://y/"]
            endpoint = "https://10.0.0.1:9000"
            addressing = "virtual"
            "#,
        );
        let mistakes = settings.mistakes();
        let text = mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        for word in [
            "store.default.retries = 1000",
            "store.default.stall_timeout = 1ms",
            "store.default.connect_timeout = 1h",
            "store.default.secret_key",
            "\"s3:/b\" = ",
            "allow_http",
            "tos-s3-cn-beijing.volces.com",
            "store.at.\"s3://x/\".endpoint",
            "store.at.\"s3://x/\".proxy",
            "store.at.\"s3://x/\".region",
            "store.at.\"s3://x/\".ca_bundle",
            "store.at.\"s3://x/\".access_key",
            "store.at.\"s3://y/\".addressing",
        ] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
        assert!(!text.contains("HIDDEN") && !text.contains("hunter2"), "{text}");
    }
}
