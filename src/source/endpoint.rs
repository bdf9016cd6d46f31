//! From bucket, region and endpoint to the address requests go to.

use super::settings::{Addressing, SourceSettings};
use super::url::Scheme;
use std::net::IpAddr;

/// Domains whose services want the bucket in the host name, or accept it there.
const VIRTUAL_DOMAINS: &[&str] = &[
    "amazonaws.com",
    "amazonaws.com.cn",
    "volces.com",
    "ivolces.com",
    "bytepluses.com",
    "ibytepluses.com",
    "aliyuncs.com",
];
const TOS_DOMAINS: &[&str] = &["volces.com", "ivolces.com", "bytepluses.com", "ibytepluses.com"];

/// Host of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// A name, lower case.
    Name(String),
    /// A literal address.
    Ip(IpAddr),
}

/// A checked `endpoint` option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) tls: bool,
    pub(crate) host: Host,
    pub(crate) port: Option<u16>,
    /// Path below the root, without slashes at its ends; mostly empty.
    pub(crate) path: String,
}

/// Parses `http(s)://host[:port][/path]`; a bare host means https.
///
/// # Errors
/// Says what is allowed.
pub(crate) fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    let shape = "http(s)://host[:port], without user, query and bucket";
    let full = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = url::Url::parse(&full).map_err(|error| format!("{shape} ({error})"))?;
    let tls = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(shape.to_owned()),
    };
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(shape.to_owned());
    }
    let host = match url.host() {
        Some(url::Host::Domain(name)) => Host::Name(name.trim_end_matches('.').to_ascii_lowercase()),
        Some(url::Host::Ipv4(ip)) => Host::Ip(ip.into()),
        Some(url::Host::Ipv6(ip)) => Host::Ip(ip.into()),
        None => return Err(shape.to_owned()),
    };
    Ok(Endpoint { tls, host, port: url.port(), path: url.path().trim_matches('/').to_owned() })
}

fn within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl Endpoint {
    fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Name(name) => Some(name),
            Host::Ip(_) => None,
        }
    }

    /// Whether requests stay on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Name(name) => within(name, "localhost"),
            Host::Ip(ip) => ip.is_loopback(),
        }
    }

    /// Whether the host is one of TOS.
    pub(crate) fn is_tos(&self) -> bool {
        self.name().is_some_and(|name| {
            TOS_DOMAINS.iter().any(|domain| within(name, domain))
                && name.split('.').any(|l| l.starts_with("tos-"))
        })
    }

    /// The region in a TOS host name of either family.
    pub(crate) fn tos_region(&self) -> Option<&str> {
        let label =
            self.name().filter(|_| self.is_tos())?.split('.').rfind(|label| label.starts_with("tos-"))?;
        label.strip_prefix("tos-s3-").or_else(|| label.strip_prefix("tos-"))
    }

    /// If the host speaks TOS's own protocol, which is not used here: the host that speaks S3.
    pub(crate) fn native_tos(&self) -> Option<String> {
        let name = self.name().filter(|_| self.is_tos())?;
        let label = name.split('.').rfind(|label| label.starts_with("tos-"))?;
        let region = label.strip_prefix("tos-").filter(|_| !label.starts_with("tos-s3-"))?;
        let domain = TOS_DOMAINS.iter().find(|domain| within(name, domain))?;
        Some(format!("tos-s3-{region}.{domain}"))
    }

    fn wants_virtual(&self) -> bool {
        self.name().is_some_and(|name| VIRTUAL_DOMAINS.iter().any(|domain| within(name, domain)))
    }

    /// `scheme://host[:port][/path]`, with `bucket` in front of the host unless it is there already.
    fn text(&self, bucket: Option<&str>) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let host = match &self.host {
            Host::Name(name) => match bucket {
                Some(bucket) if !name.starts_with(&format!("{bucket}.")) => format!("{bucket}.{name}"),
                _ => name.clone(),
            },
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
            Host::Ip(ip) => ip.to_string(),
        };
        let port = self.port.map_or_else(String::new, |port| format!(":{port}"));
        let path = if self.path.is_empty() { String::new() } else { format!("/{}", self.path) };
        format!("{scheme}://{host}{port}{path}")
    }
}

/// Where the requests of one bucket go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Includes the bucket if `virtual_hosted`.
    pub(crate) endpoint: String,
    pub(crate) region: String,
    pub(crate) virtual_hosted: bool,
    pub(crate) loopback: bool,
    pub(crate) tls: bool,
}

