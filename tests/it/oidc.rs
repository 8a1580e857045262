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
use crate::support::issuer::{SigningKey, TestIssuer, base64url};
use crate::support::picture::base64_png;
use crate::video::{START_END, of_prompt};

/// Noon, in seconds since 1970.
const NOON: i64 = 1_795_348_800;

struct OidcFixture {
    issuer: TestIssuer,
    key: SigningKey,
    environment: Environment,
    app: TestApp,
}

fn settings_of(issuer: &TestIssuer) -> OidcSettings {
    OidcSettings { issuer: issuer.url(), audience: "mediary".to_owned(), client_id: None, jwks_url: None }
}

impl OidcFixture {
    async fn with_key(key: SigningKey) -> Self {
        Self::limited(key, |_| {}).await
    }

    async fn limited(key: SigningKey, limit: impl FnOnce(&mut LimitSettings)) -> Self {
        let issuer = TestIssuer::start(&[key.public_jwk("1")]).await;
        let environment = Environment::manual(Timestamp::from_micros(NOON * 1_000_000), 7);
        let settings = settings_of(&issuer);
        let change = |all_settings: &mut Settings| {
            all_settings.auth.oidc = Some(settings);
            limit(&mut all_settings.limits);
        };
        let app = TestApp::start_with(change, environment.clone()).await;
        Self { issuer, key, environment, app }
    }

    fn settings(&self) -> OidcSettings {
        settings_of(&self.issuer)
    }

    /// Returns the claims of a valid token.
    fn claims(&self) -> Value {
        json!({"iss": self.issuer.url(), "sub": "u-1", "aud": "mediary", "exp": NOON + 300, "iat": NOON,
            "name": "Ada", "email": "ada@example.org"})
    }

