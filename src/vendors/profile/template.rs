//! Templates of profiles: expressions, texts and bodies. They are checked when a profile is read, so that an error
//! names its line, and evaluated with [`minijinja`].

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::picture::{self, PictureInput};

/// Names and values that a template can use.
pub(in crate::vendors) type TemplateScope = BTreeMap<String, Value>;

/// Environment of values and texts.
static TEXT: LazyLock<Environment<'static>> = LazyLock::new(environment);

/// Environment of paths: every value becomes one segment.
static PATH: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = environment();
    environment.set_formatter(|out, state, value| {
        if value.is_undefined() {
            return minijinja::escape_formatter(out, state, value);
        }
        out.write_str(&encode_segment(&value_to_text(value))).map_err(Error::from)
    });
    environment
});

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::Bool => out.write_str(&value_to_text(value)).map_err(Error::from),
        _ => minijinja::escape_formatter(out, state, value),
    });
    environment.add_filter("flatten", join_lists);
    environment.add_filter("base64", picture::base64);
    environment.add_filter("data_uri", picture::data_uri);
    environment.add_filter("uploaded", picture::uploaded);
    environment
}

/// An expression, the inside of `{{ … }}`. Its value has a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) struct TemplateExpression(String);

impl TemplateExpression {
    /// Returns the inside of `{{ … }}` if the text is exactly one expression.
    fn from_text(text: &str) -> Option<&str> {
        let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
        let is_single = !["{{", "}}", "{%"].iter().any(|mark| inner.contains(mark));
        is_single.then(|| inner.trim())
    }

    fn parse(inner: &str) -> Result<Self, String> {
        TEXT.compile_expression(inner).map_err(|error| describe(&error))?;
        check_filters(inner)?;
        Ok(Self(inner.to_owned()))
    }

    /// Returns the value; undefined if a name in it has none.
    pub fn evaluate(&self, scope: &TemplateScope) -> Result<Value, TemplateError> {
        let expression = TEXT.compile_expression(&self.0).map_err(|error| TemplateError::from(&error))?;
        expression.eval(scope.clone()).map_err(|error| TemplateError::from(&error))
    }

    fn collect_variables(&self, names: &mut Vec<String>) {
        if let Ok(expression) = TEXT.compile_expression(&self.0) {
            names.extend(expression.undeclared_variables(false));
        }
    }
}

/// Text with `{{ … }}` and `{% … %}` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) struct TextTemplate(String);

impl TextTemplate {
    pub fn parse(text: &str) -> Result<Self, String> {
        TEXT.template_from_str(text).map_err(|error| describe(&error))?;
        check_filters(text)?;
        Ok(Self(text.to_owned()))
    }

    /// Returns the text; an error if a name in it has no value.
    pub fn render(&self, scope: &TemplateScope) -> Result<String, TemplateError> {
        self.render_in(&TEXT, scope)
    }

    /// Returns the text as a path, in which every value is one encoded segment.
    pub fn render_path(&self, scope: &TemplateScope) -> Result<String, TemplateError> {
        self.render_in(&PATH, scope)
    }

    fn render_in(&self, environment: &Environment<'_>, scope: &TemplateScope) -> Result<String, TemplateError> {
        if !self.0.contains('{') {
            return Ok(self.0.clone());
        }
        environment.render_str(&self.0, scope.clone()).map_err(|error| TemplateError::from(&error))
    }

    /// Adds the names that this uses to `names`.
    pub fn collect_variables(&self, names: &mut Vec<String>) {
        if let Ok(template) = TEXT.template_from_str(&self.0) {
            names.extend(template.undeclared_variables(false));
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A value of a body: a table or list of templates, a template, or a constant.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::vendors) enum BodyTemplate {
    /// Exactly one expression; left out if its value is undefined.
    Expression(TemplateExpression),
    Text(TextTemplate),
    Constant(Json),
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
}

impl BodyTemplate {
    fn from_text(text: &str) -> Result<Self, String> {
        match TemplateExpression::from_text(text) {
            Some(inner) => TemplateExpression::parse(inner).map(Self::Expression),
            None => TextTemplate::parse(text).map(Self::Text),
        }
    }

    /// Returns the value as JSON; `None` if it is undefined.
    pub fn to_json(&self, scope: &TemplateScope) -> Result<Option<Json>, TemplateError> {
        Ok(match self {
            Self::Expression(expression) => value_to_json(&expression.evaluate(scope)?)?,
            Self::Text(text) => Some(Json::String(text.render(scope)?)),
            Self::Constant(value) => Some(value.clone()),
            Self::List(items) => {
                let items = items.iter().filter_map(|item| item.to_json(scope).transpose());
                Some(Json::Array(items.collect::<Result<_, _>>()?))
            }
            Self::Table(fields) => {
                let fields = fields.iter().filter_map(|(name, field)| match field.to_json(scope) {
                    Ok(value) => value.map(|value| Ok((name.clone(), value))),
                    Err(error) => Some(Err(error)),
                });
                Some(Json::Object(fields.collect::<Result<_, _>>()?))
            }
        })
    }

    /// Returns the values of a form field or a query parameter; none if it is undefined.
    pub fn to_values(&self, scope: &TemplateScope) -> Result<Vec<Value>, TemplateError> {
        Ok(match self {
            Self::Expression(expression) => flatten(expression.evaluate(scope)?),
            Self::List(items) => {
                let mut values = Vec::new();
                for item in items {
                    values.extend(item.to_values(scope)?);
                }
                values
            }
            Self::Text(_) | Self::Constant(_) | Self::Table(_) => {
                self.to_json(scope)?.map(|json| json_to_value(&json)).into_iter().collect()
            }
        })
    }

    /// Adds the names that this uses to `names`.
    pub fn collect_variables(&self, names: &mut Vec<String>) {
        match self {
            Self::Expression(expression) => expression.collect_variables(names),
            Self::Text(text) => text.collect_variables(names),
            Self::Constant(_) => {}
            Self::List(items) => items.iter().for_each(|item| item.collect_variables(names)),
            Self::Table(fields) => fields.iter().for_each(|(_, field)| field.collect_variables(names)),
        }
    }
}

/// A location in a response: an RFC 6901 pointer, or an expression over `response`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) enum ResponseSource {
    Pointer(TextTemplate),
    Expression(TemplateExpression),
}

impl ResponseSource {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(inner) = TemplateExpression::from_text(text) {
            return TemplateExpression::parse(inner).map(Self::Expression);
        }
        let is_pointer = text.is_empty() || text.starts_with('/');
        let is_escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if !is_pointer || !is_escaped {
            return Err(format!(
                "`{text}` is neither a JSON pointer (RFC 6901), such as \"/data/id\", nor an expression \"{{{{ … }}}}\""
            ));
        }
        TextTemplate::parse(text).map(Self::Pointer)
    }

