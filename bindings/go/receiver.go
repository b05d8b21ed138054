package tidings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// A Received webhook: verified, and no challenge.
type Received struct {
	// ID is the `webhook-id`: the same for every attempt, so that a receiver can tell what it has seen.
	ID string
	// Time is when the attempt was made.
	Time time.Time
	// Body is as it came, or what it was before it was encrypted to this receiver: see [DecryptWith].
	Body []byte
}

// A Tiding is the body of a webhook (its data differs by trigger, and is raw).
type Tiding struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Cursor    string          `json:"cursor,omitempty"`
	Data      json.RawMessage `json:"data"`
}

// Tiding reads the body.
func (r *Received) Tiding() (*Tiding, error) {
	var tiding Tiding
	if err := json.Unmarshal(r.Body, &tiding); err != nil {
		return nil, err
	}
	return &tiding, nil
}

// MaxReceived is how long a body [Webhook.Handler] reads: a sender's own limit is 256 KiB unless its operator raised it.
const MaxReceived = 4 << 20

// A HandlerOption of [Webhook.Handler].
type HandlerOption struct{ apply func(*handling) }

type handling struct{ keys *DecryptionKeys }

// DecryptWith has bodies decrypted that were encrypted to one of these keys, before they are handed over. Those in the clear are
// as before. One that none of the keys opens is answered by 500, so that it comes again when the right key is here.
func DecryptWith(keys *DecryptionKeys) HandlerOption {
	return HandlerOption{func(handling *handling) { handling.keys = keys }}
}

// plain is the body that is handed over. Its content type does not tell whether it is encrypted, for that is not signed: JSON never
// begins as a JWE does.
func (h handling) plain(body []byte) ([]byte, error) {
	if start := bytes.TrimLeft(body, " \t\r\n"); h.keys == nil || bytes.HasPrefix(start, []byte("{")) {
		return body, nil
	}
	return h.keys.Decrypt(body)
}

// Handler verifies webhooks and answers challenges, and hands over the rest. What receive returns decides: nil is 204, and an
// error 500, upon which the sender tries again. A webhook may come more than once, under the same id.
func (w *Webhook) Handler(receive func(ctx context.Context, received *Received) error, options ...HandlerOption) http.Handler {
	var handling handling
	for _, option := range options {
		option.apply(&handling)
	}
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodPost {
			response.Header().Set("Allow", http.MethodPost)
			http.Error(response, "POST a webhook", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, MaxReceived))
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			http.Error(response, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(response, "the body could not be read", http.StatusBadRequest)
			return
		}
		if err := w.Verify(request.Header, body); err != nil {
			// Which check failed is for the receiver's own log, not for whoever sent this.
			http.Error(response, "the webhook is not to be trusted", http.StatusUnauthorized)
			return
		}
		if answer := ChallengeAnswer(body); answer != nil {
			response.Header().Set("Content-Type", "application/json")
			_, _ = response.Write(answer)
			return
		}
		plain, err := handling.plain(body)
		if err == nil {
			received := &Received{ID: request.Header.Get("webhook-id"), Body: plain, Time: timeOf(request.Header)}
			err = receive(request.Context(), received)
		}
		if err != nil {
			http.Error(response, "the webhook could not be taken", http.StatusInternalServerError)
			return
		}
		response.WriteHeader(http.StatusNoContent)
	})
}

// timeOf is the time that was signed: verified, and so a number.
func timeOf(header http.Header) time.Time {
	var seconds int64
	for _, digit := range header.Get("webhook-timestamp") {
		seconds = seconds*10 + int64(digit-'0')
	}
	return time.Unix(seconds, 0)
}
