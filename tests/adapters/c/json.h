/* As much of JSON as a question and an answer a line need. */
#ifndef JSON_H
#define JSON_H

#include <stddef.h>
#include <stdint.h>

typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

typedef struct json {
  json_kind kind;
  char *text; /* what a string says, in UTF-8, or a number's own text; with a NUL behind it */
  size_t len;
  char *name; /* of a member of an object */
  struct json *first;
  struct json *next;
} json;

/* The value of a text; NULL if it is none. Free it with json_free. */
json *json_parse(const char *text, size_t len);
void json_free(json *value);
/* The member of that name; NULL if there is none, or it is null. */
const json *json_member(const json *object, const char *name);
uint64_t json_number(const json *value);

/* A text that grows. */
typedef struct {
  char *data;
  size_t len;
  size_t room;
} buffer;

void put_bytes(buffer *out, const void *data, size_t len);
void put(buffer *out, const char *text);
/* Between values of an array and before names: a comma where one belongs. */
void put_comma(buffer *out);
void put_name(buffer *out, const char *name);
void put_string(buffer *out, const void *data, size_t len);
/* The text, or {"hex": …} where the bytes are none. */
void put_payload(buffer *out, const void *data, size_t len);
void put_number(buffer *out, uint64_t number);
void put_bool(buffer *out, int truth);

/* Memory, or the end of the program. */
void *obtain(size_t size);

#endif