    /// Returns the value at this location, unless it is missing or `null`. An error means that an expression does not
    /// fit the response.
    fn try_find(&self, root: &Json, scope: &TemplateScope) -> Result<Option<Json>, TemplateError> {
        let value = match self {
            Self::Pointer(pointer) => root.pointer(&pointer.render(scope)?).cloned(),
            Self::Expression(expression) => {
                let mut scope = scope.clone();
                scope.entry("response".to_owned()).or_insert_with(|| json_to_value(root));
                value_to_json(&expression.evaluate(&scope)?)?
            }
        };
        Ok(value.filter(|value| !value.is_null()))
    }

    fn find(&self, root: &Json, scope: &TemplateScope) -> Option<Json> {
        self.try_find(root, scope).ok().flatten()
    }

    fn collect_variables(&self, names: &mut Vec<String>) {
        match self {
            Self::Pointer(pointer) => pointer.collect_variables(names),
            Self::Expression(expression) => expression.collect_variables(names),
        }
    }
}

/// Locations in a response, of which the first that exists counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) struct ResponseSources(pub Vec<ResponseSource>);

impl ResponseSources {
    pub fn find(&self, root: &Json, scope: &TemplateScope) -> Option<Json> {
        self.0.iter().find_map(|source| source.find(root, scope))
    }

    /// Returns the first value, or an error if an expression before it does not fit the response.
    pub fn try_find(&self, root: &Json, scope: &TemplateScope) -> Result<Option<Json>, TemplateError> {
        for source in &self.0 {
            if let Some(found) = source.try_find(root, scope)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the first text that is not blank.
    pub fn find_text(&self, root: &Json, scope: &TemplateScope) -> Option<String> {
        self.0.iter().find_map(|source| match source.find(root, scope)? {
            Json::String(text) if !text.trim().is_empty() => Some(text),
            _ => None,
        })
    }

    /// Returns the JSON pointers, without the expressions.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|source| match source {
            ResponseSource::Pointer(pointer) => Some(pointer.as_str()),
            ResponseSource::Expression(_) => None,
        })
    }

    /// Adds the names that this uses to `names`.
    pub fn collect_variables(&self, names: &mut Vec<String>) {
        self.0.iter().for_each(|source| source.collect_variables(names));
    }
}

/// Reason why a template has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vendors) struct TemplateError(pub String);

impl From<&Error> for TemplateError {
    fn from(error: &Error) -> Self {
        Self(describe(error))
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn describe(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    }
}

/// Checks that all filters exist, which the template engine does only when it applies them.
fn check_filters(template: &str) -> Result<(), String> {
    for name in filter_names(template) {
        if name == "url" {
            return Err(
                "there is no filter `url`, because this service serves no pictures to vendors; the forms of a picture \
                 are base64, data_uri and uploaded"
                    .to_owned(),
            );
        }
        let applied = TEXT.compile_expression(&format!("'' | {name}")).and_then(|filter| filter.eval(()).map(|_| ()));
        if applied.is_err_and(|error| error.kind() == ErrorKind::UnknownFilter) {
            return Err(format!(
                "there is no filter `{name}`; valid are those of MiniJinja, and base64, data_uri, flatten, uploaded"
            ));
        }
    }
    Ok(())
}

/// Returns the names after each `|`, except in strings.
fn filter_names(template: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut quote = None;
    for (index, character) in template.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '|') => {
                let after_bar = template[index + 1..].trim_start();
                let end = after_bar.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after_bar.len());
                names.extend((end > 0).then(|| &after_bar[..end]));
            }
            _ => {}
        }
    }
    names
}

