/* SPDX-License-Identifier: MIT */
/* What a program learns of a monitor that does not take it, and what FLEXGUARD_REQUIRE=1 makes of that.
 *
 *   refused INTERPOSER
 *
 * A monitor of its own refuses clients in every way. The clients are this program again, which uses the library and
 * ends with fg_monitor_error(), and programs under the interposer. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <flexguard/monitor.h>

#include "abi/flexguard_abi.h"
#include "runtime/monitor.h"
#include "tests/check.h"

#define WITHOUT_MONITOR 125

static char name[64]; /* of the socket, as FLEXGUARD_SOCKET spells it */
static const char *self, *interposer;

static struct sockaddr_un address(socklen_t *length)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	memcpy(a.sun_path, name, sizeof(name));
	a.sun_path[0] = '\0';
	*length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	return a;
}

static int new_socket(int flags)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	CHECK(fd >= 0);
	return fd;
}

static int listen_there(int backlog)
{
	socklen_t length;
	struct sockaddr_un a = address(&length);
	int fd = new_socket(0);

	CHECK(bind(fd, (struct sockaddr *)&a, length) == 0);
	CHECK(listen(fd, backlog) == 0);
	return fd;
}

/* A child that executes `program`; what it says on stderr comes out of *err. */
static pid_t start(const char *program, const char *what, bool preloads, const char *socket, const char *required,
		   int *err)
{
	int ends[2];
	pid_t child;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDERR_FILENO);
		setenv("FLEXGUARD_SOCKET", socket, 1);
		if (preloads)
			setenv("LD_PRELOAD", interposer, 1);
		if (required)
			setenv("FLEXGUARD_REQUIRE", required, 1);
		execl(program, program, what, interposer, (char *)NULL);
		_exit(99);
	}
	close(ends[1]);
	*err = ends[0];
	return child;
}

static int end_of(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* How it ends; `said` has what it has said. */
static int run(const char *program, const char *what, bool preloads, const char *socket, const char *required,
	       char said[1024])
{
	int err;
	pid_t child = start(program, what, preloads, socket, required, &err);
	size_t n = 0;
	ssize_t more;

	while ((more = read(err, said + n, 1023 - n)) > 0)
		n += (size_t)more;
	said[n] = '\0';
	close(err);
	return end_of(child);
}

/* Of a client that uses the library. */
static int error_with(const char *socket)
{
	char said[1024];

	return run(self, "client", false, socket, NULL, said);
}

/* Which waits for its answer on a busy machine, too. */
static pid_t start_client(void)
{
	int err;
	pid_t child = start(self, "client", false, name, "1", &err);

	close(err);
	return child;
}

/* Answers the next client, which does not wait for more; with a page if `page` is one. */
static void answer(int listener, const struct fg_reply *reply, size_t size, int page)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.align = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {(void *)reply, size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	char message[4096];
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	CHECK(client >= 0);
	CHECK(read(client, message, sizeof(message)) > 0);
	if (page >= 0) {
		memcpy(CMSG_DATA(&control.align), &page, sizeof(page));
		m.msg_control = control.space;
		m.msg_controllen = sizeof(control.space);
	}
	if (size)
		CHECK(sendmsg(client, &m, MSG_NOSIGNAL) == (ssize_t)size);
	close(client);
}

static int error_after_page(const struct fg_reply *reply, size_t size, int page)
{
	int listener = listen_there(8), error;
	pid_t client = start_client();

	answer(listener, reply, size, page);
	error = end_of(client);
	close(listener);
	return error;
}

static int error_after(const struct fg_reply *reply, size_t size)
{
	return error_after_page(reply, size, -1);
}

static struct fg_reply refusal(int status)
{
	return (struct fg_reply){.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION, .status = (uint32_t)status};
}

static int page_of_a_monitor(void)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct fg_shared *page;
	struct timespec now;

	CHECK(fd >= 0 && ftruncate(fd, sizeof(struct fg_published)) == 0);
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(page != MAP_FAILED);
	clock_gettime(CLOCK_MONOTONIC, &now);
	page->magic = FG_ABI_MAGIC;
	page->version = FG_ABI_VERSION;
	page->heartbeat_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	munmap(page, sizeof(*page));
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	return fd;
}

static void the_reason_is_told(void)
{
	struct fg_reply reply = refusal(EDQUOT), other = {.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION + 1};
	char long_name[256];
	int silent, page = page_of_a_monitor();

	CHECK(error_with("") == ECANCELED);
	memset(long_name, 'x', sizeof(long_name));
	long_name[0] = '/';
	long_name[sizeof(long_name) - 1] = '\0';
	CHECK(error_with(long_name) == ENAMETOOLONG);
	CHECK(error_with("/nowhere/monitor.sock") == ENOENT);
	CHECK(error_with(name) == ECONNREFUSED);
	CHECK(error_after(&reply, sizeof(reply)) == EDQUOT);
	CHECK(error_after(&other, sizeof(other)) == EPROTONOSUPPORT);
	CHECK(error_after(&reply, 5) == EPROTO);
	CHECK(error_after(NULL, 0) == ECONNRESET);
	reply = refusal(0);
	CHECK(error_after(&reply, sizeof(reply)) == EPROTO); /* without a page */
	silent = listen_there(8);
	CHECK(error_with(name) == ETIMEDOUT);
	close(silent);
	CHECK(error_after_page(&reply, sizeof(reply), page) == 0);
	close(page);
}

/* Is the thread in that system call, asleep? 0: it has ended. */
static long call_of(pid_t pid)
{
	char path[64];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%ld", &number) != 1)
		number = -1;
	fclose(f);
	return number;
}

/* Clients that the monitor has not accepted yet fill its backlog. The next one waits until there is space again, but no
 * longer than for an answer. */
