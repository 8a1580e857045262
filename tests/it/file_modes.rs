//! File permissions: only the owner can access the files, regardless of the umask, even in a directory that others may
//! enter.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use reqwest::Method;
use serde_json::json;

use crate::support::process::{Process, TOKEN, command, command_on, in_shell};
use crate::support::{client, picture, zip};

/// The same command, with a umask that hides nothing.
fn unmasked(command: &Command) -> Command {
    in_shell("umask 022", command)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns everything below a directory that users other than its owner may read, write or enter.
fn open_below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let open = |path: &Path| (mode(path) & 0o077 != 0).then(|| format!("{} {:o}", path.display(), mode(path)));
    entries
        .flat_map(|path| open(&path).into_iter().chain(if path.is_dir() { open_below(&path) } else { vec![] }))
        .collect()
}

/// Creates every kind of stored file: the log, keys, an archive, pictures.
async fn fill(service: &Process) {
    let send = async |method: Method, path: &str, body: serde_json::Value| {
        let request = client().request(method, service.url(path)).bearer_auth(TOKEN).header("idempotency-key", path);
        let response = request.json(&body).send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response.json::<serde_json::Value>().await.unwrap()
    };
    send(Method::POST, "/publishers", json!({"id": "acme", "name": "acme"})).await;
    send(Method::POST, "/publishers/acme/nodes", json!({"id": "tools", "name": "tools"})).await;
    let version = json!({"node_version": {"version": "1.0.0"}});
    let version = send(Method::POST, "/publishers/acme/nodes/tools/versions", version).await;
    let uploaded =
        client().put(version["signedUrl"].as_str().unwrap()).body(zip::valid_archive()).send().await.unwrap();
    assert_eq!(uploaded.status(), 200);
    let image = json!({"image": picture::base64_png(8, 8)});
    send(Method::POST, "/proxy/imagevendor/v1/ai/image-upscaler", image).await;
}

#[actix_web::test]
async fn all_files_are_private() {
    // Given a data directory that others may enter, and a umask that hides nothing
    let folder = tempfile::tempdir().unwrap();
    let path_of = |name: &str| folder.path().join(name);
    let data = path_of("data");
    let backup = path_of("backup");
    let restored = path_of("restored");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();

    // When a service fills it
    let service = Process::from_command(&mut unmasked(&command(&data)));
    fill(&service).await;

    // Then other users have no access to any of it
    assert_eq!(open_below(&data), Vec::<String>::new());
    let (_, log) = service.terminate();
    assert!(data.join("log/sled/db").is_file() && !log.contains("readable by other users"), "{log}");

    // And the same holds for files derived from it
    let run = |data: &Path, arguments: &[&str]| {
        let output = unmasked(&command_on(data, arguments)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&data, &["projections", "rebuild"]);

    // And for a file that an older release made readable
    fs::set_permissions(data.join("webhook-key"), Permissions::from_mode(0o644)).unwrap();
    run(&data, &["backup", backup.to_str().unwrap()]);
    fs::set_permissions(data.join("webhook-key"), Permissions::from_mode(0o600)).unwrap();
    run(&restored, &["restore", backup.to_str().unwrap()]);
    assert_eq!([&data, &backup, &restored].map(|folder| open_below(folder)).concat(), Vec::<String>::new());
    assert_eq!([&backup, &restored].map(|folder| mode(folder)), [0o700, 0o700]);

    // but exports, which are meant to be shared, follow the umask
    run(&data, &["audit", "export", path_of("log.jsonl").to_str().unwrap()]);
    assert_eq!(mode(&path_of("log.jsonl")), 0o644);
}

#[actix_web::test]
async fn a_readable_data_directory_is_reported_at_startup() {
    let data = tempfile::tempdir().unwrap();
    Process::start(data.path()).terminate();
    for part in ["", "log"] {
        fs::set_permissions(data.path().join(part), Permissions::from_mode(0o755)).unwrap();
    }
    let (_, log) = Process::start(data.path()).terminate();
    assert!(log.contains("data directory readable by other users"), "{log}");
    let (command, part) = ("chmod -R go= ", data.path().join("log"));
    assert!(log.lines().any(|line| line.ends_with(&format!("{command}{}", part.display()))), "{log}");
}
