// SPDX-License-Identifier: GPL-2.0-only
/* The host's side of a guest's spinlocks (arch/um/os-Linux/flexguard.c there): futexes, the clock, and a client of the
 * Preemption Monitor, to which a guest is a process like any other and a virtual CPU a thread like any other. Without a
 * monitor, or with one that has ended, the page of zeros stands in: that costs speed only (I7). */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <flexguard_abi.h>
#include <flexguard_host.h>
#include <init.h>
#include <os.h>

#define REPLY_MS 2000
#define ERRNO_MOST 4095    /* the kernel's MAX_ERRNO */
#define UNMAPPED_UID 65534 /* the kernel's default for users that a user namespace does not know */

/* Of glibc's restartable-sequences area, from the thread pointer; absent before glibc 2.35. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Written by the kernel (publish.h). */
__thread struct fg_thread_block flexguard_block __attribute__((aligned(FG_CACHE_LINE), tls_model("local-exec")));
FG_ABI_AT(fg_thread_block, held, 0);
FG_ABI_AT(fg_thread_block, self, 4);
FG_ABI_AT(fg_thread_block, pending, 16);

static const struct fg_shared no_monitor __attribute__((aligned(FG_CACHE_LINE)));
static const struct fg_shared *page = &no_monitor;
static const fg_u32 *off_cpu = no_monitor.off_cpu; /* of this guest's domain */
static const struct fg_cpu *cpus;                  /* NULL: not mapped */

/* ---- futexes ------------------------------------------------------------------------------------------------- */

/* Not private: the guest maps its memory shared, and may map a page twice. */
void flexguard_halt(unsigned int *word, unsigned int seen, unsigned int bits)
{
	int saved = errno;

	syscall(__NR_futex, word, FUTEX_WAIT_BITSET, seen, NULL, NULL, bits);
	errno = saved;
}

void flexguard_kick(unsigned int *word, int most, unsigned int bits)
{
	int saved = errno;

	syscall(__NR_futex, word, FUTEX_WAKE_BITSET, most, NULL, NULL, bits);
	errno = saved;
}

void flexguard_yield(void)
{
	sched_yield();
}

/* ---- time and names               ---------------------------------------------------------------------------- */

unsigned long long flexguard_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

unsigned int flexguard_name_self(void)
{
	flexguard_block.self = (fg_u32)syscall(__NR_gettid);
	return flexguard_block.self;
}

/* ---- what the monitor publishes -------------------------------------------------------------------------------- */

int flexguard_knows(void)
{
	return page != &no_monitor;
}

int flexguard_monitored(void)
{
	const struct fg_shared *now = page;
	long long age;

	if (now == &no_monitor)
		return 0;
	age = (long long)(flexguard_now() - *(volatile fg_u64 *)&now->heartbeat_ns);
	if (now->heartbeat_ns != 0 && age < (long long)FG_HEARTBEAT_DEAD_NS)
		return 1;
	page = &no_monitor;
	off_cpu = no_monitor.off_cpu;
	cpus = NULL;
	return 0;
}

int flexguard_is_off(unsigned int self)
{
	fg_u32 off = *(volatile const fg_u32 *)&off_cpu[fg_off_cpu_place(self)];

	return (off & ~FG_RUNNABLE) == self;
}

/* The host's CPU that this thread runs on. */
static unsigned int cpu_here(void)
{
	const char *area;

	if (__builtin_expect(!&__rseq_size || !__rseq_size, 0))
		return (unsigned int)sched_getcpu();
	area = (const char *)__builtin_thread_pointer() + __rseq_offset;
	return *(const volatile unsigned int *)&((const struct rseq *)area)->cpu_id;
}

unsigned long long flexguard_slice(void)
{
	unsigned int cpu = cpu_here();

	return cpus && cpu < FG_CPUS ? *(const volatile fg_u64 *)&cpus[cpu].slice_end_ns : 0;
}

unsigned long long flexguard_slice_end(unsigned long long slice, unsigned long long now)
{
	unsigned long long tick = page->tick_ns;

	if (slice == 0 || slice + FLEXGUARD_TICK_LATE_NS > now)
		return slice;
	return tick ? slice + ((now - FLEXGUARD_TICK_LATE_NS - slice) / tick + 1) * tick : 0;
}

/* ---- registration ------------------------------------------------------------------------------------------------ */

static struct sockaddr_un monitor = {.sun_family = AF_UNIX};
static socklen_t monitor_length;

static int __init set_monitor(char *path, int *add)
{
	size_t n = strlen(path);

	*add = 0;
	if (n == 0 || n >= sizeof(monitor.sun_path)) {
		os_warn("flexguard_monitor=%s: no path of a socket\n", path);
		return -1;
	}
	memcpy(monitor.sun_path, path, n + 1);
	monitor_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
	if (path[0] == '@') { /* the abstract namespace has no terminator */
		monitor.sun_path[0] = '\0';
		monitor_length--;
	}
	return 0;
}

