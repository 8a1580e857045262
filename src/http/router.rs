//! Segment-trie router; a lookup is O(segments), independent of the number of routes.

use std::collections::HashMap;

use crate::http::middleware::request_log::decode_segment;

/// Router from path patterns to values. Literal segments take precedence over parameters.
pub struct PathRouter<T> {
    root: RouterNode<T>,
}

struct RouterNode<T> {
    /// Value of the path, with the names of its parameters.
    value: Option<(Vec<&'static str>, T)>,
    literals: HashMap<&'static str, RouterNode<T>>,
    param: Option<Box<RouterNode<T>>>,
}

impl<T> Default for RouterNode<T> {
    fn default() -> Self {
        Self { value: None, literals: HashMap::new(), param: None }
    }
}

impl<T> RouterNode<T> {
    /// Collects the values at and below this node.
    fn collect_values<'s>(&'s self, values: &mut Vec<&'s T>) {
        values.extend(self.value.as_ref().map(|(_, value)| value));
        self.literals.values().chain(self.param.as_deref()).for_each(|node| node.collect_values(values));
    }
}

/// Decoded path parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathParams(Vec<(&'static str, String)>);

impl PathParams {
    /// Returns the parameter with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }
}

impl<T> PathRouter<T> {
    /// Creates an empty router.
    #[must_use]
    pub fn new() -> Self {
        Self { root: RouterNode::default() }
    }

    /// Returns the value of a path pattern such as `/nodes/{nodeId}`; inserts the result of `make` if it is missing.
    pub fn entry(&mut self, pattern: &'static str, make: impl FnOnce() -> T) -> &mut T {
        let mut names = Vec::new();
        let mut node = &mut self.root;

        for segment in pattern.split('/').skip(1) {
            node = match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(name) => {
                    names.push(name);
                    node.param.get_or_insert_default()
                }
                None => node.literals.entry(segment).or_default(),
            };
        }

        &mut node.value.get_or_insert_with(|| (names, make())).1
    }

    /// Finds the value of a path and its parameters, decoded. `path` is the encoded path of the request.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<(&T, PathParams)> {
        let mut values = Vec::new();
        let (names, value) = self.root.find(path.strip_prefix('/')?, &mut values)?;
        let params = names.iter().copied().zip(values.into_iter().map(decode_segment)).collect();
        Some((value, PathParams(params)))
    }

    /// Returns the values below the longest literal prefix of a path, in no particular order; none if not even the
    /// first segment matches.
    #[must_use]
    pub fn values_near(&self, path: &str) -> Vec<&T> {
        let mut segments = path.split('/').skip(1);
        let Some(mut node) = segments.next().and_then(|first| self.root.literals.get(first)) else {
            return Vec::new();
        };
        while let Some(next) = segments.next().and_then(|segment| node.literals.get(segment)) {
            node = next;
        }

        let mut values = Vec::new();
        node.collect_values(&mut values);
        values
    }
}

impl<T> RouterNode<T> {
    /// Finds the value below this node. `path` has at least one segment; `values` holds the parameters before it.
    fn find<'p>(&self, path: &'p str, values: &mut Vec<&'p str>) -> Option<&(Vec<&'static str>, T)> {
        let (segment, rest) = path.split_once('/').map_or((path, None), |(segment, rest)| (segment, Some(rest)));
        let saved_len = values.len();

        let literal = self.literals.get(segment).and_then(|node| node.find_rest(rest, values));
        if literal.is_some() || segment.is_empty() {
            return literal;
        }

        values.truncate(saved_len);
        values.push(segment);
        self.param.as_ref()?.find_rest(rest, values)
    }

    fn find_rest<'p>(&self, rest: Option<&'p str>, values: &mut Vec<&'p str>) -> Option<&(Vec<&'static str>, T)> {
        match rest {
            Some(rest) => self.find(rest, values),
            None => self.value.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> PathRouter<&'static str> {
        let mut paths = PathRouter::new();
        for pattern in ["/", "/nodes", "/nodes/search", "/nodes/{node}", "/nodes/{node}/versions/{version}", "/a/b/c"] {
            *paths.entry(pattern, || pattern) = pattern;
        }
        paths
    }

    #[test]
    fn literal_segments_take_precedence_over_parameters() {
        let paths = paths();
        let matched = |path: &str| paths.find(path).map(|(value, _)| *value);
        for path in ["/", "/nodes", "/nodes/search", "/a/b/c"] {
            assert_eq!(matched(path), Some(path));
        }
        assert_eq!(matched("/nodes/x"), Some("/nodes/{node}"));
        assert_eq!(matched("/nodes/search/versions/1"), Some("/nodes/{node}/versions/{version}"));
        for path in ["", "nodes", "/nodes/", "//nodes", "/nodes//versions/1", "/a", "/a/b/", "/Nodes", "*"] {
            assert_eq!(matched(path), None, "{path}");
        }
    }

    #[test]
    fn similar_paths_are_suggested() {
        let paths = paths();
        let near = |path: &str| {
            let mut near: Vec<_> = paths.values_near(path).into_iter().copied().collect();
            near.sort_unstable();
            near
        };
        assert_eq!(near("/a/b/d"), ["/a/b/c"]);
        assert_eq!(
            near("/nodes/x/y"),
            ["/nodes", "/nodes/search", "/nodes/{node}", "/nodes/{node}/versions/{version}"]
        );
        assert_eq!(near("/elsewhere"), [""; 0]);
    }

    #[test]
    fn path_parameters_are_percent_decoded() {
        let paths = paths();
        let (_, params) = paths.find("/nodes/a%2Fb/versions/1.0%2541").unwrap();
        assert_eq!((params.get("node"), params.get("version")), (Some("a/b"), Some("1.0%41")));
        assert_eq!(params.get("other"), None);
        assert_eq!(paths.find("/nodes").unwrap().1, PathParams::default());
    }
}
