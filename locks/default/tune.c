/* SPDX-License-Identifier: MIT */
#include "locks/default/tune.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct fgi_tune fgi_tune = {
	.regime = FGI_ANY_REGIME,
	.lease_ns = 50000,
	.rotate_ns = 100000,
	.sample_ns = 2000000,
	.yield_ns = 5000,
	.sleep_ns = 50000,
};

#define LONGEST_US 10000000u

static const struct {
	const char *name;
	size_t at;
	uint64_t least; /* something is divided by a sample, and the parked sleep for leases */
} times[] = {
	{"lease_us", offsetof(struct fgi_tune, lease_ns), 1},   {"rotate_us", offsetof(struct fgi_tune, rotate_ns), 0},
	{"sample_us", offsetof(struct fgi_tune, sample_ns), 1}, {"yield_us", offsetof(struct fgi_tune, yield_ns), 0},
	{"sleep_us", offsetof(struct fgi_tune, sleep_ns), 0},
};

static const char *const regimes[] = {"greedy", "leased", "any"};

static bool is(const char *text, size_t length, const char *name)
{
	return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* Decimal digits up to the end of the text, at most LONGEST_US; without errno, which strtoull would touch. */
static bool number(const char *text, size_t length, uint64_t *value)
{
	if (length == 0)
		return false;
	for (*value = 0; length; text++, length--) {
		if (*text < '0' || *text > '9')
			return false;
		*value = *value * 10 + (uint64_t)(*text - '0');
		if (*value > LONGEST_US)
			return false;
	}
	return true;
}

static void set(struct fgi_tune *tune, const char *name, size_t name_length, const char *text, size_t length)
{
	uint64_t us;

	if (is(name, name_length, "regime"))
		for (size_t i = 0; i < sizeof(regimes) / sizeof(regimes[0]); i++)
			if (is(text, length, regimes[i]))
				tune->regime = i;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (is(name, name_length, times[i].name) && number(text, length, &us) && us >= times[i].least)
			*(uint64_t *)(void *)((char *)tune + times[i].at) = us * 1000;
}

void fgi_tune_parse(struct fgi_tune *tune, const char *text)
{
	while (*text) {
		size_t length = strcspn(text, ","), name = strcspn(text, "=");

		if (name < length)
			set(tune, text, name, text + name + 1, length - name - 1);
		text += length + (text[length] == ',');
	}
}

void fgi_tune_start(void)
{
	const char *text = secure_getenv("FLEXGUARD_TUNE");

	if (text)
		fgi_tune_parse(&fgi_tune, text);
}
