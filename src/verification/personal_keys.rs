//! Check of the user keys, which are stored outside the log: the key of each existing user must decrypt all personal
//! fields of that user.

use std::path::{Path, PathBuf};

use crate::domain::ids::UserId;
use crate::domain::personal::{PersonalField, PersonalValue};
use crate::domain::user::UserProfile;
use crate::events::journal::ReadOnlyJournal;
use crate::events::open_error::OpenError;
use crate::events::stream::Position;
use crate::events::verify::Finding;
use crate::pii::Keyring;
use crate::projections::read_models::Models;
use crate::projections::user::Users;

/// Defects of user keys.
pub(super) struct UserKeyCheck {
    defects: Vec<(UserId, &'static str)>,
    /// Erased users whose key still exists.
    leftover_keys: Vec<UserId>,
}

impl UserKeyCheck {
    /// Decrypts every sealed field of every user.
    pub fn check(root: &Path, users: &Users) -> Self {
        let keyring = Keyring::open(root);
        let defective = users.profiles().filter_map(|profile| Some((profile.id, key_defect(&keyring, profile)?)));
        Self {
            defects: defective.collect(),
            leftover_keys: users.erased_ids().filter(|user| keyring.has_key(*user)).collect(),
        }
    }

    /// Drops the defects of users whom a running service has erased after `after`. Their keys may be missing already:
    /// the service destroys a key after it has recorded the erasure in the journal.
    ///
    /// # Errors
    /// If the rest of the journal cannot be read. The state of the keys is then unknown.
    pub fn exclude_erased(&mut self, log: &Path, after: Position, models: &mut Models) -> Result<(), OpenError> {
        let defects = std::mem::take(&mut self.defects);
        if defects.is_empty() {
            return Ok(());
        }

        let mut journal = ReadOnlyJournal::open(log)?.read_from(after)?;
        while let Some(record) = journal.next_record()? {
            record.commit.iter().filter(|event| event.position > after).for_each(|event| models.apply(event));
        }

        self.defects.extend(defects.into_iter().filter(|(user, _)| models.users.get(*user).is_some()));
        Ok(())
    }

    /// Adds the defects to the findings and notes.
    pub fn finish(self, root: &Path, findings: &mut Vec<Finding>, notes: &mut Vec<String>) {
        findings.extend(self.defects.into_iter().map(|(user, problem)| {
            let problem = format!("{problem}: restore it from a backup, or name and email address stay unreadable");
            Finding::in_file(key_path(root, user), problem)
        }));
        notes.extend(self.leftover_keys.into_iter().map(|user| {
            format!("{} is the key of an erased user: the next start destroys it", key_path(root, user).display())
        }));
    }
}

/// Returns the reason why the fields of a user cannot be read; `None` if they can.
fn key_defect(keyring: &Keyring, profile: &UserProfile) -> Option<&'static str> {
    let fields = [(PersonalField::Email, &profile.email), (PersonalField::Name, &profile.name)];
    let secrets = profile.webhook_secrets.stored().map(|secret| (PersonalField::WebhookSecret, secret));

    let mut sealed = fields
        .into_iter()
        .filter_map(|(field, value)| Some((field, value.as_ref()?)))
        .chain(secrets)
        .filter(|(_, value)| matches!(value, PersonalValue::Sealed(_)))
        .peekable();

    // Without sealed fields, no key is needed.
    sealed.peek()?;
    if !keyring.has_key(profile.id) {
        return Some("the key of a user is missing");
    }

    sealed
        .any(|(field, value)| keyring.read(profile.id, field, value).is_none())
        .then_some("the key does not decrypt the data of its user")
}

fn key_path(root: &Path, user: UserId) -> PathBuf {
    let name = user.to_string();
    root.join("personal").join(&name[name.len() - 2..]).join(name)
}
