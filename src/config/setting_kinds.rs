//! Kinds of setting values: how each is parsed, and the text that describes the allowed values.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Value;
use url::Url;

use super::cluster::{BucketLocation, SharedFiles};
use super::settings::{AllowedOrigins, Secret};
use crate::domain::network::Network;
use crate::domain::task::{FilterableParameter, Gateway, TaskKind, VendorPrice};
use crate::events::shared::postgres::{PostgresOptions, is_postgres_url};
use crate::outbound::address::AllowEntry;
use crate::telemetry::LogFilter;
use crate::vendors::profile::{Profile, SHIPPED_PROFILES};

/// A kind of value.
pub(super) struct SettingKind<T> {
    /// Description of the allowed values; follows "must be".
    pub(super) allowed: String,
    read: Box<SettingParser<T>>,
}

/// Parses a value; `None` if it is not allowed.
type SettingParser<T> = dyn Fn(&Value) -> Option<T>;

impl<T> SettingKind<T> {
    fn new(allowed: impl Into<String>, read: impl Fn(&Value) -> Option<T> + 'static) -> Self {
        Self { allowed: allowed.into(), read: Box::new(read) }
    }

    /// Returns the parsed value, if it is allowed.
    pub(super) fn read(&self, value: &Value) -> Option<T> {
        (self.read)(value)
    }
}

/// A boolean.
pub(super) fn boolean() -> SettingKind<bool> {
    SettingKind::new("true or false", Value::as_bool)
}

/// An integer from `min` to `max`.
pub(super) fn integer<T: TryFrom<i64>>(min: i64, max: i64) -> SettingKind<T> {
    SettingKind::new(format!("an integer from {min} to {max}"), move |value| {
        let number = value.as_integer().filter(|number| (min..=max).contains(number))?;
        T::try_from(number).ok()
    })
}

/// One of several names.
pub(super) fn choice<T: Copy + 'static, const N: usize>(names: [(&'static str, T); N]) -> SettingKind<T> {
    let allowed = names.map(|(name, _)| format!("\"{name}\"")).join(", ");
    SettingKind::new(format!("one of {allowed}"), move |value| {
        let text = value.as_str()?;
        names.iter().find(|(name, _)| *name == text).map(|(_, meaning)| *meaning)
    })
}

/// A duration from `min` to `max`, both written as in a setting.
pub(super) fn duration(min: &'static str, max: &'static str) -> SettingKind<Duration> {
    let allowed = format!("a duration from {min} to {max}, such as \"500ms\", \"15s\", \"5m\", \"1h\" or \"2d\"");
    SettingKind::new(allowed, |value| {
        let duration = parse_duration(value.as_str()?)?;
        (parse_duration(min)?..=parse_duration(max)?).contains(&duration).then_some(duration)
    })
}

fn parse_duration(text: &str) -> Option<Duration> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    parse_quantity(text, &units).map(Duration::from_millis)
}

/// A number of bytes from `min` to `max`, both written as in a setting.
pub(super) fn size(min: &'static str, max: &'static str) -> SettingKind<u64> {
    SettingKind::new(
        format!("a size from {min} to {max}, as a number of bytes or such as \"64KiB\", \"64MiB\" or \"1GiB\""),
        |value| {
            let size = match value {
                Value::Integer(bytes) => u64::try_from(*bytes).ok()?,
                _ => parse_size(value.as_str()?)?,
            };
            (parse_size(min)?..=parse_size(max)?).contains(&size).then_some(size)
        },
    )
}

