/* SPDX-License-Identifier: MIT */
/* liar SOCKET ANSWER: a monitor that answers one registration as no monitor does, then ends.
 *
 *   refused    a status other than 0, and a descriptor
 *   magic      a wrong magic number, and a descriptor
 *   version    a wrong version, and a descriptor
 *   short      half a reply, and a descriptor
 *   none       a good reply without a descriptor
 *   two        a good reply with two descriptors
 *   small      a good reply; the page is a file that can be truncated
 *   page       a good reply; the page has a wrong magic number
 *   domain     a good reply, of a domain that there is not
 *   alone      a good reply, of a domain; behind the page there is none
 *   good       as a monitor answers; the page is without heartbeat
 *
 * Each descriptor is a file in memory that is called "liar". SOCKET is a path. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi/flexguard_abi.h"

#define WAIT_MS 60000

static const char *answer;

static int is(const char *name)
{
	return strcmp(answer, name) == 0;
}

static int make_page(void)
{
	int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct fg_shared *page;

	if (fd < 0 || ftruncate(fd, FG_PAGE) < 0)
		return -1;
	page = mmap(NULL, FG_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -1;
	page->magic = is("page") ? 0 : FG_ABI_MAGIC;
	page->version = FG_ABI_VERSION;
	munmap(page, FG_PAGE);
	if (!is("small") && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return -1;
	return fd;
}

static int send_reply(int client)
{
	int pages[2] = {make_page(), make_page()}, n = is("none") ? 0 : is("two") ? 2 : 1;
	union {
		char space[CMSG_SPACE(sizeof(pages))];
		struct cmsghdr align;
	} control = {0};
	struct fg_reply reply = {
		.magic = is("magic") ? 0 : FG_ABI_MAGIC,
		.version = is("version") ? 0 : FG_ABI_VERSION,
		.status = is("refused"), /* EPERM */
		.number = is("domain") ? FG_DOMAINS : (fg_u32)is("alone"),
	};
	struct iovec iov = {&reply, is("short") ? sizeof(reply) / 2 : sizeof(reply)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (pages[0] < 0 || pages[1] < 0)
		return -1;
	if (n > 0) {
		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE((unsigned)n * sizeof(int));
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN((unsigned)n * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), pages, (unsigned)n * sizeof(int));
	}
	return sendmsg(client, &m, MSG_NOSIGNAL) == (ssize_t)iov.iov_len ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct fg_registration registration;
	struct pollfd waiting = {.events = POLLIN};
	int client;

	if (argc != 3 || strlen(argv[1]) >= sizeof(address.sun_path)) {
		fprintf(stderr, "usage: liar SOCKET ANSWER\n");
		return 2;
	}
	strcpy(address.sun_path, argv[1]);
	answer = argv[2];
	waiting.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(waiting.fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(waiting.fd, 1) < 0 ||
	    poll(&waiting, 1, WAIT_MS) != 1) {
		perror("liar");
		return 1;
	}
	client = accept(waiting.fd, NULL, NULL);
	if (recv(client, &registration, sizeof(registration), MSG_WAITALL) != (ssize_t)sizeof(registration) ||
	    send_reply(client) < 0) {
		perror("liar");
		return 1;
	}
	return 0;
}
