package tidings

import (
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
	// Body is as it came.
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

// Handler verifies webhooks and answers challenges, and hands over the rest. What receive returns decides: nil is 204, and an
// error 500, upon which the sender tries again. A webhook may come more than once, under the same id.
func (w *Webhook) Handler(receive func(ctx context.Context, received *Received) error) http.Handler {
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
		received := &Received{ID: request.Header.Get("webhook-id"), Body: body, Time: timeOf(request.Header)}
		if err := receive(request.Context(), received); err != nil {
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
