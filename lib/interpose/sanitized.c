/* SPDX-License-Identifier: MIT */
/* A program that ThreadSanitizer watches keeps its own locks: gcc's runtime is a library of its own that sees them by
 * their names, and we come before it. So the program is executed again without us, before its main. Where the runtime
 * is a part of the program, as clang has it, it comes before us, and all goes well. */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
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

/* `environment` with LD_PRELOAD divided, in one piece of memory; NULL: nothing there is ours. */
static char **without_us(char **environment)
{
	size_t n = 0, preload = SIZE_MAX, space;
	char **copy, *list, *ours;

	for (; environment[n]; n++)
		if (strncmp(environment[n], PRELOAD, strlen(PRELOAD)) == 0)
			preload = n;
	if (preload == SIZE_MAX)
		return NULL;
	space = strlen(environment[preload]) + sizeof(LEFT_ALONE) + 1;
	copy = calloc(1, (n + 2) * sizeof(*copy) + 2 * space);
	if (!copy)
		return NULL;
	list = (char *)(copy + n + 2);
	ours = list + space;
	memcpy(copy, environment, n * sizeof(*copy));
	divide(environment[preload] + strlen(PRELOAD), stpcpy(list, PRELOAD), stpcpy(ours, LEFT_ALONE));
	copy[preload] = list;
	copy[n] = ours;
	if (ours[strlen(LEFT_ALONE)])
		return copy;
	free(copy);
	return NULL;
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
	free(others); /* it stays what it is */
}
