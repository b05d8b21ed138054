/* Answers the conformance runner over include/tidings.h: a question a line on stdin, an answer a line on stdout.
 *
 * It only converts; what it says is what the library says. Everything that may wait does so at a port, as in an event loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

static const char HELLO[] =
    "\"surface\":\"c\",\"features\":[\"webhook\",\"encryption\",\"config\",\"errors\",\"streams\",\"calls\",\"tasks\","
    "\"processes\",\"crash\",\"outlets\",\"fanout\"]";

static step find_step(const char *op) {
  static const operation *const ALL[] = {RULES, STREAMS, CALLS, TASKS, FAN_OUT};
  for (size_t file = 0; file < sizeof ALL / sizeof *ALL; file++) {
    for (const operation *one = ALL[file]; one->op != NULL; one++) {
      if (strcmp(one->op, op) == 0) return one->run;
    }
  }
  return NULL;
}

/* An error of the library's is an outcome. */
static void put_failure(buffer *out, tidings_result result) {
  const char *name = "?";
  (void)tidings_result_name(result, &name);
  put(out, "\"out\":{");
  put_name(out, "error");
  put_string(out, name, strlen(name));
  if (result == TIDINGS_INVALID_CONFIG) put_faults(out, 0);
  put(out, "}");
}

static void answer(stage *self, const json *question, buffer *out) {
  const text op = text_of(question, "op", "");
  const step run = find_step(op.data);
  buffer said = {NULL, 0, 0};
  put(out, "{");
  put_name(out, "id");
  put_number(out, number_of(question, "id", 0));
  put(out, ",");
  if (strcmp(op.data, "hello") == 0) {
    put(out, "\"out\":{");
    put(out, HELLO);
    put(out, "}");
  } else if (run == NULL) {
    put(out, "\"unsupported\":true");
  } else {
    put(&said, "{");
    const tidings_result result = run(self, json_member(question, "in"), &said);
    if (result == TIDINGS_OK) {
      put(out, "\"out\":");
      put_bytes(out, said.data, said.len);
      put(out, "}");
    } else if (result == NOT_ASKED) {
      put(out, "\"error\":\"the adapter cannot ask that\"");
    } else {
      put_failure(out, result);
    }
    free(said.data);
  }
  put(out, "}\n");
}

int main(void) {
  stage self = {NULL, NULL, NULL};
  char *line = NULL;
  size_t room = 0;
  ssize_t len = 0;
  if (tidings_port_new(&self.port) != TIDINGS_OK) return 1;
  while ((len = getline(&line, &room, stdin)) > 0) {
    json *question = json_parse(line, (size_t)len);
    buffer out = {NULL, 0, 0};
    if (question == NULL) return 2;
    answer(&self, question, &out);
    json_free(question);
    if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0) return 1;
    free(out.data);
  }
  free(line);
  clear(&self);
  (void)tidings_hub_free(self.hub);
  (void)tidings_port_free(self.port);
  return 0;
}
