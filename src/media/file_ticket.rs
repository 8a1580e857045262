//! Upload links of input files: authenticated tickets with the announced file, its owner and the expiry.
//!
//! As with the links of archives, nothing is stored, and a ticket must not appear in logs, events or errors.

use uuid::Uuid;

use super::archive::upload_token::{UploadKey, UploadTokenError};
use super::uploaded_files::InputFormat;
use crate::domain::ids::{FileId, UserId};
use crate::domain::value::Timestamp;

/// Prefix of the authenticated data, so that no other use of the key yields a valid ticket.
const CONTEXT: &[u8] = b"mediary input file link 1\n";
/// File, owner, length and expiry; the extension of the format follows.
const FIXED_BYTES: usize = 16 + 16 + 8 + 8;

/// Permission to upload one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTicket {
    pub file: FileId,
    pub owner: UserId,
    /// Announced number of bytes.
    pub bytes: Option<u64>,
    /// Announced format.
    pub format: Option<InputFormat>,
    /// Time until which the file can be uploaded, and then used.
    pub expires_at: Timestamp,
}

impl FileTicket {
    /// Returns the text of the ticket, safe for a URL path.
    #[must_use]
    pub fn issue(&self, key: &UploadKey) -> String {
        let Self { file: FileId(file), owner: UserId(owner), bytes, format, expires_at } = self;
        // No file is empty, so 0 stands for no announcement.
        let bytes = bytes.unwrap_or(0).to_be_bytes();
        let expires_at = expires_at.micros().to_be_bytes();
        let extension = format.map_or("", InputFormat::extension).as_bytes();
        let fields = [&file.as_bytes()[..], &owner.as_bytes()[..], &bytes[..], &expires_at[..], extension];
        key.seal(CONTEXT, &fields.concat())
    }

    /// Verifies a ticket.
    ///
    /// # Errors
    /// Returns [`UploadTokenError`] if the ticket was not issued by this service, or has expired.
    pub fn verify(key: &UploadKey, text: &str, now: Timestamp) -> Result<Self, UploadTokenError> {
        let fields = key.unseal(CONTEXT, text).ok_or(UploadTokenError::Invalid)?;
        let ticket = Self::from_fields(&fields).ok_or(UploadTokenError::Invalid)?;
        if now < ticket.expires_at { Ok(ticket) } else { Err(UploadTokenError::Expired) }
    }

    fn from_fields(fields: &[u8]) -> Option<Self> {
        let (fixed, extension) = fields.split_at_checked(FIXED_BYTES)?;
        let uuid = |at: usize| Uuid::from_slice(&fixed[at..at + 16]).ok();
        let number = |at: usize| fixed[at..at + 8].try_into().map(u64::from_be_bytes).ok();
        let format = match std::str::from_utf8(extension).ok()? {
            "" => None,
            extension => Some(InputFormat::from_extension(extension)?),
        };

        Some(Self {
            file: FileId(uuid(0)?),
            owner: UserId(uuid(16)?),
            bytes: Some(number(32)?).filter(|bytes| *bytes > 0),
            format,
            expires_at: Timestamp::from_micros(number(40)?.cast_signed()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::VersionId;
    use crate::domain::image::ImageFormat;
    use crate::environment::Environment;
    use crate::media::archive::upload_token::{UploadGrant, UploadTokenHolder};

    const NOW: Timestamp = Timestamp::from_micros(1_614_265_330_000_000);

    #[test]
    fn the_links_of_files_and_archives_are_not_exchangeable() {
        let folder = tempfile::tempdir().unwrap();
        let key = UploadKey::generate(&folder.path().join("key"), &Environment::manual(NOW, 1)).unwrap();
        let owner = UserId(Uuid::from_u128(2));
        let expires_at = Timestamp::from_micros(NOW.micros() + 1);
        let ticket = FileTicket { file: FileId(Uuid::from_u128(1)), owner, bytes: None, format: None, expires_at };
        let grant =
            UploadGrant { version: VersionId(Uuid::from_u128(1)), holder: UploadTokenHolder::User(owner), expires_at };

        assert_eq!(FileTicket::verify(&key, &key.issue_token(&grant), NOW), Err(UploadTokenError::Invalid));
        assert_eq!(key.verify_token(&ticket.issue(&key), NOW), Err(UploadTokenError::Invalid));
    }

    #[test]
    fn a_ticket_is_read_back_until_it_expires_and_no_byte_of_it_can_be_changed() {
        let folder = tempfile::tempdir().unwrap();
        let key = UploadKey::generate(&folder.path().join("key"), &Environment::manual(NOW, 1)).unwrap();
        let announced = [(None, None), (Some(7), Some(InputFormat::Picture(ImageFormat::Png)))];

        for (bytes, format) in announced {
            let (file, owner) = (FileId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
            let ticket =
                FileTicket { file, owner, bytes, format, expires_at: Timestamp::from_micros(NOW.micros() + 1) };
            let text = ticket.issue(&key);
            assert_eq!(FileTicket::verify(&key, &text, NOW), Ok(ticket));
            assert_eq!(FileTicket::verify(&key, &text, ticket.expires_at), Err(UploadTokenError::Expired));

            for at in 0..text.len() {
                let mut forged = text.clone().into_bytes();
                forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
                let forged = String::from_utf8(forged).unwrap();
                assert_eq!(FileTicket::verify(&key, &forged, NOW), Err(UploadTokenError::Invalid), "{at}");
            }
        }
    }
}
