/* SPDX-License-Identifier: MIT */
/* pthread_cond_*@GLIBC_2.2.5, as a program is bound to them that was linked before 2003: condition variables of 24
 * bytes, with other data right behind. */
#include "tests/posix/posix.h"

#if defined(__x86_64__)
#define OLD_BYTES 24
#define OLD(name) __asm__(".symver old_" #name ", pthread_cond_" #name "@GLIBC_2.2.5")

extern int old_init(void *cond, const pthread_condattr_t *attr);
extern int old_destroy(void *cond);
extern int old_wait(void *cond, pthread_mutex_t *mutex);
extern int old_timedwait(void *cond, pthread_mutex_t *mutex, const struct timespec *abs);
extern int old_signal(void *cond);
extern int old_broadcast(void *cond);
OLD(init);
OLD(destroy);
OLD(wait);
OLD(timedwait);
OLD(signal);
OLD(broadcast);

static struct {
	uint64_t cond[OLD_BYTES / 8];
	uint64_t behind[8];
} o;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int waiting, go;

static void *wait_for_go(void *alone)
{
	ok(pthread_mutex_lock(&m));
	tell(&waiting, waiting + 1);
	while (!go)
		ok(old_wait(&o.cond, &m));
	go -= alone != NULL;
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static void use(void)
{
	struct timespec t = from_now(CLOCK_REALTIME, 5000000), invalid = {0, -1};
	pthread_t threads[3];

	for (int broadcast = 0; broadcast < 2; broadcast++) {
		waiting = go = 0;
		for (int i = 0; i < 3; i++)
			threads[i] = check_thread(wait_for_go, broadcast ? NULL : &go);
		await(&waiting, 3);
		for (int i = 0; i < (broadcast ? 1 : 3); i++) {
			ok(pthread_mutex_lock(&m));
			go++;
			ok(broadcast ? old_broadcast(&o.cond) : old_signal(&o.cond));
			ok(pthread_mutex_unlock(&m));
		}
		for (int i = 0; i < 3; i++)
			check_join(threads[i]);
	}
	ok(pthread_mutex_lock(&m));
	CHECK_IS(old_timedwait(&o.cond, &m, &t), ETIMEDOUT);
	CHECK(reached(CLOCK_REALTIME, &t), "it returned before the time");
	CHECK_IS(old_timedwait(&o.cond, &m, &invalid), EINVAL);
	ok(pthread_mutex_unlock(&m));
}

static const char *object_of(void *function)
{
	Dl_info info;

	CHECK(function != NULL && dladdr(function, &info));
	return info.dli_fname;
}

int main(void)
{
	memset(o.behind, 0x5a, sizeof(o.behind));
	use(); /* with the static initializer, which is zero */
	ok(old_destroy(&o.cond));
	memset(o.cond, 0xff, OLD_BYTES);
	ok(old_init(&o.cond, NULL));
	use();
	ok(old_destroy(&o.cond));
	for (size_t i = 0; i < sizeof(o.behind); i++)
		CHECK_IS(((unsigned char *)o.behind)[i], 0x5a);
	/* Both versions come from one library, which also has the mutexes. */
	for (int i = 0; i < 2; i++)
		CHECK(strcmp(object_of(dlvsym(RTLD_DEFAULT, "pthread_cond_wait", i ? "GLIBC_2.2.5" : "GLIBC_2.3.2")),
			     object_of(dlsym(RTLD_DEFAULT, "pthread_mutex_lock"))) == 0);
	CHECK(dlvsym(RTLD_DEFAULT, "pthread_cond_wait", "GLIBC_2.2.5") !=
	      dlvsym(RTLD_DEFAULT, "pthread_cond_wait", "GLIBC_2.3.2"));
	CHECK(dlsym(RTLD_DEFAULT, "pthread_cond_wait") == dlvsym(RTLD_DEFAULT, "pthread_cond_wait", "GLIBC_2.3.2"));
	return 0;
}
#else
int main(void)
{
	return 77; /* glibc for this machine is younger than the new ones */
}
#endif
