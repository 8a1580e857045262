//! `mediary serve`: runs the service until a stop signal and prints how to reach it.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::Context;

use super::{CliError, SettingFlags, print};
use crate::app::{self, AdminTokenSource, App, StopSignals};
use crate::config::Settings;
use crate::data_dir::shell_quote;
use crate::environment::Environment;
use crate::telemetry;

pub(super) fn run(settings: SettingFlags) -> Result<(), CliError> {
    app::block_on(async {
        // This must come first: a signal during the start must lead to a clean stop, and as PID 1 of a container the
        // process ignores signals that it does not handle.
        let signals = StopSignals::install();
        let settings = settings.load()?.settings;
        telemetry::init_logging(settings.log.format, settings.log.filter.clone());
        Ok(serve(settings, signals).await?)
    })
}

async fn serve(mut settings: Settings, mut signals: StopSignals) -> anyhow::Result<()> {
    // The printed path must also be valid in other working directories.
    settings.data_dir = std::path::absolute(&settings.data_dir).unwrap_or(settings.data_dir);
    let data_dir = settings.data_dir.clone();
    let Some(app) = Box::pin(App::start_cancellable(settings, Environment::system(), signals.recv())).await? else {
        tracing::info!("stopped during startup");
        return Ok(());
    };
    print(&greeting(&app, &data_dir, io::stdout().is_terminal())).context("cannot write to stdout")?;
    app.run_until_stopped(signals).await?;
    Ok(())
}

/// Returns the greeting for stdout. The token is shown only on a terminal: a file or log collector would store it.
fn greeting(app: &App, data_dir: &Path, is_terminal: bool) -> String {
    let url = app.public_url();
    let token = app.admin_token();
    let mut lines = vec![
        format!("Mediary {} listens on http://{}", env!("BUILD_VERSION"), app.address()),
        format!("  console {url}/"),
        format!("  health  {url}/health"),
        format!("  data    {}", data_dir.display()),
    ];
    if has_unspecified_host(url) {
        lines.push("  warning result URLs use an unspecified address: set public_url".to_owned());
    }
    // The service also logs the reason, but operators look at stdout first.
    if let Some(reason) = app.log().storage().reason {
        lines.push(format!("  warning changes are rejected: {reason}"));
    }
    lines.extend(app.reports().iter().map(|report| format!("  found   {report}")));
    lines.extend([
        String::new(),
        format!("A first request, ready to paste: it makes a picture. {}", describe_token(token, is_terminal)),
        String::new(),
        format!("  {}", first_request(url, token, is_terminal)),
        String::new(),
        "Ctrl-C stops the service.\n".to_owned(),
    ]);
    lines.join("\n")
}

/// Returns `true` if the host of the URL is an unspecified address.
fn has_unspecified_host(url: &str) -> bool {
    let host = url::Url::parse(url).ok().and_then(|url| url.host().map(|host| host.to_owned()));
    match host {
        Some(url::Host::Ipv4(ip)) => ip.is_unspecified(),
        Some(url::Host::Ipv6(ip)) => ip.is_unspecified(),
        Some(url::Host::Domain(_)) | None => false,
    }
}

/// Describes the source of the token in the first request.
fn describe_token(token: &AdminTokenSource, is_terminal: bool) -> String {
    match token {
        AdminTokenSource::Configured { unused } => {
            let unused = unused.as_ref().map(|file| format!(" The one in {} is not used.", file.display()));
            let configured = "It uses the configured token; set MEDIARY_ADMIN_TOKEN in your shell.";
            format!("{configured}{}", unused.unwrap_or_default())
        }
        AdminTokenSource::Generated { file, .. } if !is_terminal => {
            format!(
                "The administrator token was generated and stored in {}, readable only by the user of the service.",
                file.display()
            )
        }
        AdminTokenSource::Generated { file, .. } => {
            format!("The administrator token was generated. It is shown only once and stored in {}.", file.display())
        }
        AdminTokenSource::Existing { file } => format!("It uses the administrator token in {}.", file.display()),
    }
}

/// Picture of the first request: a sunset of 8 by 6 pixels (PNG).
const FIRST_PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAGBAMAAAAMK8LIAAAAFVBMVEUcHjwmKFxcOHDEXFT6oFr/1oz/9s28pt2xAAAAH0lEQVR42\
                             mMQBAIGJSBgMAYCBheXFBeG0LC0UAYQAAA6jwQvv3m0HAAAAABJRU5ErkJggg==";

/// Returns a request that makes a picture, as a line for a POSIX shell. It waits for the picture, whose URL is in the
/// response. It can be pasted repeatedly.
fn first_request(url: &str, token: &AdminTokenSource, is_terminal: bool) -> String {
    let authorization = match token {
        AdminTokenSource::Configured { .. } => "\"Authorization: Bearer $MEDIARY_ADMIN_TOKEN\"".to_owned(),
        AdminTokenSource::Generated { token, .. } if is_terminal => format!("'Authorization: Bearer {token}'"),
        AdminTokenSource::Generated { file, .. } | AdminTokenSource::Existing { file } => {
            format!("\"Authorization: Bearer $(cat {})\"", shell_quote(&file.display().to_string()))
        }
    };
    let body = format!(r#"{{"image": "{FIRST_PICTURE}", "scale_factor": "16x"}}"#);
    format!(
        "curl -s {url}/proxy/imagevendor/v1/ai/image-upscaler -H {authorization} -H 'Content-Type: application/json' \
         -H 'Prefer: wait=60' -d '{body}'"
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_new_token_is_shown_only_on_a_terminal() {
        let token = AdminTokenSource::Generated { token: "mdu_x".to_owned(), file: PathBuf::from("d/admin-token") };

        let [on_terminal, redirected] =
            [true, false].map(|is_terminal| first_request("http://127.0.0.1:1", &token, is_terminal));

        let path = "curl -s http://127.0.0.1:1/proxy/imagevendor/v1/ai/image-upscaler";
        assert!(on_terminal.starts_with(&format!("{path} -H 'Authorization: Bearer mdu_x' ")), "{on_terminal}");
        let expected = format!("{path} -H \"Authorization: Bearer $(cat d/admin-token)\" ");
        assert!(redirected.starts_with(&expected), "{redirected}");
        assert!([true, false].iter().all(|is_terminal| describe_token(&token, *is_terminal).contains("d/admin-token")));
    }

    #[test]
    fn an_existing_token_is_read_from_its_file() {
        let existing = AdminTokenSource::Existing { file: PathBuf::from("it's here/admin-token") };

        assert!(
            first_request("u", &existing, true)
                .contains(r#""Authorization: Bearer $(cat 'it'\''s here/admin-token')""#)
        );
    }

    #[test]
    fn a_configured_token_takes_precedence_and_the_unused_file_is_named() {
        let configured = |unused: Option<&str>| AdminTokenSource::Configured { unused: unused.map(PathBuf::from) };
        let alone = configured(None);
        let beside = configured(Some("d/admin-token"));
        assert!(first_request("u", &beside, true).contains("\"Authorization: Bearer $MEDIARY_ADMIN_TOKEN\""));
        assert!(
            describe_token(&beside, true).ends_with("The one in d/admin-token is not used."),
            "{}",
            describe_token(&beside, true)
        );
        assert!(!describe_token(&alone, true).contains("not used"));
    }
}