static void a_full_backlog_is_waited_for(void)
{
	struct fg_reply reply = refusal(EDQUOT);
	socklen_t length;
	struct sockaddr_un a = address(&length);
	int listener = listen_there(0), others[16], n = 0, error;
	pid_t client;

	for (;; n++) {
		CHECK(n < 16);
		others[n] = new_socket(SOCK_NONBLOCK);
		if (connect(others[n], (struct sockaddr *)&a, length) < 0)
			break;
	}
	CHECK(errno == EAGAIN && n > 0);
	CHECK(error_with(name) == ETIMEDOUT);
	client = start_client();
	while (call_of(client) != SYS_connect)
		sched_yield();
	for (int i = 0; i < n; i++)
		close(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	answer(listener, &reply, sizeof(reply), -1);
	error = end_of(client);
	for (int i = 0; i <= n; i++)
		close(others[i]);
	close(listener);
	CHECK(error == EDQUOT);
}

/* Longer than the others do. */
static void who_requires_a_monitor_waits_for_it(void)
{
	struct fg_reply reply = refusal(EDQUOT);
	int listener = listen_there(8);
	struct pollfd connected = {.fd = listener, .events = POLLIN};
	pid_t client = start_client();

	CHECK(poll(&connected, 1, -1) == 1);
	poll(NULL, 0, 2 * FGI_REGISTER_TIMEOUT_MS);
	answer(listener, &reply, sizeof(reply), -1);
	CHECK(end_of(client) == EDQUOT);
	close(listener);
}

/* A program that requires a monitor. */
static int end_after(const struct fg_reply *reply, int page, char said[1024])
{
	int err, listener = listen_there(8), end;
	pid_t program = start("/bin/true", NULL, true, name, "1", &err);
	ssize_t n;

	answer(listener, reply, sizeof(*reply), page);
	end = end_of(program);
	n = read(err, said, 1023);
	CHECK(n >= 0);
	said[n] = '\0';
	close(err);
	close(listener);
	return end;
}

static void a_program_that_requires_a_monitor_does_not_start_without(void)
{
	struct fg_reply reply = refusal(EDQUOT), yes = refusal(0);
	char said[1024];
	int page = page_of_a_monitor();

	CHECK(run("/bin/true", NULL, true, name, "1", said) == WITHOUT_MONITOR);
	CHECK(strstr(said, "flexguard: true does not start without a monitor (FLEXGUARD_REQUIRE=1)"));
	CHECK(strstr(said, "no monitor listens"));
	CHECK(strstr(said, "`FLEXGUARD_REQUIRE=0 flexguard doctor`")); /* see the run with 0 below */
	CHECK(run("/bin/true", NULL, true, "", "1", said) == WITHOUT_MONITOR);
	CHECK(strstr(said, "FLEXGUARD_SOCKET is empty"));
	CHECK(run("/bin/true", NULL, true, name, "0", said) == 0 && said[0] == '\0');
	CHECK(run("/bin/true", NULL, true, name, NULL, said) == 0 && said[0] == '\0');
	/* It was loaded by the program, which uses glibc's locks. */
	CHECK(run(self, "loads", false, name, "1", said) == 0);
	/* Nor is the library an interposer. */
	CHECK(run(self, "client", false, name, "1", said) == ECONNREFUSED);

	CHECK(end_after(&reply, -1, said) == WITHOUT_MONITOR);
	CHECK(strstr(said, "as many programs of the user"));
	CHECK(end_after(&yes, page, said) == 0);
	close(page);
}

/* A program whose monitor is being loaded, and that puts itself into a sandbox meanwhile: what its registration still
 * needs is made before. From then on a system call of a registration kills it, which a waiter would make. */
static void *hold(void *lock)
{
	pthread_mutex_lock(lock);
	poll(NULL, 0, 100);
	pthread_mutex_unlock(lock);
	return lock;
}

static int enter_a_sandbox(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ppoll, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_recvmsg, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	pthread_t thread;

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	for (int i = 0; i < 5; i++) {
		thread = check_thread(hold, &lock);
		poll(NULL, 0, 10);
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		check_join(thread);
	}
	return 0;
}

static void a_sandbox_is_entered_when_the_registration_is_over(void)
{
	struct fg_reply yes = refusal(0);
	int err, listener = listen_there(8), page = page_of_a_monitor();
	struct pollfd connected = {.fd = listener, .events = POLLIN};
	pid_t program;

	setenv("FLEXGUARD_LOADING", "1", 1);
	program = start(self, "sandbox", true, name, NULL, &err);
	unsetenv("FLEXGUARD_LOADING");
	CHECK(poll(&connected, 1, -1) == 1);
	poll(NULL, 0, 10 * FGI_LOADING_TIMEOUT_MS); /* the program has not waited so long */
	answer(listener, &yes, sizeof(yes), page);
	CHECK(end_of(program) == 0);
	close(err);
	close(listener);
	close(page);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "client") == 0)
		return fg_monitor_error();
	if (argc > 1 && strcmp(argv[1], "sandbox") == 0)
		return enter_a_sandbox();
	if (argc > 2 && strcmp(argv[1], "loads") == 0)
		return dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) ? 0 : 1;
	CHECK(argc == 2);
	check_watchdog(500);
	self = "/proc/self/exe";
	interposer = argv[1];
	snprintf(name, sizeof(name), "@flexguard-test-refused-%d", (int)getpid());
	the_reason_is_told();
	a_full_backlog_is_waited_for();
	who_requires_a_monitor_waits_for_it();
	a_program_that_requires_a_monitor_does_not_start_without();
	a_sandbox_is_entered_when_the_registration_is_over();
	return 0;
}
