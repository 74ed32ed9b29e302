// SPDX-License-Identifier: GPL-2.0-only
/* The host's side of a guest's spinlocks (arch/um/os-Linux/flexguard.c there): futexes, the clock, and a client of the
 * Preemption Monitor, to which a guest is a process like any other and a virtual CPU a thread like any other. Without a
 * monitor, or with one that has ended, the page of zeros stands in: that costs speed only (I7). */
#include <errno.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <flexguard_abi.h>
#include <flexguard_host.h>
#include <init.h>
#include <os.h>

#define REPLY_MS 2000

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
	return 0;
}

int flexguard_is_off(unsigned int self)
{
	fg_u32 off = *(volatile const fg_u32 *)&page->off_cpu[self % FG_OFF_CPU];

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

	return cpu < FG_CPUS ? *(const volatile fg_u64 *)&page->slice_end_ns[cpu] : 0;
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

/* The descriptor of the page, or a negative errno value. */
static int __init receive(int fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct fg_reply reply = {0};
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.space,
			   .msg_controllen = sizeof(control.space)};
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	struct cmsghdr *c;
	int got = -EPROTO;

	if (poll(&readable, 1, REPLY_MS) != 1)
		return -ETIMEDOUT;
	if (recvmsg(fd, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(reply))
		return -EPROTO;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&got, CMSG_DATA(c), sizeof(got));
	return reply.status ? -(int)reply.status : got;
}

static int __init attach(void)
{
	struct fg_registration registration = {
		.magic = FG_ABI_MAGIC,
		.version = FG_ABI_VERSION,
		.size = sizeof(registration),
		.block_offset = (char *)&flexguard_block - (char *)__builtin_thread_pointer(),
		.flags = FG_WANT_SLICE_FORECAST,
	};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), got = -1;
	void *mapped = MAP_FAILED;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&monitor, monitor_length) < 0 ||
	    send(fd, &registration, sizeof(registration), MSG_NOSIGNAL) != (ssize_t)sizeof(registration))
		got = -errno;
	else
		got = receive(fd);
	close(fd);
	if (got < 0)
		return got;
	mapped = mmap(NULL, FG_PAGE, PROT_READ, MAP_SHARED, got, 0);
	close(got);
	if (mapped == MAP_FAILED)
		return -errno;
	page = mapped;
	return page->magic == FG_ABI_MAGIC && page->version == FG_ABI_VERSION ? 0 : -EPROTO;
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
	page = &no_monitor;
	os_warn("flexguard: no monitor: %s\n", strerror(-error));
	return 0;
}

__uml_postsetup(attach_or_say_why);
