//! The URL of the running service on this machine, stored in the data directory for operator commands.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::{bail, ensure};

use crate::data_dir::{DataDir, to_help, write_atomically};

/// File name. The file survives a crash; only the lock of the directory shows whether the service runs.
const FILE: &str = "address";

/// Writes the URL of the service. The service also runs without the file, for example on a full disk.
pub(super) fn write_address_file(data: &DataDir, address: SocketAddr) {
    let text = format!("{}\n", local_url(address));
    let path = data.path(FILE);
    if let Err(error) = write_atomically(&path, 0o600, text.as_bytes()) {
        tracing::warn!(%error, "address file not written, commands need --url");
        remove_address_file(data);
    }
}

/// Removes the file.
pub(super) fn remove_address_file(data: &DataDir) {
    if let Err(error) = fs::remove_file(data.path(FILE))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "address file not removed");
    }
}

/// Returns the URL of the service on this data directory; `None` if the file does not exist.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn read_address_file(data_dir: &Path) -> anyhow::Result<Option<String>> {
    let path = data_dir.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let help = to_help(&path, &error);
            let path = path.display();
            bail!("cannot read {path}, the address of the service: {error}{help}; or name the service with --url")
        }
    }
}

/// Returns the URL, on this machine, of a service that listens on `listen`.
///
/// # Errors
/// If the port is 0, so the operating system chooses one.
pub fn expected_local_url(listen: SocketAddr) -> anyhow::Result<String> {
    ensure!(listen.port() != 0, "the operating system chose the port of the service: pass its URL with --url");
    Ok(local_url(listen))
}

/// Returns the URL of an address; an unspecified address is replaced by loopback.
fn local_url(address: SocketAddr) -> String {
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
    fn the_local_url_can_be_connected_to() {
        let url = |text: &str| local_url(text.parse().unwrap());
        assert_eq!(url("0.0.0.0:81"), "http://127.0.0.1:81");
        assert_eq!(url("[::]:81"), "http://[::1]:81");
        assert_eq!(url("192.0.2.1:81"), "http://192.0.2.1:81");
        assert_eq!(expected_local_url("[::1]:81".parse().unwrap()).unwrap(), "http://[::1]:81");
        assert!(expected_local_url("127.0.0.1:0".parse().unwrap()).unwrap_err().to_string().contains("--url"));
    }
}
