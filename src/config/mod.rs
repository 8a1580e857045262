//! Configuration: read in layers, checked once, then plain values.
//!
//! Precedence, lowest first: built-in defaults, settings file, environment, flags. An unknown setting or an invalid
//! value prevents the start; all problems are reported at once.

mod cluster;
mod egress;
mod file;
mod limits;
mod oidc;
mod problem;
mod reference;
mod setting_kinds;
mod settings;
mod source;
mod suggestions;
mod telemetry;
mod vendor;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use cluster::{BucketLocation, ClusterSettings, S3Settings, SharedFiles};
pub use egress::{EgressSettings, PrivateAccess, PrivateRule};
pub use limits::{LimitSettings, ProxyHeader, RateSetting};
pub use oidc::OidcSettings;
pub use problem::{ConfigProblem, ConfigProblems};
pub use reference::reference;
pub use settings::{
    ActorSettings, AllowedOrigins, AuthSettings, CallbackSettings, CorsSettings, EngineSettings, JournalSettings,
    LocalImageSettings, LogSettings, RegistrySettings, Secret, Settings, SnapshotSettings, StorageSettings,
    TaskSettings, VideoSettings,
};
pub use source::{Flag, SettingSource, TOKEN_VARIABLE, URL_VARIABLE};
pub use suggestions::edit_distance;
pub use telemetry::TelemetrySettings;
pub use vendor::{MusicVendorSettings, RecoverySetting, VendorProfile, VendorSelection, VendorSettings};

use problem::format_masked;
use source::{SettingEntry, SettingLayers, list_item};

/// Settings file that is read by default, if it exists.
const DEFAULT_FILE: &str = "mediary.toml";

/// Configuration given on the command line.
#[derive(Debug, Clone, Default)]
pub struct CommandLine {
    /// Settings file to read instead of `mediary.toml`; it must exist.
    pub file: Option<PathBuf>,
    /// Settings given as flags.
    pub flags: Vec<Flag>,
}

/// A checked configuration. Displays as the effective settings, each with its source, with secrets masked; in the
/// alternate form (`{:#}`) without those that have their default.
#[derive(Debug)]
pub struct Configuration {
    pub settings: Settings,
    entries: Vec<SettingEntry>,
}

impl Configuration {
    /// Reads all layers: the settings file, the environment and the command line.
    ///
    /// # Errors
    /// Returns [`ConfigProblems`] with everything that is wrong.
    pub fn load(command_line: CommandLine) -> Result<Self, ConfigProblems> {
        let mut layers = SettingLayers::defaults();
        add_file(&mut layers, command_line.file.as_deref());
        layers.add_environment(std::env::vars_os());
        command_line.flags.into_iter().for_each(|flag| layers.add_flag(flag));
        Self::check(layers)
    }

    /// Returns `true` if a setting comes from an environment variable.
    #[must_use]
    pub fn is_from_environment(&self, key: &str) -> bool {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.is_some_and(|entry| matches!(entry.source, SettingSource::Environment { .. }))
    }

    fn check(layers: SettingLayers) -> Result<Self, ConfigProblems> {
        Settings::check(layers).map(|(settings, entries)| Self { settings, entries })
    }
}

