/* SPDX-License-Identifier: MIT */
/* flips COMMAND ARGUMENTS...: runs a command beside a monitor that changes its mind all the time: a process of the
 * command that registers gets the page of tests/stress/hostile_monitor.h. Ends as the command does, or with 1 if no
 * process has registered. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/stress/hostile_monitor.h"

static int make_page(struct fg_published **all)
{
	int fd = memfd_create("flips", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, sizeof(**all)) == 0, "%m");
	*all = mmap(NULL, sizeof(**all), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(*all != MAP_FAILED, "%m");
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "%m");
	(*all)->page.version = FG_ABI_VERSION;
	(*all)->page.magic = FG_ABI_MAGIC;
	return fd;
}

/* In the abstract namespace, and so it leaves nothing behind. */
static int listen_for_clients(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char *name = address.sun_path;
	int length = snprintf(name, sizeof(address.sun_path), "@flexguard-test-flips.%d", getpid());
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(setenv(FG_SOCKET_ENV, name, 1) == 0, "%m");
	name[0] = '\0';
	CHECK(bind(listener, (struct sockaddr *)&address,
		   (socklen_t)offsetof(struct sockaddr_un, sun_path) + (socklen_t)length) == 0,
	      "%m");
	CHECK(listen(listener, 100) == 0, "%m");
	return listener;
}

/* A client sends its message as soon as it is connected, unless it is killed before. */
static bool serve(int client, int page)
{
	union {
		char space[CMSG_SPACE(sizeof(page))];
		struct cmsghdr align;
	} control = {0};
	struct fg_registration registration;
	struct fg_reply reply = {.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION};
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.space,
			   .msg_controllen = CMSG_SPACE(sizeof(page))};
	bool registers = recv(client, &registration, sizeof(registration), MSG_WAITALL) == sizeof(registration);

	*CMSG_FIRSTHDR(&m) =
		(struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(page))};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &page, sizeof(page));
	registers = registers && sendmsg(client, &m, MSG_NOSIGNAL) == sizeof(reply);
	close(client);
	return registers;
}

/* The thread that began last has this name. */
static uint32_t newest_thread(void)
{
	char text[64];
	int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	const char *last;

	CHECK(length > 0, "%m");
	close(fd);
	text[length] = '\0';
	last = strrchr(text, ' ');
	return last ? (uint32_t)strtoul(last, NULL, 10) : 0;
}

static pid_t start(char **command)
{
	pid_t parent = getpid(), child = fork();

	CHECK(child >= 0, "%m");
	if (child > 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	execvp(command[0], command);
	fprintf(stderr, "flips: %s: %s\n", command[0], strerror(errno));
	_exit(127);
}

int main(int argc, char **argv)
{
	struct pollfd listener = {.events = POLLIN};
	uint64_t seed = 88172645463325252u;
	struct fg_published *all;
	int page_fd = make_page(&all), served = 0, status;
	pid_t child;

	CHECK(argc > 1, "usage: flips COMMAND ARGUMENTS...");
	listener.fd = listen_for_clients();
	hostile_flip(&all->page, all->cpus, hostile_random(&seed), newest_thread());
	child = start(argv + 1);
	while (waitpid(child, &status, WNOHANG) == 0) {
		uint64_t r = hostile_random(&seed);
		struct timespec nap = hostile_flip(&all->page, all->cpus, r, r % 4 == 1 ? newest_thread() - 63 : 0);

		if (ppoll(&listener, 1, &nap, NULL) == 1)
			served += serve(accept(listener.fd, NULL, NULL), page_fd);
	}
	printf("%d processes registered; mode changes: %lu, deaths of the monitor: %lu\n", served,
	       (unsigned long)hostile.flips, (unsigned long)hostile.deaths);
	if (served == 0)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