    /// Returns the claims with one changed; `null` removes it.
    fn claims_with(&self, claim: &str, value: Value) -> Value {
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
async fn the_first_oidc_request_creates_an_account() {
    for key in [SigningKey::rsa(), SigningKey::p256()] {
        let fixture = OidcFixture::with_key(key).await;

        let first = fixture.me(&fixture.claims()).await;
        assert_eq!((&first["name"], &first["email"]), (&json!("Ada"), &json!("ada@example.org")));
        assert_eq!((&first["isAdmin"], &first["isApproved"]), (&json!(false), &json!(false)));
        // The same account, even if the issuer now sends another name; another subject has another account.
        assert_eq!(fixture.me(&fixture.claims_with("name", json!("Countess"))).await, first);
        assert_ne!(fixture.me(&fixture.claims_with("sub", json!("u-2"))).await["id"], first["id"]);
        // The account has the rights of a user.
        let token = fixture.token(&fixture.claims());
        fixture.app.post_as(&token, "/publishers", json!({"id": "acme", "name": "Acme"})).await.expect(201);
        // The history names the service as creator, with the request.
        let path = format!("/admin/history/user/{}", first["id"].as_str().unwrap());
        let history = fixture.app.get_as(fixture.app.admin_token(), &path).await.expect(200).text();
        assert!(history.contains("UserCreated") && history.contains("system"), "{history}");
        assert!(!history.contains("u-1"), "the subject at the issuer was recorded: {history}");
        fixture.app.stop().await;
    }
}

#[actix_web::test]
async fn concurrent_first_requests_create_one_account() {
    let fixture = OidcFixture::with_key(SigningKey::p256()).await;
    let token = fixture.token(&fixture.claims());

    let responses = futures_util::future::join_all((0..8).map(|_| fixture.app.get_as(&token, "/users"))).await;

    let first = responses[0].json();
    assert!(responses.iter().all(|answer| answer.status == 200 && answer.json() == first));
    let OidcFixture { issuer, environment, app, .. } = fixture;
    let settings = OidcSettings { jwks_url: Some(format!("{}/keys", issuer.url())), ..settings_of(&issuer) };
    let app =
        TestApp::start_in(app.stop().await, |settings_ref| settings_ref.auth.oidc = Some(settings), environment).await;
    assert_eq!(app.get_as(&token, "/users").await.expect(200).json(), first);
    app.stop().await;
}

#[actix_web::test]
async fn invalid_oidc_tokens_are_rejected() {
    let fixture = OidcFixture::with_key(SigningKey::rsa()).await;
    let (valid_claims, foreign_key) = (fixture.claims(), SigningKey::p256());
    assert_eq!(fixture.status(&fixture.token(&valid_claims)).await, 200);

    let [header, claims, signature] = {
        let token = fixture.token(&valid_claims);
        let mut parts = token.split('.').map(str::to_owned);
        [parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap()]
    };
    let unsigned =
        |alg: &str| format!("{}.{claims}.", base64url(json!({"alg": alg, "kid": "1"}).to_string().as_bytes()));
    // The public key, in the forms that a verifier might mistake for a shared secret.
    let keyed = |secret: &[u8]| {
        let signing_input =
            format!("{}.{claims}", base64url(json!({"alg": "HS256", "kid": "1"}).to_string().as_bytes()));
        let code = Hmac::<Sha256>::new_from_slice(secret).unwrap().chain_update(&signing_input).finalize().into_bytes();
        format!("{signing_input}.{}", base64url(&code))
    };

    let other_claims = base64url(fixture.claims_with("sub", json!("admin")).to_string().as_bytes());
    let invalid_tokens = [
        ("alg none", unsigned("none")),
        ("alg none in another case", unsigned("nOnE")),
        ("no signature", format!("{header}.{claims}.")),
        ("HS256 with the modulus", keyed(&fixture.key.modulus())),
        ("HS256 with the set of keys", keyed(fixture.key.public_jwk("1").to_string().as_bytes())),
        ("other claims under the signature", format!("{header}.{other_claims}.{signature}")),
        ("signed with a foreign key", foreign_key.token("1", &valid_claims)),
        (
            "signed with a foreign key, with alg RS256",
            foreign_key.token_with(&json!({"alg": "RS256", "kid": "1"}), &valid_claims),
        ),
        ("an unknown key", fixture.key.token("2", &valid_claims)),
        (
            "a key in the header",
            fixture.key.token_with(&json!({"alg": "ES256", "jwk": foreign_key.public_jwk("1")}), &valid_claims),
        ),
        (
            "an extension that must be understood",
            fixture.key.token_with(&json!({"alg": "RS256", "kid": "1", "crit": ["x"]}), &valid_claims),
        ),
        ("another issuer", fixture.token(&fixture.claims_with("iss", json!("http://127.0.0.1:1")))),
        (
            "an issuer that begins so",
            fixture.token(&fixture.claims_with("iss", json!(format!("{}/", fixture.issuer.url())))),
        ),
        ("another audience", fixture.token(&fixture.claims_with("aud", json!("console")))),
        ("other audiences", fixture.token(&fixture.claims_with("aud", json!(["a", "b"])))),
        ("expired, more than the leeway ago", fixture.token(&fixture.claims_with("exp", json!(NOON - 60)))),
        ("not valid yet", fixture.token(&fixture.claims_with("nbf", json!(NOON + 61)))),
        ("an empty subject", fixture.token(&fixture.claims_with("sub", json!("")))),
        ("a long subject", fixture.token(&fixture.claims_with("sub", json!("s".repeat(256))))),
        ("times as text", fixture.token(&fixture.claims_with("exp", json!("never")))),
        ("huge", fixture.token(&fixture.claims_with("groups", json!("g".repeat(16 * 1024))))),
        ("no base64", format!("{header}.{claims}.!")),
        ("no JSON", format!("{}.{claims}.{signature}", base64url(b"{"))),
        ("empty parts", "..".to_owned()),
    ];

    let missing =
        ["iss", "sub", "aud", "exp"].map(|claim| (claim, fixture.token(&fixture.claims_with(claim, Value::Null))));
    for (label, token) in invalid_tokens.into_iter().chain(missing) {
        let response = fixture.app.get_as(&token, "/users").await;
        assert_eq!((label, response.status), (label, 401));
        assert_eq!(response.header("www-authenticate"), Some("Bearer error=\"invalid_token\""), "{label}");
        let part = token.split('.').nth(2).unwrap_or_default();
        assert!(part.len() < 8 || !response.text().contains(part), "{label}: the token is in the answer");
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn claims_allow_clock_skew_and_several_audiences() {
    let fixture = OidcFixture::with_key(SigningKey::p256()).await;
    for (claim, value) in [
        ("exp", json!(NOON - 59)),
        ("exp", json!(1_795_348_800.5)),
        ("nbf", json!(NOON + 60)),
        ("aud", json!(["console", "mediary"])),
    ] {
        assert_eq!(
            fixture.status(&fixture.token(&fixture.claims_with(claim, value.clone()))).await,
            200,
            "{claim} {value}"
        );
    }

    let token = fixture.token(&fixture.claims());
    fixture.environment.advance(Duration::from_secs(359));
    assert_eq!(fixture.status(&token).await, 200);
    fixture.environment.advance(Duration::from_secs(1));
    assert_eq!(fixture.status(&token).await, 401);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn invalid_names_and_unverified_emails_are_ignored() {
    let fixture = OidcFixture::with_key(SigningKey::p256()).await;
    let me = |number: u32, extra_claims: Value| {
        let mut claims = fixture.claims_with("sub", json!(format!("n-{number}")));
        claims.as_object_mut().unwrap().extend(extra_claims.as_object().unwrap().clone());
        let token = fixture.token(&claims);
        async { fixture.app.get_as(&{ token }, "/users").await.expect(200).json() }
    };
    let unverified = me(1, json!({"email_verified": false, "name": 5, "preferred_username": "ada"})).await;
    assert_eq!((unverified.get("email"), &unverified["name"]), (None, &json!("ada")));

    let long = me(2, json!({"email": "e".repeat(400), "name": "n".repeat(400)})).await;
    assert_eq!((long.get("email"), long.get("name")), (None, None));
    fixture.app.stop().await;
}

#[actix_web::test]
async fn bans_persist_and_erased_users_get_a_new_account() {
    let fixture = OidcFixture::with_key(SigningKey::p256()).await;
    let (app, admin) = (&fixture.app, fixture.app.admin_token());
    let first = fixture.me(&fixture.claims()).await;
    let id = first["id"].as_str().unwrap();
    let token = fixture.token(&fixture.claims());

    app.post_as(admin, &format!("/admin/users/{id}/ban"), json!({"reason": "spam"})).await.expect(204);
    let problem = app.post_as(&token, "/publishers", json!({"id": "acme", "name": "A"})).await.expect(403);
    assert_eq!(problem.json()["error"], "banned");
    app.post_as(admin, &format!("/admin/users/{id}/unban"), json!({"reason": "sorry"})).await.expect(204);
    app.delete_as(admin, &format!("/admin/users/{id}")).await.expect(204);

    let new_account = fixture.me(&fixture.claims()).await;
    assert_ne!(new_account["id"], first["id"]);
    assert_eq!((&new_account["name"], &new_account["isApproved"]), (&json!("Ada"), &json!(false)));
    assert_eq!(fixture.me(&fixture.claims()).await["id"], new_account["id"]);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn erasing_an_account_does_not_reset_daily_quotas() {
    // Given a quota of two tasks a day, and a user who submits one and erases the account, twice
    let fixture = OidcFixture::limited(SigningKey::p256(), |limits| limits.submissions_per_day = 2).await;
    let job = || json!({"image": base64_png(8, 8)});
    let submit = async |token: &str| fixture.app.post_as(token, UPSCALER, job()).await;
    let token = fixture.token(&fixture.claims());
    for left in ["r=1", "r=0"] {
        let actual = submit(&token).await.expect(200);
        assert!(actual.header("ratelimit").is_some_and(|told| told.contains(left)), "{:?}", actual.header("ratelimit"));
        fixture.app.delete_as(&token, "/users").await.expect(204);
    }

    // When the next account submits, then the quota is used up; other users have their own
    assert_eq!(submit(&token).await.expect(429).json()["error"], "quota_exceeded");
    submit(&fixture.token(&fixture.claims_with("sub", json!("u-2")))).await.expect(200);

    // And the next day has two again
    fixture.environment.advance(Duration::from_hours(24));
    let tomorrow = fixture.token(&fixture.claims_with("exp", json!(NOON + 25 * 3600)));
    submit(&tomorrow).await.expect(200);
    submit(&tomorrow).await.expect(200);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn erasing_an_account_does_not_reset_a_budget() {
    // Given a user with a budget for two videos, who submits one and erases the account
    let fixture = OidcFixture::with_key(SigningKey::p256()).await;
    let app = &fixture.app;
    let admin = fixture.app.admin_token();
    let token = fixture.token(&fixture.claims());
    let user = fixture.me(&fixture.claims()).await;
    let budget = format!("/admin/budgets/user/{}", user["id"].as_str().expect("an id"));
    app.put_as(admin, &budget, json!({"credits": 16, "period": "total"})).await.expect(200);
    app.post_as(&token, START_END, of_prompt("first")).await.expect(200);
    app.delete_as(&token, "/users").await.expect(204);

    // Then the next account has the rest
    app.post_as(&token, START_END, of_prompt("second")).await.expect(200);
    let refused = app.post_as(&token, START_END, of_prompt("third")).await.expect(402).json();
    assert_eq!(refused["subject"], json!({"kind": "user", "id": user["id"]}));
    let credits = app.get_as(&token, "/users/credits").await.expect(200).json();
    assert_eq!(credits["budgets"][0]["subject"]["id"], user["id"]);

    // And administrators raise it, although the account is erased
    app.put_as(admin, &budget, json!({"credits": 24, "period": "total"})).await.expect(200);
    app.post_as(&token, START_END, of_prompt("third")).await.expect(200);
    let used = app.get_as(admin, &budget).await.expect(200).json();
    let total = ["held", "spent"].map(|sum| used[sum].as_u64().expect("credits")).iter().sum::<u64>();
    assert_eq!(total, 24);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn erasing_an_account_does_not_reset_rate_limits() {
    let one_per_minute = RateSetting { per_minute: 1, burst: 1 };
    let fixture = OidcFixture::limited(SigningKey::p256(), |limits| limits.reads = one_per_minute).await;
    let token = fixture.token(&fixture.claims());
    assert_eq!(fixture.status(&token).await, 200);
    fixture.app.delete_as(&token, "/users").await.expect(204);
    assert_eq!(fixture.status(&token).await, 429);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn issuer_keys_are_refreshed_at_a_limited_rate() {
    let fixture = OidcFixture::with_key(SigningKey::p256()).await;
    let valid_token = fixture.token(&fixture.claims());
    assert_eq!(fixture.status(&valid_token).await, 200);
    assert_eq!(fixture.issuer.key_request_count(), 1);

    // Unknown key ids cause one request to the issuer, however many forged tokens arrive.
    fixture.environment.advance(Duration::from_secs(30));
    let forger = SigningKey::p256();
    for index in 0..20 {
        assert_eq!(fixture.status(&forger.token(&format!("forged-{index}"), &fixture.claims())).await, 401);
    }
    assert_eq!(fixture.issuer.key_request_count(), 2);
    // Tokens with invalid claims cause no request at all.
    fixture.environment.advance(Duration::from_secs(30));
    assert_eq!(fixture.status(&forger.token("x", &fixture.claims_with("aud", json!("other")))).await, 401);
    assert_eq!(fixture.issuer.key_request_count(), 2);
    // The issuer rotates its key: the first token with the new key causes a request.
    let next = SigningKey::rsa();
    fixture.issuer.publish(&[fixture.key.public_jwk("1"), next.public_jwk("2")]);
    assert_eq!(fixture.status(&next.token("2", &fixture.claims())).await, 200);
    assert_eq!((fixture.status(&valid_token).await, fixture.issuer.key_request_count()), (200, 3));
    fixture.app.stop().await;
}

#[actix_web::test]
async fn known_keys_work_while_the_issuer_is_down() {
    let fixture = OidcFixture::with_key(SigningKey::p256()).await;
    let token_expiring_after = |seconds: i64| fixture.token(&fixture.claims_with("exp", json!(NOON + seconds)));
    fixture.issuer.set_unavailable(true);
    let problem = fixture.app.get_as(&token_expiring_after(300), "/users").await.expect(503);
    assert_eq!(
        (problem.json()["error"].clone(), problem.header("retry-after")),
        (json!("issuer_unavailable"), Some("5"))
    );
    // The service asks the issuer again after 5 s; `Retry-After` is the remaining time.
    fixture.environment.advance(Duration::from_millis(2500));
    let problem = fixture.app.get_as(&token_expiring_after(300), "/users").await.expect(503);
    assert_eq!(problem.header("retry-after"), Some("3"));

    let fetches = async |outcome: &str, count: u32| {
        let line = format!("mediary_issuer_key_fetches_total{{outcome=\"{outcome}\"}} {count}\n");
        let actual = fixture.app.get("/metrics").await.expect(200).text();
        assert!(actual.contains(&line), "{line} is not in: {actual}");
    };
    fetches("failed", 1).await;
    fetches("ok", 0).await;
    // Other users are not affected.
    fixture.app.get_as(fixture.app.admin_token(), "/users").await.expect(200);
    fixture.issuer.set_unavailable(false);
    fixture.environment.advance(Duration::from_secs(5));
    assert_eq!(fixture.status(&token_expiring_after(300)).await, 200);
    fetches("ok", 1).await;
    // Hours later, with expired keys and an unreachable issuer.
    fixture.issuer.set_unavailable(true);
    fixture.environment.advance(Duration::from_hours(5));
    for _ in 0..3 {
        assert_eq!(fixture.status(&token_expiring_after(6 * 3600)).await, 200);
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_missing_url_key_fails_the_start_if_oidc_accounts_exist() {
    // Given a banned user with an account of the issuer
    let fixture = OidcFixture::with_key(SigningKey::p256()).await;
    let banned = fixture.me(&fixture.claims()).await;
    let path = format!("/admin/users/{}/ban", banned["id"].as_str().unwrap());
    fixture.app.post_as(fixture.app.admin_token(), &path, json!({"reason": "spam"})).await.expect(204);
    let (token, settings) = (fixture.token(&fixture.claims()), fixture.settings());
    let OidcFixture { environment, app, .. } = fixture;
    let dir = app.stop().await;

    // When the key is lost, then the service does not start, and names the key, the affected accounts and the remedy
    let key = dir.path().join("url-key");
    let key_bytes = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    let start_error =
        App::start(crate::support::settings(&dir), environment.clone()).await.err().expect("it is refused");
    let message = start_error.to_string();
    for expected_text in
        [key.to_str().unwrap(), banned["id"].as_str().unwrap(), "banned", "mediary restore", "umask 077"]
    {
        assert!(message.contains(expected_text), "{expected_text} is not in: {message}");
    }
    assert!(!key.exists());

    // When it is restored, then so are the accounts, still banned
    fs::write(&key, &key_bytes).unwrap();
    let app = TestApp::start_in(dir, |settings_ref| settings_ref.auth.oidc = Some(settings), environment).await;
    assert_eq!(app.get_as(&token, "/users").await.expect(200).json()["id"], banned["id"]);
    app.post_as(&token, "/publishers", json!({"id": "acme", "name": "A"})).await.expect(403);
    app.stop().await;
}

#[actix_web::test]
async fn a_missing_url_key_is_recreated_without_oidc_accounts() {
    // Given accounts created by administrators
    let app = TestApp::start().await;
    app.user("ada").await;
    let dir = app.stop().await;
    let key = dir.path().join("url-key");
    fs::remove_file(&key).unwrap();
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    let dir = app.stop().await;

    // And the instructions of the error message work
    let command_line =
        format!("(umask 077; printf 'mduk_%s\\n' \"$(head -c 32 /dev/urandom | base64)\" > {})", key.display());
    assert!(Command::new("sh").args(["-c", &command_line]).status().unwrap().success());
    TestApp::start_in(dir, |_| {}, Environment::system()).await.stop().await;
}

#[actix_web::test]
async fn without_an_issuer_jwts_are_unknown_tokens() {
    let key = SigningKey::p256();
    let app = TestApp::start().await;
    app.get_as(&key.token("1", &json!({"iss": "x"})), "/users").await.expect(401);
    app.stop().await;
}
