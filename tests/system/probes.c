/* SPDX-License-Identifier: MIT */
/* The probes of an interposer (interpose/probes.h) are where a tracer finds them, under glibc's names, and each is hit
 * as often as its operation is done: counted by uprobes of the kernel, placed by the notes in the file alone.
 *
 *   probes INTERPOSER        finds the probes, and counts them in a run of:
 *   probes INTERPOSER work   the operations that are counted */
#include <elf.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"

#define SKIPPED 77
#define MOST 64

static const struct {
	const char *name;
	uint64_t hits;
	int arguments;
} expected[] = {
	{"mutex_init", 2, 1},
	{"mutex_destroy", 1, 1},
	{"mutex_entry", 1010, 1},
	{"mutex_acquired", 1000, 1}, /* not where the owner of a recursive mutex takes it again */
	{"mutex_release", 1010, 1},  /* nor where it gives a level up */
	{"mutex_timedlock_entry", 4, 2},
	{"mutex_clocklock_entry", 6, 3},
	{"mutex_timedlock_acquired", 10, 1},
};
#define NAMES (sizeof(expected) / sizeof(expected[0]))

static void work(void)
{
	const struct timespec late = {time(NULL) + 1000, 0};
	pthread_mutex_t normal, recursive;
	pthread_mutexattr_t attr;

	pthread_mutex_init(&normal, NULL);
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&normal);
		pthread_mutex_unlock(&normal);
	}
	pthread_mutex_destroy(&normal);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &attr);
	for (int i = 0; i < 10; i++) {
		if (i < 4)
			pthread_mutex_timedlock(&recursive, &late);
		else
			pthread_mutex_clocklock(&recursive, CLOCK_REALTIME, &late);
		pthread_mutex_lock(&recursive);
		pthread_mutex_unlock(&recursive);
		pthread_mutex_unlock(&recursive);
	}
}

struct file {
	const char *path, *bytes;
	const Elf64_Ehdr *header;
};

static struct file map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	struct file file = {.path = path};

	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	file.bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(file.bytes != MAP_FAILED);
	file.header = (const void *)file.bytes;
	close(fd);
	return file;
}

/* The section with the probes' notes, or NULL. */
static const Elf64_Shdr *notes_of(const struct file *file)
{
	const Elf64_Shdr *sections = (const void *)(file->bytes + file->header->e_shoff);
	const char *names = file->bytes + sections[file->header->e_shstrndx].sh_offset;

	for (int i = 0; i < file->header->e_shnum; i++)
		if (strcmp(names + sections[i].sh_name, ".note.stapsdt") == 0)
			return &sections[i];
	return NULL;
}

static uint64_t offset_of(const struct file *file, uint64_t address)
{
	const Elf64_Phdr *segments = (const void *)(file->bytes + file->header->e_phoff);

	for (int i = 0; i < file->header->e_phnum; i++)
		if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_X) &&
		    address - segments[i].p_vaddr < segments[i].p_filesz)
			return address - segments[i].p_vaddr + segments[i].p_offset;
	fprintf(stderr, "no code at %#lx\n", address);
	exit(1);
}

/* An event that counts the hits of a probe by a process, from its next exec on; -1 where the kernel has no uprobes for
 * us. (Not inherited from this process: the kernel swaps the events of two processes that have inherited the same ones,
 * instead of exchanging them at a switch from one to the other, and then the child's uprobes are for the parent.) */
static int count_at(const struct file *file, uint64_t offset, pid_t pid)
{
	FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	struct perf_event_attr attr = {.size = sizeof(attr),
				       .config1 = (uintptr_t)file->path,
				       .config2 = offset,
				       .disabled = 1,
				       .enable_on_exec = 1};

	if (!type)
		return -1;
	CHECK(fscanf(type, "%u", &attr.type) == 1);
	fclose(type);
	return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int arguments_in(const char *list)
{
	int count = 0;

	for (const char *at = list; (at = strchr(at, '@')); at++)
		count++;
	return count;
}

static int events[NAMES][MOST], places[NAMES];

/* Opens an event for each place of each probe. False where this machine counts none. */
static bool open_events(const struct file *file, const Elf64_Shdr *notes, pid_t pid)
{
	const char *at = file->bytes + notes->sh_offset, *end = at + notes->sh_size;

	while (at < end) {
		const Elf64_Nhdr *note = (const void *)at;
		const char *description = at + sizeof(*note) + ((note->n_namesz + 3) & ~3u);
		const char *provider = description + 3 * sizeof(uint64_t);
		const char *name = provider + strlen(provider) + 1, *arguments = name + strlen(name) + 1;
		uint64_t address;
		size_t i = 0;

		memcpy(&address, description, sizeof(address));
		at = description + ((note->n_descsz + 3) & ~3u);
		while (i < NAMES && strcmp(expected[i].name, name) != 0)
			i++;
		CHECK(strcmp(provider, "libc") == 0 && i < NAMES && places[i] < MOST);
		CHECK(arguments_in(arguments) == expected[i].arguments);
		events[i][places[i]] = count_at(file, offset_of(file, address), pid);
		if (events[i][places[i]++] < 0)
			return false;
	}
	return true;
}

/* A child that does the work under the interposer once *go is closed. */
static pid_t start(const char *interposer, int *go)
{
	int ends[2];
	char none;
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		close(ends[1]);
		if (read(ends[0], &none, 1) != 0)
			_exit(127);
		setenv("LD_PRELOAD", interposer, 1);
		execl("/proc/self/exe", "probes", interposer, "work", NULL);
		_exit(127);
	}
	close(ends[0]);
	*go = ends[1];
	return pid;
}

int main(int argc, char **argv)
{
	struct file file;
	const Elf64_Shdr *notes;
	int go, status;
	bool counted;
	pid_t pid;

	if (argc == 3) {
		work();
		return 0;
	}
	CHECK(argc == 2);
	file = map(argv[1]);
	notes = notes_of(&file);
	if (!notes) {
		puts("the interposer has no probes: <sys/sdt.h> was not installed when it was built");
		return SKIPPED;
	}
	pid = start(argv[1], &go);
	counted = open_events(&file, notes, pid);
	if (!counted)
		perror("this machine does not let us place uprobes");
	close(go);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (!counted)
		return SKIPPED;
	for (size_t i = 0; i < NAMES; i++) {
		uint64_t hits = 0, here;

		for (int place = 0; place < places[i]; place++) {
			CHECK(read(events[i][place], &here, sizeof(here)) == sizeof(here));
			hits += here;
		}
		fprintf(stderr, "%s: %lu hits in %d places\n", expected[i].name, hits, places[i]);
		CHECK(hits == expected[i].hits, "%s: %lu hits, not %lu", expected[i].name, hits, expected[i].hits);
	}
	return 0;
}
