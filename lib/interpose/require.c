/* SPDX-License-Identifier: MIT */
/* FLEXGUARD_REQUIRE=1: a program that would run without a monitor does not start.
 *
 * It ends before its main, with status 125 and one line on stderr, as `flexguard run` does. That holds for each program
 * that is executed with the variable and the interposer, children included; a child of a fork has its parent's
 * registration. A setuid program ignores the variable. A program that loads the interposer while it runs (dlopen) goes
 * on, since its locks are glibc's.
 *
 * The only place where code that lives in a program prints and exits: the user has asked for it. */
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "interpose/real.h"
#include "runtime/monitor.h"

#define EXIT_WITHOUT_MONITOR 125 /* of the commands that start programs: they could not */

static const struct {
	uint32_t number;
	const char *told;
} reasons[] = {
	{ENOENT, "no monitor listens on the socket"},
	{ECONNREFUSED, "no monitor listens on the socket"},
	{EACCES, "it may not connect to the monitor's socket"},
	{ECANCELED, "FLEXGUARD_SOCKET is empty"},
	{ENAMETOOLONG, "FLEXGUARD_SOCKET is too long"},
	{EKEYREJECTED, "what listens on the socket runs as neither root nor this user"},
	{ETIMEDOUT, "the monitor does not answer"},
	{ECONNRESET, "the monitor does not answer"},
	{EPROTO, "what listens on the socket is no monitor"},
	{EPROTONOSUPPORT, "the monitor is of another version"},
	{ENOEXEC, "an emulator runs it, and a monitor can only watch programs of its own architecture"},
	{EAGAIN, "the user's programs ask too much of the monitor"},
	{EBUSY, "the user's programs ask too much of the monitor"},
	{EDQUOT, "the monitor watches as many programs of the user as it may"},
	{EPERM, "the user may not trace it, so it may not be watched"},
	{E2BIG, "it has too many threads"},
};

static const char *told(uint32_t why)
{
	const char *of_errno = strerrordesc_np((int)why);

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].number == why)
			return reasons[i].told;
	}
	return of_errno ? of_errno : "for an unknown reason";
}

static struct iovec part(const char *text)
{
	return (struct iovec){(void *)text, strlen(text)};
}

__attribute__((noreturn)) static void refuse_to_start(uint32_t why)
{
	char name[256]; /* without what a terminal obeys: others may have chosen it */
	size_t length = 0;

	for (const char *c = program_invocation_short_name; *c && length < sizeof(name); c++)
		name[length++] = *c >= ' ' && *c <= '~' ? *c : '?';

	const struct iovec line[] = {
		part("flexguard: "),
		{name, length},
		part(" does not start without a monitor (FLEXGUARD_REQUIRE=1): "),
		part(told(why)),
		/* Where both variables are exported, the command would not start either, nor would env(1). */
		part("; `FLEXGUARD_REQUIRE=0 flexguard doctor` says what to do\n"),
	};

	ssize_t written = writev(STDERR_FILENO, line, sizeof(line) / sizeof(line[0]));

	(void)written; /* whether anybody listens or not */
	_exit(EXIT_WITHOUT_MONITOR);
}

static bool has(const struct dl_phdr_info *object, const void *address)
{
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		uintptr_t begin = object->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && (uintptr_t)address - begin < segment->p_memsz)
			return true;
	}
	return false;
}

/* Ends with 1 at this object, with 2 at libc: they come in the order in which they were loaded. */
static int which_is_first(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	if (has(object, reasons))
		return 1;
	return has(object, *(void *const *)&fgi_real()->mutex_lock) ? 2 : 0;
}

/* What is loaded while the program runs comes after libc. */
static bool starts_with_the_program(void)
{
	return dl_iterate_phdr(which_is_first, NULL) == 1;
}

/* Another thread, of a constructor that ran earlier, may be registering the process. */
static uint32_t outcome(void)
{
	for (int ms = 0; fgi_monitor_refusal() == EINPROGRESS && ms < 2 * FGI_REQUIRED_TIMEOUT_MS; ms++)
		poll(NULL, 0, 1);
	return fgi_monitor_refusal();
}

/* After the runtime's constructor, which has registered the process. */
__attribute__((constructor)) static void require_start(void)
{
	const char *required = secure_getenv(FGI_REQUIRE_ENV);
	uint32_t why;

	if (!required || strcmp(required, "1") != 0 || !starts_with_the_program())
		return;
	why = outcome();
	if (why)
		refuse_to_start(why);
}
