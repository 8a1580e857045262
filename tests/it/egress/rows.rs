//! Notations of forbidden addresses.

/// Outcome of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressOutcome {
    /// The submission is rejected.
    Rejected,
    /// No connection is made.
    Forbidden,
    /// The redirect of the allowed server is a failure for a callback; an input follows it to a forbidden address.
    Redirected,
}

/// One notation.
pub struct EgressRow {
    /// URL, with `/x` at its end where a path is possible.
    pub url: String,
    pub outcome: EgressOutcome,
}

/// Hosts that the URL parser reads as an address, or that a name server resolves to one.
#[rustfmt::skip]
const FORBIDDEN: &[&str] = &[
    // Loopback in the notations of IPv4.
    "127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "127.0.0.1.", "2130706433", "017700000001",
    "0x7f000001", "0X7F000001", "0x7f.1", "0x7f.0.1", "0x7f.0x0.0x0.0x1", "0177.0.0.1", "0177.0.0.01", "00000177.0.0.1",
    "127.0.0.0x1", "127.0x1", "127.000.000.001",
    // In other characters.
    "１２７.０.０.１", "①②⑦.⓪.⓪.①", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "%31%32%37.0.0.1", "127%2e0%2e0%2e1",
    "%31%32%37%2E%30%2E%30%2E%31", "0ｘ7f.1",
    // IPv6, and IPv4 embedded in it.
    "[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::ffff:127.0.0.1]", "[::FFFF:7F00:1]", "[::127.0.0.1]", "[::7f00:1]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:7f00:1::1]",
    "[::ffff:0:127.0.0.1]", "[2001:0:7f00:1::]", "[::ffff:10.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]", "[2002:a00:1::1]",
    // Private networks.
    "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1", "100.64.0.1", "[fc00::1]", "[fdff::1]",
    // Link-local addresses, and metadata services of clouds.
    "169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.1.1", "100.100.100.200",
    "168.63.129.16", "192.0.0.192", "[fe80::1]", "[fec0::1]", "[fd00:ec2::254]",
    // Unspecified, broadcast and multicast addresses.
    "0.0.0.0", "0", "0x0", "00.00.00.00", "0.1.2.3", "[::]", "255.255.255.255", "4294967295", "224.0.0.1",
    "239.255.255.250", "[ff02::1]", "[ff0e::1]",
    // Documentation, benchmarks, relays, and reserved ranges.
    "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "192.88.99.1", "240.0.0.1", "192.0.0.1", "[2001:db8::1]",
    "[3fff::1]", "[100::1]", "[5f00::1]", "[4000::1]",
    // Names.
    "localhost", "LOCALHOST", "localhost.", "sub.localhost", "loopback.example", "private.example", "v6.example",
    "mapped.example", "nat64.example", "sixtofour.example", "metadata.example", "zero.example", "unspecified.example",
    "several.example", "LoopBack.Example", "ｌｏｏｐｂａｃｋ.example",
];

/// URLs that no submission may contain.
#[rustfmt::skip]
const REJECTED: &[&str] = &[
    "http://user@127.0.0.1:PORT/x", "http://user:password@127.0.0.1:PORT/x", "http://1.1.1.1@127.0.0.1:PORT/x",
    "http://1.1.1.1:80@127.0.0.1:PORT/x", "http://a.example%40b@127.0.0.1:PORT/x",
    "http://[fe80::1%25lo]:PORT/x", "http://[::1%25lo]:PORT/x", "http://[127.0.0.1]:PORT/x", "http://256.0.0.1:PORT/x",
    "http://127.0.0.1.2:PORT/x", "http://0x7f000001ff:PORT/x", "http://127.0.0.1%00.example:PORT/x",
    "http://127.0.0.1 :PORT/x", "http://127.0.0.1\t:PORT/x", "http://127.0.0.1:99999/x", "ftp://127.0.0.1:PORT/x",
    "file:///etc/passwd", "gopher://127.0.0.1:PORT/x", "//127.0.0.1:PORT/x", "javascript:alert(1)", "unix:/run/x.sock",
    "ws://127.0.0.1:PORT/x", "http://", "http://:PORT/x",
];

/// Hosts that are parsed as an address although they do not look like one.
#[rustfmt::skip]
const DISGUISED: &[&str] = &[
    "hTTp://127.0.0.1:PORT/x", "https://127.0.0.1:PORT/x", "http:127.0.0.1:PORT/x", "http:/127.0.0.1:PORT/x",
    "http:///127.0.0.1:PORT/x", "http:\\\\127.0.0.1:PORT\\x", "http://127.0.0.1:PORT\\@a.example/x",
    "http://127.0.0.1:PORT#@a.example/x", "http://127.0.0.1:PORT?@a.example/x", "http://@127.0.0.1:PORT/x", "http://:@127.0.0.1:PORT/x",
    "http://127.0.0.1:00PORT/x",
];

/// Targets of the allowed server's redirects.
#[rustfmt::skip]
const REDIRECTED: &[&str] = &[
    "127.0.0.1", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "localhost", "several.example", "169.254.169.254",
    "user@127.0.0.1", "0.0.0.0",
];

/// Returns all rows, at the port of the canary.
pub fn rows(port: u16, redirecting: u16) -> Vec<EgressRow> {
    let at_port = |template: &str| template.replace("PORT", &port.to_string());
    let forbidden = FORBIDDEN.iter().map(|host| (format!("http://{host}:{port}/x"), EgressOutcome::Forbidden));
    let rejected = REJECTED.iter().map(|url| (at_port(url), EgressOutcome::Rejected));
    let disguised = DISGUISED.iter().map(|url| (at_port(url), EgressOutcome::Forbidden));
    let to =
        REDIRECTED.iter().map(|host| (format!("http://127.0.0.9:{redirecting}/to/{host}"), EgressOutcome::Redirected));
    forbidden.chain(rejected).chain(disguised).chain(to).map(|(url, outcome)| EgressRow { url, outcome }).collect()
}