fn parse_size(text: &str) -> Option<u64> {
    parse_quantity(text, &[("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
}

/// Parses an integer followed by one of `units`, each given with its factor.
fn parse_quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// An address to listen on.
pub(super) fn address() -> SettingKind<SocketAddr> {
    SettingKind::new(
        "an IP address and a port, such as \"127.0.0.1:8080\", \"0.0.0.0:80\" or \"[::1]:8080\"",
        |value| value.as_str()?.parse().ok(),
    )
}

/// A directory.
pub(super) fn directory() -> SettingKind<PathBuf> {
    SettingKind::new("the path of a directory", |value| {
        value.as_str().filter(|path| !path.is_empty() && !path.contains('\0')).map(PathBuf::from)
    })
}

/// An existing directory, or empty for none.
pub(super) fn existing_directory() -> SettingKind<Option<PathBuf>> {
    SettingKind::new("the path of an existing directory, or empty", |value| match value.as_str()? {
        "" => Some(None),
        path => Some(PathBuf::from(path)).filter(|path| path.is_dir()).map(Some),
    })
}

/// A directory that all nodes of a cluster mount, or an S3 bucket; empty for none.
pub(super) fn shared_files() -> SettingKind<Option<SharedFiles>> {
    let allowed = "the path of an existing directory, an S3 bucket such as \"s3://bucket\" or \"s3://bucket/prefix\" (letters, \
                   digits and - . _ /), or empty";
    SettingKind::new(allowed, |value| match value.as_str()? {
        "" => Some(None),
        text => match text.strip_prefix("s3://") {
            Some(location) => parse_bucket(location).map(|location| Some(SharedFiles::Bucket(location))),
            None => {
                Some(PathBuf::from(text)).filter(|path| path.is_dir()).map(|path| Some(SharedFiles::Directory(path)))
            }
        },
    })
}

fn parse_bucket(text: &str) -> Option<BucketLocation> {
    let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let is_allowed = |part: &str| {
        let is_name = part.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        is_name && !part.is_empty() && !part.starts_with('.')
    };
    let is_prefix_allowed = prefix.is_empty() || prefix.split('/').all(is_allowed);
    (is_allowed(bucket) && is_prefix_allowed)
        .then(|| BucketLocation { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
}

/// The URL of a server, without a path; empty for none.
pub(super) fn server_url() -> SettingKind<Option<String>> {
    SettingKind::new("an https or http URL without a path, such as \"https://s3.example.org\", or empty", |value| {
        match value.as_str()? {
            "" => Some(None),
            text => {
                let is_server = |url: &Url| is_plain_url(url) && url.path().len() <= 1;
                parse_http_url(text).filter(is_server).map(|_| Some(text.trim_end_matches('/').to_owned()))
            }
        }
    })
}

/// The name of a vendor profile: a shipped one or one in the directory.
pub(super) fn vendor_profile(directory: Option<&Path>) -> SettingKind<String> {
    let own = directory.map(Profile::names_in).unwrap_or_default();
    let shipped = SHIPPED_PROFILES.iter().filter(|name| **name != "mediary").map(|name| (*name).to_owned());
    let mut names: Vec<_> = ["mediary", "builtin"].map(str::to_owned).into_iter().chain(shipped).collect();
    names.extend(own.into_iter().filter(|name| !SHIPPED_PROFILES.contains(&name.as_str())));

    let listed = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let directory = directory.map_or_else(|| "vendors.profiles".to_owned(), |path| path.display().to_string());
    SettingKind::new(format!("one of {listed}, or the name of a profile in {directory}"), move |value| {
        value.as_str().filter(|name| names.iter().any(|known| known == name)).map(str::to_owned)
    })
}

/// A file, or empty for none.
pub(super) fn file() -> SettingKind<Option<PathBuf>> {
    SettingKind::new("the path of a file, or empty", |value| {
        let path = value.as_str().filter(|path| !path.contains('\0'))?;
        Some((!path.is_empty()).then(|| PathBuf::from(path)))
    })
}

/// Minimum length of a configured token, which grants full access and may be attacked by guessing.
const TOKEN_MIN: usize = 16;

/// A token for an `Authorization` header (RFC 6750, slightly wider than `b64token`), or empty for none.
pub(super) fn token() -> SettingKind<Option<Secret>> {
    SettingKind::new(
        format!("at least {TOKEN_MIN} characters, of letters, digits and - . _ ~ + / =, or empty"),
        |value| {
            let text = value.as_str()?;
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
            match text.len() {
                0 => Some(None),
                TOKEN_MIN.. if text.chars().all(allowed) => Some(Some(Secret::new(text))),
                _ => None,
            }
        },
    )
}

/// A credential for any header, or empty for none.
pub(super) fn credential() -> SettingKind<Option<Secret>> {
    SettingKind::new("visible ASCII characters without spaces, or empty", |value| {
        let text = value.as_str()?;
        text.chars().all(|c| c.is_ascii_graphic()).then(|| (!text.is_empty()).then(|| Secret::new(text)))
    })
}

/// The name of a vendor, or empty. Names are also parts of environment variables and labels of metrics.
pub(super) fn vendor_name() -> SettingKind<String> {
    SettingKind::new("a lowercase letter, then at most 39 of a-z, 0-9, - and _", |value| {
        let text = value.as_str()?;
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        let is_name =
            text.len() <= 40 && text.chars().all(allowed) && text.starts_with(|c: char| c.is_ascii_lowercase());
        (is_name || text.is_empty()).then(|| text.to_owned())
    })
}

/// Kinds of tasks of a gateway.
pub(super) fn task_kinds(gateway: Gateway) -> SettingKind<Vec<TaskKind>> {
    let kinds: Vec<_> = TaskKind::ALL.iter().copied().filter(|kind| kind.gateway() == gateway).collect();
    let names = kinds.iter().map(|kind| format!("\"{}\"", kind.as_str())).collect::<Vec<_>>().join(", ");
    SettingKind::new(format!("a list of {names}"), move |value| {
        let kind = |name: &str| kinds.iter().copied().find(|kind| kind.as_str() == name);
        value.as_array()?.iter().map(|item| kind(item.as_str()?)).collect()
    })
}

/// Parameters of the jobs of a gateway, each with a list of values.
pub(super) fn parameter_values(gateway: Gateway) -> SettingKind<Vec<(String, Vec<String>)>> {
    let parameters = FilterableParameter::all(gateway);
    let names = parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", ");
    let allowed = format!("a table of parameters with lists of their values; the parameters are {names}");
    SettingKind::new(allowed, move |value| {
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Boolean(flag) => Some(flag.to_string()),
            _ => None,
        };
        let excluded = |(name, values): (&String, &Value)| {
            let parameter = parameters.iter().find(|parameter| parameter.name == name)?;
            let values: Vec<_> = values.as_array()?.iter().map(text).collect::<Option<_>>()?;
            let is_known = |value: &String| parameter.values.is_empty() || parameter.values.contains(&value.as_str());
            values.iter().all(is_known).then(|| (name.clone(), values))
        };
        value.as_table()?.iter().map(excluded).collect()
    })
}

/// A price with at most three decimal places.
pub(super) fn price() -> SettingKind<VendorPrice> {
    let allowed = "a number from 0 to 1000000 with at most three decimal places, such as 0.035";
    SettingKind::new(allowed, |value| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            _ => return None,
        };
        VendorPrice::parse(&text).ok()
    })
}

/// A header name (RFC 9110, 5.1).
pub(super) fn header_name() -> SettingKind<String> {
    SettingKind::new("the name of a header, such as \"Authorization\" or \"X-Api-Key\"", |value| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        value.as_str().filter(|name| !name.is_empty() && name.chars().all(allowed)).map(str::to_owned)
    })
}

