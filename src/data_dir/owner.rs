//! Whose files are, and what helps who may not use them.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// What helps whoever may not use a path; nothing where the reason is another one.
#[must_use]
pub fn to_help(path: &Path, reason: &io::Error) -> String {
    if reason.kind() == io::ErrorKind::ReadOnlyFilesystem {
        return "; name a directory that can be written to with --data-dir".to_owned();
    }
    if reason.kind() != io::ErrorKind::PermissionDenied {
        return String::new();
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Ok(found) => to_help_with(&path, &found),
        Err(error) => to_help_towards(&path, error.kind() == io::ErrorKind::PermissionDenied),
    }
}

/// Of something that is there, and can be seen.
fn to_help_with(path: &Path, found: &Metadata) -> String {
    let (owner, own, shown) = (found.uid(), own_id(), path.display());
    if owner == own {
        let mode = found.permissions().mode() & 0o777;
        return format!("; {shown} belongs to {}, whom its mode {mode:o} keeps out: `chmod u+rwX {shown}`", user(own));
    }
    let all = if found.is_dir() { "-R " } else { "" };
    let (run, give) = (run_as(owner), format!("have root give it to this one (`chown {all}{own} {shown}`)"));
    // What is empty is most often a volume that nobody has used yet; what is not has a service that goes on as its owner.
    let unused = found.is_dir() && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let [first, second] = if unused { [give, run] } else { [run, give] };
    format!("; {shown} belongs to {}, and this is {}: {first}, or {second}", user(owner), user(own))
}

fn run_as(owner: u32) -> String {
    let name = name_of(owner).unwrap_or_else(|| format!("'#{owner}'"));
    format!("run this as its owner (`sudo -u {name} mediary …`)")
}

/// Of something that is not there, or is `hidden` behind a directory that only others may enter.
fn to_help_towards(path: &Path, hidden: bool) -> String {
    let there = path.ancestors().find_map(|path| Some((path, fs::metadata(path).ok()?)));
    let Some((there, found)) = there else { return String::new() };
    let (there, owner, own) = (there.display(), user(found.uid()), own_id());
    if hidden {
        let run = run_as(found.uid());
        return format!("; {there} belongs to {owner}, and {} may not look into it: {run}", user(own));
    }
    let given = format!("install -d -m 0700 -o {own} {}", path.display());
    format!("; {there} belongs to {owner}, and this is {}: have root make the directory (`{given}`)", user(own))
}

pub(super) fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of a user, where the machine's own list has one: those that a service manager makes up are not in it.
fn name_of(id: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut users = users.lines().map(|line| line.split(':'));
    users.find_map(|mut user| {
        let (name, known) = (user.next()?, user.nth(1)?);
        (known == id.to_string()).then(|| name.to_owned())
    })
}

pub(super) fn user(id: u32) -> String {
    name_of(id).map_or_else(|| format!("user {id}"), |name| format!("user {id} ({name})"))
}

/// How root runs a command as the owner of a directory.
pub(super) fn as_owner(path: &Path, id: u32, group: u32) -> String {
    // Behind this one nobody comes but root, and a unit to which the service manager gives it.
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

/// One word for a POSIX shell, quoted only when it has to be.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/+@%".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
