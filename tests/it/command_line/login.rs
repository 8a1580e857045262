//! `login`, `logout`, `whoami` and `token`.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::Workplace;
use crate::support::TestApp;

#[actix_web::test]
async fn a_login_is_checked_kept_privately_and_forgotten() {
    // Given a user who is not signed in
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let place = Workplace::new();
    let before = place.run(&["whoami", "--url", &app.url("")]).await.expect(2);
    assert!(before.err.contains("mediary login"), "{}", before.err);

    // When the user signs in with the token on stdin
    let arguments = ["login", "--url", &app.url(""), "--token-stdin"];
    let login = place.run_with_input(&arguments, &format!("{}\n", ada.token)).await.expect(0);

    // Then the file is private, and later commands need neither URL nor token
    assert!(login.out.contains("as ada") && !login.out.contains(&ada.token), "{}", login.out);
    let mode = std::fs::metadata(place.login_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.run(&["whoami"]).await.expect(0).assert_contains(&["ada@example.org", "user", "acme", &app.url("")]);
    let json: Value = serde_json::from_str(&place.run(&["whoami", "--json"]).await.expect(0).out).unwrap();
    assert_eq!((&json["user"]["id"], &json["url"]), (&Value::from(ada.id.as_str()), &Value::from(app.url(""))));

    // And the token goes to no other service
    let other = TestApp::start().await;
    let refused = place.run(&["whoami", "--url", &other.url("")]).await.expect(2);
    assert!(refused.err.contains("not signed in"), "{}", refused.err);

    // And a logout removes it
    place.run(&["logout"]).await.expect(0).assert_contains(&["Signed out"]);
    assert!(!place.login_file().exists());
    place.run(&["logout"]).await.expect(0).assert_contains(&["not signed in"]);
}

#[actix_web::test]
async fn a_login_that_fails_keeps_nothing() {
    let app = TestApp::start().await;
    let place = Workplace::new();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unused = format!("http://{unused}");
    let base = app.url("");
    for (arguments, input, code, expected) in [
        (vec!["--url", &base, "--token-stdin"], "mdu_wrong", 1, "the token is invalid"),
        (vec!["--url", &base, "--token-stdin"], "", 2, "the token is empty"),
        (vec!["--url", &base], "mdu_x", 2, "--token-stdin"),
        (vec!["--token-stdin"], "mdu_x", 2, "--url"),
        (vec!["--url", "127.0.0.1", "--token-stdin"], "mdu_x", 2, "is not the URL"),
        (vec!["--url", &unused, "--token-stdin"], "mdu_x", 2, "no service answers at"),
    ] {
        let arguments = [vec!["login"], arguments].concat();
        let output = place.run_with_input(&arguments, input).await.expect(code);
        assert!(output.err.contains(expected), "{expected}: {}", output.err);
        assert!(!place.login_file().exists());
    }
}

#[actix_web::test]
async fn an_owner_manages_the_tokens_of_a_publisher() {
    // Given an owner
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let place = Workplace::of_user(&app, &ada.token);

    // When a token is created, then it is printed once, alone, and works
    let created = place.run(&["token", "create", "acme", "build server"]).await.expect(0);
    let token = created.out.trim().to_owned();
    assert!(token.starts_with("mdp_"), "{token}");
    let server = Workplace::of_user(&app, &token);
    server.run(&["whoami"]).await.expect(0).assert_contains(&["token of a publisher"]);
    let list = place.run(&["token", "list", "acme"]).await.expect(0).assert_contains(&["build server"]);
    assert!(!list.out.contains(&token), "{}", list.out);

    // When it is revoked by the command that was printed with it, then it is refused
    let (_, command) = created.err.trim().split_once("`mediary ").expect("the command");
    let revoke: Vec<_> = command.trim_end_matches("`.").split(' ').collect();
    let json: Value =
        serde_json::from_str(&place.run(&["token", "list", "acme", "--json"]).await.expect(0).out).unwrap();
    assert_eq!(revoke, ["token", "revoke", "acme", json[0]["id"].as_str().unwrap()]);
    place.run(&revoke).await.expect(0);
    server.run(&["whoami"]).await.expect(1);
    place.run(&["token", "revoke", "acme", "no-id"]).await.expect(2);
    place.run(&["token", "list", "nobody"]).await.expect(1);
}
