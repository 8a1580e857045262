//! Multipart forms (multipart/form-data, RFC 7578), as browsers and curl send them.

use reqwest::RequestBuilder;

const BOUNDARY: &str = "------------------------b7d1f0c2a94e";

/// Adds a form of text fields to a request.
pub fn form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let parts: Vec<(&str, &[u8])> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    form_of_bytes(request, &parts)
}

/// Adds a form of binary fields to a request.
pub fn form_of_bytes(request: RequestBuilder, fields: &[(&str, &[u8])]) -> RequestBuilder {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n").bytes());
        body.extend_from_slice(value);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{BOUNDARY}--\r\n").bytes());
    request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}")).body(body)
}