fn add_file(layers: &mut SettingLayers, explicit_path: Option<&Path>) {
    let path = explicit_path.unwrap_or(Path::new(DEFAULT_FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => layers.add_file(path, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound && explicit_path.is_none() => {}
        Err(error) => {
            let place = path.display().to_string();
            layers.problems.push(ConfigProblem::Unreadable { place, reason: format!("cannot be read: {error}") });
        }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut current = "";
        let is_shown = |entry: &&SettingEntry| !f.alternate() || entry.source != SettingSource::Default;
        for entry in self.entries.iter().filter(is_shown).collect::<Vec<_>>() {
            let (section, name) = entry.key.rsplit_once('.').unwrap_or(("", &entry.key));
            if section != current {
                match list_item(section) {
                    Some((list, _)) => writeln!(f, "\n[[{list}]]")?,
                    None => writeln!(f, "\n[{section}]")?,
                }
                current = section;
            }
            let line = format!("{name} = {}", format_masked(&entry.key, &entry.value));
            writeln!(f, "{line:<40} # {}", entry.source)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::time::Duration;

    use super::*;

    struct LayerBuilder(SettingLayers);

    fn builder() -> LayerBuilder {
        LayerBuilder(SettingLayers::defaults())
    }

    impl LayerBuilder {
        fn file(mut self, text: &str) -> Self {
            self.0.add_file(Path::new("mediary.toml"), text);
            self
        }

        fn environment(mut self, variables: &[(&str, &str)]) -> Self {
            self.0.add_environment(variables.iter().map(|(name, text)| (OsString::from(name), OsString::from(text))));
            self
        }

        fn flag(mut self, key: &'static str, name: &'static str, text: &str) -> Self {
            self.0.add_flag(Flag { key, name, text: text.to_owned() });
            self
        }

        fn configuration(self) -> Configuration {
            Configuration::check(self.0).unwrap()
        }

        fn problems(self) -> String {
            Configuration::check(self.0).unwrap_err().to_string()
        }
    }

    #[test]
    fn the_defaults_are_as_documented() {
        let settings = builder().configuration().settings;

        assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(settings.data_dir, Path::new("data/run"));
        assert!(settings.admin_token.is_none() && settings.public_url.is_none());
        assert_eq!(settings.cors.allowed_origins, AllowedOrigins::Any);
        assert_eq!(settings.journal.segment_bytes, 64 << 20);
        assert_eq!(settings.tasks.deadline, Duration::from_hours(1));
        assert_eq!(Settings::default().limits.connections, 10_000);
    }

    #[test]
    fn exactly_the_documented_settings_are_checked() {
        let layers = SettingLayers::defaults();
        let all: Vec<_> = layers.entries.iter().map(|entry| format!("{} = 1979-05-27", entry.key)).collect();

        let ConfigProblems(problems) = Configuration::check(builder().file(&all.join("\n")).0).unwrap_err();

        let mut rejected_keys: Vec<_> = problems
            .iter()
            .map(|problem| match problem {
                ConfigProblem::NotAllowed { key, .. } => key.as_str(),
                other => panic!("{other}"),
            })
            .collect();
        rejected_keys.dedup();
        let keys: Vec<_> = layers.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(rejected_keys, keys);
    }

    #[test]
    fn later_layers_win_and_every_value_keeps_its_source() {
        let configuration = builder()
            .file("listen = '127.0.0.1:1'\ndata_dir = 'a'\nworkers = 1\n[tasks]\ndeadline = '5m'\n")
            .environment(&[("MEDIARY_DATA_DIR", "b"), ("MEDIARY_WORKERS", "2"), ("MEDIARY_TASKS__DEADLINE", "6m")])
            .flag("workers", "--workers", "3")
            .configuration();

        assert_eq!(configuration.settings.listen.port(), 1);
        assert_eq!(configuration.settings.data_dir, Path::new("b"));
        assert_eq!(configuration.settings.workers, 3);
        assert_eq!(configuration.settings.tasks.deadline, Duration::from_mins(6));
        let sources: Vec<_> = configuration.entries.iter().take(6).map(|entry| entry.source.to_string()).collect();
        let expected =
            ["mediary.toml:1", "environment MEDIARY_DATA_DIR", "default", "default", "default", "flag --workers"];
        assert_eq!(sources, expected);
    }

    #[test]
    fn the_environment_can_set_lists_numbers_and_booleans() {
        let settings = builder()
            .environment(&[
                ("MEDIARY_EGRESS__ALLOW", "10.0.0.0/8, ::1"),
                ("MEDIARY_CORS__ALLOWED_ORIGINS", ""),
                ("MEDIARY_LIMITS__CONNECTIONS", "20_000"),
                ("MEDIARY_AUTH__REQUIRE_APPROVAL", "true"),
                ("OTHER_LISTEN", "x"),
            ])
            .configuration()
            .settings;

        assert_eq!(settings.egress.allow.len(), 2);
        assert_eq!(settings.cors.allowed_origins, AllowedOrigins::Listed(Vec::new()));
        assert_eq!(settings.limits.connections, 20_000);
        assert!(settings.auth.require_approval);
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let problems = builder()
            .file("listn = 'x'\n[log]\nformat = 'xml'\n[tsks]\n")
            .environment(&[("MEDIARY_TASKS_DEADLINE", "5m"), ("MEDIARY_WORKERS", "many")])
            .flag("listen", "--listen", "localhost:80")
            .problems();

        for expected in [
            "the configuration has 6 problems:",
            "listn = \"x\" (mediary.toml:1): unknown setting; did you mean listen? ",
            "log.format = \"xml\" (mediary.toml:3): must be one of \"text\", \"json\"",
            "tsks = {} (mediary.toml:4): unknown setting; did you mean [tasks]? ",
            "tasks_deadline = \"5m\" (environment MEDIARY_TASKS_DEADLINE): unknown setting; did you mean MEDIARY_",
            "workers = \"many\" (environment MEDIARY_WORKERS): must be an integer from 0 to 512",
            "listen = \"localhost:80\" (flag --listen): must be an IP address and a port",
        ] {
            assert!(problems.contains(expected), "{expected}\nnot in\n{problems}");
        }
    }

    #[test]
    fn kubernetes_service_links_are_ignored() {
        let links = [
            ("MEDIARY_SERVICE_HOST", "10.96.0.7"),
            ("MEDIARY_SERVICE_PORT", "8080"),
            ("MEDIARY_SERVICE_PORT_HTTP", "8080"),
            ("MEDIARY_PORT", "tcp://10.96.0.7:8080"),
            ("MEDIARY_PORT_8080_TCP", "tcp://10.96.0.7:8080"),
            ("MEDIARY_PORT_8080_TCP_PROTO", "tcp"),
            ("MEDIARY_PORT_8080_UDP_ADDR", "10.96.0.7"),
        ];

        assert_eq!(builder().environment(&links).configuration().settings.listen.port(), 8080);
        for wrong in ["PORT", "PORT_8080", "PORT_HTTP_TCP", "SERVICE_HOSTS", "SERVICE_PORTS", "PORTS_8080_TCP"] {
            let message = builder().environment(&[(&format!("MEDIARY_{wrong}"), "8080")]).problems();
            assert!(message.contains(&format!("MEDIARY_{wrong}): unknown setting")), "{message}");
        }
    }

    #[test]
    fn a_section_is_suggested_in_the_notation_of_its_source() {
        let message = builder().environment(&[("MEDIARY_TASK", "5")]).problems();
        assert!(message.contains("did you mean MEDIARY_TASKS__…? "), "{message}");
    }

    #[test]
    fn the_line_timeout_of_music_must_cover_the_connect_timeout() {
        let message = builder().file("[vendors.music]\nconnect_timeout = '5s'\nline_timeout = '4s'\n").problems();
        let expected = "vendors.music.line_timeout = \"4s\" (mediary.toml:3): must be at least as long as vendors.music.connect_timeout";
        assert!(message.contains(expected), "{message}");
        let equal = builder().file("[vendors.music]\nconnect_timeout = '4s'\nline_timeout = '4s'\n").configuration();
        assert_eq!(equal.settings.music_vendors[0].line_timeout, Duration::from_secs(4));
    }

    #[test]
    fn the_submit_timeout_must_cover_the_connect_timeout() {
        for vendor in ["image", "video"] {
            let file = format!("[vendors.{vendor}]\nconnect_timeout = '5s'\nsubmit_timeout = '4s'\n");
            let message = builder().file(&file).problems();
            let expected = format!(
                "vendors.{vendor}.submit_timeout = \"4s\" (mediary.toml:3): must be at least as long as vendors.{vendor}.connect_timeout"
            );
            assert!(message.contains(&expected), "{message}");
        }
    }

    const STUDIO: &str = "[[vendors.image]]\nname = 'studio-1'\nurl = 'http://127.0.0.1:8188'\njobs = ['image-upscaler']\n\
        except = { engine = ['illusio'] }\nprice = 0.035\n";

    #[test]
    fn a_list_item_has_defaults_a_source_for_each_value_and_variables_with_its_name() {
        let file = STUDIO.replace("except = { engine = ['illusio'] }", "except = { is_portrait = [true] }");
        let variables = [("MEDIARY_VENDORS__IMAGE__STUDIO_1__API_KEY", "hunter2")];
        let configuration = builder().file(&file).environment(&variables).configuration();

        let [vendor] = &configuration.settings.image_vendors[..] else { panic!("one vendor") };
        assert_eq!((vendor.selection.name.as_str(), &vendor.selection.profile), ("studio-1", &VendorProfile::Mediary));
        assert_eq!(vendor.selection.price.to_string(), "0.035");
        assert_eq!(vendor.jobs.except, [("is_portrait".to_owned(), vec!["true".to_owned()])]);
        assert_eq!((vendor.jobs.kinds.len(), vendor.concurrency, vendor.slots), (1, 64, None));
        assert_eq!(vendor.api_key.as_ref().unwrap().expose(), "hunter2");

        let printed = configuration.to_string();
        assert!(printed.contains("\n[[vendors.image]]\n") && !printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("# mediary.toml:3") && !printed.contains("[vendors.image]\n\n"), "{printed}");
        assert!(printed.contains("# environment MEDIARY_VENDORS__IMAGE__STUDIO_1__API_KEY"), "{printed}");
        let again = builder().file(&printed.replace("\"********\"", "\"\"")).configuration().settings;
        assert_eq!(again.image_vendors[0].selection.name, "studio-1");
    }

    #[test]
    fn every_problem_of_a_list_item_is_reported_with_its_line() {
        let file = "[[vendors.image]]\nurl = 'http://a'\nprofile = 'x'\njobs = ['extend']\nexcept = { engin = [1] }\n\
            price = 0.0001\nweight = 0\nulr = 'b'\n[[vendors.image]]\nname = 'Big'\nprofile = 'builtin'\nurl = 'http://b'\n";
        let problems = builder().file(file).environment(&[("MEDIARY_VENDORS__IMAGE__URL", "http://c")]).problems();

        for expected in [
            "vendors.image[1].name = \"\" (mediary.toml:2): must be a lowercase letter",
            "vendors.image[1].profile = \"x\" (mediary.toml:3): must be one of \"mediary\", \"builtin\"",
            "vendors.image[1].jobs = [\"extend\"] (mediary.toml:4): must be a list of \"image-upscaler\"",
            "vendors.image[1].except = { engin = [1] } (mediary.toml:5): must be a table of parameters",
            "vendors.image[1].price = 0.0001 (mediary.toml:6): must be a number from 0 to 1000000",
            "vendors.image[1].weight = 0 (mediary.toml:7): must be an integer from 1 to 1000",
            "vendors.image[1].ulr = \"b\" (mediary.toml:8): unknown setting; did you mean vendors.image[1].url",
            "vendors.image[2].name = \"Big\" (mediary.toml:10): must be a lowercase letter",
            "vendors.image[2].url = \"http://b\" (mediary.toml:12): must be empty, because",
            "vendors.image.url = \"http://c\" (environment MEDIARY_VENDORS__IMAGE__URL): unknown setting; [[vendors.image]] is a list",
        ] {
            assert!(problems.contains(expected), "{expected}\nnot in\n{problems}");
        }
    }

    #[test]
    fn names_of_vendors_are_unique_and_a_medium_has_one_built_in_engine() {
        let video = STUDIO.replace("image]]", "video]]").replace("jobs = ['image-upscaler']", "jobs = ['extend']");
        let video = video.replace("studio-1", "studio_1").replace("{ engine = ['illusio'] }", "{ bgm = [true] }");
        let image = STUDIO.replace("except = { engine = ['illusio'] }\n", "");

        let second = "[[vendors.image]]\nname = 'b'\nurl = 'http://b'\n";
        let engine = |name| format!("[[vendors.image]]\nname = '{name}'\nprofile = 'builtin'\n");
        let (first_engine, second_engine) = (engine("c"), engine("d"));

        let pool = builder().file(&format!("{image}{second}{first_engine}")).configuration().settings;
        assert_eq!(pool.image_vendors.len(), 3);

        let problems = builder().file(&format!("{image}{second}{first_engine}{second_engine}{video}")).problems();
        for expected in [
            "vendors.video[1].name = \"studio_1\"",
            "unique among all vendors, but vendors.image[1]",
            "vendors.image[4].profile = \"builtin\"",
            "another profile, because vendors.image[3] is the built-in engine already",
        ] {
            assert!(problems.contains(expected), "{expected}\nnot in\n{problems}");
        }
    }

    #[test]
    fn a_single_table_without_a_url_is_the_built_in_engine() {
        let names = |settings: &Settings| {
            let VendorSelection { name, profile, .. } = &settings.image_vendors[0].selection;
            (name.clone(), profile.name().to_owned())
        };
        let expected = |name: &str, profile: &str| (name.to_owned(), profile.to_owned());
        assert_eq!(names(&Settings::default()), expected("local-image", "builtin"));
        let remote = builder().environment(&[("MEDIARY_VENDORS__IMAGE__URL", "http://v")]).configuration().settings;
        assert_eq!(names(&remote), expected("remote-image", "mediary"));
    }

    #[test]
    fn a_setting_that_the_profile_decides_is_refused() {
        let file = "[vendors.image]\nprofile = 'magnific'\nauth_header = 'X-Key'\nrecovery = 'key'\n\
                    key_header = 'X-Id'\nsearch_path = '/x?k={key}'\n[vendors.music]\nprofile = 'sonilo'\nkey_header = 'X'\n";
        let problems = builder().file(file).problems();
        for (line, setting) in [
            (3, "image.auth_header = \"X-Key\""),
            (4, "image.recovery = \"key\""),
            (6, "image.search_path = \"/x?k={key}\""),
        ] {
            let expected = format!(
                "vendors.{setting} (mediary.toml:{line}): must be absent, because the profile \"magnific\" decides it"
            );
            assert!(problems.contains(&expected), "{expected}\nnot in\n{problems}");
        }
        // The value of `key_header` is masked like every setting whose name looks like a secret's.
        assert!(problems.contains("vendors.image.key_header") && problems.contains("vendors.music.key_header"));
        assert_eq!(problems.matches("must be absent").count(), 5, "{problems}");

        // With the API of this service, they say how it is offered.
        let own = "[vendors.image]\nurl = 'http://a'\nauth_header = 'X-Key'\nrecovery = 'key'\n";
        assert_eq!(builder().file(own).configuration().settings.image_vendors[0].auth_header, "X-Key");
    }

    #[test]
    fn a_profile_has_times_of_its_own_unless_they_are_given() {
        let times = |file: &str| {
            let settings = builder().file(file).configuration().settings;
            (settings.image_vendors[0].submit_timeout.as_secs(), settings.image_vendors[0].poll_min.as_secs())
        };
        assert_eq!(times("[vendors.image]\nprofile = 'stability'\n"), (600, 10));
        assert_eq!(times("[vendors.image]\nprofile = 'stability'\nsubmit_timeout = '9s'\npoll_min = '3s'\n"), (9, 3));
        assert_eq!(times("[vendors.image]\nprofile = 'magnific'\n"), (60, 1));
    }

    #[test]
    fn a_profile_of_the_operator_is_loaded_and_a_bad_one_is_refused_with_its_line() {
        // Given a directory with a good and a bad profile
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("studio.toml"), "extends = \"comfyui\"\nurl = \"http://10.0.0.5:8188\"\n").unwrap();
        std::fs::write(path("bad.toml"), "extends = \"comfyui\"\ncolour = 1\n").unwrap();
        let file = |profile: &str| {
            format!("[vendors]\nprofiles = '{}'\n[vendors.image]\nprofile = '{profile}'\n", directory.path().display())
        };

        // When one of them is named
        let studio = builder().file(&file("studio")).configuration().settings;
        let bad = builder().file(&file("bad")).problems();
        let none = builder().file(&file("nobody")).problems();

        // Then the good one is used, and the others are refused with the reason
        assert_eq!(studio.image_vendors[0].selection.profile.name(), "studio");
        assert_eq!(studio.image_vendors[0].url.as_deref(), Some("http://10.0.0.5:8188"));
        let expected = format!(
            "vendors.image.profile = \"bad\" (mediary.toml:4): must be the name of a valid profile, but {}:2: unknown field `colour`",
            path("bad.toml").display()
        );
        assert!(bad.contains(&expected), "{expected}\nnot in\n{bad}");
        assert!(none.contains("must be one of \"mediary\", \"builtin\"") && none.contains("\"studio\""), "{none}");

        // And so is a directory that does not exist
        let problems = builder().environment(&[("MEDIARY_VENDORS__PROFILES", "/no/such")]).problems();
        assert!(problems.contains("must be the path of an existing directory"), "{problems}");
    }

    #[test]
    fn secrets_are_never_printed() {
        let configuration = builder().environment(&[("MEDIARY_ADMIN_TOKEN", "hunter2hunter2hunter2")]).configuration();
        let problems = builder().environment(&[("MEDIARY_ADMIN_TOKEN", "hunter 2"), ("MEDIARY_ADMINTOKEN", "hunter2")]);

        assert_eq!(configuration.settings.admin_token.as_ref().unwrap().expose(), "hunter2hunter2hunter2");
        assert!(!format!("{configuration}{configuration:?}").contains("hunter"), "{configuration:?}");
        assert!(configuration.to_string().contains("admin_token = \"********\""));
        assert!(!problems.problems().contains("hunter"));
    }

    #[test]
    fn the_printed_configuration_can_be_read_back() {
        let printed = builder().flag("listen", "--listen", "[::1]:0").configuration().to_string();

        let again = builder().file(&printed).configuration();

        assert_eq!(again.settings.listen.to_string(), "[::1]:0");
        assert!(printed.starts_with("listen = \"[::1]:0\"                       # flag --listen\n"), "{printed}");
    }

    #[test]
    fn variables_of_commands_are_not_settings() {
        let variables = [("MEDIARY_URL", "https://media.example.org"), ("MEDIARY_TOKEN", "mdu_x")];
        assert_eq!(format!("{:#}", builder().environment(&variables).configuration()), "");
    }

    #[test]
    fn the_short_form_has_only_what_was_set_and_can_be_read_back() {
        let file = "[tasks]\ndeadline = '30m'\n[[vendors.image]]\nname = 'a'\nurl = 'http://a'\n[[vendors.image]]\nname = 'b'\nurl = 'http://b'\n";
        let configuration = builder().file(file).flag("listen", "--listen", "[::1]:0").configuration();

        let short = format!("{configuration:#}");
        let again = builder().file(&short).configuration();

        assert!(short.starts_with("listen = ") && short.contains("[tasks]\ndeadline = \"30m\""), "{short}");
        assert!(!short.contains("# default") && short.matches("[[vendors.image]]").count() == 2, "{short}");
        assert_eq!(again.settings.image_vendors.len(), 2);
        assert_eq!(format!("{:#}", builder().configuration()), "");
    }

    #[test]
    fn an_explicitly_named_file_must_exist() {
        let mut layers = SettingLayers::defaults();
        add_file(&mut layers, Some(Path::new("no/such/file.toml")));

        assert!(layers.problems[0].to_string().starts_with("no/such/file.toml: cannot be read: "));
    }
}
