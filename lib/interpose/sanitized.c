/* SPDX-License-Identifier: MIT */
/* A program that ThreadSanitizer watches keeps its own locks: gcc's runtime is a library of its own that sees them by
 * their names, and we come before it. So the program is executed again without us, before its main. Where the runtime
 * is a part of the program, as clang has it, it comes before us, and all goes well. */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define PRELOAD "LD_PRELOAD="
#define LEFT_ALONE "FLEXGUARD_LEFT_ALONE=" /* for `flexguard status` */

extern void __tsan_init(void) __attribute__((weak));

static bool is_watched_by_a_library(void)
{
	Dl_info runtime;

	return __tsan_init && dladdr((void *)__tsan_init, &runtime) && runtime.dli_fname &&
	       strstr(runtime.dli_fname, "libtsan.so");
}

/* Moves the items that name an object of ours from `list`, LD_PRELOAD's value, to `ours`; both have space for all. */
static void divide(const char *from, char *list, char *ours)
{
	static const char separators[] = " :";

	while (*from) {
		size_t n = strcspn(from, separators);
		bool is_ours = memmem(from, n, "/flexguard/", strlen("/flexguard/"));
		char **to = is_ours ? &ours : &list;

		memcpy(*to, from, n);
		*to += n;
		*(*to)++ = ':';
		from += n + strspn(from + n, separators);
	}
	*list = *ours = '\0';
}

/* `environment` with LD_PRELOAD divided. Nothing here is freed: the process is about to be another program, or goes on
 * with a loss of some kilobytes. */
static char **without_us(char **environment)
{
	size_t n = 0, preload = 0;
	char **copy, *list, *ours;
	bool found = false;

	for (; environment[n]; n++)
		if (strncmp(environment[n], PRELOAD, strlen(PRELOAD)) == 0) {
			preload = n;
			found = true;
		}
	copy = found ? calloc(n + 2, sizeof(*copy)) : NULL;
	list = copy ? calloc(2, strlen(environment[preload]) + sizeof(LEFT_ALONE)) : NULL;
	if (!list)
		return NULL;
	ours = list + strlen(environment[preload]) + sizeof(LEFT_ALONE);
	memcpy(copy, environment, n * sizeof(*copy));
	strcpy(list, PRELOAD);
	strcpy(ours, LEFT_ALONE);
	divide(environment[preload] + strlen(PRELOAD), list + strlen(PRELOAD), ours + strlen(LEFT_ALONE));
	copy[preload] = list;
	copy[n] = ours;
	return ours[strlen(LEFT_ALONE)] ? copy : NULL;
}

__attribute__((constructor)) static void leave_alone(int argc, char **argv, char **environment)
{
	const char *file = (const char *)getauxval(AT_EXECFN);
	char **others;

	(void)argc;
	/* A loader that was executed by its own name has taken its own arguments away. */
	if (!is_watched_by_a_library() || !file || !getauxval(AT_BASE))
		return;
	others = without_us(environment);
	if (others)
		execve(file, argv, others);
}
