//! Tokens of an OIDC issuer as credentials: validation, and the account that they map to.

use std::fs;
use std::process::Command;
use std::time::Duration;

use hmac::{Hmac, Mac};
use mediary::app::App;
use mediary::config::{LimitSettings, OidcSettings, RateSetting, Settings};
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::image::UPSCALER;
use crate::support::TestApp;
use crate::support::issuer::{SigningKey, TestIssuer, encoded};
use crate::support::picture::base64_png;

/// Noon, in seconds since 1970.
const NOON: i64 = 1_795_348_800;

struct Given {
    issuer: TestIssuer,
    key: SigningKey,
    environment: Environment,
    app: TestApp,
}

fn settings_of(issuer: &TestIssuer) -> OidcSettings {
    OidcSettings { issuer: issuer.name(), audience: "mediary".to_owned(), jwks_url: None }
}

impl Given {
    async fn with(key: SigningKey) -> Self {
        Self::limited(key, |_| {}).await
    }

    async fn limited(key: SigningKey, limit: impl FnOnce(&mut LimitSettings)) -> Self {
        let issuer = TestIssuer::start(&[key.public("1")]).await;
        let environment = Environment::manual(Timestamp::from_micros(NOON * 1_000_000), 7);
        let settings = settings_of(&issuer);
        let change = |all: &mut Settings| {
            all.auth.oidc = Some(settings);
            limit(&mut all.limits);
        };
        let app = TestApp::start_with(change, environment.clone()).await;
        Self { issuer, key, environment, app }
    }

    fn settings(&self) -> OidcSettings {
        settings_of(&self.issuer)
    }

    /// Claims of a valid token.
    fn claims(&self) -> Value {
        json!({"iss": self.issuer.name(), "sub": "u-1", "aud": "mediary", "exp": NOON + 300, "iat": NOON,
            "name": "Ada", "email": "ada@example.org"})
    }

    /// The same claims with one changed; `null` removes it.
    fn but(&self, claim: &str, value: Value) -> Value {
        let mut claims = self.claims();
        claims[claim] = value;
        if claims[claim].is_null() {
            claims.as_object_mut().unwrap().remove(claim);
        }
        claims
    }

    fn token(&self, claims: &Value) -> String {
        self.key.token("1", claims)
    }

    async fn status(&self, token: &str) -> u16 {
        self.app.get_as(token, "/users").await.status
    }

    async fn me(&self, claims: &Value) -> Value {
        self.app.get_as(&self.token(claims), "/users").await.expect(200).json()
    }
}

#[actix_web::test]
async fn whoever_the_issuer_knows_has_an_account_from_the_first_request_on() {
    for key in [SigningKey::rsa(), SigningKey::p256()] {
        let given = Given::with(key).await;

        let first = given.me(&given.claims()).await;
        assert_eq!((&first["name"], &first["email"]), (&json!("Ada"), &json!("ada@example.org")));
        assert_eq!((&first["isAdmin"], &first["isApproved"]), (&json!(false), &json!(false)));
        // The same account, whatever name the issuer sends now; another subject has another account.
        assert_eq!(given.me(&given.but("name", json!("Countess"))).await, first);
        assert_ne!(given.me(&given.but("sub", json!("u-2"))).await["id"], first["id"]);
        // The account has the rights of a user.
        let token = given.token(&given.claims());
        given.app.post_as(&token, "/publishers", json!({"id": "acme", "name": "Acme"})).await.expect(201);
        // The history names the service as creator, with the request.
        let path = format!("/admin/history/user/{}", first["id"].as_str().unwrap());
        let history = given.app.get_as(given.app.admin_token(), &path).await.expect(200).text();
        assert!(history.contains("UserCreated") && history.contains("system"), "{history}");
        assert!(!history.contains("u-1"), "what names them at the issuer is not recorded: {history}");
        given.app.stop().await;
    }
}

#[actix_web::test]
async fn requests_at_the_same_time_open_one_account_and_a_restart_keeps_it() {
    let given = Given::with(SigningKey::p256()).await;
    let token = given.token(&given.claims());

    let answers = futures_util::future::join_all((0..8).map(|_| given.app.get_as(&token, "/users"))).await;

    let first = answers[0].json();
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.json() == first));
    let Given { issuer, environment, app, .. } = given;
    let settings = OidcSettings { jwks_url: Some(format!("{}/keys", issuer.name())), ..settings_of(&issuer) };
    let app = TestApp::start_in(app.stop().await, |all| all.auth.oidc = Some(settings), environment).await;
    assert_eq!(app.get_as(&token, "/users").await.expect(200).json(), first);
    app.stop().await;
}

