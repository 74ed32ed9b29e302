/* SPDX-License-Identifier: MIT */
#include "simulator/machine.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	double least, most, preset;
} keys[] = {
#define KEY(name, least, most, preset) {#name, least, most, preset},
	FGS_KEYS(KEY)
#undef KEY
};

uint32_t fgs_machine_topology(const struct fgs_machine *m)
{
	return (uint32_t)(m->key[FGS_sockets] * m->key[FGS_complexes] * m->key[FGS_cores] * m->key[FGS_threads]);
}

uint32_t fgs_machine_cpus(const struct fgs_machine *m)
{
	return m->key[FGS_guests] > 0 ? (uint32_t)m->key[FGS_vcpus] : fgs_machine_topology(m);
}

static char *trimmed(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

/* `text` is a line without its comment. NULL, or what is wrong. */
static const char *take_line(struct fgs_machine *m, char *text, bool *seen)
{
	static char wrong[160];
	char *equals, *name, *value, *end;
	double number;

	text = trimmed(text);
	if (!*text)
		return NULL;
	equals = strchr(text, '=');
	if (!equals)
		return "not `key = value`";
	*equals = '\0';
	name = trimmed(text);
	value = trimmed(equals + 1);
	errno = 0;
	number = strtod(value, &end);
	for (size_t i = 0; i < FGS_KEYS_END; i++) {
		if (strcmp(name, keys[i].name) != 0)
			continue;
		if (seen[i])
			return "this key stands there twice";
		if (end == value || *end || errno || !(number >= keys[i].least && number <= keys[i].most)) {
			snprintf(wrong, sizeof(wrong), "%s is not a number from %.10g to %.10g", keys[i].name,
				 keys[i].least, keys[i].most);
			return wrong;
		}
		seen[i] = true;
		m->key[i] = number;
		return NULL;
	}
	snprintf(wrong, sizeof(wrong), "no key is called '%.60s'", name);
	return wrong;
}

static const char *check(const struct fgs_machine *m)
{
	static const enum fgs_key whole[] = {FGS_sockets, FGS_complexes, FGS_cores, FGS_threads, FGS_guests, FGS_vcpus};
	static char wrong[96];
	uint32_t cpus = fgs_machine_topology(m) + (uint32_t)(m->key[FGS_guests] * m->key[FGS_vcpus]);

	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		if (m->key[whole[i]] != (double)(long)m->key[whole[i]])
			return "sockets, complexes, cores, threads, guests and vcpus are whole numbers";
	if (cpus > FGS_CPUS) {
		snprintf(wrong, sizeof(wrong), "%u CPUs, but the model holds %u", cpus, FGS_CPUS);
		return wrong;
	}
	return NULL;
}

static void name_after(struct fgs_machine *m, const char *file)
{
	const char *base = strrchr(file, '/');
	size_t n;

	base = base ? base + 1 : file;
	n = strcspn(base, ".");
	snprintf(m->name, sizeof(m->name), "%.*s", (int)(n < 60 ? n : 60), base);
}

int fgs_machine_read(struct fgs_machine *m, const char *file)
{
	char line[512];
	bool seen[FGS_KEYS_END] = {false};
	const char *wrong = NULL;
	FILE *in = fopen(file, "re");
	unsigned int number = 0;

	_Static_assert(FGS_KEYS_END <= sizeof(m->key) / sizeof(m->key[0]), "a place for each key");
	if (!in) {
		fprintf(stderr, "fg-sim: cannot read machine file %s: %s\n", file, strerror(errno));
		return -1;
	}
	name_after(m, file);
	for (size_t i = 0; i < FGS_KEYS_END; i++)
		m->key[i] = keys[i].preset;
	while (!wrong && fgets(line, sizeof(line), in)) {
		number++;
		line[strcspn(line, "#")] = '\0';
		wrong = take_line(m, line, seen);
	}
	fclose(in);
	if (wrong) {
		fprintf(stderr, "fg-sim: machine file %s, line %u: %s\n", file, number, wrong);
		return -1;
	}
	wrong = check(m);
	if (wrong)
		fprintf(stderr, "fg-sim: machine file %s: %s\n", file, wrong);
	return wrong ? -1 : 0;
}

int fgs_machine_set(struct fgs_machine *m, const char *line)
{
	bool seen[FGS_KEYS_END] = {false};
	char copy[512];
	const char *wrong;

	snprintf(copy, sizeof(copy), "%s", line);
	wrong = take_line(m, copy, seen);
	if (!wrong)
		wrong = check(m);
	if (wrong)
		fprintf(stderr, "fg-sim: %s: %s\n", line, wrong);
	return wrong ? -1 : 0;
}
