// SPDX-License-Identifier: MIT
/* What each interposer really registers: this test stands in for the monitor, lets a program start under the
 * interposer, and looks every window up in the program's memory map.
 *
 *   windows INTERPOSER... */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "abi/flexguard_abi.h"
#include "tests/check.h"

struct message {
	struct fg_registration head;
	struct fg_window windows[FG_MAX_WINDOWS];
};

static char name[64]; /* of the socket, as FLEXGUARD_SOCKET spells it */

static int stand_in(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int length = snprintf(name, sizeof(name), "@flexguard-windows-%d", (int)getpid());
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path + 1, name + 1, (size_t)length - 1);
	CHECK(bind(fd, (struct sockaddr *)&addr,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length)) == 0,
	      "%m");
	CHECK(listen(fd, 1) == 0, "%m");
	return fd;
}

/* The program lives until *input is closed. */
static pid_t start(const char *interposer, int *input)
{
	int ends[2];
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0, "%m");
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (pid == 0) {
		dup2(ends[0], 0);
		setenv("LD_PRELOAD", interposer, 1);
		setenv(FG_SOCKET_ENV, name, 1);
		execl("/bin/cat", "cat", (char *)NULL);
		_exit(127);
	}
	close(ends[0]);
	*input = ends[1];
	return pid;
}

static void hear(int fd, struct message *m)
{
	ssize_t got = recv(fd, &m->head, sizeof(m->head), MSG_WAITALL);
	size_t rest;

	CHECK(got == (ssize_t)sizeof(m->head), "the header's length is %zd", got);
	CHECK(m->head.magic == FG_ABI_MAGIC && m->head.version == FG_ABI_VERSION);
	CHECK(m->head.windows <= FG_MAX_WINDOWS, "%u windows", m->head.windows);
	rest = m->head.windows * sizeof(m->windows[0]);
	CHECK(m->head.size == sizeof(m->head) + rest);
	/* Of no bytes at all recv would wait for the first. */
	CHECK(rest == 0 || recv(fd, m->windows, rest, MSG_WAITALL) == (ssize_t)rest);
}

/* Is (begin, end] executable, and in the interposer's own file? */
static bool is_code_of(pid_t pid, const struct fg_window *w, const char *file)
{
	char path[64], line[PATH_MAX + 128];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "r");
	CHECK(maps != NULL, "%s: %m", path);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		char mode[5];

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) == 3 && w->begin >= from && w->end < to)
			found = mode[2] == 'x' && strstr(line, file) != NULL;
	}
	fclose(maps);
	return found;
}

static void examine(const char *interposer, int listener)
{
	struct fg_reply refusal = {.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION, .status = EAGAIN};
	char file[PATH_MAX];
	struct message m;
	int fd, input, status;
	pid_t pid;

	CHECK(realpath(interposer, file) != NULL, "%s: %m", interposer);
	pid = start(file, &input);
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0, "%m");
	hear(fd, &m);
	/* On a busy machine it may have tired of waiting, and closed. */
	CHECK(send(fd, &refusal, sizeof(refusal), MSG_NOSIGNAL) == (ssize_t)sizeof(refusal) || errno == EPIPE, "%m");
	close(fd);
	for (uint32_t i = 0; i < m.head.windows; i++) {
		const struct fg_window *w = &m.windows[i];

		CHECK(w->end > w->begin && w->end - w->begin <= FG_MAX_WINDOW_BYTES, "%s: window %u: %#llx to %#llx",
		      interposer, i, (unsigned long long)w->begin, (unsigned long long)w->end);
		CHECK(w->reg < FG_REG_COUNT, "%s: window %u: register %u", interposer, i, w->reg);
		CHECK((w->value & ~w->mask) == 0, "%s: window %u can never hold", interposer, i);
		CHECK(is_code_of(pid, w, file), "%s: window %u is not in its code", interposer, i);
	}
	close(input);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
	      "the program under %s ended with %#x", interposer, (unsigned int)status);
	printf("%s: %u windows\n", interposer, m.head.windows);
}

int main(int argc, char **argv)
{
	int listener;

	check_watchdog(60);
	CHECK(argc > 1, "usage: windows INTERPOSER...");
	listener = stand_in();
	for (int i = 1; i < argc; i++)
		examine(argv[i], listener);
	return 0;
}
