/* SPDX-License-Identifier: MIT */
/* A library that answers calls to libc in its name, and takes locks in each: those that a lock may make while it waits,
 * and some that an interposer may make while it starts. Libraries that pretend another time or count calls do so. What
 * the system alone does is counted besides: no lock calls it by name. */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int meddler_calls;
EXPORT int meddler_system_calls;
EXPORT const char *meddler_system_call;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void meddle(void)
{
	pthread_rwlock_wrlock(&rwlock);
	pthread_mutex_lock(&mutex);
	meddler_calls++;
	pthread_mutex_unlock(&mutex);
	pthread_rwlock_unlock(&rwlock);
}

/* The versions are x86-64's. On arm64, where glibc is younger, it has the older ones' symbols by its first version. */
static void *next(const char *name, const char *version)
{
	void *found = dlvsym(RTLD_NEXT, name, version);

	return found ? found : dlvsym(RTLD_NEXT, name, "GLIBC_2.17");
}

#define NEXT(name, version) ((__typeof__(name) *)next(#name, version))

EXPORT int pthread_cond_init(pthread_cond_t *restrict cond, const pthread_condattr_t *restrict attr)
{
	int result = NEXT(pthread_cond_init, "GLIBC_2.3.2")(cond, attr);

	meddle();
	return result;
}

EXPORT int pthread_rwlock_init(pthread_rwlock_t *restrict lock, const pthread_rwlockattr_t *restrict attr)
{
	int result = NEXT(pthread_rwlock_init, "GLIBC_2.2.5")(lock, attr);

	meddle();
	return result;
}

EXPORT int pthread_condattr_init(pthread_condattr_t *attr)
{
	int result = NEXT(pthread_condattr_init, "GLIBC_2.2.5")(attr);

	meddle();
	return result;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *t)
{
	int result = NEXT(clock_gettime, "GLIBC_2.17")(clock, t);

	meddle();
	return result;
}

EXPORT int sched_yield(void)
{
	meddle();
	return NEXT(sched_yield, "GLIBC_2.2.5")();
}

EXPORT int sched_getscheduler(pid_t pid)
{
	meddle();
	return NEXT(sched_getscheduler, "GLIBC_2.2.5")(pid);
}

EXPORT int getcpu(unsigned int *cpu, unsigned int *node)
{
	meddle();
	return NEXT(getcpu, "GLIBC_2.29")(cpu, node);
}

EXPORT int getpriority(__priority_which_t which, id_t who)
{
	meddle();
	return NEXT(getpriority, "GLIBC_2.2.5")(which, who);
}

EXPORT pid_t getpid(void)
{
	meddle();
	return NEXT(getpid, "GLIBC_2.2.5")();
}

EXPORT long syscall(long number, ...)
{
	long argument[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	meddle();
	return NEXT(syscall, "GLIBC_2.2.5")(number, argument[0], argument[1], argument[2], argument[3], argument[4],
					    argument[5]);
}

/* ---- the system's ------------------------------------------------------------------------------------------------ */

#define SINCE(version, result, name, parameters, arguments)                                                            \
	EXPORT result name parameters                                                                                  \
	{                                                                                                              \
		meddler_system_call = #name;                                                                           \
		meddler_system_calls++;                                                                                \
		meddle();                                                                                              \
		return NEXT(name, version) arguments;                                                                  \
	}
#define SYSTEM(result, name, parameters, arguments) SINCE("GLIBC_2.2.5", result, name, parameters, arguments)

SYSTEM(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
       (at, size, protection, flags, fd, offset))
SYSTEM(int, munmap, (void *at, size_t size), (at, size))
SYSTEM(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
SYSTEM(int, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length))
SYSTEM(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
SYSTEM(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
SYSTEM(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length),
       (fd, level, name, value, length))
SYSTEM(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *length), (fd, level, name, value, length))
SYSTEM(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
SYSTEM(int, close, (int fd), (fd))
SYSTEM(uid_t, geteuid, (void), ())
SYSTEM(int, sigpending, (sigset_t * set), (set))
SYSTEM(int, sigaction, (int signo, const struct sigaction *new, struct sigaction *old), (signo, new, old))
SINCE("GLIBC_2.32", int, pthread_sigmask, (int how, const sigset_t *new, sigset_t *old), (how, new, old))
SINCE("GLIBC_2.33", int, fstat, (int fd, struct stat *s), (fd, s))
