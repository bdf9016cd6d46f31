//! Opening stores: settings and environment become a client for one origin.

use super::endpoint::{parse_endpoint, target};
use super::environment::{Environment, complete, process_environment};
use super::error::SourceError;
use super::http::NotingConnector;
use super::settings::{SourceSettings, StoreSettings};
use super::stats::SourceStats;
use super::url::{Origin, OriginId, Scheme, SourceUrl};
use object_store::aws::AmazonS3Builder;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::local::LocalFileSystem;
use object_store::{BackoffConfig, Certificate, ClientOptions, HeaderValue, ObjectStore, RetryConfig};
use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

/// Time-outs and retries of one origin.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Longest wait for the next byte, or for the reply.
    pub stall_timeout: Duration,
    /// Failures in a row without progress that are forgiven.
    pub retries: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { stall_timeout: Duration::from_secs(10), retries: 10 }
    }
}

/// An open store: one connection pool, bound to the runtime of the thread that uses it first.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<dyn ObjectStore>,
    /// The same store where listings go page by page, from any prefix.
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(crate) policy: Policy,
    pub(crate) stats: Arc<SourceStats>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.inner)
    }
}

impl Store {
    /// Wraps any store of the `object_store` crate, such as one in memory for tests.
    pub fn from_inner(inner: Arc<dyn ObjectStore>, policy: Policy) -> Self {
        Self { inner, pages: None, policy, stats: Arc::default() }
    }

    /// The counters this store adds to.
    pub fn stats(&self) -> &Arc<SourceStats> {
        &self.stats
    }
}

/// All stores that the configuration describes; a cheap handle that every thread clones.
#[derive(Clone)]
pub struct Stores(Arc<Inner>);

struct Inner {
    settings: StoreSettings,
    environment: Environment,
    stats: Arc<SourceStats>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Stores {
    /// Takes settings, completed by the environment of this process.
    ///
    /// # Errors
    /// [`SourceError::Settings`] with every mistake.
    pub fn new(settings: StoreSettings) -> Result<Self, SourceError> {
        Self::with_environment(settings, process_environment())
    }

    /// Takes settings, completed by the given environment.
    ///
    /// # Errors
    /// [`SourceError::Settings`] with every mistake.
    pub fn with_environment(settings: StoreSettings, environment: Environment) -> Result<Self, SourceError> {
        install_tls();
        let mistakes = settings.mistakes();
        if !mistakes.is_empty() {
            return Err(SourceError::Settings(mistakes));
        }
        Ok(Self(Arc::new(Inner { settings, environment, stats: Arc::default() })))
    }

    /// The origin of a URL's objects.
    pub fn origin(&self, url: &SourceUrl) -> OriginId {
        Arc::new(url.origin(self.0.settings.section_of(url)))
    }

    /// Opens a fresh store for the calling thread's runtime. Nothing is sent yet.
    ///
    /// # Errors
    /// [`SourceError::Credentials`] without keys, [`SourceError::Settings`] for options (or variables of the
    /// environment) that do not fit this origin, [`SourceError::Unsupported`] for a CA bundle that cannot be read.
    pub fn open(&self, origin: &Origin) -> Result<Store, SourceError> {
        let settings = self.settings_of(origin)?;
        let opening = Opening { origin, settings: &settings, stores: &self.0, retry: no_retries() };
        let default = Policy::default();
        let (inner, pages) = opening.build()?;
        Ok(Store {
            inner,
            pages,
            policy: Policy {
                stall_timeout: settings.stall_timeout.unwrap_or(default.stall_timeout),
                retries: settings.retries.unwrap_or(default.retries),
            },
            stats: self.0.stats.clone(),
        })
    }

    /// Opens a store for writing, for tools that make datasets. Reading has its own retries ([`super::read_range`]);
    /// writers have those of the layer below, ten with growing pauses, as a part that is sent again does no harm.
    ///
    /// # Errors
    /// As [`Self::open`]; [`SourceError::Unsupported`] for web servers, which are read only.
    pub fn open_to_write(&self, origin: &Origin) -> Result<Arc<dyn ObjectStore>, SourceError> {
        if origin.scheme.is_web() {
            return Err(SourceError::Unsupported {
                url: origin.to_string(),
                why: "web servers are read only".to_owned(),
            });
        }
        let settings = self.settings_of(origin)?;
        let opening = Opening { origin, settings: &settings, stores: &self.0, retry: RetryConfig::default() };
        Ok(opening.build()?.0)
    }

    /// The options for an origin, completed by the environment and checked.
    fn settings_of(&self, origin: &Origin) -> Result<SourceSettings, SourceError> {
        let settings = complete(self.0.settings.merged(&origin.section), origin.scheme, &self.0.environment);
        let mut mistakes = Vec::new();
        super::validate::check(&settings, &format!("store options for {origin}"), &mut mistakes);
        if mistakes.is_empty() { Ok(settings) } else { Err(SourceError::Settings(mistakes)) }
    }

    /// Counters over all stores opened from this handle and its clones.
    pub fn stats(&self) -> &Arc<SourceStats> {
        &self.0.stats
    }
}

/// The HTTP client is built without a TLS provider of its own; the process default decides, once.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that the embedding program has already chosen a provider, which then stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

type Built = (Arc<dyn ObjectStore>, Option<Arc<dyn PaginatedListStore>>);

struct Opening<'a> {
    origin: &'a Origin,
    settings: &'a SourceSettings,
    stores: &'a Inner,
    retry: RetryConfig,
}

