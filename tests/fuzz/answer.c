/* SPDX-License-Identifier: MIT */
/* What a monitor answers to a registration, for libFuzzer (tests/fuzz/fuzz). The first byte of the input says how many
 * descriptors come with the rest, and of which kind. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/connection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A page, a page that could shrink, one that is too short, no file. */
static int descriptor(unsigned int kind)
{
	static const struct fg_shared page = {.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION};
	static int of[4];

	if (of[kind])
		return of[kind];
	of[kind] = kind == 3 ? dup(0) : memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (kind < 3 && (ftruncate(of[kind], kind == 2 ? 64 : sizeof(struct fg_published)) < 0 ||
			 pwrite(of[kind], &page, kind == 2 ? 64 : sizeof(page), 0) < 0 ||
			 (kind != 1 && fcntl(of[kind], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)))
		_exit(1);
	return of[kind];
}

static void say(int fd, unsigned int how, const uint8_t *data, size_t size)
{
	union {
		char space[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)data, size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	unsigned int number = how % 4;
	int fds[3];

	for (unsigned int i = 0; i < number; i++)
		fds[i] = descriptor((how >> (2 + 2 * i)) % 4);
	if (number) {
		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(number * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(number * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, number * sizeof(int));
	}
	(void)!sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int next_descriptor(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fg_shared *page;
	uint32_t domain;
	bool whole;
	int pair[2], before;

	for (unsigned int kind = 0; kind < 4; kind++)
		(void)descriptor(kind);
	before = next_descriptor();
	if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return 0;
	say(pair[0], data[0], data + 1, size - 1);
	if (fgi_connection_answer(pair[1], &page, &domain, &whole) == 0)
		munmap((void *)(uintptr_t)page, whole ? sizeof(struct fg_published) : FG_PAGE);
	close(pair[0]);
	close(pair[1]);
	if (next_descriptor() != before) /* one stays open */
		__builtin_trap();
	return 0;
}
