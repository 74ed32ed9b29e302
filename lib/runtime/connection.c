/* SPDX-License-Identifier: MIT */
#include "runtime/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/system.h"
#include "runtime/thread.h"

/* This image's window table, which the linker gathers. Absent if no lock of the image uses windows. */
extern const struct fgi_window_entry __start_fg_windows[] __attribute__((weak, visibility("hidden")));
extern const struct fgi_window_entry __stop_fg_windows[] __attribute__((weak, visibility("hidden")));

/* What this image's locks ask the monitor for (lock/slice_forecast.h). */
extern const uint64_t __start_fg_wants[] __attribute__((weak, visibility("hidden")));
extern const uint64_t __stop_fg_wants[] __attribute__((weak, visibility("hidden")));

struct message {
	struct fg_registration head;
	struct fg_window windows[FG_MAX_WINDOWS];
};

static uint64_t resolve(const int32_t *relative)
{
	return (uint64_t)((intptr_t)relative + *relative);
}

/* Returns the size of the message, or 0 if the table is larger than the ABI allows: a defect of the build, for which
 * the tests look. */
static size_t compose(struct message *m)
{
	size_t n = (size_t)(__stop_fg_windows - __start_fg_windows);

	if (n > FG_MAX_WINDOWS)
		return 0;
	memset(m, 0, sizeof(*m));
	for (size_t i = 0; i < n; i++) {
		const struct fgi_window_entry *e = &__start_fg_windows[i];

		m->windows[i] = (struct fg_window){
			.begin = resolve(&e->begin),
			.end = resolve(&e->end),
			.mask = e->mask,
			.value = e->value,
			.reg = e->reg,
		};
	}
	m->head.magic = FG_ABI_MAGIC;
	m->head.version = FG_ABI_VERSION;
	m->head.windows = (uint32_t)n;
	m->head.size = (uint32_t)(sizeof(m->head) + n * sizeof(m->windows[0]));
	m->head.block_offset = (char *)&fg_thread - (char *)__builtin_thread_pointer();
	for (const uint64_t *want = __start_fg_wants; want < __stop_fg_wants; want++)
		m->head.flags |= *want;
	return m->head.size;
}

uint32_t fgi_address_set(struct fgi_address *address, const char *spelled)
{
	size_t n = strlen(spelled);

	address->length = 0;
	if (n == 0)
		return ECANCELED;
	if (n >= sizeof(address->name.sun_path))
		return ENAMETOOLONG;
	address->name.sun_family = AF_UNIX;
	memcpy(address->name.sun_path, spelled, n);
	address->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	if (spelled[0] == '@')
		address->name.sun_path[0] = '\0'; /* the abstract namespace: no terminator, no file */
	else
		address->length++;
	return 0;
}

static long call(long number, int fd, const void *b, long c, long d, long e)
{
	return fgi_system_call(number, fd, (long)(uintptr_t)b, c, d, e, 0);
}

void fgi_connection_close(int fd)
{
	(void)call(SYS_close, fd, NULL, 0, 0, 0);
}

/* A monitor is run by root or by this process's own user. In a user namespace root may have no number, and is seen as
 * the user that stands for all those; the permissions of the file system say who can be at a path, but an abstract name
 * is anybody's. */
static bool is_trusted(int fd, const struct fgi_address *address)
{
	struct ucred server = {.uid = (uid_t)-1};
	socklen_t length = sizeof(server);

	if (call(SYS_getsockopt, fd, (const void *)SOL_SOCKET, SO_PEERCRED, (long)&server, (long)&length) < 0)
		return false;
	return server.uid == 0 || server.uid == (uid_t)fgi_system_call(SYS_geteuid, 0, 0, 0, 0, 0, 0) ||
	       (server.uid == FGI_UNMAPPED_UID && address->name.sun_path[0]);
}

