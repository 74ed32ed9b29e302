/* SPDX-License-Identifier: MIT */
/* What a worker prints is JSON, whatever the strings and numbers are. */
#include "worker/json.h"

#include <math.h>

#include "tests/check.h"

static void print(void)
{
	fgb_json_object(NULL);
	fgb_json_text("text", "a \"quoted\" back\\slash,\ttab\nline");
	fgb_json_text("", "");
	fgb_json_array("empty");
	fgb_json_end();
	fgb_json_object("inner");
	fgb_json_end();
	fgb_json_array("rows");
	for (uint64_t i = 0; i < 2; i++) {
		fgb_json_object(NULL);
		fgb_json_count("i", i);
		fgb_json_flag("odd", i % 2);
		fgb_json_end();
	}
	fgb_json_count(NULL, UINT64_MAX);
	fgb_json_integer(NULL, INT64_MIN);
	fgb_json_end();
	fgb_json_real("tenth", 0.1);
	fgb_json_real("third", 1.0 / 3);
	fgb_json_real("large", 1e300);
	fgb_json_real("infinite", INFINITY);
	fgb_json_rounded("rounded", 2.0 / 3, 4);
	fgb_json_rounded("whole", 64, 0);
	fgb_json_rounded("none", NAN, 1);
	fgb_json_end();
}

int main(void)
{
	static const char expected[] =
		"{\"text\":\"a \\\"quoted\\\" "
		"back\\\\slash,\\u0009tab\\u000aline\",\"\":\"\",\"empty\":[],\"inner\":{},"
		"\"rows\":[{\"i\":0,\"odd\":false},{\"i\":1,\"odd\":true},18446744073709551615,-9223372036854775808],"
		"\"tenth\":0.1,\"third\":0.33333333333333331,\"large\":1e+300,\"infinite\":null,\"rounded\":0.6667,"
		"\"whole\":64,\"none\":null}\n";
	FILE *terminal = stdout;
	char *printed;
	size_t length;

	stdout = open_memstream(&printed, &length);
	CHECK(stdout);
	print();
	print(); /* the next object begins anew */
	CHECK(fclose(stdout) == 0);
	stdout = terminal;
	CHECK(length == 2 * strlen(expected), "%s", printed);
	CHECK(!strncmp(printed, expected, strlen(expected)) && !strcmp(printed + strlen(expected), expected), "%s",
	      printed);
	free(printed);
	return 0;
}