#[actix_web::test]
async fn nothing_else_is_believed() {
    let given = Given::with(SigningKey::rsa()).await;
    let (good, stranger) = (given.claims(), SigningKey::p256());
    assert_eq!(given.status(&given.token(&good)).await, 200);
    let [header, claims, signature] = {
        let token = given.token(&good);
        let mut parts = token.split('.').map(str::to_owned);
        [parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap()]
    };
    let unsigned = |alg: &str| format!("{}.{claims}.", encoded(json!({"alg": alg, "kid": "1"}).to_string().as_bytes()));
    // The public key, in the forms that a verifier might mistake for a shared secret.
    let keyed = |secret: &[u8]| {
        let signed = format!("{}.{claims}", encoded(json!({"alg": "HS256", "kid": "1"}).to_string().as_bytes()));
        let code = Hmac::<Sha256>::new_from_slice(secret).unwrap().chain_update(&signed).finalize().into_bytes();
        format!("{signed}.{}", encoded(&code))
    };
    let other_claims = encoded(given.but("sub", json!("admin")).to_string().as_bytes());
    let refused = [
        ("alg none", unsigned("none")),
        ("alg none in another case", unsigned("nOnE")),
        ("no signature", format!("{header}.{claims}.")),
        ("HS256 with the modulus", keyed(&given.key.modulus())),
        ("HS256 with the set of keys", keyed(given.key.public("1").to_string().as_bytes())),
        ("other claims under the signature", format!("{header}.{other_claims}.{signature}")),
        ("signed by somebody else", stranger.token("1", &good)),
        ("signed by somebody else who says RS256", stranger.token_with(&json!({"alg": "RS256", "kid": "1"}), &good)),
        ("an unknown key", given.key.token("2", &good)),
        ("a key in the header", given.key.token_with(&json!({"alg": "ES256", "jwk": stranger.public("1")}), &good)),
        (
            "an extension that must be understood",
            given.key.token_with(&json!({"alg": "RS256", "kid": "1", "crit": ["x"]}), &good),
        ),
        ("another issuer", given.token(&given.but("iss", json!("http://127.0.0.1:1")))),
        ("an issuer that begins so", given.token(&given.but("iss", json!(format!("{}/", given.issuer.name()))))),
        ("another audience", given.token(&given.but("aud", json!("console")))),
        ("other audiences", given.token(&given.but("aud", json!(["a", "b"])))),
        ("expired, more than the leeway ago", given.token(&given.but("exp", json!(NOON - 60)))),
        ("not valid yet", given.token(&given.but("nbf", json!(NOON + 61)))),
        ("an empty subject", given.token(&given.but("sub", json!("")))),
        ("a long subject", given.token(&given.but("sub", json!("s".repeat(256))))),
        ("times as text", given.token(&given.but("exp", json!("never")))),
        ("huge", given.token(&given.but("groups", json!("g".repeat(16 * 1024))))),
        ("no base64", format!("{header}.{claims}.!")),
        ("no JSON", format!("{}.{claims}.{signature}", encoded(b"{"))),
        ("empty parts", "..".to_owned()),
    ];
    let missing = ["iss", "sub", "aud", "exp"].map(|claim| (claim, given.token(&given.but(claim, Value::Null))));
    for (what, token) in refused.into_iter().chain(missing) {
        let answer = given.app.get_as(&token, "/users").await;
        assert_eq!((what, answer.status), (what, 401));
        assert_eq!(answer.header("www-authenticate"), Some("Bearer error=\"invalid_token\""), "{what}");
        let part = token.split('.').nth(2).unwrap_or_default();
        assert!(part.len() < 8 || !answer.text().contains(part), "{what}: the token is in the answer");
    }
    given.app.stop().await;
}

#[actix_web::test]
async fn times_have_a_leeway_and_audiences_may_be_several() {
    let given = Given::with(SigningKey::p256()).await;
    for (claim, value) in [
        ("exp", json!(NOON - 59)),
        ("exp", json!(1_795_348_800.5)),
        ("nbf", json!(NOON + 60)),
        ("aud", json!(["console", "mediary"])),
    ] {
        assert_eq!(given.status(&given.token(&given.but(claim, value.clone()))).await, 200, "{claim} {value}");
    }
    let token = given.token(&given.claims());
    given.environment.advance(Duration::from_secs(359));
    assert_eq!(given.status(&token).await, 200);
    given.environment.advance(Duration::from_secs(1));
    assert_eq!(given.status(&token).await, 401);
    given.app.stop().await;
}