/// A path, optionally with a query, that contains the placeholder `{key}`.
pub(super) fn path_with_key() -> SettingKind<String> {
    SettingKind::new("a path with {key}, such as \"/tasks?reference={key}\"", |value| {
        let allowed = |text: &&str| {
            text.starts_with('/') && text.contains("{key}") && text.chars().all(|c| c.is_ascii_graphic() && c != '#')
        };
        value.as_str().filter(allowed).map(str::to_owned)
    })
}

/// A base URL, returned without a trailing slash, or empty for none.
pub(super) fn base_url() -> SettingKind<Option<String>> {
    SettingKind::new(
        "an http or https URL without user, query and fragment, such as \"https://media.example.org\", or empty",
        |value| match value.as_str()? {
            "" => Some(None),
            text => {
                let url = parse_http_url(text).filter(is_plain_url)?;
                Some(Some(url.as_str().trim_end_matches('/').to_owned()))
            }
        },
    )
}

/// The identifier of an issuer, or empty for none. It is kept unchanged, because tokens repeat it exactly.
pub(super) fn issuer() -> SettingKind<Option<String>> {
    SettingKind::new(
        "an http or https URL without query and fragment, such as \"https://login.example.org\", or empty",
        |value| {
            let text = value.as_str()?;
            match text {
                "" => Some(None),
                _ => parse_http_url(text).filter(is_plain_url).map(|_| Some(text.to_owned())),
            }
        },
    )
}

