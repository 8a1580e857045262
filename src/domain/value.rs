//! Validated values shared by aggregates. A value that exists is valid.

use std::borrow::Cow;
use std::fmt;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// Reason why a value is invalid: a phrase that follows the name of the field and says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue(String);

impl InvalidValue {
    /// Creates a reason such as "must be a UUID".
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl std::error::Error for InvalidValue {}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A time in UTC, in microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since the Unix epoch.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339; truncates to microseconds.
    ///
    /// # Errors
    /// If the text is not a valid RFC 3339 time, or its UTC year is outside 0 to 9999.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let time = DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
        // An offset can move the UTC time out of the years that RFC 3339 can represent.
        let time = time.filter(|time| (0..=9999).contains(&time.year()));
        let invalid = || InvalidValue::new("must be a time such as 2026-01-31T12:00:00Z");
        time.map(|time| Self(time.timestamp_micros())).ok_or_else(invalid)
    }

    /// Parses a date, or a time with or without a zone, as ISO 8601 writes them; without a zone, it is UTC.
    ///
    /// # Errors
    /// If the text is neither, or its UTC year is outside 0 to 9999.
    pub fn parse_iso_8601(text: &str) -> Result<Self, InvalidValue> {
        const ZONED: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z"];
        const LOCAL: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"];

        let date = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
        let local = || LOCAL.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
        let zoned = || ZONED.iter().find_map(|format| DateTime::parse_from_str(text, format).ok());
        let parsed = date().or_else(local).map(|time| time.and_utc()).or_else(|| zoned().map(|time| time.to_utc()));

        let in_range = parsed.filter(|time| (0..=9999).contains(&time.year()));
        let invalid = || {
            InvalidValue::new(
                "must be a date or a time such as 2026-01-31, 2026-01-31T12:00:00 or 2026-01-31T12:00:00Z",
            )
        };
        Self::parse(text).ok().or_else(|| in_range.map(|time| Self(time.timestamp_micros()))).ok_or_else(invalid)
    }

    /// Returns the whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns midnight UTC at the beginning of a day.
    #[must_use]
    pub const fn midnight(day: NaiveDate) -> Self {
        Self(day.and_time(NaiveTime::MIN).and_utc().timestamp_micros())
    }

    /// Returns the day in UTC; 1970-01-01 if `chrono` cannot represent the day.
    #[must_use]
    pub fn utc_date(self) -> NaiveDate {
        DateTime::<Utc>::from_timestamp_micros(self.0).unwrap_or_default().date_naive()
    }

    /// Returns the time `duration` later; saturates.
    #[must_use]
    pub fn saturating_add(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the time elapsed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Formats as RFC 3339 in UTC with microseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = DateTime::<Utc>::from_timestamp_micros(self.0).unwrap_or(DateTime::<Utc>::MAX_UTC);
        f.write_str(&time.to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

/// Text of at most `MAX` characters (not bytes) without control characters except tabs and line breaks. With
/// `MULTILINE = false` it is a [`SingleLineText`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Text<const MAX: usize, const MULTILINE: bool = true>(Box<str>);

/// Text on one line without control characters and without [invisible](is_invisible) ones, so that no two names look
/// the same.
pub type SingleLineText<const MAX: usize> = Text<MAX, false>;

impl<const MAX: usize, const MULTILINE: bool> Text<MAX, MULTILINE> {
    /// Validates length and characters.
    ///
    /// # Errors
    /// If the text is too long or contains a forbidden character.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidValue> {
        let text = text.into();
        let is_allowed = |c: char| match c {
            '\n' | '\r' | '\t' => MULTILINE,
            c => !c.is_control() && (MULTILINE || !is_invisible(c)),
        };

        if text.chars().count() <= MAX && text.chars().all(is_allowed) {
            return Ok(Self(text.into()));
        }
        Err(InvalidValue::new(if MULTILINE {
            format!(
                "must be a string of at most {MAX} characters, without control characters except tabs and line breaks"
            )
        } else {
            format!(
                "must be one line of at most {MAX} characters, without control, bidirectional or zero-width characters"
            )
        }))
    }

    /// Creates a recorded text without validation, so that a limit lowered later cannot make old records unreadable.
    #[must_use]
    pub fn from_recorded(text: String) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize, const MULTILINE: bool> AsRef<str> for Text<MAX, MULTILINE> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<const MAX: usize, const MULTILINE: bool> fmt::Display for Text<MAX, MULTILINE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A display name (contract 4).
pub type Name = SingleLineText<200>;
/// A list entry or another short text (contract 4: lists have at most 100 entries of 200 characters).
pub type Label = Text<200>;
/// Reason of a ban, a flag or another decision; shown to the affected users.
pub type Reason = Text<1000>;

/// Returns `true` for characters that change the display of text without being visible: soft hyphen, zero-width spaces
/// and joiners, bidirectional marks, embeddings and isolates, fillers, line and paragraph separators.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
    )
}

