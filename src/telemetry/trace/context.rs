//! Trace context: the ids of a span, as in `traceparent` (W3C Trace Context, 3.2).

/// A span, identified by its trace and its own id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    /// `true` if the trace is recorded.
    pub sampled: bool,
}

impl SpanContext {
    /// Parses `traceparent`. Unknown versions may append fields.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];

        let [version] = decode_hex(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let [flags] = decode_hex(flags)?;
        let trace = decode_hex(trace)?;
        let span = decode_hex(span)?;
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }

    /// Returns the first span of a new trace, which is sampled with a probability of `percent` in a hundred.
    #[must_use]
    pub fn new_root(random: [u8; 24], percent: u8) -> Self {
        let mut trace = [0; 16];
        let mut span = [0; 8];
        trace.copy_from_slice(&random[..16]);
        span.copy_from_slice(&random[16..]);

        let percentile = u16::from_be_bytes([random[14], random[15]]) % 100;
        Self { trace, span, sampled: percentile < u16::from(percent) }
    }

    /// Returns another span of the same trace.
    #[must_use]
    pub fn child(self, random: [u8; 24]) -> Self {
        let mut span = [0; 8];
        span.copy_from_slice(&random[..8]);
        Self { span, ..self }
    }
}

/// Decodes exactly `N` bytes from lower-case hexadecimal digits.
fn decode_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }

    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digit = |at: usize| match pair[at] {
            digit @ b'0'..=b'9' => Some(digit - b'0'),
            digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        *byte = digit(0)? << 4 | digit(1)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_valid_traceparents_are_parsed() {
        let context = SpanContext::parse(GOOD).unwrap();
        assert_eq!((context.trace[0], context.span[7], context.sampled), (0x0a, 0x31, true));
        assert!(!SpanContext::parse(&GOOD.replace("-01", "-00")).unwrap().sampled);
        assert!(SpanContext::parse(&format!("cc{}-what-will-be", &GOOD[2..])).is_some());

        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-x"),
            &format!("ff{}", &GOOD[2..]),
            &GOOD.to_uppercase(),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(SpanContext::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_configured_percentage_of_traces_is_sampled() {
        let sampled_count = |percent| (0..=255_u8).filter(|n| SpanContext::new_root([*n; 24], percent).sampled).count();
        assert_eq!((sampled_count(0), sampled_count(100)), (0, 256));
        assert!((90..170).contains(&sampled_count(50)), "{}", sampled_count(50));
    }
}