/// A name used by another service, or empty for none.
pub(super) fn label() -> SettingKind<Option<String>> {
    SettingKind::new("text of at most 255 characters, or empty", |value| {
        let text = value.as_str().filter(|text| text.chars().count() <= 255)?;
        Some((!text.is_empty()).then(|| text.to_owned()))
    })
}

/// A URL, kept unchanged, or empty for none.
pub(super) fn url() -> SettingKind<Option<String>> {
    SettingKind::new("an http or https URL, or empty", |value| {
        let text = value.as_str()?;
        match text {
            "" => Some(None),
            _ => parse_http_url(text).map(|_| Some(text.to_owned())),
        }
    })
}

fn parse_http_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// URLs of the servers of a cluster's engine, separated by commas, or the URL of a database; empty for none.
pub(super) fn engine_urls() -> SettingKind<Vec<String>> {
    let allowed = "URLs separated by commas, such as \"nats://a:4222,nats://b:4222,nats://c:4222\", the URL of a \
                   PostgreSQL database, such as \"postgres://mediary@host:5432/mediary\", or empty";
    SettingKind::new(allowed, |value| {
        let is_engine = |text: &str| {
            Url::parse(text).is_ok_and(|url| {
                matches!(url.scheme(), "nats" | "tls") && url.has_host() && is_plain_url(&url) && url.path().len() <= 1
            })
        };
        let text = value.as_str()?.trim();
        if is_postgres_url(text) {
            return PostgresOptions::from_url(text).map(|_| vec![text.to_owned()]);
        }
        let urls = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        urls.map(|text| is_engine(text).then(|| text.to_owned())).collect()
    })
}

/// Monitoring URLs of the servers of a cluster's engine.
pub(super) fn monitor_urls() -> SettingKind<Vec<String>> {
    SettingKind::new("a list of http URLs, such as \"http://a:8222\"", |value| {
        let is_monitor = |url: &Url| url.scheme() == "http" && is_plain_url(url);
        let url = |text: &str| parse_http_url(text).filter(is_monitor).map(|_| text.trim_end_matches('/').to_owned());
        value.as_array()?.iter().map(|item| url(item.as_str()?)).collect()
    })
}

/// Returns `true` if the URL has no user, query or fragment.
fn is_plain_url(url: &Url) -> bool {
    url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none()
}

/// IP addresses, networks and host names.
pub(super) fn networks() -> SettingKind<Vec<AllowEntry>> {
    let allowed =
        "a list of IP addresses, networks and host names, such as \"10.1.2.3\", \"10.0.0.0/8\" or \"hooks.internal\"";
    SettingKind::new(allowed, |value| {
        value.as_array()?.iter().map(|item| AllowEntry::parse(item.as_str()?).ok()).collect()
    })
}

/// Host names and IP addresses without ports; `*` allows any.
pub(super) fn hosts() -> SettingKind<Vec<String>> {
    let allowed = "a list of host names and IP addresses without ports, such as \"media.internal\", or \"*\"";
    SettingKind::new(allowed, |value| {
        let host = |text: &str| match text {
            "*" => Some(text.to_owned()),
            text => url::Host::parse(text).ok().map(|host| host.to_string()),
        };
        value.as_array()?.iter().map(|item| host(item.as_str()?)).collect()
    })
}