/// Maximum entries of a list (contract 4).
pub const LIST_MAX: usize = 100;

/// A list of at most [`LIST_MAX`] labels.
pub type Labels = TextList<LIST_MAX, 200>;

/// A list of at most `ENTRIES` texts of at most `CHARS` characters. Uses a single allocation, because a registry holds
/// a million such lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TextList<const ENTRIES: usize, const CHARS: usize>(
    /// The texts, each followed by [`TEXT_END`].
    Box<str>,
);

/// Terminator of a text in a list; texts do not contain it.
const TEXT_END: char = '\0';

impl<const ENTRIES: usize, const CHARS: usize> TextList<ENTRIES, CHARS> {
    /// Validates the number of entries; the entries are already validated.
    ///
    /// # Errors
    /// If there are more than `ENTRIES` entries.
    pub fn new(entries: Vec<Text<CHARS>>) -> Result<Self, InvalidValue> {
        if entries.len() > ENTRIES {
            return Err(InvalidValue::new(format!("must be an array of at most {ENTRIES} entries")));
        }
        Ok(Self::from_entries(entries))
    }

    /// Creates a list from recorded entries without validation.
    #[must_use]
    pub fn from_recorded(entries: Vec<String>) -> Self {
        Self::from_entries(entries)
    }

    fn from_entries(entries: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut joined = String::new();
        for entry in entries {
            joined.push_str(entry.as_ref());
            joined.push(TEXT_END);
        }
        Self(joined.into())
    }

    /// Returns the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator(TEXT_END)
    }

    /// Splits the list into consecutive lists of at most `bytes` bytes of text each; a larger entry gets its own list.
    /// Returns at least one list, which may be empty.
    #[must_use]
    pub fn split(&self, bytes: usize) -> Vec<Self> {
        let mut lists = vec![Vec::new()];
        let mut filled = 0;

        for entry in self.iter() {
            if filled > 0 && filled + entry.len() > bytes {
                lists.push(Vec::new());
                filled = 0;
            }
            filled += entry.len();
            if let Some(list) = lists.last_mut() {
                list.push(entry);
            }
        }

        lists.into_iter().map(Self::from_entries).collect()
    }

    /// Appends the entries of another list.
    pub fn append(&mut self, other: &Self) {
        self.0 = [&*self.0, &*other.0].concat().into();
    }
}

/// An absolute http or https URL without credentials, the path of a media file of this service, or the empty string,
/// which means none (contract 4).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Link(Box<str>);

impl Link {
    /// Maximum bytes of a URL.
    pub const MAX: usize = 2048;

    /// Validates scheme, host and length. Rejects credentials, because links are public.
    ///
    /// # Errors
    /// If the text is neither empty nor an absolute http(s) URL without credentials.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        check_http_url(text).map(|()| Self(text.into()))
    }

    /// Creates a recorded link without validation.
    #[must_use]
    pub fn from_recorded(text: String) -> Self {
        Self(text.into())
    }

    /// Creates a link to a media file of this service. It is recorded as a path, so that it stays valid when the public
    /// URL of the service changes.
    #[must_use]
    pub fn to_media_file(file_name: &str) -> Self {
        Self(format!("{MEDIA_PATH}{file_name}").into())
    }

    /// Replaces the URL of a media file of this service, whose base is `public_url`, by its path.
    #[must_use]
    pub fn relative_to(self, public_url: &str) -> Self {
        match self.0.strip_prefix(public_url) {
            Some(path) if path.starts_with(MEDIA_PATH) => Self(path.into()),
            _ => self,
        }
    }

    /// Returns the URL; `public_url` is the base of paths.
    #[must_use]
    pub fn absolute(&self, public_url: &str) -> Cow<'_, str> {
        if self.0.starts_with('/') { Cow::Owned(format!("{public_url}{}", self.0)) } else { Cow::Borrowed(&self.0) }
    }

    /// Returns the URL, the path of a media file of this service, or an empty text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Path of media files below the public URL.
