//! Settings of vendors: the single table of a medium, or a list of several.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::setting_kinds::{
    base_url, choice, credential, duration, existing_directory, header_name, integer, parameter_values, path_with_key,
    price, size, task_kinds, vendor_name, vendor_profile,
};
use super::settings::{Secret, Settings, SettingsReader};
use crate::domain::task::{Gateway, JobFilter, VendorPrice};
use crate::vendors::profile::{Profile, ProfileAuth, ProfileError, SHIPPED_PROFILES};

/// Protocol of a vendor.
#[derive(Debug, Clone)]
pub enum VendorProfile {
    /// The built-in engine.
    BuiltIn,
    /// The API of this service below a URL.
    Mediary,
    /// Another shipped profile (`docs/vendor-profiles.md`).
    Shipped(&'static str),
    /// A profile of the operator's directory.
    Own(Arc<Profile>),
}

impl PartialEq for VendorProfile {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own(left), Self::Own(right)) => left.identity() == right.identity(),
            (Self::Own(_), _) | (_, Self::Own(_)) => false,
            _ => self.name() == other.name(),
        }
    }
}

impl VendorProfile {
    /// Returns the profile of this name. A profile in the operator's directory takes precedence.
    ///
    /// # Errors
    /// If there is no such profile, or it is invalid.
    pub fn find(name: &str, directory: Option<&Path>) -> Result<Self, ProfileError> {
        let shipped = SHIPPED_PROFILES.iter().find(|shipped| **shipped == name);
        let is_own = directory.is_some_and(|directory| directory.join(format!("{name}.toml")).is_file());
        match (name, shipped) {
            ("builtin" | "mediary", _) if is_own => {
                let file = format!("{name}.toml");
                let message = "this name is reserved; rename the file".to_owned();
                Err(ProfileError { file, line: None, message })
            }
            ("builtin", _) => Ok(Self::BuiltIn),
            ("mediary", _) => Ok(Self::Mediary),
            (_, Some(shipped)) if !is_own => Ok(Self::Shipped(shipped)),
            _ => Profile::load(name, directory).map(Self::Own),
        }
    }

    /// Returns the name in settings, tasks and events.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::BuiltIn => "builtin",
            Self::Mediary => "mediary",
            Self::Shipped(name) => name,
            Self::Own(profile) => profile.name(),
        }
    }

    /// Returns the description of the protocol; `None` for the built-in engine.
    #[must_use]
    pub fn load(&self) -> Option<Arc<Profile>> {
        match self {
            Self::BuiltIn => None,
            // A test loads every shipped profile.
            Self::Mediary | Self::Shipped(_) => Profile::load(self.name(), None).ok(),
            Self::Own(profile) => Some(Arc::clone(profile)),
        }
    }
}

/// Identity of a vendor, and its share of the jobs.
#[derive(Debug, Clone)]
pub struct VendorSelection {
    /// Unique among all vendors.
    pub name: String,
    pub profile: VendorProfile,
    /// Vendors with the lowest number come first.
    pub priority: i32,
    /// Share among vendors with the same priority.
    pub weight: u32,
    /// Cost of an accepted job.
    pub price: VendorPrice,
}

/// Address and options of a vendor of images or videos.
#[derive(Debug, Clone)]
pub struct VendorSettings {
    pub selection: VendorSelection,
    /// Without a trailing slash; `None` for the built-in engine.
    pub url: Option<String>,
    pub api_key: Option<Secret>,
    pub auth_header: String,
    pub recovery: RecoverySetting,
    pub key_header: String,
    /// Path of the search; contains `{key}`.
    pub search_path: String,
    /// Time after a submission during which an empty search result is not trusted.
    pub search_settles: Duration,
    /// Jobs that the vendor takes.
    pub jobs: JobFilter,
    /// Maximum number of tasks at the vendor; `None` if the medium decides.
    pub slots: Option<usize>,
    /// Maximum number of concurrent submissions; polls are limited separately by the same number.
    pub concurrency: usize,
    pub connect_timeout: Duration,
    pub submit_timeout: Duration,
    pub poll_timeout: Duration,
    pub result_timeout: Duration,
    pub poll_min: Duration,
    pub poll_max: Duration,
    pub retry_min: Duration,
    pub retry_max: Duration,
    /// Time for which polls continue if the vendor no longer knows a task that it accepted.
    pub lost_after: Duration,
    /// Consecutive failures that open the circuit.
    pub breaker_failures: u32,
    pub breaker_pause: Duration,
    pub breaker_pause_max: Duration,
}

