package tidings_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// Of tests/vectors/rules/jwe_decrypt.json, which were made by another implementation.
const (
	privateKey = `{"kty": "EC", "crv": "P-256", "x": "weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ", ` +
		`"y": "e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck", "d": "VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw"}`
	otherKey = `{"kty": "OKP", "crv": "X25519", "x": "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08", ` +
		`"d": "XasIfmJKikt54X-Lg4AO5m87sSkmGLb9HC-LJ_-I4Os"}`
	encrypted = "eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTI1NkdDTSIsImVwayI6eyJrdHkiOiJFQyIsImNydiI6IlAtMjU2IiwieCI6ImdJMEdBSUxCZHU3" +
		"VDUzYWtyRm1NeUdjc0YzbjVkTzdNbXdOQkhLVzVTVjAiLCJ5IjoiU0xXX3hTZmZ6bFBXckhFVkkzMERITV80ZWdWd3QzTlFxZVVEN25NRnBwcyJ9fQ" +
		"..AAECAwQFBgcICQoL.LWN9CKWCfBT3qXhbkJcFhNrIYC2IOPPtLfraNkgLq1xAeVo6_Xvy4LIvC8-NpObQAANcaw.CkpGjN-4nDagLT-X9ECv_w"
	decrypted = `{"eventId":"evt_1","data":{"n":1.0,"text":"é😀"}}`
)

func keysOf(t *testing.T, jwks ...string) *tidings.DecryptionKeys {
	t.Helper()
	keys, err := tidings.NewDecryptionKeys(jwks...)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestABodyIsReadByItsReceiverOnly(t *testing.T) {
	plain, err := keysOf(t, otherKey, privateKey).Decrypt([]byte(encrypted))
	if err != nil || string(plain) != decrypted {
		t.Errorf("%q, %v", plain, err)
	}
	var refused *tidings.WebhookError
	for body, code := range map[string]string{encrypted: "jwe_no_key", decrypted: "jwe_malformed", "": "jwe_malformed"} {
		if _, err := keysOf(t, otherKey).Decrypt([]byte(body)); !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("%q: %v, not %s", body, err, code)
		}
	}
	public := strings.Replace(privateKey, `"d"`, `"e"`, 1)
	for _, bad := range [][]string{{}, {"{}"}, {privateKey, public}} {
		if _, err := tidings.NewDecryptionKeys(bad...); !errors.Is(err, tidings.ErrInvalidArgument) || strings.Contains(err.Error(), "VEmDZp") {
			t.Errorf("%v", err)
		}
	}
}

func TestTheHandlerDecrypts(t *testing.T) {
	webhook, err := tidings.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	receive := func(_ context.Context, received *tidings.Received) error {
		got = append(got, string(received.Body))
		return nil
	}
	post := func(handler http.Handler, body string) int {
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte(body)))
		now := time.Now()
		signature, err := webhook.Sign("msg_1", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Webhook-Id", "msg_1")
		request.Header.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()))
		request.Header.Set("Webhook-Signature", signature)
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		return response.Code
	}
	handler := webhook.Handler(receive, tidings.DecryptWith(keysOf(t, privateKey)))
	for _, body := range []string{encrypted, decrypted, " " + decrypted} {
		if code := post(handler, body); code != http.StatusNoContent {
			t.Errorf("%q: %d", body, code)
		}
	}
	if code := post(webhook.Handler(receive, tidings.DecryptWith(keysOf(t, otherKey))), encrypted); code != http.StatusInternalServerError {
		t.Errorf("another key: %d", code)
	}
	if code := post(webhook.Handler(receive), encrypted); code != http.StatusNoContent {
		t.Errorf("without keys: %d", code)
	}
	if want := []string{decrypted, decrypted, " " + decrypted, encrypted}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q", got)
	}
}