/// IP addresses and networks of peers, without names.
pub(super) fn proxies() -> SettingKind<Vec<Network>> {
    SettingKind::new("a list of IP addresses and networks, such as \"127.0.0.1\" or \"10.0.0.0/8\"", |value| {
        value.as_array()?.iter().map(|item| Network::parse(item.as_str()?).ok()).collect()
    })
}

/// Origins as browsers send them, or only `*`.
pub(super) fn origins() -> SettingKind<AllowedOrigins> {
    SettingKind::new(
        "[\"*\"] or a list of origins (scheme, host and port only), such as \"https://app.example.org\" or \"capacitor://localhost\"",
        |value| {
            let origins = value.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
            if origins == ["*"] {
                return Some(AllowedOrigins::Any);
            }
            let is_origin = |text: &&str| {
                parse_http_url(text).is_some_and(|url| url.origin().ascii_serialization() == **text)
                    || is_app_origin(text)
            };
            let listed = || AllowedOrigins::Listed(origins.iter().map(|&origin| origin.to_owned()).collect());
            origins.iter().all(is_origin).then(listed)
        },
    )
}

/// Returns `true` for the origin of pages of an application or a browser extension, such as `capacitor://localhost`.
fn is_app_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let is_plain = |text: &str, punctuation: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || punctuation.contains(c))
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase()) && is_plain(scheme, "+.-");
    is_scheme && !["http", "https", "file"].contains(&scheme) && is_plain(host, ".-_:")
}

