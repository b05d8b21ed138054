/* Receives one webhook: verifies it, answers it where it is a challenge, and reads it where it is encrypted to this receiver.
 *
 *   receiver SECRET JWK ID TIMESTAMP SIGNATURE <BODY
 *
 * JWK is the receiver's private key; the other three are the headers `webhook-id`, `webhook-timestamp` and
 * `webhook-signature`. A server has all of them from the request.
 */
#include <time.h>

#include "check.h"

enum { MOST = 1 << 20 };

static tidings_pair header(const char *name, const char *value) {
  const tidings_pair pair = {name, strlen(name), value, strlen(value)};
  return pair;
}

static tidings_bytes whole(const char *text) {
  const tidings_bytes bytes = {(const uint8_t *)text, strlen(text)};
  return bytes;
}

/* Why the last call failed: which rule was broken is for the receiver's own log, not for the sender. */
static void print_refusal(void) {
  tidings_text *message = NULL;
  const char *data = NULL;
  size_t len = 0;
  CHECK(tidings_last_error(&message));
  CHECK(tidings_text_get(message, &data, &len));
  printf("refused: %.*s\n", (int)len, data);
  CHECK(tidings_text_free(message));
}

static void print_text(const char *what, tidings_text *text) {
  const char *data = NULL;
  size_t len = 0;
  CHECK(tidings_text_get(text, &data, &len));
  printf("%s: %.*s\n", what, (int)len, data);
  CHECK(tidings_text_free(text));
}

/* What a genuine webhook says. Not its content-type tells whether it is encrypted, which is not signed: no JWE begins as JSON. */
static void take(const char *jwk, const uint8_t *body, size_t len) {
  const tidings_bytes jwks[] = {whole(jwk)}; /* several while one replaces the other */
  tidings_webhook_keys *keys = NULL;
  tidings_text *plain = NULL;
  if (len > 0 && body[0] == '{') {
    printf("plain: %.*s\n", (int)len, (const char *)body);
    return;
  }
  CHECK(tidings_webhook_keys_new(jwks, 1, &keys));
  const tidings_result result = tidings_webhook_decrypt(keys, body, len, &plain);
  if (result == TIDINGS_UNVERIFIED) {
    print_refusal();
  } else {
    CHECK(result);
    print_text("decrypted", plain);
  }
  CHECK(tidings_webhook_keys_free(keys));
}

int main(int argc, char **argv) {
  tidings_webhook *webhook = NULL;
  tidings_text *answer = NULL;

  if (argc != 6) {
    fprintf(stderr, "usage: receiver SECRET JWK ID TIMESTAMP SIGNATURE <BODY\n");
    return 2;
  }
  const tidings_bytes secrets[] = {whole(argv[1])}; /* two during a rotation */
  const tidings_pair headers[] = {header("webhook-id", argv[3]), header("webhook-timestamp", argv[4]),
                                  header("webhook-signature", argv[5])};
  uint8_t *body = malloc(MOST);
  if (body == NULL) return 1;
  const size_t len = fread(body, 1, MOST, stdin);

  CHECK(tidings_webhook_new(secrets, 1, &webhook));
  const tidings_result result =
      tidings_webhook_verify(webhook, body, len, headers, 3, (int64_t)time(NULL), TIDINGS_WEBHOOK_TOLERANCE);
  if (result == TIDINGS_UNVERIFIED) {
    print_refusal(); /* answered by 401 */
  } else {
    CHECK(result);
    CHECK(tidings_webhook_challenge_answer(body, len, &answer));
    if (answer != NULL) {
      print_text("answered", answer);
    } else {
      take(argv[2], body, len);
    }
  }
  CHECK(tidings_webhook_free(webhook));
  free(body);
  return 0;
}
