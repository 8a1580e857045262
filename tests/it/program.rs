//! The program from its operator's view: output, stored files, shutdown.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use reqwest::Method;

use crate::support::client;
use crate::support::process::{Process, TOKEN, command, in_shell};

/// Runs the program to its end.
fn run(arguments: &[&str], environment: &[(&str, &str)], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
    command.args(arguments).envs(environment.iter().copied()).current_dir(directory).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Expands the `$(cat FILE)` of a line, as a shell does.
fn expand_cat(line: &str) -> String {
    let Some((before, remaining)) = line.split_once("$(cat ") else { return line.to_owned() };
    let (file, after) = remaining.split_once(')').expect("an end");
    let text = std::fs::read_to_string(file).expect("the file that is named");
    // The double quotes around the command become single ones; those of a JSON body stay.
    let (before, header) = before.rsplit_once('"').expect("a quote before it");
    let (header_end, after) = after.split_once('"').expect("a quote after it");
    format!("{before}'{header}{}{header_end}'{after}", text.trim())
}

/// Sends the request of a printed curl command, whose words are bare or in single quotes.
async fn send_curl(line: &str) -> reqwest::Response {
    let line = expand_cat(line);
    let quoted = line.trim().split('\'').enumerate();
    let mut arguments =
        quoted.flat_map(|(index, part)| if index % 2 == 1 { vec![part] } else { part.split(' ').collect() });
    let mut arguments = arguments.by_ref().filter(|argument| !argument.is_empty());
    assert_eq!([arguments.next(), arguments.next()], [Some("curl"), Some("-s")]);
    let mut method = Method::GET;
    let mut url = "";
    let mut headers = Vec::new();
    let mut body = "";
    while let Some(argument) = arguments.next() {
        match argument {
            "-X" => method = arguments.next().expect("a method").parse().unwrap(),
            "-H" => headers.extend(arguments.next().expect("a header").split_once(": ")),
            "-d" => (method, body) = (Method::POST, arguments.next().expect("a body")),
            _ => url = argument,
        }
    }
    let request = client().request(method, url).body(body.to_owned());
    let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    request.send().await.unwrap()
}

#[actix_web::test]
async fn the_greeting_has_the_console_url() {
    let dir = tempfile::tempdir().unwrap();
    let service = Process::from_command(&mut command(&dir.path().join("data")));

    let printed = service.printed();
    let address = printed.lines().find_map(|line| line.trim().strip_prefix("console")).expect("the console is named");

    let page = client().get(address.trim()).send().await.unwrap();
    assert_eq!(page.status().as_u16(), 200, "{address}");
    assert!(page.text().await.unwrap().contains("<title>Mediary</title>"));
}

#[actix_web::test]
async fn the_first_start_creates_a_token_and_prints_a_working_request() {
    // Given an empty directory and nothing configured
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(&dir.path().join("data"));
    command.env_remove("MEDIARY_ADMIN_TOKEN");

    // When the service starts
    let service = Process::from_command(&mut command);

    // Then it prints a request that makes a picture, and works repeatedly
    let printed = service.printed();
    let line = printed.lines().find(|line| line.contains("curl ")).expect("a request to paste");
    for _ in 0..2 {
        let response = send_curl(line).await;
        assert_eq!(response.status().as_u16(), 200, "{line}");
        let task: serde_json::Value = response.json().await.unwrap();
        assert_eq!(task["data"]["status"], "COMPLETED", "{task}");
        let picture = client().get(task["data"]["generated"][0].as_str().unwrap()).send().await.unwrap();
        let picture = image::load_from_memory(&picture.bytes().await.unwrap()).unwrap();
        assert_eq!((picture.width(), picture.height()), (128, 96));
    }

    // And the token is in a file only for its owner, and never in captured output
    let file = dir.path().join("data/admin-token");
    let token = std::fs::read_to_string(&file).unwrap();
    assert!(token.starts_with("mdu_") && !printed.contains(token.trim()), "{printed}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // And it exits with 0 on SIGTERM; the next start keeps the token
    let (status, errors) = service.terminate();
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(!errors.contains(token.trim()), "{errors}");
    let second_process = Process::from_command(&mut command);
    assert!(!second_process.printed().contains(token.trim()));
    let user = client().get(second_process.url("/users")).bearer_auth(token.trim()).send().await.unwrap();
    assert_eq!(user.status(), 200);
}

#[actix_web::test]
async fn a_configured_token_overrides_the_stored_one_and_the_start_reports_it() {
    // Given a directory with the token of an earlier start
    let dir = tempfile::tempdir().unwrap();
    let first = Process::from_command(command(dir.path()).env_remove("MEDIARY_ADMIN_TOKEN"));
    first.terminate();
    let stored_token = std::fs::read_to_string(dir.path().join("admin-token")).unwrap();

    // When the service starts with another token
    let service = Process::start(dir.path());

    // Then the start reports that the file is not used, and it is not
    assert!(service.printed().contains("admin-token is not used"), "{}", service.printed());
    for (token, status) in [(TOKEN, 200), (stored_token.trim(), 401)] {
        let response = client().get(service.url("/users")).bearer_auth(token).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "status for {token}");
    }
}

#[test]
fn a_weak_token_exits_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(&["serve"], &[("MEDIARY_ADMIN_TOKEN", "opensesame")], dir.path());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    for expected in ["admin_token", "MEDIARY_ADMIN_TOKEN", "at least 16 characters"] {
        assert!(errors.contains(expected), "{expected} is not in: {errors}");
    }
    assert!(!errors.contains("opensesame"), "{errors}");
}

