/** Seconds by which the time of a webhook may differ from the clock. */
const TOLERANCE = 300;

/**
 * Returns `true` if the webhook was signed with `key` in the last five minutes, as Standard Webhooks 1.0 defines it.
 * `key` is a secret of the account (`whsec_…`) or the public key of the service (`whpk_…`), and `body` the raw bytes.
 * Bad headers give `false`; a bad key throws.
 */
export async function verifyWebhook(
  headers: Headers | Record<string, string | string[] | undefined>,
  body: Uint8Array | string,
  key: string,
  now: Date = new Date(),
): Promise<boolean> {
  const [prefix, encodedKey] = [key.slice(0, key.indexOf("_")), key.slice(key.indexOf("_") + 1)];
  if (prefix !== "whsec" && prefix !== "whpk") throw new TypeError("the key must begin with whsec_ or whpk_");

  const header = (name: string): string => {
    const value = headers instanceof Headers ? headers.get(name) : headers[name];
    return typeof value === "string" ? value : "";
  };
  const id = header("webhook-id");
  const timestamp = header("webhook-timestamp");
  if (id === "" || !/^[0-9]{1,15}$/.test(timestamp)) return false;
  if (Math.abs(now.getTime() / 1000 - Number(timestamp)) > TOLERANCE) return false;

  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signedBytes = concatenate(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  const isSecret = prefix === "whsec";
  const algorithm = isSecret ? { name: "HMAC", hash: "SHA-256" } : { name: "Ed25519" };
  const cryptoKey = await crypto.subtle.importKey("raw", fromBase64(encodedKey), algorithm, false, ["verify"]);

  for (const entry of header("webhook-signature").split(" ")) {
    const [version, signature = ""] = entry.split(",");
    if (version !== (isSecret ? "v1" : "v1a")) continue;
    let decoded;
    try {
      decoded = fromBase64(signature);
    } catch {
      continue;
    }
    // HMAC is compared in constant time.
    if (await crypto.subtle.verify(algorithm, cryptoKey, decoded, signedBytes)) return true;
  }
  return false;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

function concatenate(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}
