//! The location of the settings that all nodes use, and the files of a data directory that it may have.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use crate::cluster::membership::{LocationKind, Membership};
use crate::cluster::shared_location::SharedLocation;
use crate::config::{BucketLocation, ClusterSettings, S3Settings, SharedFiles};
use crate::data_dir::read_private;
use crate::environment::Environment;
use crate::file_tree::{Bucket, FileTree};
use crate::outbound::bucket_client::{BucketCredentials, BucketEndpoint, open_bucket};

/// Names of an access key in a credentials file of AWS. In the environment, they are in upper case.
const KEY_ID: &str = "aws_access_key_id";
const SECRET_KEY: &str = "aws_secret_access_key";
const SESSION_TOKEN: &str = "aws_session_token";

/// Opens the location of the settings that all nodes use. Sends nothing.
///
/// # Errors
/// If the settings name none, or the credentials of the bucket are missing or malformed.
pub(super) fn open_location(settings: &ClusterSettings) -> anyhow::Result<SharedLocation> {
    match &settings.files {
        Some(SharedFiles::Directory(directory)) => Ok(SharedLocation::Directory(directory.clone())),
        Some(SharedFiles::Bucket(location)) => Ok(SharedLocation::Bucket(open(location, &settings.s3)?)),
        None => anyhow::bail!("cluster.files is not set"),
    }
}

fn open(location: &BucketLocation, settings: &S3Settings) -> anyhow::Result<Arc<Bucket>> {
    let S3Settings { endpoint, region, credentials } = settings;
    let credentials = match credentials {
        Some(path) => credentials_in(path)?,
        None => credentials_from(|name| std::env::var(name.to_ascii_uppercase()).ok()).context(
            "cluster.s3_credentials is empty, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not in the environment: set \
             the path of a file with the access key of the bucket",
        )?,
    };

    let BucketLocation { bucket, prefix } = location;
    let endpoint =
        BucketEndpoint { bucket: bucket.clone(), region: region.clone(), endpoint: endpoint.clone(), credentials };
    let store = open_bucket(&endpoint).context("cluster.s3_endpoint")?;
    Ok(Arc::new(Bucket::new(store, prefix, location.to_string())?))
}

fn credentials_in(path: &Path) -> anyhow::Result<BucketCredentials> {
    let unusable = |reason: &dyn Display| format!("cluster.s3_credentials is {}, which {reason}", path.display());
    let text = read_private(path).with_context(|| unusable(&"cannot be read"))?;
    let text = text.with_context(|| unusable(&"does not exist"))?;
    let value_of = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines
            .map(|(key, value)| (key.trim(), value.trim()))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    };
    let sections = text.lines().filter(|line| line.trim_start().starts_with('[')).count();
    anyhow::ensure!(sections <= 1, unusable(&"has several sections: keep the one of the bucket"));
    credentials_from(value_of).with_context(|| unusable(&format!("must have lines with {KEY_ID} and {SECRET_KEY}")))
}

fn credentials_from(value_of: impl Fn(&str) -> Option<String>) -> Option<BucketCredentials> {
    let value_of = |name: &str| value_of(name).filter(|value| !value.is_empty());
    Some(BucketCredentials {
        key_id: value_of(KEY_ID)?,
        secret_key: value_of(SECRET_KEY)?,
        session_token: value_of(SESSION_TOKEN),
    })
}

/// Returns the files of a data directory. If it is a node whose files are in a bucket, they are fetched from there.
///
/// # Errors
/// If the settings do not name the bucket of such a node.
pub fn files_of(data_dir: &Path, settings: &ClusterSettings, environment: &Environment) -> anyhow::Result<FileTree> {
    match Membership::read(data_dir)? {
        Some(membership) if membership.files() == LocationKind::Bucket => {
            let location = open_location(settings)?;
            membership.check_files(location.kind())?;
            Ok(location.file_tree(data_dir, environment))
        }
        _ => Ok(FileTree::local(data_dir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, String, Option<String>), String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, text).unwrap();
        let found = credentials_in(&path).map_err(|error| format!("{error:#}"))?;
        Ok((found.key_id, found.secret_key, found.session_token))
    }

    #[test]
    fn an_access_key_is_read_from_a_credentials_file() {
        let text = "[default]\naws_access_key_id = A\naws_secret_access_key= s/=\n";
        assert_eq!(read(text), Ok(("A".to_owned(), "s/=".to_owned(), None)));
        let text = "aws_access_key_id=A\naws_secret_access_key=s\naws_session_token=t";
        assert_eq!(read(text), Ok(("A".to_owned(), "s".to_owned(), Some("t".to_owned()))));

        let reason = read("aws_access_key_id=A\nhunter2").unwrap_err();
        assert!(reason.contains("cluster.s3_credentials") && reason.contains(SECRET_KEY), "{reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
        assert!(read("[a]\naws_access_key_id=A\n[b]\naws_secret_access_key=s").unwrap_err().contains("sections"));
    }
}
