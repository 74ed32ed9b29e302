/* SPDX-License-Identifier: MIT */
/* What a registration says and hears: the message of this image, its way to a monitor's socket, and the answer with the
 * page. By system calls alone (runtime/system.h). No call touches errno, and each returns what it can say of a failure
 * as an errno number. */
#ifndef FGI_CONNECTION_H
#define FGI_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "abi/flexguard_abi.h"

#define FGI_UNMAPPED_UID 65534 /* the kernel's default for users that a user namespace does not know */
#define FGI_HIGH_DESCRIPTOR 512

struct fgi_address {
	struct sockaddr_un name;
	socklen_t length; /* 0: nowhere */
};

/* `spelled` as FLEXGUARD_SOCKET is: a path, or a name of the abstract namespace after '@'. Returns 0, ECANCELED: it is
 * empty, or ENAMETOOLONG. */
uint32_t fgi_address_set(struct fgi_address *address, const char *spelled);

/* Returns a socket on which a registration is on its way; -1: none, and `why` is the reason. While other clients fill
 * the monitor's backlog it waits for `ms`; 0: it does not. One thread at a time. */
int fgi_connection_open(const struct fgi_address *address, uint32_t ms, uint32_t *why);

/* For a socket that stays open while the program runs: a number that the program does not expect to get, if there is
 * one. */
int fgi_connection_out_of_the_way(int fd);

/* Is there an answer, or the end? Waits for `ms`. */
bool fgi_connection_readable(int fd, int ms);

/* Takes the answer, without waiting. Returns 0 with the page and this process's domain there, or an errno number.
 * `whole`: struct fg_published is there; else, which can be in domain 0, the page alone. */
uint32_t fgi_connection_answer(int fd, const struct fg_shared **page, uint32_t *domain, bool *whole);

void fgi_connection_close(int fd);

/* The socket's identity: the program may close descriptors that it does not know, and use their numbers. 0: `fd` is no
 * socket. */
ino_t fgi_connection_inode(int fd);

#endif
