/* SPDX-License-Identifier: MIT */
/* What a worker prints: JSON, member by member. The commas, the escapes in strings and the numbers that JSON does not
 * have are seen to here. `name` is NULL for an element of an array and for the outermost value, after whose end comes
 * a line feed. */
#ifndef FGB_JSON_H
#define FGB_JSON_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void fgb_json_object(const char *name);
void fgb_json_array(const char *name);
void fgb_json_end(void); /* of the object or array that was begun last */

void fgb_json_text(const char *name, const char *value);
void fgb_json_flag(const char *name, bool value);
void fgb_json_count(const char *name, uint64_t value);
void fgb_json_integer(const char *name, int64_t value);
void fgb_json_real(const char *name, double value);                  /* as many digits as it takes */
void fgb_json_rounded(const char *name, double value, int decimals); /* infinite, or not a number: null */

#ifdef __cplusplus
}
#endif

#endif
