#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *obtain(size_t size) {
  void *found = calloc(1, size == 0 ? 1 : size);
  if (found == NULL) abort();
  return found;
}

/* --- Reading --- */

typedef struct {
  const char *at;
  const char *end;
  int depth;
} reader;

static json *read_value(reader *in);

static void skip_space(reader *in) {
  while (in->at < in->end && strchr(" \t\r\n", *in->at) != NULL) in->at++;
}

static int take(reader *in, char wanted) {
  skip_space(in);
  if (in->at >= in->end || *in->at != wanted) return 0;
  in->at++;
  return 1;
}

static int take_word(reader *in, const char *word) {
  size_t len = strlen(word);
  if ((size_t)(in->end - in->at) < len || memcmp(in->at, word, len) != 0) return 0;
  in->at += len;
  return 1;
}

/* Four hexadecimal digits; -1 if there are none. */
static long read_unit(reader *in) {
  long unit = 0;
  for (int digit = 0; digit < 4; digit++) {
    char c = in->at < in->end ? *in->at++ : '\0';
    if (c >= '0' && c <= '9') unit = unit * 16 + (c - '0');
    else if (c >= 'a' && c <= 'f') unit = unit * 16 + (c - 'a') + 10;
    else if (c >= 'A' && c <= 'F') unit = unit * 16 + (c - 'A') + 10;
    else return -1;
  }
  return unit;
}

static void put_utf8(buffer *out, unsigned long point) {
  unsigned char bytes[4];
  size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  static const unsigned char FIRST[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t index = len - 1; index > 0; index--) {
    bytes[index] = (unsigned char)(0x80 | (point & 0x3f));
    point >>= 6;
  }
  bytes[0] = (unsigned char)(FIRST[len] | point);
  put_bytes(out, bytes, len);
}

static int read_escape(reader *in, buffer *out) {
  static const char NAMES[] = "\"\\/bfnrt";
  static const char MEANT[] = "\"\\/\b\f\n\r\t";
  char c = in->at < in->end ? *in->at++ : '\0';
  const char *found = c == '\0' ? NULL : strchr(NAMES, c);
  long unit = 0;
  if (found != NULL) {
    put_bytes(out, &MEANT[found - NAMES], 1);
    return 1;
  }
  if (c != 'u' || (unit = read_unit(in)) < 0) return 0;
  if (unit >= 0xd800 && unit < 0xdc00) {
    long low = take_word(in, "\\u") ? read_unit(in) : -1;
    if (low < 0xdc00 || low > 0xdfff) return 0;
    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  } else if (unit >= 0xdc00 && unit < 0xe000) {
    return 0;
  }
  put_utf8(out, (unsigned long)unit);
  return 1;
}

/* A string, behind its first quote; NULL if it is none. */
static char *read_string(reader *in, size_t *len) {
  buffer out = {NULL, 0, 0};
  while (in->at < in->end && *in->at != '"') {
    const char *plain = in->at;
    while (in->at < in->end && *in->at != '"' && *in->at != '\\') in->at++;
    put_bytes(&out, plain, (size_t)(in->at - plain));
    if (in->at < in->end && *in->at == '\\') {
      in->at++;
      if (!read_escape(in, &out)) break;
    }
  }
  if (in->at >= in->end || *in->at != '"') {
    free(out.data);
    return NULL;
  }
  in->at++;
  *len = out.len;
  put_bytes(&out, "", 1);
  return out.data;
}

/* The values of an array, or the members of an object, behind its bracket. */
static int read_parts(reader *in, json *whole) {
  const int named = whole->kind == JSON_OBJECT;
  const char close = named ? '}' : ']';
  json **next = &whole->first;
  if (take(in, close)) return 1;
  do {
    char *name = NULL;
    size_t len = 0;
    if (named && (!take(in, '"') || (name = read_string(in, &len)) == NULL)) return 0;
    *next = named && !take(in, ':') ? NULL : read_value(in);
    if (*next == NULL) {
      free(name);
      return 0;
    }
    (*next)->name = name;
    next = &(*next)->next;
  } while (take(in, ','));
  return take(in, close);
}