/// Implements the filter `flatten`, which joins the lists in a list.
fn join_lists(lists: &Value) -> Result<Value, Error> {
    let mut items = Vec::new();
    for list in lists.try_iter()? {
        items.extend(list.try_iter()?);
    }
    Ok(Value::from(items))
}

/// Returns a list as its items, an undefined value as nothing, and any other value as itself.
fn flatten(value: Value) -> Vec<Value> {
    match value.kind() {
        ValueKind::Undefined => Vec::new(),
        ValueKind::Seq | ValueKind::Iterable => value.try_iter().map(Iterator::collect).unwrap_or_default(),
        _ => vec![value],
    }
}

/// Returns a value as text. Booleans are written as in JSON, not as the template engine writes them.
pub(in crate::vendors) fn value_to_text(value: &Value) -> String {
    match value.kind() {
        ValueKind::Bool => value.is_true().to_string(),
        _ => value.to_string(),
    }
}

/// Converts a value to JSON; `None` if it is undefined. A picture needs a filter that says in which form.
pub(in crate::vendors) fn value_to_json(value: &Value) -> Result<Option<Json>, TemplateError> {
    if value.downcast_object_ref::<PictureInput>().is_some() {
        let filters = "base64, data_uri or uploaded";
        return Err(TemplateError(format!("a picture in JSON needs a filter that says in which form: {filters}")));
    }

    Ok(match value.kind() {
        ValueKind::Undefined => None,
        ValueKind::None => Some(Json::Null),
        ValueKind::Bool => Some(Json::Bool(value.is_true())),
        ValueKind::Number => Some(number_to_json(value)),
        ValueKind::String => Some(Json::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|error| TemplateError::from(&error))?;
            let items = items.filter_map(|item| value_to_json(&item).transpose());
            Some(Json::Array(items.collect::<Result<_, _>>()?))
        }
        ValueKind::Map => {
            let keys = value.try_iter().map_err(|error| TemplateError::from(&error))?;
            let mut fields = serde_json::Map::new();
            for key in keys {
                let field = value.get_item(&key).map_err(|error| TemplateError::from(&error))?;
                if let Some(field) = value_to_json(&field)? {
                    fields.insert(key.to_string(), field);
                }
            }
            Some(Json::Object(fields))
        }
        // A value that carries an error, such as a missing entry of a map.
        _ => return Err(TemplateError(value.to_string())),
    })
}

fn number_to_json(value: &Value) -> Json {
    let float = || f64::try_from(value.clone()).map_or(Json::Null, Json::from);
    if value.is_integer() { value.as_i64().map_or_else(float, Json::from) } else { float() }
}

/// Converts JSON to a value.
pub(in crate::vendors) fn json_to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => {
            let integer = number.as_i64().map(Value::from);
            integer.unwrap_or_else(|| Value::from(number.as_f64().unwrap_or(f64::NAN)))
        }
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(json_to_value).collect::<Vec<_>>()),
        Json::Object(fields) => {
            Value::from_pairs(fields.iter().map(|(name, field)| (name.as_str(), json_to_value(field))))
        }
    }
}

/// Encodes text as one segment of a path.
pub(in crate::vendors) fn encode_segment(id: &str) -> String {
    let mut segment = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => segment.push(char::from(byte)),
            _ => {
                let _ = write!(segment, "%{byte:02X}");
            }
        }
    }
    segment
}

impl<'de> Deserialize<'de> for TextTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ResponseSources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SourcesVisitor;

        impl<'de> Visitor<'de> for SourcesVisitor {
            type Value = ResponseSources;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON pointer such as \"/data/id\", an expression \"{{ … }}\", or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ResponseSources, E> {
                ResponseSource::parse(text).map(|source| ResponseSources(vec![source])).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ResponseSources, A::Error> {
                let mut sources = Vec::new();
                while let Some(text) = items.next_element::<String>()? {
                    sources.push(ResponseSource::parse(&text).map_err(de::Error::custom)?);
                }
                Ok(ResponseSources(sources))
            }
        }

        deserializer.deserialize_any(SourcesVisitor)
    }
}

impl<'de> Deserialize<'de> for BodyTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BodyVisitor;

        impl<'de> Visitor<'de> for BodyVisitor {
            type Value = BodyTemplate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a template, a number, a boolean, a list or a table")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<BodyTemplate, E> {
                BodyTemplate::from_text(text).map_err(E::custom)
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<BodyTemplate, E> {
                Ok(BodyTemplate::Constant(flag.into()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<BodyTemplate, E> {
                Ok(BodyTemplate::Constant(number.into()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<BodyTemplate, E> {
                Ok(BodyTemplate::Constant(number.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<BodyTemplate, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(BodyTemplate::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<BodyTemplate, A::Error> {
                let mut table = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    table.push(entry);
                }
                Ok(BodyTemplate::Table(table))
            }
        }

        deserializer.deserialize_any(BodyVisitor)
    }
}