/// Recovery that a vendor offers if the outcome of a submission is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverySetting {
    Key,
    Search,
    Nothing,
}

impl VendorSelection {
    /// Reads the selection of the vendor `item`, the key of a list item or of the single table, with its URL. Without a
    /// URL, the single table stands for the built-in engine.
    fn read(reader: &mut SettingsReader, gateway: Gateway, item: &str) -> (Self, Option<String>) {
        let key = |setting: &str| format!("{item}.{setting}");
        let is_single = !item.ends_with(']');
        let mut name = reader.read(&key("name"), &vendor_name());
        let profile = Self::read_profile(reader, &key("profile"), gateway);
        let url = reader.read(&key("url"), &base_url());

        let description = match profile {
            VendorProfile::BuiltIn | VendorProfile::Mediary => None,
            VendorProfile::Shipped(_) | VendorProfile::Own(_) => profile.load(),
        };
        if let Some(description) = &description {
            // These settings describe vendors with the interface of this service. A profile defines its own.
            let has_auth = description.auth() != ProfileAuth::None;
            let decided_by_profile =
                ["recovery", "key_header", "search_path"].into_iter().chain(has_auth.then_some("auth_header"));
            for setting in decided_by_profile {
                let allowed = format!("absent, because the profile \"{}\" decides it", description.name());
                reader.reject_if_given(&key(setting), &allowed);
            }
            if url.is_none() && description.url().is_none() {
                let allowed = format!("set, because the profile \"{}\" has no default", description.name());
                reader.reject(&key("url"), &allowed);
            }
        }
        let url = url.or_else(|| description?.url().map(str::to_owned));

        let profile = match (profile, &url) {
            (VendorProfile::Mediary, None) if is_single => VendorProfile::BuiltIn,
            (VendorProfile::Mediary, None) => {
                reader.reject(&key("url"), "set, because the profile \"mediary\" has no default");
                VendorProfile::Mediary
            }
            (VendorProfile::BuiltIn, Some(_)) => {
                reader.reject(&key("url"), "empty, because the profile \"builtin\" is the built-in engine");
                VendorProfile::BuiltIn
            }
            (profile, _) => profile,
        };

        if name.is_empty() {
            if !is_single {
                reader.reject(&key("name"), &format!("{}; each vendor of a list needs a name", vendor_name().allowed));
            }
            name = Self::default_name(gateway, &profile);
        }

        let priority = reader.read(&key("priority"), &integer(-1000, 1000));
        let weight = reader.read(&key("weight"), &integer(1, 1000));
        let price = reader.read(&key("price"), &price());
        (Self { name, profile, priority, weight, price }, url)
    }

    /// Reads the name of a profile and loads it. A bad profile is a problem of the setting that names it.
    fn read_profile(reader: &mut SettingsReader, key: &str, gateway: Gateway) -> VendorProfile {
        let directory = reader.peek("vendors.profiles", &existing_directory());
        let name = reader.read(key, &vendor_profile(directory.as_deref()));
        let profile = match VendorProfile::find(&name, directory.as_deref()) {
            Ok(profile) => profile,
            Err(error) => {
                reader.reject(key, &format!("the name of a valid profile, but {error}"));
                return VendorProfile::BuiltIn;
            }
        };

        let is_other_medium = match &profile {
            VendorProfile::BuiltIn | VendorProfile::Mediary => false,
            other => other.load().is_some_and(|description| !description.serves_gateway(gateway)),
        };
        if is_other_medium {
            reader.reject(key, &format!("a profile with jobs of this medium, {}", gateway.name()));
        }
        profile
    }

