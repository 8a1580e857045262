//! OIDC issuer: its discovery document, its keys, and tokens signed with its keys or with those of a forger.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// RSA key for these tests only. It is stored because generating one takes seconds.
const RSA_KEY: &str = include_str!("../../golden/oidc/rsa-key.base64");

/// Signing key.
pub enum SigningKey {
    Rsa(Box<RsaKeyPair>),
    P256(Box<EcdsaKeyPair>),
}

impl SigningKey {
    /// Returns the same key every time.
    pub fn rsa() -> Self {
        let key = STANDARD.decode(RSA_KEY.replace('\n', "")).expect("base64");
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(&key).expect("a key")))
    }

    /// Generates a new key.
    pub fn p256() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random);
        Self::P256(Box::new(key.expect("a key")))
    }

    pub fn algorithm(&self) -> &'static str {
        if matches!(self, Self::Rsa(_)) { "RS256" } else { "ES256" }
    }

    /// Returns the public key, as an entry of a JWK set.
    pub fn public_jwk(&self, id: &str) -> Value {
        match self {
            Self::Rsa(key) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = key.public().into();
                json!({"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": base64url(&n), "e": base64url(&e)})
            }
            Self::P256(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (base64url(&point[1..33]), base64url(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y})
            }
        }
    }

    /// Returns the modulus: the public part of an RSA key, which a faulty verifier would take for a shared secret.
    pub fn modulus(&self) -> Vec<u8> {
        let Self::Rsa(key) = self else { return Vec::new() };
        let RsaPublicKeyComponents::<Vec<u8>> { n, .. } = key.public().into();
        n
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).expect("a signature");
                signature
            }
            Self::P256(key) => key.sign(&random, message).expect("a signature").as_ref().to_vec(),
        }
    }

    /// Returns a token with any header and claims, signed with this key.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signing_input =
            format!("{}.{}", base64url(header.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
        let signature = base64url(&self.sign(signing_input.as_bytes()));
        format!("{signing_input}.{signature}")
    }

    /// Returns a token with the usual header, as the issuer signs it.
    pub fn token(&self, id: &str, claims: &Value) -> String {
        self.token_with(&json!({"typ": "JWT", "alg": self.algorithm(), "kid": id}), claims)
    }
}

/// Encodes bytes in base64 as in tokens: URL-safe and without padding.
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[derive(Default)]
struct IssuerState {
    keys: Vec<Value>,
    is_unavailable: bool,
    /// Number of requests for the keys.
    key_requests: usize,
}

/// Issuer that listens until the test ends.
pub struct TestIssuer {
    address: SocketAddr,
    state: Arc<Mutex<IssuerState>>,
}

impl TestIssuer {
    /// Starts an issuer that publishes these keys.
    pub async fn start(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(IssuerState { keys: keys.to_vec(), ..IssuerState::default() }));
        let shared_state = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = respond(stream, address, &shared_state).await;
            }
        });
        Self { address, state }
    }

    /// Returns the issuer URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces the published keys.
    pub fn publish(&self, keys: &[Value]) {
        self.state.lock().keys = keys.to_vec();
    }

    /// Makes every request get a 503, or ends that.
    pub fn set_unavailable(&self, is_unavailable: bool) {
        self.state.lock().is_unavailable = is_unavailable;
    }

    /// Returns the number of requests for the keys.
    pub fn key_request_count(&self) -> usize {
        self.state.lock().key_requests
    }
}

/// Reads one request, responds to it, and closes the connection.
async fn respond(mut stream: TcpStream, address: SocketAddr, state: &Mutex<IssuerState>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&bytes).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, body) = {
        let mut state = state.lock();
        state.key_requests += usize::from(path == "/keys");
        match path {
            _ if state.is_unavailable => (503, json!({})),
            "/.well-known/openid-configuration" => {
                (200, json!({"issuer": format!("http://{address}"), "jwks_uri": format!("http://{address}/keys")}))
            }
            "/keys" => (200, json!({"keys": state.keys})),
            _ => (404, json!({})),
        }
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await
}