const MEDIA_PATH: &str = "/media/";

/// URL of a webhook receiver or an input: absolute, http or https, without credentials, not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallbackUrl(String);

impl CallbackUrl {
    /// Validates scheme, host and length. Rejects credentials, because the log would retain them.
    ///
    /// # Errors
    /// If the text is not an absolute http(s) URL without credentials.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        check_http_url(text).map(|()| Self(text.to_owned()))
    }

    /// Creates a recorded URL without validation.
    #[must_use]
    pub fn from_recorded(text: String) -> Self {
        Self(text)
    }

    /// Returns the URL as the client wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns host and port in normalized form. An http and an https URL with the same port have the same receiver.
    #[must_use]
    pub fn receiver(&self) -> String {
        let parsed = url::Url::parse(&self.0).ok();
        let receiver = parsed.as_ref().and_then(|url| {
            // A trailing dot does not change the host.
            Some(format!("{}:{}", url.host_str()?.trim_end_matches('.'), url.port_or_known_default()?))
        });
        receiver.unwrap_or_else(|| self.0.clone())
    }
}

fn check_http_url(text: &str) -> Result<(), InvalidValue> {
    let invalid = || InvalidValue::new(format!("must be an absolute http or https URL of at most {} bytes", Link::MAX));
    if text.len() > Link::MAX {
        return Err(invalid());
    }
    let url = url::Url::parse(text).map_err(|_| invalid())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(InvalidValue::new("must not contain a user name or password"));
    }
    let is_http = matches!(url.scheme(), "http" | "https");
    let is_allowed = |c: char| !c.is_control() && !c.is_whitespace() && !is_invisible(c);
    if is_http && url.has_host() && text.chars().all(is_allowed) { Ok(()) } else { Err(invalid()) }
}

/// A SHA-256 digest: the name of a file, or the hash of a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Parses 64 lowercase hexadecimal digits.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let invalid = || InvalidValue::new("must be 64 lowercase hexadecimal digits");
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let nibble = |d: u8| if d.is_ascii_digit() { d - b'0' } else { d - b'a' + 10 };
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Encodes bytes as lowercase hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
    text
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// A forbidden state transition; both states by their API names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    pub subject: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, from, to } = self;
        if from == to {
            write!(f, "the {subject} already has the status {to}")
        } else {
            write!(f, "the status of the {subject} cannot change from {from} to {to}")
        }
    }
}