    fn default_name(gateway: Gateway, profile: &VendorProfile) -> String {
        let location = if *profile == VendorProfile::BuiltIn { "local" } else { "remote" };
        format!("{location}-{}", gateway.name())
    }
}

impl VendorSettings {
    /// Reads the vendors of a medium.
    pub(super) fn read_all(reader: &mut SettingsReader, gateway: Gateway) -> Vec<Self> {
        let items = reader.items(&format!("vendors.{}", gateway.name()));
        items.iter().map(|item| Self::read_checked(reader, gateway, item)).collect()
    }

    fn read_checked(reader: &mut SettingsReader, gateway: Gateway, item: &str) -> Self {
        let mut settings = Self::read(reader, gateway, item);
        if let Some(profile) = settings.selection.profile.load() {
            // The profile's value replaces the built-in default, but not the operator's value.
            let choose = |setting: &str, of_profile: Option<Duration>, value: Duration| {
                of_profile.filter(|_| !reader.is_given(&format!("{item}.{setting}"))).unwrap_or(value)
            };
            settings.submit_timeout = choose("submit_timeout", profile.submit_timeout(), settings.submit_timeout);
            settings.poll_min = choose("poll_min", profile.poll_min(), settings.poll_min);
        }

        // The submission timeout includes the connection. If it expired first, an unreachable vendor would count as one
        // that may have the job.
        if settings.submit_timeout < settings.connect_timeout {
            let expected = format!("at least as long as {item}.connect_timeout");
            reader.reject(&format!("{item}.submit_timeout"), &expected);
        }
        settings
    }

    fn read(reader: &mut SettingsReader, gateway: Gateway, item: &str) -> Self {
        let key = |setting: &str| format!("{item}.{setting}");
        let recoveries =
            [("key", RecoverySetting::Key), ("search", RecoverySetting::Search), ("nothing", RecoverySetting::Nothing)];
        let timeout = || duration("10ms", "1h");
        let pause = || duration("1ms", "1h");
        let (selection, url) = VendorSelection::read(reader, gateway, item);

        Self {
            selection,
            url,
            api_key: reader.read(&key("api_key"), &credential()),
            auth_header: reader.read(&key("auth_header"), &header_name()),
            recovery: reader.read(&key("recovery"), &choice(recoveries)),
            key_header: reader.read(&key("key_header"), &header_name()),
            search_path: reader.read(&key("search_path"), &path_with_key()),
            search_settles: reader.read(&key("search_settles"), &duration("0s", "1h")),
            jobs: JobFilter {
                kinds: reader.read(&key("jobs"), &task_kinds(gateway)),
                except: reader.read(&key("except"), &parameter_values(gateway)),
            },
            slots: Some(reader.read(&key("slots"), &integer(0, 65_536))).filter(|slots| *slots > 0),
            concurrency: reader.read(&key("concurrency"), &integer(1, 65_536)),
            connect_timeout: reader.read(&key("connect_timeout"), &timeout()),
            submit_timeout: reader.read(&key("submit_timeout"), &timeout()),
            poll_timeout: reader.read(&key("poll_timeout"), &timeout()),
            result_timeout: reader.read(&key("result_timeout"), &timeout()),
            poll_min: reader.read(&key("poll_min"), &pause()),
            poll_max: reader.read(&key("poll_max"), &pause()),
            retry_min: reader.read(&key("retry_min"), &pause()),
            retry_max: reader.read(&key("retry_max"), &pause()),
            lost_after: reader.read(&key("lost_after"), &duration("0s", "1d")),
            breaker_failures: reader.read(&key("breaker_failures"), &integer(1, 1_000_000)),
            breaker_pause: reader.read(&key("breaker_pause"), &pause()),
            breaker_pause_max: reader.read(&key("breaker_pause_max"), &duration("1ms", "1d")),
        }
    }
}