__uml_setup("flexguard_monitor=", set_monitor,
	    "flexguard_monitor=<socket>\n"
	    "    Register with FlexGuard's monitor at this socket, or @name.\n\n");

/* A monitor is run by root or by the user of this guest; in a user namespace root may have no number. At a path the
 * permissions of the file system say who may serve, but an abstract name is anybody's. As in runtime/monitor.c. */
static int __init is_trusted(int fd)
{
	struct ucred server;
	socklen_t length = sizeof(server);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &length) < 0)
		return 0;
	return server.uid == 0 || server.uid == geteuid() || (server.uid == UNMAPPED_UID && monitor.sun_path[0]);
}

/* The descriptor that came with a message, or -EPROTO if it was none or several: those are closed. */
static int __init descriptor_of(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	size_t n, i;
	int got;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -EPROTO;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (i = 0; i < n; i++) {
		memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof(got));
		if (n == 1)
			return got;
		close(got);
	}
	return -EPROTO;
}

/* The descriptor of the page, or a negative errno value. A descriptor that comes with any other answer is closed. */
static int __init receive(int fd, fg_u32 *domain)
{
	union {
		char space[CMSG_SPACE(sizeof(int))]; /* aligned, and so large enough for two */
		struct cmsghdr align;
	} control;
	struct fg_reply reply = {0};
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.space,
			   .msg_controllen = sizeof(control.space)};
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	ssize_t size;
	int got, error = 0;

	if (poll(&readable, 1, REPLY_MS) != 1)
		return -ETIMEDOUT;
	size = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	if (size < 0)
		return -errno;
	got = descriptor_of(&m);
	*domain = reply.number;
	if (size != (ssize_t)sizeof(reply) || reply.magic != FG_ABI_MAGIC || reply.version != FG_ABI_VERSION)
		error = -EPROTO;
	else if (reply.status != 0)
		error = reply.status <= ERRNO_MOST ? -(int)reply.status : -EPROTO;
	else if (reply.number >= FG_DOMAINS)
		error = -EPROTO;
	if (error == 0)
		return got;
	if (got >= 0)
		close(got);
	return error;
}

/* A descriptor of the page, or a negative errno value. */
static int __init request(fg_u32 *domain)
{
	struct fg_registration registration = {
		.magic = FG_ABI_MAGIC,
		.version = FG_ABI_VERSION,
		.size = sizeof(registration),
		.block_offset = (char *)&flexguard_block - (char *)__builtin_thread_pointer(),
		.flags = FG_WANT_SLICE_FORECAST,
	};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), got;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&monitor, monitor_length) < 0)
		got = -errno;
	else if (!is_trusted(fd))
		got = -EPERM;
	else if (send(fd, &registration, sizeof(registration), MSG_NOSIGNAL) != (ssize_t)sizeof(registration))
		got = -errno;
	else
		got = receive(fd, domain);
	close(fd);
	return got;
}

/* Nobody can truncate a BPF map, which is no file; a file must be sealed. Every look at a truncated page would be a
 * SIGBUS. */
static int __init cannot_shrink(int fd, size_t size)
{
	struct stat s;
	int seals;

	if (fstat(fd, &s) < 0)
		return 0;
	if ((s.st_mode & S_IFMT) == 0)
		return 1;
	seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SHRINK) && s.st_size >= (off_t)size;
}

static struct fg_published *__init map_page(int fd, size_t size)
{
	struct fg_published *mapped = MAP_FAILED;

	if (cannot_shrink(fd, size))
		mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return NULL;
	if (mapped->page.magic == FG_ABI_MAGIC && mapped->page.version == FG_ABI_VERSION)
		return mapped;
	munmap(mapped, size);
	return NULL;
}

static int __init attach(void)
{
	fg_u32 domain;
	int fd = request(&domain);
	struct fg_published *mapped;

	if (fd < 0)
		return fd;
	mapped = map_page(fd, sizeof(*mapped));
	if (mapped)
		cpus = mapped->cpus;
	else if (domain == 0)
		mapped = map_page(fd, FG_PAGE);
	close(fd);
	if (!mapped)
		return -EPROTO;
	page = &mapped->page;
	off_cpu = domain ? mapped->off_cpu[domain] : mapped->page.off_cpu;
	return 0;
}

static int __init attach_or_say_why(void)
{
	int error;

	if (monitor_length == 0)
		return 0;
	error = attach();
	if (error == 0) {
		os_info("flexguard: attached to the monitor\n");
		return 0;
	}
	os_warn("flexguard: no monitor: %s\n", strerror(-error));
	return 0;
}

__uml_postsetup(attach_or_say_why);
