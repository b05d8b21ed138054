package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"net/http"
	"runtime"
	"time"
)

// DefaultTolerance is how far a webhook's time may be from now, either way.
const DefaultTolerance = 5 * time.Minute

// A Webhook is what a receiver knows of a sender (Standard Webhooks): its secrets.
type Webhook struct{ webhook *C.tidings_webhook }

// NewWebhook takes secrets (`whsec_…`, which may be missing): two of them during rotation.
func NewWebhook(secrets ...string) (*Webhook, error) {
	var given given
	defer given.release()
	list := make([][]byte, len(secrets))
	for at, secret := range secrets {
		list[at] = []byte(secret)
	}
	webhook := &Webhook{}
	err := attempt(func() C.tidings_result {
		list, count := given.several(list)
		return C.tidings_webhook_new(list, count, &webhook.webhook)
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(webhook, func(handle *C.tidings_webhook) { C.tidings_webhook_free(handle) }, webhook.webhook)
	return webhook, nil
}

// Verify checks a webhook: its body as it was received, byte for byte, and its headers. It fails with a [WebhookError] for one
// that is not to be trusted.
func (w *Webhook) Verify(header http.Header, body []byte) error {
	return w.VerifyAt(header, body, time.Now(), DefaultTolerance)
}

// VerifyAt is Verify at another time, with another tolerance, both in whole seconds.
func (w *Webhook) VerifyAt(header http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	defer runtime.KeepAlive(w)
	var given given
	defer given.release()
	var list [][2]string
	for name, values := range header {
		for _, value := range values {
			list = append(list, [2]string{name, value})
		}
	}
	return attempt(func() C.tidings_result {
		bytes, bytesLen := raw(body)
		pairs, count := given.pairs(list)
		seconds := C.uint64_t(max(tolerance/time.Second, 0))
		return C.tidings_webhook_verify(w.webhook, bytes, bytesLen, pairs, count, C.int64_t(now.Unix()), seconds)
	})
}

// Sign is the value of the `webhook-signature` header for this id, time (in whole seconds) and body.
func (w *Webhook) Sign(id string, at time.Time, body []byte) (string, error) {
	defer runtime.KeepAlive(w)
	var text *C.tidings_text
	err := attempt(func() C.tidings_result {
		id, idLen := chars(id)
		bytes, bytesLen := raw(body)
		return C.tidings_webhook_sign(w.webhook, id, idLen, C.int64_t(at.Unix()), bytes, bytesLen, &text)
	})
	return takeText(text), err
}

// ChallengeAnswer is the answer to a sender's challenge, as JSON text: answer it with status 200. Nil for a body that is none.
// Verify it first.
func ChallengeAnswer(body []byte) []byte {
	var text *C.tidings_text
	err := attempt(func() C.tidings_result {
		bytes, bytesLen := raw(body)
		return C.tidings_webhook_challenge_answer(bytes, bytesLen, &text)
	})
	if answer, found := takeOptional(text); found && err == nil {
		return []byte(answer)
	}
	return nil
}

// DecryptionKeys are a receiver's private keys, for bodies that are encrypted to it (`publicKey` of a route).
type DecryptionKeys struct{ keys *C.tidings_webhook_keys }

// NewDecryptionKeys takes keys on P-256 or X25519, each the JSON text of a JWK with its `d`: several while one replaces the other.
// The message of an error holds nothing of a key.
func NewDecryptionKeys(jwks ...string) (*DecryptionKeys, error) {
	var given given
	defer given.release()
	list := make([][]byte, len(jwks))
	for at, jwk := range jwks {
		list[at] = []byte(jwk)
	}
	keys := &DecryptionKeys{}
	err := attempt(func() C.tidings_result {
		list, count := given.several(list)
		return C.tidings_webhook_keys_new(list, count, &keys.keys)
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(keys, func(handle *C.tidings_webhook_keys) { C.tidings_webhook_keys_free(handle) }, keys.keys)
	return keys, nil
}

// Decrypt reads a body that was encrypted to one of the keys: a JWE in its compact form (RFC 7516), ECDH-ES with A256GCM. Verify
// it first: the signature is over the body as it came. It fails with a [WebhookError], whose Code names the rule.
func (k *DecryptionKeys) Decrypt(body []byte) ([]byte, error) {
	defer runtime.KeepAlive(k)
	var plain *C.tidings_text
	err := attempt(func() C.tidings_result {
		bytes, bytesLen := raw(body)
		return C.tidings_webhook_decrypt(k.keys, bytes, bytesLen, &plain)
	})
	if err != nil {
		return nil, err
	}
	return []byte(takeText(plain)), nil
}
