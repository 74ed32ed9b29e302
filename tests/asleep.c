/* SPDX-License-Identifier: MIT */
/* asleep COMMAND ARGUMENTS...: runs a command until it ends, or until it hangs. Ends as the command does, or with 2.
 *
 * A hang is seen by its signs, since a busy machine makes any program slow. Every thread of the command and of its
 * children sleeps at LOOKS looks, and none has run in between, except threads that nap each time: these wait for what
 * another thread is to write. A thread that waits for a CPU does not sleep, and such a look does not count. A thread
 * that hangs busily uses up BUSY_SECONDS of CPU time, or what the soft limit (ulimit -St) is if that is less. The
 * command must not sleep for some seconds by itself. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/check.h"

#define LOOKS 20
#define MOMENT_NS 100000000
#define BUSY_SECONDS 20 /* of each process */
#define HANGS 2         /* exit status, as a watchdog's; */
#define CANNOT 3        /* of neither a failed check nor a hang; */
#define SKIPPED 77      /* and where this cannot be seen */

/* What the kernel says of the threads. `switches` are of those that do not nap. */
struct look {
	bool all_asleep;
	uint64_t threads, naps, switches;
};

/* Of a thread, by its folder in /proc; NULL: it has just ended. */
static FILE *open_of(const char *task, const char *name)
{
	char path[320];

	snprintf(path, sizeof(path), "%s/%s", task, name);
	return fopen(path, "re");
}

static bool naps(const char *task)
{
	FILE *file = open_of(task, "syscall");
	long call = -1;

	if (!file)
		return false;
	if (fscanf(file, "%ld", &call) != 1)
		call = -1; /* it runs */
	fclose(file);
	return call == SYS_clock_nanosleep;
}

static void look_at_thread(struct look *look, const char *task)
{
	FILE *file = open_of(task, "status");
	bool napping = naps(task);
	unsigned long number;
	char line[256];

	look->all_asleep &= file != NULL;
	look->threads++;
	look->naps += napping;
	while (file && fgets(line, sizeof(line), file)) {
		const char *value = strchr(line, '\t');

		if (value && strncmp(line, "State:", 6) == 0)
			look->all_asleep &= value[1] == 'S' || value[1] == 'Z'; /* Z: the first thread may end first */
		else if (!napping && strstr(line, "voluntary_ctxt_switches:") && sscanf(line, "%*s %lu", &number) == 1)
			look->switches += number;
	}
	if (file)
		fclose(file);
}

static void look_at(struct look *look, pid_t pid);

/* The processes that this thread has started. Where the kernel does not tell, nothing is known to sleep. */
static void look_at_children(struct look *look, const char *task)
{
	FILE *file = open_of(task, "children");
	int child;

	look->all_asleep &= file != NULL;
	while (file && fscanf(file, "%d", &child) == 1)
		look_at(look, child);
	if (file)
		fclose(file);
}

static void look_at(struct look *look, pid_t pid)
{
	char path[32], task[300];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	look->all_asleep &= tasks != NULL;
	for (const struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;) {
		if (!isdigit(entry->d_name[0]))
			continue;
		snprintf(task, sizeof(task), "%s/%s", path, entry->d_name);
		look_at_thread(look, task);
		look_at_children(look, task);
	}
	if (tasks)
		closedir(tasks);
}

/* How long a process may be busy. */
static rlim_t busy_seconds(void)
{
	struct rlimit own;

	return getrlimit(RLIMIT_CPU, &own) == 0 && own.rlim_cur < BUSY_SECONDS ? own.rlim_cur : BUSY_SECONDS;
}

/* Did the kernel end it for being busy? The second signal is for a process that blocks or ignores the first. */
static bool was_busy(int status, const struct rusage *used)
{
	rlim_t seconds = (rlim_t)(used->ru_utime.tv_sec + used->ru_stime.tv_sec +
				  (used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1000000);

	if (!WIFSIGNALED(status))
		return false;
	return WTERMSIG(status) == SIGXCPU || (WTERMSIG(status) == SIGKILL && seconds >= busy_seconds());
}

static pid_t start(char **command, const sigset_t *before)
{
	const struct rlimit busy = {busy_seconds(), busy_seconds() + 1};
	pid_t parent = getpid(), child = fork();

	if (child > 0)
		return child;
	if (child < 0) {
		perror("asleep: fork");
		exit(CANNOT);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0); /* so that its children can be ended with it */
	sigprocmask(SIG_SETMASK, before, NULL);
	if (getppid() == parent && setrlimit(RLIMIT_CPU, &busy) == 0)
		execvp(command[0], command);
	fprintf(stderr, "asleep: %s: %s\n", command[0], strerror(errno));
	_exit(127);
}

/* Is this the LOOKSth look at which nothing but naps has happened? */
static bool hangs(const struct look *look)
{
	static struct look last;
	static int alike;

	if (!look->all_asleep)
		return false;
	alike = look->threads == last.threads && look->naps == last.naps && look->switches == last.switches ? alike + 1
													    : 0;
	last = *look;
	return alike == LOOKS;
}

int main(int argc, char **argv)
{
	const struct timespec moment = {0, MOMENT_NS};
	sigset_t ends, before;
	struct rusage used;
	pid_t child;
	int status;

	if (argc < 2) {
		fprintf(stderr, "usage: asleep COMMAND ARGUMENTS...\n");
		return CANNOT;
	}
	if (access("/proc/thread-self/children", R_OK) != 0) {
		perror("asleep: /proc/thread-self/children");
		return SKIPPED;
	}
	sigemptyset(&ends);
	sigaddset(&ends, SIGCHLD);
	ok(sigprocmask(SIG_BLOCK, &ends, &before));
	child = start(argv + 1, &before);
	while (wait4(child, &status, WNOHANG, &used) == 0) {
		struct look look = {.all_asleep = true};

		look_at(&look, child);
		if (hangs(&look)) {
			fprintf(stderr, "hang: %lu threads sleep, and have not run meanwhile; %lu nap\n",
				(unsigned long)(look.threads - look.naps), (unsigned long)look.naps);
			kill(-child, SIGKILL);
			return HANGS;
		}
		sigtimedwait(&ends, NULL, &moment);
	}
	kill(-child, SIGKILL);
	if (was_busy(status, &used)) {
		fprintf(stderr, "hang: a process was busy for %lu s\n", (unsigned long)busy_seconds());
		return HANGS;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