#[actix_web::test]
async fn names_that_do_not_fit_or_are_not_verified_are_left_out() {
    let given = Given::with(SigningKey::p256()).await;
    let me = |number: u32, more: Value| {
        let mut claims = given.but("sub", json!(format!("n-{number}")));
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let token = given.token(&claims);
        async { given.app.get_as(&{ token }, "/users").await.expect(200).json() }
    };
    let unverified = me(1, json!({"email_verified": false, "name": 5, "preferred_username": "ada"})).await;
    assert_eq!((unverified.get("email"), &unverified["name"]), (None, &json!("ada")));
    let long = me(2, json!({"email": "e".repeat(400), "name": "n".repeat(400)})).await;
    assert_eq!((long.get("email"), long.get("name")), (None, None));
    given.app.stop().await;
}

#[actix_web::test]
async fn the_banned_stay_banned_and_the_erased_come_back_as_somebody_new() {
    let given = Given::with(SigningKey::p256()).await;
    let (app, admin) = (&given.app, given.app.admin_token());
    let first = given.me(&given.claims()).await;
    let id = first["id"].as_str().unwrap();
    let token = given.token(&given.claims());

    app.post_as(admin, &format!("/admin/users/{id}/ban"), json!({"reason": "spam"})).await.expect(204);
    let refused = app.post_as(&token, "/publishers", json!({"id": "acme", "name": "A"})).await.expect(403);
    assert_eq!(refused.json()["error"], "banned");
    app.post_as(admin, &format!("/admin/users/{id}/unban"), json!({"reason": "sorry"})).await.expect(204);
    app.delete_as(admin, &format!("/admin/users/{id}")).await.expect(204);

    let again = given.me(&given.claims()).await;
    assert_ne!(again["id"], first["id"]);
    assert_eq!((&again["name"], &again["isApproved"]), (&json!("Ada"), &json!(false)));
    assert_eq!(given.me(&given.claims()).await["id"], again["id"]);
    given.app.stop().await;
}

#[actix_web::test]
async fn who_erases_an_account_has_not_the_whole_day_again() {
    // Given a quota of two tasks a day, and a user who submits one and erases the account, twice
    let given = Given::limited(SigningKey::p256(), |limits| limits.submissions_per_day = 2).await;
    let job = || json!({"image": base64_png(8, 8)});
    let submit = async |token: &str| given.app.post_as(token, UPSCALER, job()).await;
    let token = given.token(&given.claims());
    for left in ["r=1", "r=0"] {
        let told = submit(&token).await.expect(200);
        assert!(told.header("ratelimit").is_some_and(|told| told.contains(left)), "{:?}", told.header("ratelimit"));
        given.app.delete_as(&token, "/users").await.expect(204);
    }
    // When the next account submits, then the quota is used up; other users have their own
    assert_eq!(submit(&token).await.expect(429).json()["error"], "quota_exceeded");
    submit(&given.token(&given.but("sub", json!("u-2")))).await.expect(200);
    // And the next day has two again
    given.environment.advance(Duration::from_hours(24));
    let tomorrow = given.token(&given.but("exp", json!(NOON + 25 * 3600)));
    submit(&tomorrow).await.expect(200);
    submit(&tomorrow).await.expect(200);
    given.app.stop().await;
}

#[actix_web::test]
async fn who_erases_an_account_goes_on_with_the_same_rate() {
    let one = RateSetting { per_minute: 1, burst: 1 };
    let given = Given::limited(SigningKey::p256(), |limits| limits.reads = one).await;
    let token = given.token(&given.claims());
    assert_eq!(given.status(&token).await, 200);
    given.app.delete_as(&token, "/users").await.expect(204);
    assert_eq!(given.status(&token).await, 429);
    given.app.stop().await;
}

#[actix_web::test]
async fn new_keys_are_asked_for_but_forged_tokens_do_not_have_them_asked_for_again_and_again() {
    let given = Given::with(SigningKey::p256()).await;
    let good = given.token(&given.claims());
    assert_eq!(given.status(&good).await, 200);
    assert_eq!(given.issuer.asked(), 1);

    // Unknown key ids cause one request to the issuer, however many forged tokens arrive.
    given.environment.advance(Duration::from_secs(30));
    let forger = SigningKey::p256();
    for number in 0..20 {
        assert_eq!(given.status(&forger.token(&format!("forged-{number}"), &given.claims())).await, 401);
    }
    assert_eq!(given.issuer.asked(), 2);
    // Tokens with invalid claims cause no request at all.
    given.environment.advance(Duration::from_secs(30));
    assert_eq!(given.status(&forger.token("x", &given.but("aud", json!("other")))).await, 401);
    assert_eq!(given.issuer.asked(), 2);
    // The issuer rotates its key: the first token with the new key causes a request.
    let next = SigningKey::rsa();
    given.issuer.publish(&[given.key.public("1"), next.public("2")]);
    assert_eq!(given.status(&next.token("2", &given.claims())).await, 200);
    assert_eq!((given.status(&good).await, given.issuer.asked()), (200, 3));
    given.app.stop().await;
}

