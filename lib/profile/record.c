/* SPDX-License-Identifier: MIT */
/* The file of a process, and what is counted in it. abi/flexguard_profile.h is its layout.
 *
 * The file is made at the first lock of a process image, since most programs that a shell script starts take none. The
 * child of a fork makes its own: the same addresses are other locks there. */
#include "profile/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of a thread and a lock: these many of the first are timed, each standing for itself, then one of so many. */
#define FIRST_HOLDS 32u
#define MEAN_HOLDS 256u
#define FIRST_WAITS 64u
#define MEAN_WAITS 32u

#define LOCK_PROBES 64u
#define SITE_PROBES 32u
#define IMAGES 1000u /* that one process id may execute */

enum { UNOPENED, OPENING, OPENED };

__thread struct fgp_thread fgp_thread;
struct fg_profile *fgp_profile; /* NULL: there is none */
static uint32_t opened;         /* of the enum above */
static char directory[512];
static pthread_key_t at_exit;
static bool have_key;

uint64_t fgp_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* "DIRECTORY/PID.NUMBER", without printf, which may lock. */
static void file_name(char *name, uint32_t pid, uint32_t number)
{
	uint32_t parts[2] = {pid, number};
	size_t at = strlen(directory);

	memcpy(name, directory, at);
	for (int part = 0; part < 2; part++) {
		char digits[10];
		size_t n = 0;

		for (uint32_t rest = parts[part]; n == 0 || rest; rest /= 10)
			digits[n++] = (char)('0' + rest % 10);
		name[at++] = part ? '.' : '/';
		while (n)
			name[at++] = digits[--n];
	}
	name[at] = '\0';
}

static void read_environment(void)
{
	const char *named = getenv(FG_PROFILE_ENV);

	if (named && strlen(named) < sizeof(directory))
		memcpy(directory, named, strlen(named) + 1);
}

/* A file of its size; -1: none. System calls as such: open is a point of cancellation, and a lock is none. */
static int make_file(uint32_t pid)
{
	char name[sizeof(directory) + 24];
	struct rlimit limit;
	long fd = -1;

	if (!directory[0])
		read_environment(); /* other objects may lock before our constructor has run */
	/* Above this limit the kernel would send a signal. */
	if (!directory[0] || getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < sizeof(struct fg_profile))
		return -1;
	for (uint32_t number = 0; fd < 0 && number < IMAGES; number++) {
		file_name(name, pid, number);
		fd = syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -1;
	}
	if (fd >= 0 && ftruncate((int)fd, sizeof(struct fg_profile))) {
		syscall(SYS_close, fd);
		return -1;
	}
	return (int)fd;
}

static struct fg_profile *make_profile(void)
{
	uint32_t pid = (uint32_t)getpid();
	struct fg_profile *profile;
	int fd = make_file(pid);

