/* Tells connections what has changed, in one epoll loop: the port's descriptor and the connections' own stand side by side.
 *
 *   fanout sqlite:PATH
 *
 * Three clients are on socket pairs. One is of an MCP version without filters, one asks by a filter, and one does not read:
 * it has failed, and the others do not notice.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

enum { CLIENTS = 3, OLD = 0, FILTERED = 1, DEAF = 2, PORT = CLIENTS };

static const char SERVER[] = "{\"tools\":{\"listChanged\":true},\"resources\":{\"subscribe\":true}}";
static const char URI[] = "file:///notes/today";

/* One client, as its server sees it, and the client's own end of the socket. */
typedef struct {
  tidings_peer *peer;
  tidings_listener *listener;
  uint64_t number;
  int server_end;
  int client_end;
} connection;

/* A program's own: makes the connection's end one that says so instead of waiting. */
static void open_sockets(connection *self) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) exit(1);
  self->server_end = ends[0];
  self->client_end = ends[1];
}

static void watch(int epoll, int descriptor, uint32_t which) {
  struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = which}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) exit(1);
}

static void join(const tidings_outbox *outbox, connection *self, const char *principal, const char *version) {
  tidings_profile *profile = NULL;
  int32_t listens = 0;
  open_sockets(self);
  CHECK(tidings_outbox_join(outbox, principal, strlen(principal), 0, &self->peer));
  CHECK(tidings_peer_number(self->peer, &self->number));
  CHECK(tidings_profile_new(version, strlen(version), SERVER, strlen(SERVER), "{}", 2, &profile));
  CHECK(tidings_profile_listens(profile, &listens));
  if (listens) {
    static const char FILTER[] = "{\"resourceSubscriptions\":[\"file:///notes/today\"]}";
    CHECK(tidings_peer_listen(self->peer, profile, "\"sub-1\"", 7, FILTER, strlen(FILTER), &self->listener));
  } else {
    CHECK(tidings_peer_attend(self->peer, profile, &self->listener));
    CHECK(tidings_listener_open(self->listener)); /* notifications/initialized has come */
  }
  CHECK(tidings_profile_free(profile));
}

static void leave(connection *self) {
  CHECK(tidings_listener_free(self->listener));
  CHECK(tidings_peer_free(self->peer)); /* closes it */
  close(self->server_end);
  close(self->client_end);
}

/* Writes one notification as a line of JSON-RPC; 0 if the connection did not take it. */
static int write_line(int descriptor, const tidings_notice *notice) {
  char line[512];
  const char *before = notice->params.data == NULL ? "" : ",\"params\":";
  int len = snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"method\":\"%.*s\"%s%.*s}\n", (int)notice->method.len,
                     (const char *)notice->method.data, before, (int)notice->params.len,
                     notice->params.data == NULL ? "" : (const char *)notice->params.data);
  if (len < 0 || (size_t)len >= sizeof line) return 0;
  /* A real server keeps what did not fit and goes on when the descriptor is writable. */
  return send(descriptor, line, (size_t)len, MSG_NOSIGNAL) == len;
}

static void write_out(const tidings_outbox *outbox, connection *connections, int *finished) {
  tidings_notices *notices = NULL;
  size_t count = 0;
  CHECK(tidings_outbox_take(outbox, 64, &notices));
  CHECK(tidings_notices_count(notices, &count));
  for (size_t index = 0; index < count; index++) {
    tidings_notice notice;
    CHECK(tidings_notices_get(notices, index, &notice, sizeof notice));
    for (int which = 0; which < CLIENTS; which++) {
      connection *self = &connections[which];
      int32_t in_time = 0;
      size_t listeners = 0;
      if (self->number != notice.peer) continue;
      if (notice.method.data == NULL) {
        printf("client %d: its listener has ended\n", which);
        *finished = 1;
      } else if (write_line(self->server_end, &notice)) {
        CHECK(tidings_peer_written(self->peer, 1, &in_time));
      } else {
        CHECK(tidings_peer_broke(self->peer, &listeners));
        printf("client %d: does not read, %d listener less\n", which, (int)listeners);
      }
    }
  }
  CHECK(tidings_notices_free(notices));
}

