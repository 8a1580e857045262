//! Where the running service is reached from this machine, written beside its data for commands of its operator.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::{bail, ensure};

use crate::data_dir::{DataDir, to_help, write_whole};

/// The file. It stays after a crash: whether the service runs, the lock of the directory tells.
const FILE: &str = "address";

/// Writes down where the service is reached. A service serves without the file: on a full disk too.
pub(super) fn announce(data: &DataDir, address: SocketAddr) {
    let text = format!("{}\n", reached_at(address));
    let path = data.path(FILE);
    if let Err(error) = write_whole(&path, 0o600, text.as_bytes()) {
        tracing::warn!(%error, "the file with the address could not be written: commands have to be told it");
        withdraw(data);
    }
}

/// Takes it back.
pub(super) fn withdraw(data: &DataDir) {
    if let Err(error) = fs::remove_file(data.path(FILE))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "the file with the address could not be removed");
    }
}

/// The URL at which the service on this data directory is reached from this machine; `None` when it has not written it down.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn kept_address(data_dir: &Path) -> anyhow::Result<Option<String>> {
    let path = data_dir.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let (path, help) = (path.display(), to_help(&path, &error));
            bail!(
                "{path}, where the service writes down where it listens, cannot be read: {error}{help}; or name the service with --url"
            )
        }
    }
}

/// Where a service that is configured to listen there is reached from this machine.
///
/// # Errors
/// When it takes a port of its own choice.
pub fn expected_at(listen: SocketAddr) -> anyhow::Result<String> {
    ensure!(listen.port() != 0, "the service listens on a port of its own choice: say which with --url");
    Ok(reached_at(listen))
}

/// A service that listens on every address is reached on the one of the machine itself.
fn reached_at(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_can_be_dialled() {
        let reached = |text: &str| reached_at(text.parse().unwrap());
        assert_eq!(reached("0.0.0.0:81"), "http://127.0.0.1:81");
        assert_eq!(reached("[::]:81"), "http://[::1]:81");
        assert_eq!(reached("192.0.2.1:81"), "http://192.0.2.1:81");
        assert_eq!(expected_at("[::1]:81".parse().unwrap()).unwrap(), "http://[::1]:81");
        assert!(expected_at("127.0.0.1:0".parse().unwrap()).unwrap_err().to_string().contains("--url"));
    }
}
