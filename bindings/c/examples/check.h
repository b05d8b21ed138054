/* What the examples share: a call that fails ends the program with its name and the library's own words. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidings.h>

#define CHECK(call) check((call), #call)

static void check(tidings_result result, const char *call) {
  if (result == TIDINGS_OK) return;
  tidings_text *message = NULL;
  const char *data = "";
  size_t len = 0;
  if (tidings_last_error(&message) == TIDINGS_OK) (void)tidings_text_get(message, &data, &len);
  fprintf(stderr, "%s: %d: %.*s\n", call, (int)result, (int)len, data);
  exit(1);
}

#endif