#[test]
fn a_recreated_secret_is_logged() {
    // Given a directory in which a first start has silently created its secrets
    let dir = tempfile::tempdir().unwrap();
    let logged = || Process::from_command(command(dir.path()).env_remove("MEDIARY_ADMIN_TOKEN")).terminate().1;
    let expected = "secret was missing";
    assert!(!logged().contains(expected));

    // When the secrets are removed, then the next start reports those that it creates, and the start after it reports
    // none
    let secrets = ["admin-token", "webhook-key", "url-key"];
    for secret in secrets {
        std::fs::remove_file(dir.path().join(secret)).unwrap();
    }
    let errors = logged();
    let lines: Vec<_> = errors.lines().filter(|line| line.contains(expected)).collect();
    assert_eq!(lines.len(), 3, "{errors}");
    assert!(secrets.iter().all(|secret| lines.iter().any(|line| line.contains(secret))), "{errors}");
    assert!(!logged().contains(expected));
}

#[test]
fn the_version_includes_the_build_commit() {
    let dir = tempfile::tempdir().unwrap();
    let version_text = text(&run(&["--version"], &[], dir.path()).stdout);
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT"));
    let commit_text = if commit.is_empty() { String::new() } else { format!(" ({commit})") };
    assert_eq!(version_text, format!("mediary {version}{commit_text}\n"));
}

#[actix_web::test]
async fn a_second_service_on_the_same_directory_fails_with_a_clear_message() {
    let dir = tempfile::tempdir().unwrap();
    let first = Process::start(dir.path());
    let second = command(dir.path()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("in use by a running service"), "{}", text(&second.stderr));

    // And the first service is not affected
    let user = client().get(first.url("/users")).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(user.status(), 200);
}

#[test]
fn a_port_in_use_exits_with_1() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = run(&["serve", "--listen", &address, "--data-dir", "data"], &[], dir.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&address), "{}", text(&output.stderr));
}

#[test]
fn a_first_start_on_a_port_in_use_leaves_nothing() {
    // Given a first start on a port in use
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let address = other.local_addr().unwrap().to_string();
    let result = run(&["serve", "--listen", &address, "--data-dir", "data"], &[], dir.path());
    assert_eq!(result.status.code(), Some(1), "{}", text(&result.stderr));

    // Then nothing was created, not even the directory
    assert!(!data.exists());

    // And the next start counts as the first one: it reports the token that it creates
    let service = Process::from_command(command(&data).env_remove("MEDIARY_ADMIN_TOKEN"));
    assert!(service.printed().contains("administrator token was generated"), "{}", service.printed());
}