	if (fd < 0)
		return NULL;
	profile = mmap(NULL, sizeof(*profile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (profile == MAP_FAILED)
		return NULL;
	profile->magic = FG_PROFILE_MAGIC;
	profile->size = sizeof(*profile);
	profile->pid = pid;
	prctl(PR_GET_NAME, profile->name);
	return profile;
}

/* One thread makes the file, the others wait for it: no acquisition goes uncounted. */
static struct fg_profile *open_profile(void)
{
	if (fg_cas_relaxed(&opened, UNOPENED, OPENING) == UNOPENED) {
		fgp_profile = make_profile();
		fg_store_release(&opened, OPENED); /* pairs with the acquire below */
	}
	while (fg_load_acquire(&opened) != OPENED)
		sched_yield();
	return fgp_profile;
}

/* The block of a thread that ends is for the next one: counts are summed over all blocks. */
static void thread_ends(void *block)
{
	struct fg_profile *profile = fgp_profile;

	if (!profile || block != fgp_thread.block)
		return;
	fgp_thread.block = NULL;
	fgp_thread.timed = 0;
	/* release: the next owner's CAS acquires what this thread has counted. */
	fg_store_release(&profile->block_used[(struct fg_profile_block *)block - profile->blocks], 0u);
}

static struct fg_profile_block *take_block(struct fg_profile *profile)
{
	for (uint32_t i = 0; i < FG_PROFILE_BLOCKS; i++) {
		if (fg_load_relaxed(&profile->block_used[i]) || fg_cas_acquire(&profile->block_used[i], 0u, 1u))
			continue;
		if (have_key)
			pthread_setspecific(at_exit, &profile->blocks[i]);
		fgp_thread.random = (uint32_t)fgp_now() | 1u;
		return &profile->blocks[i];
	}
	fgp_thread.without = true;
	return NULL;
}

/* The index of a lock, which gets one if it has none; FGP_NONE: the table is full. */
static uint32_t find_lock(struct fg_profile *profile, uintptr_t mutex, uint32_t kind)
{
	uint32_t at = fgp_hash(mutex);

	for (uint32_t i = 0; i < LOCK_PROBES; i++) {
		uint32_t index = (at + i) % FG_PROFILE_LOCKS;
		fg_u64 *key = &profile->locks[index].mutex;
		fg_u64 found = fg_load_relaxed(key);

		if (!found)
			found = fg_cas_relaxed(key, (fg_u64)0, (fg_u64)mutex);
		if (!found) {
			int error = errno;

			fg_store_relaxed(&profile->locks[index].kind, kind);
			fgp_note_file(mutex, profile->modules); /* no code of that file need be on a call stack */
			errno = error;
		}
		if (!found || found == mutex)
			return index;
	}
	return FGP_NONE;
}

static struct fg_profile_counts *make_counts(struct fg_profile *profile, uintptr_t mutex, uint32_t kind)
{
	uint32_t at = fgp_hash(mutex), lock;

	if (!fgp_thread.block && !fgp_thread.without)
		fgp_thread.block = take_block(profile);
	if (!fgp_thread.block)
		return NULL;
	for (uint32_t i = 0; i < FGP_PROBES; i++) {
		struct fg_profile_counts *counts = &fgp_thread.block->counts[(at + i) % FG_PROFILE_COUNTS];

		if (counts->mutex == mutex)
			return counts;
		if (counts->mutex)
			continue;
		lock = find_lock(profile, mutex, kind);
		if (lock == FGP_NONE)
			return NULL;
		counts->lock = lock;
		counts->mutex = mutex;
		return counts;
	}
	return NULL;
}

struct fg_profile_counts *fgp_counts_slow(uintptr_t mutex, uint32_t kind)
{
	struct fg_profile_counts *counts = NULL;
	struct fg_profile *profile;
	int error = errno;

	if (fgp_thread.busy)
		return NULL;
	fgp_thread.busy = true;
	profile = open_profile();
	if (profile)
		counts = make_counts(profile, mutex, kind);
	fgp_thread.busy = false;
	errno = error;
	return counts;
}

void fgp_count_shared(uintptr_t mutex, uint32_t kind, struct fgp_event event)
{
	struct fg_profile *profile = fgp_profile;
	struct fg_profile_lock *lock;
	uint32_t index;

	if (!profile)
		return;
	index = find_lock(profile, mutex, kind);
	if (index == FGP_NONE) {
		if (event.acquired || event.cond_wait)
			fg_fetch_add_relaxed(&profile->lost_acquisitions, 1u);
		return;
	}
	lock = &profile->locks[index];
	if (event.acquired)
		fg_fetch_add_relaxed(&lock->acquisitions, 1u);
	if (event.contended)
		fg_fetch_add_relaxed(&lock->contended, 1u);
	if (event.failed)
		fg_fetch_add_relaxed(&lock->failed, 1u);
	if (event.cond_wait)
		fg_fetch_add_relaxed(&lock->cond_waits, 1u);
}

/* A number below 2 * mean, which is a power of two. Random: a program may take its locks in a pattern that repeats. */
static uint32_t random_below_twice(uint32_t mean)
{
	uint32_t x = fgp_thread.random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	fgp_thread.random = x;
	return x >> 8 & (2 * mean - 1);
}

static bool is_early(const struct fg_profile_counts *counts)
{
	return counts->acquisitions + counts->cond_waits < FIRST_HOLDS;
}

uint32_t fgp_hold_weight(const struct fg_profile_counts *counts)
{
	if (counts->until_hold)
		return 0;
	return is_early(counts) ? 1 : MEAN_HOLDS;
}

uint32_t fgp_wait_weight(const struct fg_profile_counts *counts)
{
	if (counts->until_wait)
		return 0;
	return counts->contended < FIRST_WAITS ? 1 : MEAN_WAITS;
}

void fgp_hold_passed(struct fg_profile_counts *counts)
{
	if (counts->until_hold)
		counts->until_hold--;
	else if (!is_early(counts))
		counts->until_hold = random_below_twice(MEAN_HOLDS);
}

void fgp_wait_passed(struct fg_profile_counts *counts)
{
	if (counts->until_wait)
		counts->until_wait--;
	else if (counts->contended >= FIRST_WAITS)
		counts->until_wait = random_below_twice(MEAN_WAITS);
}

/* The index of the lock's call site. */
static uint32_t used_at(struct fg_profile_lock *lock, uint32_t site)
{
	if (fg_unlikely(!fg_load_relaxed(&lock->first)))
		(void)fg_cas_relaxed(&lock->first, 0u, site + 1);
	return site;
}

static bool is_site(const struct fg_profile_site *site, uint32_t lock, const uint64_t *stack, uint32_t frames)
{
	return site->lock == lock && site->frames == frames && !memcmp(site->stack, stack, frames * sizeof(*stack));
}

uint32_t fgp_site(uint32_t lock, const void *frame)
{
	struct fg_profile *profile = fgp_profile;
	uint64_t stack[FG_PROFILE_FRAMES], hash = lock;
	uint32_t frames;
	int error = errno;

	if (!profile)
		return FGP_NONE;
	frames = fgp_stack(frame, profile->pid, profile->modules, stack);
	errno = error;
	for (uint32_t i = 0; i < frames; i++)
		hash = fgi_hash(hash ^ stack[i], 64);
	for (uint32_t i = 0; i < SITE_PROBES; i++) {
		uint32_t index = ((uint32_t)(hash >> 32) + i) % FG_PROFILE_SITES;
		struct fg_profile_site *site = &profile->sites[index];
		uint32_t state = fg_load_acquire(&site->state); /* pairs with the release below */

		if (state == FG_PROFILE_READY && is_site(site, lock, stack, frames))
			return used_at(&profile->locks[lock], index);
		if (state != FG_PROFILE_EMPTY || fg_cas_relaxed(&site->state, FG_PROFILE_EMPTY, FG_PROFILE_BUSY))
			continue; /* one that is being written may be the same: the reader adds the two up */
		site->lock = lock;
		site->frames = frames;
		memcpy(site->stack, stack, frames * sizeof(*stack));
		fg_store_release(&site->state, FG_PROFILE_READY);
		return used_at(&profile->locks[lock], index);
	}
	fg_fetch_add_relaxed(&profile->lost_sites, 1u);
	return FGP_NONE;
}

/* The first four buckets hold one number each, then four share each power of two. */
static uint32_t bucket_of(uint64_t ns)
{
	uint32_t power, bucket;

	if (ns < 4)
		return (uint32_t)ns;
	power = 63u - (uint32_t)__builtin_clzll(ns);
	bucket = (power - 1) * 4 + (uint32_t)(ns >> (power - 2) & 3u);
	return bucket < FG_PROFILE_BUCKETS ? bucket : FG_PROFILE_BUCKETS - 1;
}

static void add(struct fg_profile_times *times, uint64_t ns, uint32_t weight)
{
	fg_u64 max = fg_load_relaxed(&times->max_ns);

	fg_fetch_add_relaxed(&times->ns, ns * weight);
	fg_fetch_add_relaxed(&times->buckets[bucket_of(ns)], weight);
	while (ns > max) {
		fg_u64 found = fg_cas_relaxed(&times->max_ns, max, (fg_u64)ns);

		if (found == max)
			break;
		max = found;
	}
}

void fgp_commit(const struct fgp_timed *timed, uint64_t until_ns)
{
	struct fg_profile *profile = fgp_profile;
	uint64_t hold_ns = until_ns - timed->since_ns;
	struct fg_profile_lock *lock;
	struct fg_profile_site *site;

	if (!profile)
		return;
	lock = &profile->locks[timed->lock];
	if (timed->wait_weight)
		add(&lock->wait, timed->wait_ns, timed->wait_weight);
	if (timed->hold_weight)
		add(&lock->hold, hold_ns, timed->hold_weight);
	if (timed->site == FGP_NONE)
		return;
	site = &profile->sites[timed->site];
	if (timed->wait_weight)
		fg_fetch_add_relaxed(&site->wait_ns, timed->wait_ns * timed->wait_weight);
	if (timed->hold_weight) {
		fg_fetch_add_relaxed(&site->acquisitions, timed->hold_weight);
		fg_fetch_add_relaxed(&site->hold_ns, hold_ns * timed->hold_weight);
	}
}

void fgp_site_used(uint32_t site, uint32_t weight)
{
	if (fgp_profile && site != FGP_NONE)
		fg_fetch_add_relaxed(&fgp_profile->sites[site].acquisitions, weight);
}

static void forget_parent(void)
{
	if (fgp_profile)
		munmap(fgp_profile, sizeof(*fgp_profile));
	fgp_profile = NULL;
	opened = UNOPENED;
	memset(&fgp_thread, 0, sizeof(fgp_thread));
	if (have_key)
		pthread_setspecific(at_exit, NULL);
}

__attribute__((constructor)) static void start(void)
{
	read_environment();
	/* A value of a key above glibc's first 32 would be allocated. Without a key no block is used again. */
	have_key = pthread_key_create(&at_exit, thread_ends) == 0 && at_exit < 32;
	pthread_atfork(NULL, NULL, forget_parent);
}
