//! S3 server in memory (moto) as a process. `tests/cluster/run` provides the program.

use std::net::{SocketAddr, TcpStream};

use mediary::config::{BucketLocation, S3Settings, Settings, SharedFiles};
use mediary::file_tree::Bucket;
use mediary::outbound::bucket_client::{BucketCredentials, BucketEndpoint, open_bucket};
use reqwest::Method;
use tempfile::TempDir;

use super::client;
use super::engine_proxy::EngineProxy;
use super::eventually::{eventually_blocking, within};
use super::nats_servers::free_ports;
use super::server_process::ServerProcess;

/// Environment variable with the path of `moto_server`.
const PROGRAM: &str = "MEDIARY_TEST_S3_SERVER";
/// Authorization from which the server learns that a request is for S3. It does not check signatures.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request";
/// Content of the credentials file of the nodes.
const CREDENTIALS: &str = "aws_access_key_id = test\naws_secret_access_key = hunter2-secret\n";

/// Server, and the network between it and the nodes.
pub struct S3Server {
    address: SocketAddr,
    pub network: EngineProxy,
    credentials: TempDir,
    _process: ServerProcess,
}

impl S3Server {
    /// Starts a server without buckets.
    pub fn start() -> Self {
        let program = std::env::var_os(PROGRAM)
            .unwrap_or_else(|| panic!("{PROGRAM} must be the path of moto_server; tests/cluster/run sets it"));
        let port = free_ports(1)[0];
        let script = r#""$0" -H 127.0.0.1 -p "$1" </dev/null >/dev/null 2>&1 & echo $!; read -r _; kill -9 $!; wait"#;
        let process = ServerProcess::start(script, [program, port.to_string().into()]);

        let address = SocketAddr::from(([127, 0, 0, 1], port));
        eventually_blocking("the S3 server accepts connections", || TcpStream::connect(address).is_ok());
        let credentials = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(credentials.path().join("key"), CREDENTIALS).expect("a writable directory");
        Self { address, network: EngineProxy::start(&[address]), credentials, _process: process }
    }

    async fn send(&self, method: Method, path: &str, body: &'static str) {
        let url = format!("http://{}/{path}", self.address);
        let request = client().request(method, url).header("authorization", AUTHORIZATION).body(body);
        let response = within(path, request.header("content-length", body.len()).send()).await.expect("a response");
        assert!(response.status().is_success(), "{path}: {}", response.text().await.unwrap_or_default());
    }

    /// Creates a bucket.
    pub async fn create_bucket(&self, name: &str) {
        self.send(Method::PUT, name, "").await;
    }

    /// Makes a bucket keep old versions of its objects.
    pub async fn enable_versioning(&self, name: &str) {
        let body = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        self.send(Method::PUT, &format!("{name}?versioning"), body).await;
    }

    /// Returns a client of a part of a bucket; it bypasses the network that can be cut.
    pub fn bucket(&self, bucket: &str, prefix: &str) -> Bucket {
        let credentials =
            BucketCredentials { key_id: "test".to_owned(), secret_key: "x".to_owned(), session_token: None };
        let endpoint = BucketEndpoint {
            bucket: bucket.to_owned(),
            region: "us-east-1".to_owned(),
            endpoint: Some(format!("http://{}", self.address)),
            credentials,
        };
        let store = open_bucket(&endpoint).expect("a client");
        Bucket::new(store, prefix, format!("s3://{bucket}/{prefix}")).expect("a thread")
    }

    /// Makes a part of a bucket the shared files of a cluster in `settings`.
    pub fn set_files(&self, settings: &mut Settings, bucket: &str, prefix: &str) {
        let location = BucketLocation { bucket: bucket.to_owned(), prefix: prefix.to_owned() };
        settings.cluster.files = Some(SharedFiles::Bucket(location));
        settings.cluster.s3 = S3Settings {
            endpoint: Some(format!("http://{}", self.network.addresses()[0])),
            region: "us-east-1".to_owned(),
            credentials: Some(self.credentials.path().join("key")),
        };
    }
}