/// Works out the target of an S3 or TOS bucket from merged settings (environment included).
///
/// # Errors
/// Says which option is missing.
pub(crate) fn target(scheme: Scheme, bucket: &str, settings: &SourceSettings) -> Result<Target, String> {
    let given = settings.endpoint.as_deref().map(parse_endpoint).transpose()?;
    let region = settings.region.clone();
    let (endpoint, region) = match (given, region, scheme) {
        (Some(given), region, _) => {
            let known = given.tos_region().map(ToOwned::to_owned);
            (given, region.or(known).unwrap_or_else(|| "us-east-1".to_owned()))
        }
        (None, Some(region), Scheme::Tos) => {
            let domain = match (settings.byteplus == Some(true), settings.internal == Some(true)) {
                (false, false) => "volces.com",
                (false, true) => "ivolces.com",
                (true, false) => "bytepluses.com",
                (true, true) => "ibytepluses.com",
            };
            (parse_endpoint(&format!("https://tos-s3-{region}.{domain}"))?, region)
        }
        (None, Some(region), _) => {
            let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
            (parse_endpoint(&format!("https://s3.{region}.{domain}"))?, region)
        }
        (None, None, Scheme::Tos) => {
            return Err("set region (such as cn-beijing) in the configuration or TOS_REGION".to_owned());
        }
        (None, None, _) => {
            return Err(
                "set region in the configuration or AWS_REGION, or endpoint for other services".to_owned()
            );
        }
    };
    if let Some(s3_host) = endpoint.native_tos() {
        return Err(format!("the endpoint speaks TOS's own protocol; write https://{s3_host}"));
    }
    // A dot in the bucket would fall outside the wildcard certificate; AWS still answers path style for those.
    let dotted = endpoint.tls && bucket.contains('.') && !endpoint.is_tos();
    let virtual_hosted = match settings.addressing.unwrap_or_default() {
        Addressing::Auto => endpoint.wants_virtual() && !dotted,
        Addressing::Virtual => true,
        Addressing::Path => false,
    };
    Ok(Target {
        endpoint: endpoint.text(virtual_hosted.then_some(bucket)),
        region,
        virtual_hosted,
        loopback: endpoint.is_loopback(),
        tls: endpoint.tls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoint: &str, region: &str) -> SourceSettings {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        SourceSettings { endpoint: some(endpoint), region: some(region), ..SourceSettings::default() }
    }

    #[test]
    fn table() {
        for (scheme, bucket, endpoint, region, want, want_region) in [
            (Scheme::S3, "b", "", "eu-west-1", "https://b.s3.eu-west-1.amazonaws.com", "eu-west-1"),
            (Scheme::S3, "b", "", "cn-north-1", "https://b.s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            (Scheme::S3, "a.b", "", "eu-west-1", "https://s3.eu-west-1.amazonaws.com", "eu-west-1"),
            (Scheme::Tos, "b", "", "cn-beijing", "https://b.tos-s3-cn-beijing.volces.com", "cn-beijing"),
            (
                Scheme::Tos,
                "b",
                "https://tos-s3-cn-shanghai.ivolces.com",
                "",
                "https://b.tos-s3-cn-shanghai.ivolces.com",
                "cn-shanghai",
            ),
            (
                Scheme::S3,
                "b",
                "https://b.tos-s3-cn-beijing.volces.com/",
                "",
                "https://b.tos-s3-cn-beijing.volces.com",
                "cn-beijing",
            ),
            (Scheme::S3, "b", "http://127.0.0.1:8333", "", "http://127.0.0.1:8333", "us-east-1"),
            (Scheme::S3, "b", "http://[::1]:8333/", "", "http://[::1]:8333", "us-east-1"),
            (Scheme::S3, "b", "minio.lab:9000", "x", "https://minio.lab:9000", "x"),
            (Scheme::S3, "b", "https://gw.lab/s3/", "", "https://gw.lab/s3", "us-east-1"),
            (
                Scheme::S3,
                "b",
                "https://oss-cn-beijing.aliyuncs.com",
                "",
                "https://b.oss-cn-beijing.aliyuncs.com",
                "us-east-1",
            ),
            (Scheme::S3, "b", "https://notvolces.com", "", "https://notvolces.com", "us-east-1"),
        ] {
            let target = target(scheme, bucket, &settings(endpoint, region)).unwrap();
            assert_eq!((target.endpoint.as_str(), target.region.as_str()), (want, want_region), "{endpoint}");
            assert_eq!(target.virtual_hosted, want.contains("//b."), "{endpoint}");
        }
    }

    #[test]
    fn options_steer() {
        let mut tos = settings("", "ap-southeast-1");
        tos.internal = Some(true);
        assert_eq!(
            target(Scheme::Tos, "b", &tos).unwrap().endpoint,
            "https://b.tos-s3-ap-southeast-1.ivolces.com"
        );
        tos.byteplus = Some(true);
        assert_eq!(
            target(Scheme::Tos, "b", &tos).unwrap().endpoint,
            "https://b.tos-s3-ap-southeast-1.ibytepluses.com"
        );
        let mut custom = settings("http://s3.localhost:1", "");
        custom.addressing = Some(Addressing::Virtual);
        assert_eq!(target(Scheme::S3, "b", &custom).unwrap().endpoint, "http://b.s3.localhost:1");
    }

    #[test]
    fn what_is_missing_is_named() {
        for (scheme, endpoint, word) in [
            (Scheme::Tos, "", "TOS_REGION"),
            (Scheme::S3, "", "AWS_REGION"),
            (Scheme::Tos, "https://tos-cn-beijing.ivolces.com", "https://tos-s3-cn-beijing.ivolces.com"),
            (Scheme::S3, "ftp://x", "http(s)://host"),
        ] {
            let error = target(scheme, "b", &settings(endpoint, "")).unwrap_err();
            assert!(error.contains(word), "{endpoint}: {error}");
        }
    }
}
