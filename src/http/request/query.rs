//! Reader of query parameters. It collects all errors; unknown parameters are ignored (contract 2).

use std::fmt;

use url::form_urlencoded;

use crate::domain::value::InvalidValue;
use crate::http::middleware::request_log::is_decodable;
use crate::http::request::fields::FieldErrors;
use crate::http::response::error::{Code, Problem};
use crate::projections::page::PageRequest;

/// Maximum page size; larger values are clamped (contract 4).
pub const LIMIT_MAX: u64 = 1000;

/// Query of one request.
pub struct Query {
    pairs: Vec<(String, String)>,
    errors: FieldErrors,
}

impl Query {
    /// Decodes a query string.
    ///
    /// # Errors
    /// If it does not decode to UTF-8 without control characters.
    pub fn parse(query: &str) -> Result<Self, Problem> {
        if !is_decodable(query) {
            return Err(Problem::new(
                Code::MalformedRequest,
                "the query must be percent-encoded UTF-8 without control characters",
            ));
        }
        Ok(Self {
            pairs: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            errors: FieldErrors::default(),
        })
    }

    /// Returns the first value of a parameter.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Parses a required parameter.
    pub fn required<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, InvalidValue>) -> Option<T> {
        let Some(text) = self.first(name) else {
            self.errors.add(format!("/{name}"), "is required");
            return None;
        };
        parse(text).map_err(|reason| self.add_value_error(name, reason)).ok()
    }

    /// Parses a boolean, ignoring case; `None` if the parameter is absent.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        let flag = self.first(name)?.to_ascii_lowercase().parse().ok();
        if flag.is_none() {
            self.add_value_error(name, "must be true or false");
        }
        flag
    }

    /// Parses a parameter; `None` if it is absent or empty.
    pub fn optional_non_empty<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, InvalidValue>,
    ) -> Option<T> {
        let result = parse(self.first(name).map(str::trim).filter(|value| !value.is_empty())?);
        result.map_err(|reason| self.add_value_error(name, reason)).ok()
    }

    /// Returns a parameter that `parse` recognizes; any other value counts as absent.
    pub fn recognized<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        parse(self.first(name)?.trim())
    }

    /// Parses a parameter; `None` if it is absent.
    pub fn optional<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, InvalidValue>) -> Option<T> {
        parse(self.first(name)?).map_err(|reason| self.add_value_error(name, reason)).ok()
    }

    /// Returns all values of an array parameter: repeated, comma-separated, or as `name[]`.
    #[must_use]
    pub fn values(&self, name: &str) -> Vec<&str> {
        let matching = self.pairs.iter().filter(|(key, _)| key.strip_suffix("[]").unwrap_or(key) == name);
        matching.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|value| !value.is_empty()).collect()
    }

    /// Parses all values of an array parameter; returns the valid ones.
    pub fn parsed_values<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, InvalidValue>) -> Vec<T> {
        let mut parsed = Vec::new();
        let mut errors = Vec::new();
        for value in self.values(name) {
            match parse(value) {
                Ok(value) => parsed.push(value),
                Err(reason) => errors.push((reason, value.to_owned())),
            }
        }

        for (reason, sent) in errors {
            self.errors.add_with_value(format!("/{name}"), reason, &sent);
        }
        parsed
    }

    /// Reads page number and page size; sizes above [`LIMIT_MAX`] are clamped.
    pub fn page(&mut self, default_limit: u64) -> PageRequest {
        let page = self.positive_integer("page", 1);
        let limit = self.positive_integer("limit", default_limit).min(LIMIT_MAX);
        PageRequest { page, limit }
    }

    /// Parses an integer from 1.
    fn positive_integer(&mut self, name: &str, default: u64) -> u64 {
        let Some(text) = self.first(name) else { return default };
        let is_numeric = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        // A number that overflows counts as the maximum.
        match text.parse().unwrap_or(u64::MAX) {
            number @ 1.. if is_numeric => number,
            _ => {
                self.add_value_error(name, "must be an integer of at least 1");
                default
            }
        }
    }

    /// Reads the page size, from 1.
    pub fn limit(&mut self, default: u64) -> u64 {
        self.positive_integer("limit", default)
    }

    /// Adds an error of a parameter.
    pub fn add_error(&mut self, name: &str, reason: &str) {
        self.add_value_error(name, reason);
    }

    /// Adds an error with the first value of the parameter, if it has one.
    fn add_value_error(&mut self, name: &str, reason: impl fmt::Display) {
        let pointer = format!("/{name}");
        match self.pairs.iter().find(|(key, _)| key == name) {
            Some((_, sent)) => self.errors.add_with_value(pointer, reason, sent),
            None => self.errors.add(pointer, reason),
        }
    }

    /// Checks that all parameters read so far were valid.
    ///
    /// # Errors
    /// All collected errors.
    pub fn finish(self) -> Result<(), Problem> {
        self.errors.finish(Some(()))
    }
}

/// Restores plus signs that form decoding turned into spaces, for values that cannot contain spaces.
#[must_use]
pub fn restore_plus_signs(text: &str) -> String {
    text.replace(' ', "+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_repeated_comma_separated_or_bracketed() {
        let query = Query::parse("sort=a&sort=b;desc&sort[]=c&sort%5B%5D=d,e,&other=x").unwrap();
        assert_eq!(query.values("sort"), ["a", "b;desc", "c", "d", "e"]);
    }

    #[test]
    fn pages_count_from_one_and_limits_are_clamped() {
        let page = |text: &str| {
            let mut query = Query::parse(text).unwrap();
            let page = query.page(10);
            query.finish().map(|()| (page.page, page.limit)).ok()
        };
        assert_eq!(page(""), Some((1, 10)));
        assert_eq!(page("page=3&limit=1001"), Some((3, 1000)));
        assert_eq!(page("page=99999999999999999999999"), Some((u64::MAX, 10)));
        for bad in ["page=0", "limit=0", "page=-1", "limit=x", "page=", "page=1.5", "limit=%2B1"] {
            assert_eq!(page(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_undecodable_query_is_rejected() {
        assert!(Query::parse("a=%ff").is_err());
        assert!(Query::parse("a=%zz").is_err());
        assert!(Query::parse("a=%C3%A4+b").is_ok());
    }

    #[test]
    fn every_invalid_parameter_is_reported() {
        let mut query = Query::parse("page=0&limit=x").unwrap();
        query.page(10);
        let detail = query.finish().unwrap_err().to_string();
        assert_eq!(detail, "/page must be an integer of at least 1; /limit must be an integer of at least 1");
    }
}