/// A filter of log lines.
pub(super) fn log_filter() -> SettingKind<LogFilter> {
    let allowed = "one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", also for a part of the program, as in \
                   \"info,mediary::http=debug\"";
    SettingKind::new(allowed, |value| LogFilter::parse(value.as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns those of `values`, each written as TOML, that a kind allows.
    fn allowed_by<'v, T>(kind: &SettingKind<T>, values: &[&'v str]) -> Vec<&'v str> {
        values.iter().copied().filter(|value| kind.read(&value.parse().unwrap()).is_some()).collect()
    }

    #[test]
    fn durations_have_units_and_limits() {
        let kind = duration("1s", "1h");
        let good = ["'1s'", "'1000ms'", "'60m'", "'1h'"];
        let bad = ["'999ms'", "'61m'", "'1'", "60", "'1 s'", "'-1s'", "'1.5s'", "'s'", "''", "'99999999999999999999s'"];

        assert_eq!(allowed_by(&kind, &good), good);
        assert_eq!(allowed_by(&kind, &bad), [""; 0]);
        assert_eq!(kind.read(&Value::from("5m")), Some(Duration::from_mins(5)));
    }

    #[test]
    fn sizes_are_bytes_or_have_units() {
        let kind = size("1KiB", "1GiB");

        for text in ["65536", "'65536'", "'64KiB'"] {
            assert_eq!(kind.read(&text.parse().unwrap()), Some(65536), "{text}");
        }
        assert_eq!(allowed_by(&kind, &["1023", "'2GiB'", "'64MB'", "'64 MiB'", "-1", "1.5"]), [""; 0]);
        assert_eq!(parse_size("99999999999GiB"), None, "an overflow is rejected, not wrapped");
    }

    #[test]
    fn tokens_are_valid_in_a_header() {
        assert!(token().read(&Value::from("")).unwrap().is_none());
        assert_eq!(token().read(&Value::from("aZ9-._~+/=aZ9-._")).unwrap().unwrap().expose(), "aZ9-._~+/=aZ9-._");
        let bad = ["'a b c d e f g h i j'", "'****************'", "\"0123456789abcdef\\n\"", "'éééééééééééééééé'", "5"];
        assert_eq!(allowed_by(&token(), &bad), [""; 0]);
    }

    #[test]
    fn tokens_have_a_minimum_length() {
        assert_eq!(allowed_by(&token(), &["'abc'", "'0123456789abcde'", "'0123456789abcdef'"]), ["'0123456789abcdef'"]);
    }

    #[test]
    fn headers_credentials_and_paths_are_valid_in_a_request() {
        assert_eq!(allowed_by(&header_name(), &["'X-Api-Key'", "'a b'", "''", "'a:'", "\"a\\n\""]), ["'X-Api-Key'"]);
        assert_eq!(allowed_by(&credential(), &["'k:/1'", "''", "'a b'", "\"a\\n\"", "'é'"]), ["'k:/1'", "''"]);
        assert_eq!(allowed_by(&path_with_key(), &["'/t?k={key}'", "'t/{key}'", "'/t'", "'/ {key}'"]), ["'/t?k={key}'"]);
    }

    #[test]
    fn base_urls_lose_their_last_slash() {
        assert_eq!(base_url().read(&Value::from("https://A.example/x/")), Some(Some("https://a.example/x".to_owned())));
        assert_eq!(base_url().read(&Value::from("")), Some(None));
        let bad = ["'a.example'", "'/x'", "'ftp://a'", "'http://'", "'http://u:p@a'", "'http://a?x'", "'http://a#x'"];
        assert_eq!(allowed_by(&base_url(), &bad), [""; 0]);
    }

    #[test]
    fn networks_are_addresses_networks_and_names() {
        let good = ["['10.1.2.3', '10.0.0.0/8', 'fd00::/8', 'hooks.internal']", "[]"];

        assert_eq!(allowed_by(&networks(), &good), good);
        assert_eq!(allowed_by(&proxies(), &["['::1', '10.0.0.0/8']", "['hooks.internal']", "[]"]).len(), 2);
        assert_eq!(allowed_by(&networks(), &["['10.0.0.0/33']", "['a b']", "['::1/']", "[5]", "'::1'"]), [""; 0]);
    }

    #[test]
    fn hosts_have_no_port() {
        let good = ["['media.internal', '10.1.2.3', '[::1]', '*']", "[]"];

        assert_eq!(allowed_by(&hosts(), &good), good);
        assert_eq!(allowed_by(&hosts(), &["['a:80']", "['http://a']", "['a b']", "['']", "'a'", "[5]"]), [""; 0]);
    }

    #[test]
    fn engines_are_urls_of_servers() {
        let good = ["''", "'nats://a'", "'nats://a:4222, tls://[::1]:4222/'"];
        assert_eq!(allowed_by(&engine_urls(), &good), good);
        let bad = ["'a:4222'", "'http://a'", "'nats://user:pass@a'", "'nats://a/b'", "'nats://a;nats://b'", "5"];
        assert_eq!(allowed_by(&engine_urls(), &bad), [""; 0]);
        assert_eq!(allowed_by(&monitor_urls(), &["['http://a:8222/']", "[]"]), ["['http://a:8222/']", "[]"]);
        assert_eq!(allowed_by(&monitor_urls(), &["['nats://a']", "['https://a']", "'http://a'"]), [""; 0]);
    }

    #[test]
    fn origins_are_exact() {
        let good = [
            "[]",
            "['*']",
            "['https://a.example', 'http://localhost:5173']",
            "['capacitor://localhost', 'chrome-extension://abcdefghij']",
        ];
        let bad = [
            "['https://a.example/']",
            "['https://a.example:443']",
            "['*', 'https://a.example']",
            "['a']",
            "'*'",
            "['null']",
            "['file://a']",
            "['app://']",
            "['app://a/b']",
            "['app://u@a']",
            "['App://a']",
        ];

        assert_eq!(allowed_by(&origins(), &good), good);
        assert_eq!(allowed_by(&origins(), &bad), [""; 0]);
    }

    #[test]
    fn addresses_are_numeric() {
        let bad = ["'localhost:80'", "':80'", "'127.0.0.1'", "'127.0.0.1:99999'", "8080"];

        assert_eq!(allowed_by(&address(), &["'127.0.0.1:0'", "'[::1]:80'"]).len(), 2);
        assert_eq!(allowed_by(&address(), &bad), [""; 0]);
    }
}
