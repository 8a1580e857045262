// Verifies webhooks of Mediary (docs/callbacks.md). Node.js 20 or newer.
const crypto = require("node:crypto");

// body: Buffer; key: "whsec_…" or "whpk_…"
function verify(headers, body, key, tolerance = 300) {
  const [id, at, list] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => headers[name]);
  // Written so that NaN is rejected too.
  if (!id || !list || !(Math.abs(Date.now() / 1000 - Number(at)) <= tolerance)) return false;
  const signed = Buffer.concat([Buffer.from(`${id}.${at}.`), body]);
  const raw = Buffer.from(key.slice(key.indexOf("_") + 1), "base64");
  return list.split(" ").some((entry) => {
    const [version, signature = ""] = entry.split(",");
    const given = Buffer.from(signature, "base64");
    if (version === "v1" && key.startsWith("whsec_")) {
      const expected = crypto.createHmac("sha256", raw).update(signed).digest();
      return given.length === expected.length && crypto.timingSafeEqual(given, expected);
    }
    if (version === "v1a" && key.startsWith("whpk_")) {
      // The fixed DER prefix of an ed25519 public key (RFC 8410).
      const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]);
      return crypto.verify(null, signed, crypto.createPublicKey({ key: der, format: "der", type: "spki" }), given);
    }
    return false;
  });
}

module.exports = { verify };