/// Declares an enumeration whose values have fixed API names.
macro_rules! named_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// All values, in the order of the API.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the API name of the value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Parses the API name.
            ///
            /// # Errors
            /// If the name is unknown; the reason lists the allowed names.
            pub fn parse(text: &str) -> Result<Self, $crate::domain::value::InvalidValue> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    $crate::domain::value::InvalidValue::new(concat!("must be one of", $(" ", $text),+))
                })
            }
        }
    };
}
pub(crate) use named_values;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_counted_in_characters() {
        assert!(Text::<3>::parse("日本語").is_ok());
        assert!(Text::<3>::parse("日本語x").is_err());
        assert!(Text::<9>::parse("a\u{0}b").is_err());
        assert!(Text::<9>::parse("a\n\tb").is_ok());
    }

    #[test]
    fn names_are_one_line_without_invisible_characters() {
        for good in ["", "Face tools", "工具", "naïve – ok"] {
            assert!(Name::parse(good).is_ok(), "{good}");
        }
        for bad in
            ["a\nb", "a\rb", "a\tb", "a\u{202e}b", "a\u{200b}b", "a\u{2066}b", "a\u{feff}b", "a\u{2028}b", "a\u{85}b"]
        {
            let message = Name::parse(bad).unwrap_err().to_string();
            assert!(message.starts_with("must be one line of at most 200 characters"), "{bad:?}: {message}");
        }
        assert!(Text::<9>::parse("a\u{200d}b").is_ok(), "free text may hold emoji sequences");
    }

    #[test]
    fn lists_keep_every_entry() {
        for entries in [vec![], vec![""], vec!["", ""], vec!["a", "", "b\tc"], vec!["x"; LIST_MAX]] {
            let parsed: Vec<Label> = entries.iter().map(|entry| Label::parse(*entry).unwrap()).collect();
            let labels = Labels::new(parsed).unwrap();
            assert_eq!(labels.iter().collect::<Vec<_>>(), entries);
            assert_eq!(labels, Labels::from_recorded(entries.into_iter().map(str::to_owned).collect()));
        }
        assert!(Labels::new(vec![Label::default(); LIST_MAX + 1]).is_err());
    }

    #[test]
    fn the_parts_of_a_list_together_are_the_list() {
        for entries in [vec![], vec![""], vec!["aaa", "bb", "", "cccc", "d", "eeeeeeee"]] {
            let list = Labels::from_recorded(entries.into_iter().map(str::to_owned).collect());
            let parts = list.split(5);
            assert!(parts.iter().all(|part| part.iter().map(str::len).sum::<usize>() <= 5 || part.iter().count() == 1));

            let mut joined = Labels::default();
            for part in &parts {
                joined.append(part);
            }
            assert_eq!(joined, list);
        }
    }

    #[test]
    fn urls_have_no_invisible_characters_and_no_other_scheme() {
        for bad in ["https://a.example/\u{202e}gpj", "https://a\u{200b}.example/", "https://a.example/\r\nx"] {
            assert!(Link::parse(bad).is_err() && CallbackUrl::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["javascript:alert(1)", "data:text/html,x", "ftp://a.example/", "//a.example", "file:///etc/passwd"]
        {
            assert!(Link::parse(bad).is_err() && CallbackUrl::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn links_are_absolute_or_empty() {
        for good in ["", "http://a", "https://a.example/x?y#z", "http://[::1]:80/"] {
            assert!(Link::parse(good).is_ok(), "{good}");
        }
        for bad in ["x", "/x", "ftp://a", "http://", "javascript:alert(1)", "https://a b"] {
            assert!(Link::parse(bad).is_err(), "{bad}");
        }
        assert!(CallbackUrl::parse("").is_err());
    }

    #[test]
    fn urls_have_no_credentials() {
        for bad in ["https://user@a.example/", "https://user:secret@a.example", "http://:secret@a.example/x"] {
            let reasons = [Link::parse(bad).map(drop), CallbackUrl::parse(bad).map(drop)];
            assert_eq!(
                reasons,
                [(); 2].map(|()| Err(InvalidValue::new("must not contain a user name or password"))),
                "{bad}"
            );
        }
        assert!(Link::parse("https://a.example/@user").is_ok());
    }

    #[test]
    fn host_and_port_of_a_callback_are_its_receiver() {
        let receiver = |url: &str| CallbackUrl::parse(url).unwrap().receiver();
        assert_eq!(receiver("http://a.example:81/x?y"), "a.example:81");
        for url in ["https://a.example?y=/", "https://A.example.", "http://a.example:443/x", "https://a.example"] {
            assert_eq!(receiver(url), "a.example:443", "{url}");
        }
    }

    #[test]
    fn digests_round_trip() {
        let digest = Digest([0xa5; 32]);
        assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
        assert!(Digest::parse("A5").is_err());
        assert!(Digest::parse(&"A5".repeat(32)).is_err());
    }

    #[test]
    fn timestamps_are_read_as_rfc3339() {
        let micros = |text: &str| Timestamp::parse(text).map(Timestamp::micros).ok();
        assert_eq!(micros("1970-01-01T01:00:00.0000019+01:00"), Some(1));
        assert_eq!(micros("1969-12-31T23:59:59Z"), Some(-1_000_000));
        assert!(Timestamp::parse("9999-12-31T23:59:59Z").is_ok());
        let out_of_range = ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"];
        for bad in
            ["", "0", "1970-01-01", "1970-01-01T00:00:00", "1970-13-01T00:00:00Z"].into_iter().chain(out_of_range)
        {
            assert_eq!(micros(bad), None, "{bad}");
        }
    }

    #[test]
    fn timestamps_print_as_rfc3339() {
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::from_micros(-1).seconds(), -1);
    }
}
