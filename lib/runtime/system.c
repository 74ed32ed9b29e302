/* SPDX-License-Identifier: MIT */
#include "runtime/system.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* The dynamic linker's list of objects; absent in a static program. Its head, up to libc, never changes. */
#pragma weak _r_debug

/* What a dynamic object has for a look-up of its symbols. */
struct symbols {
	const char *strings;
	const ElfW(Sym) * table;
	const uint16_t *versions;
	const ElfW(Verdef) * definitions;
	const uint32_t *hash; /* DT_GNU_HASH */
	size_t soname;        /* in `strings`; 0: none */
};

/* The linker may have added the object's address to these, or not. */
static const void *at(const struct link_map *object, ElfW(Addr) value)
{
	return (const void *)(value < object->l_addr ? value + object->l_addr : value);
}

static struct symbols symbols_of(const struct link_map *object)
{
	struct symbols s = {0};

	for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			s.strings = at(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_SYMTAB)
			s.table = at(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERSYM)
			s.versions = at(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERDEF)
			s.definitions = at(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			s.hash = at(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_SONAME)
			s.soname = d->d_un.d_val;
	}
	return s;
}

static bool has_version(const struct symbols *s, uint32_t symbol, const char *version)
{
	uint16_t number = s->versions[symbol] & 0x7fff; /* the upper bit: not the default version */
	const ElfW(Verdef) *d = s->definitions;

	while (d->vd_ndx != number) {
		if (!d->vd_next)
			return false;
		d = (const ElfW(Verdef) *)(const void *)((const char *)d + d->vd_next);
	}
	return strcmp(s->strings + ((const ElfW(Verdaux) *)(const void *)((const char *)d + d->vd_aux))->vda_name,
		      version) == 0;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

/* The symbol's index in the table; 0: not there. The format of DT_GNU_HASH: how many buckets, the first symbol in the
 * table of hashes, how many words of a Bloom filter, its shift; the filter; the buckets; the hashes, of which the
 * lowest bit ends a bucket. */
static uint32_t find(const struct symbols *s, const char *name, const char *version)
{
	uint32_t buckets = s->hash[0], first = s->hash[1], words = s->hash[2], hash = hash_of(name), i;
	const uint32_t *bucket = s->hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *hashes = bucket + buckets;

	for (i = buckets ? bucket[hash % buckets] : 0; i >= first && i != 0; i++) {
		if ((hashes[i - first] | 1) == (hash | 1) && strcmp(s->strings + s->table[i].st_name, name) == 0 &&
		    has_version(s, i, version))
			return i;
		if (hashes[i - first] & 1)
			break;
	}
	return 0;
}

/* Libc's, once it is found. */
static struct {
	const struct link_map *object;
	struct symbols symbols;
} libc;

static bool find_libc(void)
{
	const struct link_map *object = &_r_debug ? _r_debug.r_map : NULL;

	for (; object && !fg_load_acquire(&libc.object); object = object->l_next) {
		struct symbols s = symbols_of(object);

		if (!s.strings || !s.table || !s.versions || !s.definitions || !s.hash || !s.soname ||
		    strcmp(s.strings + s.soname, "libc.so.6") != 0)
			continue;
		libc.symbols = s; /* each thread that finds it stores the same */
		fg_store_release(&libc.object, object);
	}
	return fg_load_acquire(&libc.object);
}

void *fgi_libc_function(const char *name, const char *version)
{
	const ElfW(Sym) * symbol;

	if (!find_libc())
		return NULL;
	symbol = libc.symbols.table + find(&libc.symbols, name, version);
	if (symbol == libc.symbols.table || symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return NULL;
	return (char *)libc.object->l_addr + symbol->st_value;
}

#if defined(__x86_64__)
#define OLD "GLIBC_2.2.5"
#define CLOCK "GLIBC_2.17"
#define SCHED_GETCPU "GLIBC_2.6"
#else
#define OLD "GLIBC_2.17"
#define CLOCK OLD
#define SCHED_GETCPU OLD
#endif

/* A function of libc.so.6 by its name there, or whatever the name leads to. Several threads may find it at once. */
#define FIND(field, version)                                                                                           \
	__extension__({                                                                                                \
		void *found_ = fgi_libc_function(#field, version);                                                     \
		__typeof__(field) *function_ = found_ ? (__typeof__(field) *)found_ : field;                           \
		fg_store_relaxed(&fgi_libc.field, function_);                                                          \
		function_;                                                                                             \
	})

static int find_clock_gettime(clockid_t clock, struct timespec *t)
{
	return FIND(clock_gettime, CLOCK)(clock, t);
}

static int find_getcpu(unsigned int *cpu, unsigned int *node)
{
	return FIND(getcpu, "GLIBC_2.29")(cpu, node);
}

static int find_sched_getcpu(void)
{
	return FIND(sched_getcpu, SCHED_GETCPU)();
}

struct fgi_libc fgi_libc = {find_clock_gettime, find_getcpu, find_sched_getcpu};

/* Whatever takes libc's name in a static program is libc's. Elsewhere it may be this image's own. */
static void *by_name(void *named)
{
	return &_r_debug && _r_debug.r_map ? NULL : named;
}

static struct {
	uint32_t found;
	__typeof__(pthread_mutex_lock) *lock, *unlock;
} recursive;

static void find_recursive(void)
{
	void *lock = fgi_libc_function("pthread_mutex_lock", OLD);
	void *unlock = fgi_libc_function("pthread_mutex_unlock", OLD);

	fg_store_relaxed(&recursive.lock, (__typeof__(recursive.lock))(lock ? lock : by_name(pthread_mutex_lock)));
	fg_store_relaxed(&recursive.unlock,
			 (__typeof__(recursive.unlock))(unlock ? unlock : by_name(pthread_mutex_unlock)));
	fg_store_release(&recursive.found, 1);
}

/* libc writes its tid of the calling thread into a recursive mutex. Not a libc that this code knows, or nothing there:
 * asks the kernel. A sandbox that refuses would make all threads one owner; then they are numbered. No kernel gives out
 * tids of more than 22 bits. */
uint32_t fgi_system_tid(void)
{
	static uint32_t numbered;
	__typeof__(recursive.lock) lock, unlock;
	pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	uint32_t tid = 0;
	long answer;

	if (fg_unlikely(!fg_load_acquire(&recursive.found)))
		find_recursive();
	lock = fg_load_relaxed(&recursive.lock); /* another thread may find the same ones again */
	unlock = fg_load_relaxed(&recursive.unlock);
	if (lock && unlock && lock(&mutex) == 0) {
		tid = (uint32_t)mutex.__data.__owner;
		unlock(&mutex);
	}
	if (fg_likely(tid != 0 && tid < 1u << 22))
		return tid;
	answer = fgi_system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
	return answer > 0 ? (uint32_t)answer : (1u << 22) + fg_fetch_add_relaxed(&numbered, 1) % (1u << 22);
}