/* What a client got; how many lines. */
static int read_lines(int which, int descriptor) {
  char buffer[4096];
  int lines = 0;
  ssize_t len = recv(descriptor, buffer, sizeof buffer - 1, 0);
  if (len <= 0) return 0;
  buffer[len] = '\0';
  for (char *line = strtok(buffer, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    printf("client %d: %s\n", which, line);
    lines++;
  }
  return lines;
}

static void print_fanout(const tidings_hub *hub, const char *kind, const char *uri) {
  tidings_bytes kinds = {(const uint8_t *)kind, strlen(kind)};
  tidings_fanout fanout;
  CHECK(tidings_hub_notify(hub, &kinds, 1, uri, uri == NULL ? 0 : strlen(uri), NULL, 0, &fanout, sizeof fanout));
  printf("%s: told %d, skipped %d, failed %d\n", kind, (int)fanout.told, (int)fanout.skipped, (int)fanout.failed);
}

/* Parks a wait at the port, or finds that there is something at once. */
static void await_outbox(const tidings_outbox *outbox, const tidings_port *port, uint64_t *token) {
  tidings_answer *answer = NULL;
  *token = 0;
  CHECK(tidings_outbox_ready(outbox, port, token, &answer));
  CHECK(tidings_answer_free(answer));
}

int main(int argc, char **argv) {
  tidings_hub *hub = NULL;
  tidings_outbox *outbox = NULL;
  tidings_port *port = NULL;
  tidings_failed_peers *failed = NULL;
  connection connections[CLIENTS] = {{0}};
  int got[CLIENTS] = {0};
  int finished = 0;
  int published = 0;
  int32_t descriptor = -1;
  uint64_t token = 0;
  size_t count = 0;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);

  if (argc != 2 || epoll < 0) {
    fprintf(stderr, "usage: fanout sqlite:PATH\n");
    return 2;
  }
  CHECK(tidings_hub_new(argv[1], strlen(argv[1]), NULL, &hub));
  CHECK(tidings_hub_outbox(hub, &outbox));
  CHECK(tidings_port_new(&port));
  CHECK(tidings_port_descriptor(port, &descriptor));
  watch(epoll, descriptor, PORT);
  join(outbox, &connections[OLD], "alice", "2025-11-25");
  join(outbox, &connections[FILTERED], "bob", "2026-07-28");
  join(outbox, &connections[DEAF], "carol", "2025-11-25");
  CHECK(tidings_listener_subscribe(connections[OLD].listener, URI, strlen(URI)));
  for (int which = 0; which < CLIENTS; which++) watch(epoll, connections[which].client_end, (uint32_t)which);
  close(connections[DEAF].client_end);
  connections[DEAF].client_end = -1;

  await_outbox(outbox, port, &token);
  /* The first is told of the tools and of its resource; the second of its acknowledgement, its resource and its end. */
  while (got[OLD] < 2 || got[FILTERED] < 2 || !finished) {
    struct epoll_event events[8];
    int ready = 0;
    while (token == 0) { /* there is something to write, and no need to wait for it */
      write_out(outbox, connections, &finished);
      await_outbox(outbox, port, &token);
    }
    if (got[FILTERED] == 1 && !published) {
      /* However often it is said before a connection was written to, each is told once. */
      for (int times = 0; times < 3; times++) print_fanout(hub, "tools", NULL);
      print_fanout(hub, "resource", URI);
      CHECK(tidings_listener_end(connections[FILTERED].listener)); /* in order: after what was promised */
      published = 1;
    }
    ready = epoll_wait(epoll, events, 8, 30000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return 1;
    for (int n = 0; n < ready; n++) {
      const uint32_t which = events[n].data.u32;
      if (which == PORT) {
        uint64_t done = 0;
        tidings_answer *answer = NULL;
        CHECK(tidings_port_drain(port, &done, 1, &count));
        if (count == 0 || done != token) continue;
        CHECK(tidings_port_take(port, done, &answer));
        CHECK(tidings_answer_free(answer));
        token = 0;
      } else {
        got[which] += read_lines((int)which, connections[which].client_end);
      }
    }
  }
  CHECK(tidings_hub_failed_peers(hub, &failed));
  CHECK(tidings_failed_peers_count(failed, &count));
  printf("failed: %d\n", (int)count);
  CHECK(tidings_failed_peers_free(failed));
  for (int which = 0; which < CLIENTS; which++) leave(&connections[which]);
  close(epoll);
  CHECK(tidings_port_free(port));
  CHECK(tidings_outbox_free(outbox));
  CHECK(tidings_hub_free(hub));
  return count == 1 ? 0 : 1;
}