/// Process that is killed on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the output of a start, up to its example request or its last line.
fn read_greeting(stdout: impl Read) -> String {
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let mut is_request_printed = false;
    let greeting = lines.take_while(|line| {
        !std::mem::replace(&mut is_request_printed, line.contains("curl ") || line.contains("Ctrl-C"))
    });
    greeting.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_unspecified_listen_address_without_public_url_warns() {
    let dir = tempfile::tempdir().unwrap();
    let warning = "set public_url";
    for (listen, url, warns) in [
        ("0.0.0.0:0", None, true),
        ("127.0.0.1:0", None, false),
        ("0.0.0.0:0", Some("https://media.example.org"), false),
        ("127.0.0.1:0", Some("http://0.0.0.0:8080"), true),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
        command.args(["serve", "--listen", listen, "--data-dir"]).arg(dir.path().join("data"));
        command.args(url.iter().flat_map(|url| ["--public-url", url])).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut service = KillOnDrop(command.spawn().expect("the program starts"));
        let printed = read_greeting(service.0.stdout.take().expect("a pipe"));
        assert_eq!(printed.contains(warning), warns, "{printed}");
    }
}

#[test]
fn all_invalid_settings_are_reported_with_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mediary.toml"), "lissten = \"x\"\n[journal]\nqueue = 0\n").unwrap();
    let output = run(&["serve"], &[("MEDIARY_TASKS__DEADLINE", "soon")], dir.path());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("unknown setting; did you mean listen?"), "{errors}");
    for expected in ["lissten", "journal.queue", "tasks.deadline", "soon", "MEDIARY_TASKS__DEADLINE", "mediary.toml"] {
        assert!(errors.contains(expected), "{expected} is not in: {errors}");
    }
    assert!(!dir.path().join("data").exists(), "a start that was refused left something behind");
}

#[test]
fn the_effective_configuration_shows_sources_and_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let environment = [("MEDIARY_ADMIN_TOKEN", "a-token-of-the-operator"), ("MEDIARY_WORKERS", "3")];
    let output = run(&["config", "--all", "--listen", "127.0.0.1:9"], &environment, dir.path());
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(!printed.contains("a-token-of-the-operator"), "{printed}");
    for expected in ["MEDIARY_ADMIN_TOKEN", "MEDIARY_WORKERS", "--listen", "127.0.0.1:9", "default"] {
        assert!(printed.contains(expected), "{expected} is not in: {printed}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(&["serve", "--no-such-flag"], &[], dir.path()).status.code(), Some(2));
    // An argument that is not UTF-8 is wrong usage too
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
    let result = command.arg("--data-dir").arg(OsStr::from_bytes(b"\xff")).arg("srv").output().unwrap();
    assert!(result.status.code() == Some(2) && text(&result.stderr).contains("serve"), "{}", text(&result.stderr));
}

#[actix_web::test]
async fn a_rebuild_recreates_derived_data_of_a_stopped_service() {
    // Given a running service with a publisher
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let service = Process::start(&data);
    let body = serde_json::json!({"id": "acme"});
    let created = client().post(service.url("/publishers")).bearer_auth(TOKEN).json(&body).send().await.unwrap();
    assert_eq!(created.status(), 201);

    // When a rebuild is requested, then it is rejected with the reason
    let rebuild = || run(&["projections", "rebuild", "--data-dir", data.to_str().unwrap()], &[], dir.path());
    let rejected = rebuild();
    assert_eq!(rejected.status.code(), Some(1));
    assert!(text(&rejected.stderr).contains("in use by a running service"), "{}", text(&rejected.stderr));

    // When the service has stopped, then the rebuild succeeds, and all data is there
    service.terminate();
    let result = rebuild();
    assert!(result.status.success(), "{}", text(&result.stderr));
    assert!(text(&result.stdout).starts_with("2 events replayed"), "{}", text(&result.stdout));
    let service = Process::start(&data);
    let found = client().get(service.url("/publishers/acme")).send().await.unwrap();
    assert_eq!(found.status(), 200);
    assert!(!service.printed().contains("damaged"), "{}", service.printed());
}

#[test]
fn a_rebuild_of_a_missing_directory_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(&["projections", "rebuild", "--data-dir", "nowhere"], &[], dir.path());
    assert_eq!(result.status.code(), Some(1));
    assert!(
        text(&result.stderr).contains("there is no data directory at nowhere: name one with --data-dir"),
        "{}",
        text(&result.stderr)
    );
    assert!(!dir.path().join("nowhere").exists());
}

#[test]
fn a_low_file_limit_fails_the_start_with_the_required_number() {
    let data = tempfile::tempdir().unwrap();

    // Given a limit of open files too low to serve any request
    let mut service = command(data.path());
    service.env("MEDIARY_WORKERS", "16");
    let error = Process::try_start(&mut in_shell("ulimit -n 127", &service)).err().expect("no start");
    assert!(error.contains("the limit of open files is 127") && error.contains("needs 128"), "{error}");
    // With 128 files the service works, and reports the shortage
    let (status, log) = Process::from_command(&mut in_shell("ulimit -n 128", &service)).terminate();
    assert!(status.success() && log.contains("limit of open files too low"), "{status} {log}");
}
