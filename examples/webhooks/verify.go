// Package webhooks verifies webhooks of Mediary (docs/callbacks.md). Go 1.19 or newer.
package webhooks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verify checks a webhook against a "whsec_…" secret or a "whpk_…" key.
func Verify(headers http.Header, body []byte, key string, tolerance time.Duration) bool {
	id, at := headers.Get("webhook-id"), headers.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	kind, text, _ := strings.Cut(key, "_")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	signed := append([]byte(id+"."+at+"."), body...)
	for _, entry := range strings.Split(headers.Get("webhook-signature"), " ") {
		version, signature, _ := strings.Cut(entry, ",")
		given, err := base64.StdEncoding.DecodeString(signature)
		if err != nil {
			continue
		}
		if version == "v1" && kind == "whsec" {
			mac := hmac.New(sha256.New, raw)
			mac.Write(signed)
			if hmac.Equal(mac.Sum(nil), given) {
				return true
			}
		}
		if version == "v1a" && kind == "whpk" && len(raw) == ed25519.PublicKeySize && ed25519.Verify(raw, signed, given) {
			return true
		}
	}
	return false
}