#[actix_web::test]
async fn an_issuer_that_is_away_keeps_nobody_out_whose_keys_are_known() {
    let given = Given::with(SigningKey::p256()).await;
    let of = |seconds: i64| given.token(&given.but("exp", json!(NOON + seconds)));
    given.issuer.go_away(true);
    let refused = given.app.get_as(&of(300), "/users").await.expect(503);
    assert_eq!(
        (refused.json()["error"].clone(), refused.header("retry-after")),
        (json!("issuer_unavailable"), Some("5"))
    );
    // The service asks the issuer again after 5 s; `Retry-After` is the remaining time.
    given.environment.advance(Duration::from_millis(2500));
    let refused = given.app.get_as(&of(300), "/users").await.expect(503);
    assert_eq!(refused.header("retry-after"), Some("3"));
    let fetches = async |outcome: &str, number: u32| {
        let line = format!("mediary_issuer_key_fetches_total{{outcome=\"{outcome}\"}} {number}\n");
        let told = given.app.get("/metrics").await.expect(200).text();
        assert!(told.contains(&line), "{line} is not in: {told}");
    };
    fetches("failed", 1).await;
    fetches("ok", 0).await;
    // Other users are not affected.
    given.app.get_as(given.app.admin_token(), "/users").await.expect(200);
    given.issuer.go_away(false);
    given.environment.advance(Duration::from_secs(5));
    assert_eq!(given.status(&of(300)).await, 200);
    fetches("ok", 1).await;
    // Hours later, with expired keys and an unreachable issuer.
    given.issuer.go_away(true);
    given.environment.advance(Duration::from_hours(5));
    for _ in 0..3 {
        assert_eq!(given.status(&of(6 * 3600)).await, 200);
    }
    given.app.stop().await;
}

#[actix_web::test]
async fn a_lost_key_of_their_ids_does_not_make_everybody_somebody_new() {
    // Given a banned user with an account of the issuer
    let given = Given::with(SigningKey::p256()).await;
    let banned = given.me(&given.claims()).await;
    let path = format!("/admin/users/{}/ban", banned["id"].as_str().unwrap());
    given.app.post_as(given.app.admin_token(), &path, json!({"reason": "spam"})).await.expect(204);
    let (token, settings) = (given.token(&given.claims()), given.settings());
    let Given { environment, app, .. } = given;
    let dir = app.stop().await;
    // When the key is lost, then the service does not start, and names the key, the affected accounts and the remedy
    let key = dir.path().join("url-key");
    let kept = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    let refused = App::start(crate::support::settings(&dir), environment.clone()).await.err().expect("it is refused");
    let told = refused.to_string();
    for word in [key.to_str().unwrap(), banned["id"].as_str().unwrap(), "banned", "mediary restore", "umask 077"] {
        assert!(told.contains(word), "{word} is not in: {told}");
    }
    assert!(!key.exists());
    // When it is restored, then so are the accounts, still banned
    fs::write(&key, &kept).unwrap();
    let app = TestApp::start_in(dir, |all| all.auth.oidc = Some(settings), environment).await;
    assert_eq!(app.get_as(&token, "/users").await.expect(200).json()["id"], banned["id"]);
    app.post_as(&token, "/publishers", json!({"id": "acme", "name": "A"})).await.expect(403);
    app.stop().await;
}

#[actix_web::test]
async fn where_nobody_came_from_an_issuer_a_lost_key_is_made_anew_and_one_made_by_hand_is_taken() {
    // Given accounts created by administrators
    let app = TestApp::start().await;
    app.user("ada").await;
    let dir = app.stop().await;
    let key = dir.path().join("url-key");
    fs::remove_file(&key).unwrap();
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    let dir = app.stop().await;
    // And the instructions of the error message work
    let made = format!("(umask 077; printf 'mduk_%s\\n' \"$(head -c 32 /dev/urandom | base64)\" > {})", key.display());
    assert!(Command::new("sh").args(["-c", &made]).status().unwrap().success());
    TestApp::start_in(dir, |_| {}, Environment::system()).await.stop().await;
}

#[actix_web::test]
async fn without_an_issuer_such_a_token_is_like_any_other_that_nobody_knows() {
    let key = SigningKey::p256();
    let app = TestApp::start().await;
    app.get_as(&key.token("1", &json!({"iss": "x"})), "/users").await.expect(401);
    app.stop().await;
}