/// Address and options of a vendor of music.
#[derive(Debug, Clone)]
pub struct MusicVendorSettings {
    pub selection: VendorSelection,
    /// Without a trailing slash; `None` for the built-in engine.
    pub url: Option<String>,
    pub api_key: Option<Secret>,
    pub auth_header: String,
    pub key_header: String,
    /// Maximum number of concurrent streams of the vendor; `None` if unlimited.
    pub slots: Option<usize>,
    pub connect_timeout: Duration,
    /// Timeout between two lines, and before the first one.
    pub line_timeout: Duration,
    /// Maximum length of a line, in bytes.
    pub line_bytes: u64,
    /// Consecutive failures that open the circuit.
    pub breaker_failures: u32,
    pub breaker_pause: Duration,
    pub breaker_pause_max: Duration,
}

impl MusicVendorSettings {
    /// Reads the vendors of music.
    pub(super) fn read_all(reader: &mut SettingsReader) -> Vec<Self> {
        let items = reader.items("vendors.music");
        items.iter().map(|item| Self::read_checked(reader, item)).collect()
    }

    fn read_checked(reader: &mut SettingsReader, item: &str) -> Self {
        let settings = Self::read(reader, item);
        // If this expired first, a failed connection would count as a submission with an unknown outcome.
        if settings.line_timeout < settings.connect_timeout {
            let expected = format!("at least as long as {item}.connect_timeout");
            reader.reject(&format!("{item}.line_timeout"), &expected);
        }
        settings
    }

    fn read(reader: &mut SettingsReader, item: &str) -> Self {
        let key = |setting: &str| format!("{item}.{setting}");
        let (selection, url) = VendorSelection::read(reader, Gateway::Music, item);

        Self {
            selection,
            url,
            api_key: reader.read(&key("api_key"), &credential()),
            auth_header: reader.read(&key("auth_header"), &header_name()),
            key_header: reader.read(&key("key_header"), &header_name()),
            slots: Some(reader.read(&key("slots"), &integer(0, 65_536))).filter(|slots| *slots > 0),
            connect_timeout: reader.read(&key("connect_timeout"), &duration("10ms", "1h")),
            line_timeout: reader.read(&key("line_timeout"), &duration("10ms", "1h")),
            line_bytes: reader.read(&key("line_bytes"), &size("4KiB", "64MiB")),
            breaker_failures: reader.read(&key("breaker_failures"), &integer(1, 1_000_000)),
            breaker_pause: reader.read(&key("breaker_pause"), &duration("1ms", "1h")),
            breaker_pause_max: reader.read(&key("breaker_pause_max"), &duration("1ms", "1d")),
        }
    }
}

/// Checks the vendors of all media together. Their names must be unique even if `-` and `_` are not distinguished, as
/// in environment variables, and each medium has at most one built-in engine.
pub(super) fn check_vendor_lists(reader: &mut SettingsReader, settings: &Settings) {
    let media = [
        (Gateway::Image, settings.image_vendors.iter().map(|vendor| &vendor.selection).collect::<Vec<_>>()),
        (Gateway::Video, settings.video_vendors.iter().map(|vendor| &vendor.selection).collect()),
        (Gateway::Music, settings.music_vendors.iter().map(|vendor| &vendor.selection).collect()),
    ];

    // Names, normalized, with the items that have them.
    let mut seen: Vec<(String, String)> = Vec::new();
    for (gateway, vendors) in media {
        let items = reader.items(&format!("vendors.{}", gateway.name()));
        let mut engine: Option<String> = None;
        for (item, vendor) in items.into_iter().zip(vendors) {
            if vendor.profile == VendorProfile::BuiltIn {
                if let Some(first) = &engine {
                    let allowed = format!("another profile, because {first} is the built-in engine already");
                    reader.reject(&format!("{item}.profile"), &allowed);
                }
                engine.get_or_insert_with(|| item.clone());
            }

            let name = vendor.name.replace('-', "_");
            match seen.iter().find(|(seen_name, _)| *seen_name == name) {
                Some((_, first)) => {
                    let allowed = format!("unique among all vendors, but {first} has this name too");
                    reader.reject(&format!("{item}.name"), &allowed);
                }
                None => seen.push((name, item)),
            }
        }
    }
}