impl Opening<'_> {
    fn build(&self) -> Result<Built, SourceError> {
        match self.origin.scheme {
            Scheme::File => Ok((Arc::new(LocalFileSystem::new()), None)),
            Scheme::Http | Scheme::Https => self.web(),
            Scheme::S3 | Scheme::Tos => self.s3(),
            Scheme::Gs => self.gcs(),
            Scheme::Az => self.azure(),
        }
    }

    fn unsupported(&self, why: impl Into<String>) -> SourceError {
        SourceError::Unsupported { url: self.origin.to_string(), why: why.into() }
    }

    fn failed(&self, source: object_store::Error) -> SourceError {
        SourceError::Other { url: self.origin.to_string(), source: source.into() }
    }

    fn no_credentials(&self, hint: &str) -> SourceError {
        SourceError::Credentials { origin: self.origin.to_string(), hint: hint.to_owned() }
    }

    fn connector(&self) -> NotingConnector {
        NotingConnector(self.stores.stats.clone())
    }

    fn anonymous(&self) -> bool {
        self.settings.anonymous == Some(true)
    }

    fn s3(&self) -> Result<Built, SourceError> {
        let settings = self.settings;
        let target =
            target(self.origin.scheme, &self.origin.host, settings).map_err(|why| self.unsupported(why))?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.origin.host)
            .with_region(&target.region)
            .with_endpoint(&target.endpoint)
            .with_virtual_hosted_style_request(target.virtual_hosted)
            .with_client_options(self.client_options(target.loopback, !target.tls)?)
            .with_retry(self.retry.clone())
            .with_http_connector(self.connector());
        match (&settings.access_key, &settings.secret_key) {
            _ if self.anonymous() => builder = builder.with_skip_signature(true),
            (Some(access), Some(secret)) => {
                builder = builder.with_access_key_id(access.expose()).with_secret_access_key(secret.expose());
                if let Some(token) = &settings.session_token {
                    builder = builder.with_token(token.expose());
                }
            }
            _ if self.origin.scheme == Scheme::Tos => {
                return Err(self.no_credentials(
                    "set access_key and secret_key in the configuration, or TOS_ACCESS_KEY and TOS_SECRET_KEY, \
                     or anonymous = true",
                ));
            }
            _ => {
                return Err(self.no_credentials(
                    "set access_key and secret_key in the configuration, or AWS_ACCESS_KEY_ID and \
                     AWS_SECRET_ACCESS_KEY, or anonymous = true",
                ));
            }
        }
        let store = Arc::new(builder.build().map_err(|error| self.failed(error))?);
        Ok((store.clone(), Some(store)))
    }

    fn web(&self) -> Result<Built, SourceError> {
        let scheme = self.origin.scheme.as_str();
        let query =
            self.origin.query.as_ref().map_or_else(String::new, |query| format!("?{}", query.expose()));
        let url = format!("{scheme}://{}/{query}", self.origin.host);
        let loopback =
            parse_endpoint(&format!("{scheme}://{}", self.origin.host)).is_ok_and(|e| e.is_loopback());
        let store = HttpBuilder::new()
            .with_url(url)
            .with_client_options(self.client_options(loopback, self.origin.scheme == Scheme::Http)?)
            .with_retry(self.retry.clone())
            .with_http_connector(self.connector())
            .build()
            .map_err(|error| self.failed(error))?;
        Ok((Arc::new(store), None))
    }

    fn gcs(&self) -> Result<Built, SourceError> {
        let (loopback, plain) = self.endpoint_kind()?;
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_bucket_name(&self.origin.host)
            .with_client_options(self.client_options(loopback, plain)?)
            .with_retry(self.retry.clone())
            .with_http_connector(self.connector());
        if let Some(endpoint) = &self.settings.endpoint {
            builder = builder.with_base_url(endpoint.trim_end_matches('/'));
        }
        let env = &self.stores.environment;
        let well_known = || {
            let home =
                env("HOME").map(|home| format!("{home}/.config/gcloud/application_default_credentials.json"));
            home.filter(|path| std::path::Path::new(path).is_file())
        };
        if self.anonymous() {
            let nothing = object_store::gcp::GcpCredential { bearer: String::new() };
            let nothing = object_store::StaticCredentialProvider::new(nothing);
            builder = builder.with_skip_signature(true).with_credentials(Arc::new(nothing));
        } else if let Some(file) = env("GOOGLE_APPLICATION_CREDENTIALS").or_else(well_known) {
            builder = builder.with_application_credentials(file);
        } else {
            return Err(
                self.no_credentials("set GOOGLE_APPLICATION_CREDENTIALS to a key file, or anonymous = true")
            );
        }
        let store = Arc::new(builder.build().map_err(|error| self.failed(error))?);
        Ok((store.clone(), Some(store)))
    }

    fn azure(&self) -> Result<Built, SourceError> {
        let (loopback, plain) = self.endpoint_kind()?;
        let Some(account) = &self.settings.access_key else {
            return Err(self.no_credentials(
                "set access_key to the storage account and secret_key to its key, or AZURE_STORAGE_ACCOUNT_NAME and \
                 AZURE_STORAGE_ACCOUNT_KEY",
            ));
        };
        let mut builder = MicrosoftAzureBuilder::new()
            .with_account(account.expose())
            .with_container_name(&self.origin.host)
            .with_client_options(self.client_options(loopback, plain)?)
            .with_retry(self.retry.clone())
            .with_http_connector(self.connector());
        if let Some(endpoint) = &self.settings.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        if let Some(secret) = &self.settings.secret_key {
            builder = builder.with_access_key(secret.expose());
        }
        if let Some(token) = (self.stores.environment)("AZURE_STORAGE_SAS_TOKEN") {
            builder = builder.with_config(AzureConfigKey::SasKey, token.trim());
        }
        let store = Arc::new(builder.build().map_err(|error| self.failed(error))?);
        Ok((store.clone(), Some(store)))
    }

    /// Whether the configured endpoint is on this machine, and whether it goes without TLS.
    fn endpoint_kind(&self) -> Result<(bool, bool), SourceError> {
        let parsed = self.settings.endpoint.as_deref().map(parse_endpoint).transpose();
        let parsed = parsed.map_err(|why| self.unsupported(why))?;
        Ok(parsed.map_or((false, false), |endpoint| (endpoint.is_loopback(), !endpoint.tls)))
    }

    fn client_options(&self, loopback: bool, plain: bool) -> Result<ClientOptions, SourceError> {
        let settings = self.settings;
        let mut options = ClientOptions::new()
            .with_user_agent(HeaderValue::from_static(concat!("feedline/", env!("CARGO_PKG_VERSION"))))
            // A transfer may take as long as it likes while bytes arrive: the reader's own timer watches progress.
            .with_timeout_disabled()
            .with_connect_timeout(settings.connect_timeout.unwrap_or(Duration::from_secs(3)))
            .with_allow_http(plain);
        match settings.proxy.as_deref() {
            // There is no switch for "ignore the environment"; a proxy that every host is exempt from is one.
            proxy if loopback || proxy == Some("off") => {
                options =
                    options.with_proxy_url("http://127.0.0.1:9").with_proxy_excludes("*,0.0.0.0/0,::/0");
            }
            Some(proxy) => options = options.with_proxy_url(proxy),
            None => {}
        }
        if let Some(path) = &settings.ca_bundle {
            let shown = path.display();
            let pem = std::fs::read(path)
                .map_err(|error| self.unsupported(format!("ca_bundle {shown}: {error}")))?;
            let bundle = Certificate::from_pem_bundle(&pem)
                .ok()
                .filter(|bundle| !bundle.is_empty())
                .ok_or_else(|| self.unsupported(format!("ca_bundle {shown}: no PEM certificates in it")))?;
            for certificate in bundle {
                options = options.with_root_certificate(certificate);
            }
        }
        Ok(options)
    }
}

