//! Owners of files, and advice for users who lack permissions.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Returns advice for an error at a path; empty if the error is about neither permissions nor a read-only file system.
#[must_use]
pub fn to_help(path: &Path, reason: &io::Error) -> String {
    if reason.kind() == io::ErrorKind::ReadOnlyFilesystem {
        return "; name a writable directory with --data-dir".to_owned();
    }
    if reason.kind() != io::ErrorKind::PermissionDenied {
        return String::new();
    }

    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Ok(metadata) => help_for_existing(&path, &metadata),
        Err(error) => help_for_missing(&path, error.kind() == io::ErrorKind::PermissionDenied),
    }
}

/// Returns advice for a path that exists and is visible.
fn help_for_existing(path: &Path, metadata: &Metadata) -> String {
    let owner = metadata.uid();
    let uid = own_id();
    let path_text = path.display();
    if owner == uid {
        let mode = metadata.permissions().mode() & 0o777;
        return format!(
            "; {path_text} belongs to {}, but mode {mode:o} denies access: `chmod u+rwX {path_text}`",
            describe_user(uid)
        );
    }

    let recursive_flag = if metadata.is_dir() { "-R " } else { "" };
    let run_advice = advise_run_as(owner);
    let chown_advice = format!("change the owner as root (`chown {recursive_flag}{uid} {path_text}`)");

    // An empty directory is usually an unused volume; any other belongs to a service that keeps running as its owner.
    let is_empty_directory = metadata.is_dir() && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let [first, second] = if is_empty_directory { [chown_advice, run_advice] } else { [run_advice, chown_advice] };

    let owner = describe_user(owner);
    let user = describe_user(uid);
    format!("; {path_text} belongs to {owner}, and this process runs as {user}: {first}, or {second}")
}

fn advise_run_as(owner: u32) -> String {
    let name = name_of(owner).unwrap_or_else(|| format!("'#{owner}'"));
    format!("run this as its owner (`sudo -u {name} mediary …`)")
}

/// Returns advice for a path that does not exist or, if `is_hidden`, is in a directory this process may not enter.
fn help_for_missing(path: &Path, is_hidden: bool) -> String {
    let existing = path.ancestors().find_map(|path| Some((path, fs::metadata(path).ok()?)));
    let Some((existing, metadata)) = existing else { return String::new() };
    let existing_text = existing.display();
    let owner = describe_user(metadata.uid());
    let uid = own_id();
    let user = describe_user(uid);
    if is_hidden {
        let run = advise_run_as(metadata.uid());
        return format!("; {existing_text} belongs to {owner} and is not accessible to {user}: {run}");
    }

    let command = format!("install -d -m 0700 -o {uid} {}", path.display());
    format!("; {existing_text} belongs to {owner}, and this process runs as {user}: as root, run `{command}`")
}

/// Gives a file that root has created in a data directory to the owner of the directory, whose service could not use it
/// otherwise. Has no effect for other users.
///
/// # Errors
/// If the owner cannot be changed.
pub fn give_to_owner(data_dir: &Path, path: &Path) -> io::Result<()> {
    if own_id() != 0 {
        return Ok(());
    }
    let owner = owner_of(data_dir)?;
    let failed = |error: io::Error| {
        let owner = describe_user(owner.uid());
        let reason = format!("{} cannot be given to {owner}: {error}; run this as its owner", path.display());
        io::Error::new(error.kind(), reason)
    };
    chown(path, Some(owner.uid()), Some(owner.gid())).map_err(failed)
}

/// Returns the metadata of the file whose owner counts as the owner of a data directory: its lock, because the
/// directory may be a volume that belongs to root.
pub(super) fn owner_of(data_dir: &Path) -> io::Result<Metadata> {
    fs::metadata(data_dir.join("lock")).or_else(|_| fs::metadata(data_dir))
}

/// Returns the user id of this process.
pub(super) fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the name of a user in `/etc/passwd`, which does not list the dynamic users of a service manager.
fn name_of(id: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut users = users.lines().map(|line| line.split(':'));
    users.find_map(|mut user| {
        let name = user.next()?;
        let entry_id = user.nth(1)?;
        (entry_id == id.to_string()).then(|| name.to_owned())
    })
}

/// Returns the id of a user with the name, if it is known: `user 0 (root)`.
pub(super) fn describe_user(id: u32) -> String {
    name_of(id).map_or_else(|| format!("user {id}"), |name| format!("user {id} ({name})"))
}

/// Returns the command with which root runs `mediary` as the owner of a directory.
pub(super) fn command_as_owner(path: &Path, id: u32, group: u32) -> String {
    // systemd keeps the state of units with DynamicUser here. Only root and the unit itself can enter.
    let private = fs::canonicalize(path).ok().filter(|path| path.starts_with("/var/lib/private"));
    if let Some(unit) = private.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
        return format!(
            "`systemd-run --pipe --wait -p DynamicUser=yes -p User={unit} -p StateDirectory={unit} mediary --data-dir /var/lib/{unit} …`"
        );
    }

    match name_of(id) {
        Some(name) => format!("`runuser -u {name} -- mediary …`"),
        None => format!("`setpriv --reuid {id} --regid {group} --clear-groups mediary …`"),
    }
}

/// Quotes a word for a POSIX shell if necessary.
#[must_use]
pub fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/+@%".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
