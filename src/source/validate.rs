//! Checks of the options, each with the value and what is allowed.

use super::endpoint::{Host, parse_endpoint};
use super::settings::{Addressing, Mistake, SourceSettings};
use std::time::Duration;

/// Checks that `prefix` is one a URL can start with.
pub(crate) fn check_prefix(prefix: &str, section: &str, out: &mut Vec<Mistake>) {
    let known = ["file://", "s3://", "tos://", "gs://", "az://", "http://", "https://"];
    if !known.iter().any(|scheme| prefix.starts_with(scheme)) {
        out.push(Mistake {
            option: section.to_owned(),
            value: format!("{prefix:?} = ..."),
            allowed: "a URL prefix such as \"s3://\" or \"tos://bucket/\"".to_owned(),
        });
    }
}

/// Checks every option of one section on its own.
pub(crate) fn check(settings: &SourceSettings, section: &str, out: &mut Vec<Mistake>) {
    let mut wrong = |option: &str, value: &str, allowed: &str| {
        out.push(Mistake {
            option: format!("{section}.{option}"),
            value: value.to_owned(),
            allowed: allowed.to_owned(),
        });
    };
    if let Some(endpoint) = &settings.endpoint {
        check_endpoint(settings, endpoint, &mut wrong);
    }
    if let Some(region) = &settings.region
        && (region.is_empty() || !region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
    {
        wrong("region", &format!("{region:?}"), "letters, digits and '-', such as cn-beijing");
    }
    check_keys(settings, &mut wrong);
    if let Some(proxy) = &settings.proxy
        && proxy != "off"
        && !url::Url::parse(proxy).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    {
        wrong("proxy", "a value that is not shown", "off, http://host:port or https://host:port");
    }
    if let Some(bundle) = &settings.ca_bundle
        && !bundle.is_absolute()
    {
        wrong("ca_bundle", &bundle.display().to_string(), "the absolute path of a PEM file");
    }
    let mut within = |option: &str, value: Option<Duration>, low: Duration, high: Duration| {
        if let Some(value) = value
            && !(low..=high).contains(&value)
        {
            let text = |d| humantime::format_duration(d).to_string();
            wrong(option, &text(value), &format!("{}..{}", text(low), text(high)));
        }
    };
    within("stall_timeout", settings.stall_timeout, Duration::from_millis(100), Duration::from_secs(600));
    within("connect_timeout", settings.connect_timeout, Duration::from_millis(10), Duration::from_secs(120));
    if let Some(retries) = settings.retries
        && retries > 100
    {
        wrong("retries", &retries.to_string(), "0..=100");
    }
}

fn check_endpoint(settings: &SourceSettings, endpoint: &str, wrong: &mut impl FnMut(&str, &str, &str)) {
    let parsed = match parse_endpoint(endpoint) {
        Ok(parsed) => parsed,
        Err(why) => {
            let shown = if endpoint.contains('@') { "a value with a password" } else { endpoint };
            return wrong("endpoint", shown, &why);
        }
    };
    if let Some(s3_host) = parsed.native_tos() {
        wrong("endpoint", endpoint, &format!("the S3 host of TOS: https://{s3_host}"));
    }
    if !parsed.tls && !parsed.is_loopback() && settings.allow_http != Some(true) {
        wrong("endpoint", endpoint, "https://, or http:// together with allow_http = true");
    }
    if settings.addressing == Some(Addressing::Virtual) && matches!(parsed.host, Host::Ip(_)) {
        wrong("addressing", "virtual", "path or auto: an IP address cannot carry the bucket's name");
    }
    if settings.addressing == Some(Addressing::Path) && parsed.is_tos() {
        wrong("addressing", "path", "virtual or auto: TOS refuses path style");
    }
}

fn check_keys(settings: &SourceSettings, wrong: &mut impl FnMut(&str, &str, &str)) {
    let keys = [
        ("access_key", &settings.access_key),
        ("secret_key", &settings.secret_key),
        ("session_token", &settings.session_token),
    ];
    for (option, secret) in keys {
        if secret.as_ref().is_some_and(|secret| !secret.is_header_safe()) {
            wrong(option, "a value that is not shown", "visible ASCII characters only, not empty");
        }
    }
    match (&settings.access_key, &settings.secret_key, &settings.session_token) {
        (Some(_), None, _) => wrong("secret_key", "nothing", "the secret that belongs to access_key"),
        (None, Some(_), _) => wrong("access_key", "nothing", "the key that secret_key belongs to"),
        (None, None, Some(_)) => {
            wrong("session_token", "set", "only together with access_key and secret_key")
        }
        _ => {}
    }
    if settings.anonymous == Some(true) && settings.access_key.is_some() {
        wrong("anonymous", "true", "false, or no access_key");
    }
}