/// Retries are the reader's: it sees each failure, counts it, and goes on where the body broke.
fn no_retries() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::from_secs(60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores(toml: &str) -> Stores {
        Stores::with_environment(toml::from_str(toml).unwrap(), Arc::new(|_| None)).unwrap()
    }

    fn open(stores: &Stores, url: &str) -> Result<Store, SourceError> {
        stores.open(&stores.origin(&SourceUrl::parse(url).unwrap()))
    }

    #[test]
    fn without_keys_nothing_is_opened() {
        let stores = stores("default.region = 'r'");
        for (url, word) in [
            ("s3://b/k", "AWS_ACCESS_KEY_ID"),
            ("tos://b/k", "TOS_ACCESS_KEY"),
            ("gs://b/k", "GOOGLE_APPLICATION_CREDENTIALS"),
            ("az://b/k", "AZURE_STORAGE_ACCOUNT_NAME"),
        ] {
            let error = open(&stores, url).unwrap_err();
            assert!(matches!(error, SourceError::Credentials { .. }), "{error:?}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn every_scheme_opens() {
        let keys = "[default]\nregion = 'r'\naccess_key = 'a'\nsecret_key = 'c2VjcmV0'";
        let stores = stores(keys);
        for url in ["s3://b/k", "tos://b/k", "az://b/k", "file:///x", "http://h/x", "https://h/x"] {
            open(&stores, url).unwrap_or_else(|error| panic!("{url}: {error:?}"));
        }
        let public = super::super::tests::stores("default.anonymous = true\ndefault.region = 'r'");
        for url in ["s3://b/k", "tos://b/k", "gs://b/k"] {
            open(&public, url).unwrap_or_else(|error| panic!("{url}: {error:?}"));
        }
    }

    #[test]
    fn secrets_are_not_in_debug_output() {
        let stores = stores("[default]\nregion = 'r'\naccess_key = 'AKIDXX'\nsecret_key = 'SECRETXX'");
        let text = format!("{stores:?} {:?}", open(&stores, "s3://b/k").unwrap());
        assert!(!text.contains("XX"), "{text}");
    }

    #[test]
    fn what_the_environment_brings_is_checked_too() {
        let env: Environment = Arc::new(|name| match name {
            "AWS_ENDPOINT_URL" => Some("http://minio.lab:9000".to_owned()),
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("k".to_owned()),
            _ => None,
        });
        let stores = Stores::with_environment(StoreSettings::default(), env).unwrap();
        let error = open(&stores, "s3://b/k").unwrap_err().to_string();
        assert!(error.contains("allow_http"), "{error}");
    }
}
