//! What the environment adds to the configuration.

use super::endpoint::parse_endpoint;
use super::secret::Secret;
use super::settings::SourceSettings;
use super::url::Scheme;
use std::sync::Arc;

/// Looks up a variable; injected, so that tests need not change the process.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The variables of this process.
pub fn process_environment() -> Environment {
    Arc::new(|name| std::env::var(name).ok())
}

const AWS_KEYS: [&[&str]; 3] = [&["AWS_ACCESS_KEY_ID"], &["AWS_SECRET_ACCESS_KEY"], &["AWS_SESSION_TOKEN"]];
const TOS_KEYS: [&[&str]; 3] = [
    &["TOS_ACCESS_KEY", "TOS_ACCESS_KEY_ID", "VOLCENGINE_ACCESS_KEY", "VOLC_ACCESSKEY"],
    &["TOS_SECRET_KEY", "TOS_SECRET_ACCESS_KEY", "VOLCENGINE_SECRET_KEY", "VOLC_SECRETKEY"],
    &["TOS_SECURITY_TOKEN", "TOS_SESSION_TOKEN", "VOLCENGINE_SESSION_TOKEN"],
];
const AZURE_KEYS: [&[&str]; 3] = [
    &["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"],
    &["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY"],
    &[],
];

fn first(env: &Environment, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| env(name).filter(|value| !value.trim().is_empty()))
}

/// Fills what `settings` leaves open for `scheme`. Keys are taken as a set from one family of variables, so an access
/// key of one account never meets the secret of another.
pub(crate) fn complete(mut settings: SourceSettings, scheme: Scheme, env: &Environment) -> SourceSettings {
    let families: &[[&[&str]; 3]] = match scheme {
        Scheme::Tos => &[TOS_KEYS, AWS_KEYS],
        Scheme::S3 => &[AWS_KEYS],
        Scheme::Az => &[AZURE_KEYS],
        _ => &[],
    };
    if settings.access_key.is_none() && settings.anonymous != Some(true) {
        let found = families.iter().find_map(|[access, secret, token]| {
            let key = first(env, access)?;
            Some((key, first(env, secret)?, first(env, token)))
        });
        if let Some((access, secret, token)) = found {
            settings.access_key = Some(Secret::new(&access));
            settings.secret_key = Some(Secret::new(&secret));
            settings.session_token = token.map(|token| Secret::new(&token));
        }
    }
    let (regions, endpoints): (&[&str], &[&str]) = match scheme {
        Scheme::Tos => (&["TOS_REGION", "VOLCENGINE_REGION"], &["TOS_S3_ENDPOINT", "TOS_ENDPOINT"]),
        Scheme::S3 => (&["AWS_REGION", "AWS_DEFAULT_REGION"], &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]),
        _ => (&[], &[]),
    };
    let configured_region = settings.region.is_some();
    settings.region = settings.region.or_else(|| first(env, regions));
    // A region in the configuration is more deliberate than an endpoint that happens to be in the environment of TOS.
    if settings.endpoint.is_none() && !(scheme == Scheme::Tos && configured_region) {
        settings.endpoint = first(env, endpoints).map(|endpoint| s3_twin(&endpoint));
    }
    settings
}

/// `TOS_ENDPOINT` mostly names the host of the native protocol, for other tools: the S3 host is its twin.
fn s3_twin(endpoint: &str) -> String {
    match parse_endpoint(endpoint).ok().and_then(|parsed| parsed.native_tos()) {
        Some(host) => format!("https://{host}"),
        None => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &'static [(&'static str, &'static str)]) -> Environment {
        Arc::new(move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn configuration_wins_over_the_environment() {
        let given = SourceSettings {
            access_key: Some(Secret::new("config")),
            secret_key: Some(Secret::new("config")),
            region: Some("here".to_owned()),
            ..SourceSettings::default()
        };
        let env = env(&[
            ("AWS_ACCESS_KEY_ID", "env"),
            ("AWS_SECRET_ACCESS_KEY", "env"),
            ("AWS_SESSION_TOKEN", "env"),
            ("AWS_REGION", "there"),
        ]);
        let full = complete(given, Scheme::S3, &env);
        assert_eq!(full.access_key.unwrap().expose(), "config");
        assert_eq!(full.session_token, None);
        assert_eq!(full.region.as_deref(), Some("here"));
    }

    #[test]
    fn keys_come_as_a_set() {
        let mixed = env(&[
            ("TOS_ACCESS_KEY", "half"),
            ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "s\n"),
            ("AWS_DEFAULT_REGION", "r"),
            ("AWS_ENDPOINT_URL", "http://e"),
            ("AWS_ENDPOINT_URL_S3", "http://e3"),
        ]);
        let tos = complete(SourceSettings::default(), Scheme::Tos, &mixed);
        assert_eq!(tos.access_key.unwrap().expose(), "a");
        assert_eq!(tos.secret_key.unwrap().expose(), "s", "white space of a mounted file is trimmed");
        assert_eq!((tos.region, tos.endpoint), (None, None), "AWS places are not places of TOS");
        let s3 = complete(SourceSettings::default(), Scheme::S3, &mixed);
        assert_eq!((s3.region.as_deref(), s3.endpoint.as_deref()), (Some("r"), Some("http://e3")));
        let open = SourceSettings { anonymous: Some(true), ..SourceSettings::default() };
        assert_eq!(complete(open, Scheme::S3, &mixed).access_key, None);
    }

    #[test]
    fn a_native_tos_endpoint_of_other_tools_becomes_its_s3_twin() {
        let env = env(&[("TOS_ENDPOINT", "tos-cn-beijing.ivolces.com"), ("VOLCENGINE_REGION", "cn-beijing")]);
        let tos = complete(SourceSettings::default(), Scheme::Tos, &env);
        assert_eq!(tos.endpoint.as_deref(), Some("https://tos-s3-cn-beijing.ivolces.com"));
        assert_eq!(tos.region.as_deref(), Some("cn-beijing"));
    }
}