static int read_into(reader *in, json *value) {
  if (take(in, '"')) {
    value->kind = JSON_STRING;
    value->text = read_string(in, &value->len);
    return value->text != NULL;
  }
  if (take(in, '[') || take(in, '{')) {
    int read = 0;
    value->kind = in->at[-1] == '[' ? JSON_ARRAY : JSON_OBJECT;
    if (++in->depth > 100) return 0;
    read = read_parts(in, value);
    in->depth--;
    return read;
  }
  if (take_word(in, "null")) return 1;
  if (take_word(in, "true")) return value->kind = JSON_TRUE, 1;
  if (take_word(in, "false")) return value->kind = JSON_FALSE, 1;
  value->kind = JSON_NUMBER;
  for (const char *from = in->at; in->at < in->end && strchr("+-.0123456789eE", *in->at) != NULL; in->at++) {
    value->len = (size_t)(in->at - from) + 1;
  }
  if (value->len == 0) return 0;
  value->text = obtain(value->len + 1);
  memcpy(value->text, in->at - value->len, value->len);
  return 1;
}

static json *read_value(reader *in) {
  json *value = obtain(sizeof *value);
  skip_space(in);
  if (read_into(in, value)) return value;
  json_free(value);
  return NULL;
}

json *json_parse(const char *text, size_t len) {
  reader in = {text, text + len, 0};
  json *value = read_value(&in);
  skip_space(&in);
  if (in.at == in.end) return value;
  json_free(value);
  return NULL;
}

void json_free(json *value) {
  while (value != NULL) {
    json *next = value->next;
    json_free(value->first);
    free(value->text);
    free(value->name);
    free(value);
    value = next;
  }
}

const json *json_member(const json *object, const char *name) {
  const json *member = object == NULL || object->kind != JSON_OBJECT ? NULL : object->first;
  while (member != NULL && strcmp(member->name, name) != 0) member = member->next;
  return member == NULL || member->kind == JSON_NULL ? NULL : member;
}

uint64_t json_number(const json *value) {
  return value == NULL || value->kind != JSON_NUMBER ? 0 : strtoull(value->text, NULL, 10);
}

/* --- Writing --- */

void put_bytes(buffer *out, const void *data, size_t len) {
  if (out->room - out->len < len) {
    out->room = (out->len + len) * 2;
    out->data = realloc(out->data, out->room);
    if (out->data == NULL) abort();
  }
  if (len > 0) memcpy(out->data + out->len, data, len);
  out->len += len;
}

void put(buffer *out, const char *text) { put_bytes(out, text, strlen(text)); }

void put_comma(buffer *out) {
  if (out->len > 0 && strchr("[{:", out->data[out->len - 1]) == NULL) put(out, ",");
}

void put_name(buffer *out, const char *name) {
  put_comma(out);
  put_string(out, name, strlen(name));
  put(out, ":");
}

void put_string(buffer *out, const void *data, size_t len) {
  const unsigned char *bytes = data;
  put(out, "\"");
  for (size_t index = 0; index < len; index++) {
    char escaped[8];
    if (bytes[index] >= 0x20 && bytes[index] != '"' && bytes[index] != '\\') {
      put_bytes(out, &bytes[index], 1);
    } else {
      (void)snprintf(escaped, sizeof escaped, "\\u%04x", bytes[index]);
      put(out, escaped);
    }
  }
  put(out, "\"");
}

/* Whether bytes are UTF-8: shortest forms, no surrogates, nothing beyond U+10FFFF. */
static int is_utf8(const unsigned char *bytes, size_t len) {
  for (size_t at = 0; at < len;) {
    const unsigned char first = bytes[at++];
    size_t more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    unsigned char least = 0x80;
    unsigned char most = 0xbf;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || len - at < more) return 0;
    if (first == 0xe0) least = 0xa0;
    if (first == 0xed) most = 0x9f;
    if (first == 0xf0) least = 0x90;
    if (first == 0xf4) most = 0x8f;
    for (; more > 0; more--, at++) {
      if (bytes[at] < least || bytes[at] > most) return 0;
      least = 0x80;
      most = 0xbf;
    }
  }
  return 1;
}

void put_payload(buffer *out, const void *data, size_t len) {
  const unsigned char *bytes = data;
  if (is_utf8(bytes, len)) {
    put_string(out, data, len);
    return;
  }
  put(out, "{\"hex\":\"");
  for (size_t index = 0; index < len; index++) {
    char digits[3];
    (void)snprintf(digits, sizeof digits, "%02x", bytes[index]);
    put(out, digits);
  }
  put(out, "\"}");
}

void put_number(buffer *out, uint64_t number) {
  char digits[24];
  (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
  put(out, digits);
}

void put_bool(buffer *out, int truth) { put(out, truth ? "true" : "false"); }