/* Returns 0, or an errno number. The buffer of a fresh socket takes the whole message at once. */
static uint32_t send_to_monitor(int fd, const struct fgi_address *address, const struct message *message, size_t size)
{
	long result = call(SYS_connect, fd, &address->name, (long)address->length, 0, 0);

	if (result < 0)
		return result == -EAGAIN ? ETIMEDOUT : (uint32_t)-result; /* its backlog is full, and stays so */
	if (!is_trusted(fd, address))
		return EKEYREJECTED;
	result = fgi_system_call(SYS_sendto, fd, (long)message, (long)size, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
	if (result < 0)
		return (uint32_t)-result;
	return result == (long)size ? 0 : EPROTO;
}

static int new_socket(uint32_t ms)
{
	const struct timeval most = {ms / 1000, ms % 1000 * 1000};
	int type = SOCK_STREAM | SOCK_CLOEXEC | (ms ? 0 : SOCK_NONBLOCK);
	int fd = (int)fgi_system_call(SYS_socket, AF_UNIX, type, 0, 0, 0, 0);

	/* If that fails, there is no memory either for what follows. */
	if (fd >= 0 && ms)
		(void)call(SYS_setsockopt, fd, (const void *)SOL_SOCKET, SO_SNDTIMEO, (long)&most, sizeof(most));
	return fd;
}

int fgi_connection_open(const struct fgi_address *address, uint32_t ms, uint32_t *why)
{
	static struct message message; /* too large for a stack */
	size_t size = compose(&message);
	int fd;

	*why = ENOSPC;
	if (size == 0)
		return -1;
	fd = new_socket(ms);
	*why = fd < 0 ? (uint32_t)-fd : send_to_monitor(fd, address, &message, size);
	if (*why == 0)
		return fd;
	if (fd >= 0)
		fgi_connection_close(fd);
	return -1;
}

int fgi_connection_out_of_the_way(int fd)
{
	int high = (int)fgi_system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FGI_HIGH_DESCRIPTOR, 0, 0, 0);

	if (high < 0) /* the limit is lower */
		return fd;
	fgi_connection_close(fd);
	return high;
}

bool fgi_connection_readable(int fd, int ms)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	struct timespec most = {ms / 1000, ms % 1000 * 1000000l};

	return fgi_system_call(SYS_ppoll, (long)&readable, 1, (long)&most, 0, 0, 0) == 1;
}

ino_t fgi_connection_inode(int fd)
{
	struct stat s = {0}; /* as the kernel has it on 64-bit machines */

	return call(SYS_fstat, fd, &s, 0, 0, 0) == 0 && S_ISSOCK(s.st_mode) ? s.st_ino : 0;
}

/* The descriptor that came with a message; -1: none, or several, which are closed. */
static int descriptor_of(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	size_t n;
	int fd = -1;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
	for (size_t i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (n > 1)
			fgi_connection_close(fd);
	}
	return n == 1 ? fd : -1;
}

/* Takes the reply, and returns the descriptor that comes with it; -1: there is none, and `why` is the reason. Does not
 * wait. */
static int receive(int fd, uint32_t *domain, uint32_t *why)
{
	union {
		char space[CMSG_SPACE(sizeof(int))]; /* aligned, and so large enough for two */
		struct cmsghdr align;
	} control = {{0}};
	struct fg_reply reply = {0};
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.space,
			   .msg_controllen = sizeof(control.space)};
	long size = call(SYS_recvmsg, fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT, 0, 0);
	int page;

	*why = size < 0 ? (uint32_t)-size : ECONNRESET;
	if (size <= 0)
		return -1;
	page = descriptor_of(&m);
	if (size != (long)sizeof(reply) || reply.magic != FG_ABI_MAGIC)
		*why = EPROTO;
	else if (reply.version != FG_ABI_VERSION)
		*why = EPROTONOSUPPORT;
	else if (reply.status != 0)
		*why = reply.status;
	else
		*why = page >= 0 && reply.number < FG_DOMAINS ? 0 : EPROTO;
	if (page >= 0 && *why) {
		fgi_connection_close(page);
		page = -1;
	}
	*domain = reply.number;
	return page;
}

/* A BPF map is no file: nobody can truncate it, which would turn every look at the page into a SIGBUS. A file must be
 * sealed. */
static bool cannot_shrink(int fd, size_t size)
{
	struct stat s = {0};
	long seals;

	if (call(SYS_fstat, fd, &s, 0, 0, 0) < 0)
		return false;
	if ((s.st_mode & S_IFMT) == 0)
		return true;
	seals = fgi_system_call(SYS_fcntl, fd, F_GET_SEALS, 0, 0, 0, 0);
	return seals >= 0 && (seals & F_SEAL_SHRINK) && s.st_size >= (off_t)size;
}

static const struct fg_shared *map_page(int fd, size_t size)
{
	const struct fg_shared *page;
	long at;

	if (!cannot_shrink(fd, size))
		return NULL;
	at = fgi_system_call(SYS_mmap, 0, (long)size, PROT_READ, MAP_SHARED, fd, 0);
	if (fgi_is_error(at))
		return NULL;
	page = (const struct fg_shared *)at;
	if (page->magic == FG_ABI_MAGIC && page->version == FG_ABI_VERSION)
		return page;
	fgi_system_unmap(page, size);
	return NULL;
}

uint32_t fgi_connection_answer(int fd, const struct fg_shared **page, uint32_t *domain, bool *whole)
{
	uint32_t why;
	int page_fd = receive(fd, domain, &why);

	*page = NULL;
	if (page_fd < 0)
		return why;
	*page = map_page(page_fd, sizeof(struct fg_published));
	*whole = *page != NULL;
	if (!*page && *domain == 0)
		*page = map_page(page_fd, FG_PAGE);
	fgi_connection_close(page_fd);
	return *page ? 0 : EPROTO;
}
