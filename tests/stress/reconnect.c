/* SPDX-License-Identifier: MIT */
/* Registering anew while threads wait for locks: it never waits for a monitor that does not answer, leaves no
 * descriptor behind, and touches none of the program's. The monitor is a socket of this program's, and the time is an
 * argument. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "runtime/connection.h"
#include "runtime/monitor.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"
#include "tests/check.h"
#include "tests/unit/vforked.h"

#define ATTEMPT FGI_RECONNECT_NS
#define LOOK FGI_REPLY_LOOK_NS
#define GIVEN_UP (FGI_REGISTER_TIMEOUT_MS * 1000000ull)

static int listener;
static uint64_t now;

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool after(uint64_t ns)
{
	bool alive;

	now += ns;
	errno = ENOTTY;
	alive = fgi_monitor_alive(now);
	CHECK(errno == ENOTTY, "errno is %d", errno);
	return alive;
}

static int accepted(void)
{
	struct fg_registration head;
	int fd = accept(listener, NULL, NULL);

	CHECK(fd >= 0, "accept: %s", strerror(errno));
	CHECK(recv(fd, &head, sizeof(head), 0) == sizeof(head) && head.magic == FG_ABI_MAGIC, "no registration");
	return fd;
}

static void hung_up(int fd)
{
	char rest[4096];

	while (recv(fd, rest, sizeof(rest), 0) > 0)
		;
	close(fd);
}

/* An attempt has been made: it is given up. */
static void abandoned(void)
{
	int fd = accepted();

	after(GIVEN_UP);
	hung_up(fd);
}

/* No monitor answers: one attempt a second, which is given up. */
static void unanswered(void)
{
	int before = descriptors(), fd;

	CHECK(!after(ATTEMPT));
	CHECK(descriptors() == before + 1);
	fd = accepted();
	for (uint64_t waited = 0; waited + 50 * LOOK < GIVEN_UP; waited += 50 * LOOK) {
		CHECK(!after(50 * LOOK));
		CHECK(descriptors() == before + 2);
	}
	CHECK(!after(50 * LOOK));
	hung_up(fd);
	CHECK(descriptors() == before);
	CHECK(!after(ATTEMPT - 2 * LOOK));
	CHECK(descriptors() == before, "too early");
	CHECK(!after(2 * LOOK));
	abandoned();
	CHECK(descriptors() == before);
}

/* The number of the next attempt's descriptor: out of the program's way. */
static int next_descriptor(void)
{
	int fd = fcntl(listener, F_DUPFD, FGI_HIGH_DESCRIPTOR);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

/* The program closes what it does not know, and has another socket at its number. */
static void taken_away(void)
{
	int before = descriptors(), attempt = next_descriptor(), pair[2];
	char byte = 'x';

	CHECK(!after(ATTEMPT));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(dup2(pair[0], attempt) == attempt);
	CHECK(write(pair[1], &byte, 1) == 1);
	hung_up(accepted());
	CHECK(!after(GIVEN_UP));
	byte = 0;
	CHECK(read(attempt, &byte, 1) == 1 && byte == 'x', "the program's byte is gone");
	close(attempt);
	close(pair[0]);
	close(pair[1]);
	CHECK(descriptors() == before);
}

static void forked(void)
{
	int before = descriptors(), status, fd;
	pid_t child;

	CHECK(!after(ATTEMPT));
	child = fork();
	if (child == 0) {
		CHECK(descriptors() == before, "the child still has it");
		CHECK(!after(LOOK)); /* begins one of its own */
		CHECK(descriptors() == before + 1);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	fd = accepted();
	CHECK(!after(GIVEN_UP));
	hung_up(fd);
	hung_up(accepted()); /* the child's */
	CHECK(descriptors() == before);
}

/* It registers nothing: the parent's registration would be lost, whose memory it has. */
static int child_of_a_vfork(void *unused)
{
	int before = descriptors();

	(void)unused;
	CHECK(!after(ATTEMPT));
	CHECK(descriptors() == before, "the child asks");
	return 0;
}

static void vforked(void)
{
	int before = descriptors();

	in_vfork_child(child_of_a_vfork);
	CHECK(!after(0));
	CHECK(descriptors() == before + 1, "the parent does not ask");
	abandoned();
	CHECK(descriptors() == before);
}

/* What a monitor answers: its first `size` bytes, with the page's descriptor `copies` times. */
struct answer {
	struct fg_reply reply;
	size_t size;
	int copies;
};
#define GOOD_REPLY                                                                                                     \
	{                                                                                                              \
		.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION                                                       \
	}
static const struct answer good = {GOOD_REPLY, sizeof(struct fg_reply), 1};

static void answer(int fd, struct answer what, int page)
{
	int pages[] = {page, page};
	union {
		char space[CMSG_SPACE(sizeof(pages))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {&what.reply, what.size};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.space,
			   .msg_controllen = CMSG_SPACE((size_t)what.copies * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (what.copies == 0) {
		CHECK(send(fd, &what.reply, what.size, 0) == (ssize_t)what.size);
		return;
	}
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)what.copies * sizeof(int));
	memcpy(CMSG_DATA(c), pages, (size_t)what.copies * sizeof(int));
	CHECK(sendmsg(fd, &m, 0) == (ssize_t)what.size);
}

/* A page as a monitor's, of `size` bytes and with these seals. */
static int make_page(off_t size, int seals, uint32_t version, uint64_t heartbeat_ns, uint32_t preempted)
{
	int page = memfd_create("page", MFD_ALLOW_SEALING);
	struct fg_shared content = {
		.magic = FG_ABI_MAGIC, .version = version, .heartbeat_ns = heartbeat_ns, .num_preempted_cs = preempted};

	CHECK(page >= 0 && write(page, &content, sizeof(content)) == sizeof(content) && ftruncate(page, size) == 0);
	CHECK(fcntl(page, F_ADD_SEALS, seals) == 0);
	return page;
}

/* An attempt that is answered so. */
static void answered_as(struct answer what, int page)
{
	int fd;

	CHECK(!after(ATTEMPT));
	fd = accepted();
	answer(fd, what, page);
	after(LOOK);
	hung_up(fd);
	close(page);
}

static void answered_with(int page)
{
	answered_as(good, page);
}

/* A monitor, then its death, then another one. */
static void answered(void)
{
	int before = descriptors();

	for (uint32_t i = 1; i <= 2; i++) {
		answered_with(make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, now + ATTEMPT, i));
		CHECK(after(LOOK), "not attached");
		CHECK(fgi_monitor_page->num_preempted_cs == i);
		CHECK(descriptors() == before);
		CHECK(!after(FG_HEARTBEAT_DEAD_NS));
		CHECK(!fgi_preempted_cs());
		abandoned();
	}
}

/* At the place of 5 in the table there. */
static void name_in(int page, off_t table, uint32_t name)
{
	table += (off_t)(fg_off_cpu_place(5) * sizeof(name));
	CHECK(pwrite(page, &name, sizeof(name), table) == sizeof(name));
}

/* A monitor with a counter for each user: not the machine's counts, but the one that the answer names. */
static void answered_with_a_domain(void)
{
	const struct answer third = {
		{.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION, .number = 3}, sizeof(struct fg_reply), 1};
	const struct fg_domain busy = {.num_preempted_cs = 7};
	const off_t at = offsetof(struct fg_published, domains[3]);
	const uint32_t sleeper = 5;
	int page, before = descriptors();

	for (uint32_t ours = 0; ours <= 1; ours++) {
		page = make_page(sizeof(struct fg_published), F_SEAL_SHRINK, FG_ABI_VERSION, now + ATTEMPT, !ours);
		CHECK(pwrite(page, &busy, sizeof(busy), ours ? at : at + (off_t)sizeof(busy)) == sizeof(busy));
		name_in(page, offsetof(struct fg_published, off_cpu[3]), ours ? sleeper : 0);
		name_in(page, offsetof(struct fg_published, off_cpu[4]), ours ? 0 : sleeper);
		name_in(page, offsetof(struct fg_published, page.off_cpu), ours ? 0 : sleeper);
		answered_as(third, page);
		CHECK(after(LOOK), "not attached");
		CHECK(fgi_preempted_cs() == (bool)ours);
		CHECK(fgi_owner_sleeps(sleeper) == (bool)ours);
		CHECK(!after(FG_HEARTBEAT_DEAD_NS));
		CHECK(!fgi_preempted_cs() && !fgi_owner_sleeps(sleeper));
		abandoned();
	}
	answered_as(third, make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, now + ATTEMPT, 1));
	CHECK(!fgi_preempted_cs(), "attached to a page without its domain");
	CHECK(descriptors() == before);
}

/* Pages that could be truncated, that end too early, or that are none of ours. */
static void answered_badly(void)
{
	int before = descriptors();
	int bad[] = {make_page(FG_PAGE, F_SEAL_GROW, FG_ABI_VERSION, now + ATTEMPT, 1),
		     make_page(FG_PAGE - 1, F_SEAL_SHRINK, FG_ABI_VERSION, now + 2 * ATTEMPT, 1),
		     make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION + 1, now + 3 * ATTEMPT, 1), dup(listener)};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		answered_with(bad[i]);
		CHECK(!fgi_preempted_cs(), "attached to bad page %zu", i);
	}
	CHECK(descriptors() == before);
}

/* A good page comes with an answer that is none: it is not mapped, and nothing stays open. */
static void answered_with_nonsense(void)
{
	const struct answer bad[] = {
		{GOOD_REPLY, sizeof(struct fg_reply) / 2, 1},
		{GOOD_REPLY, sizeof(struct fg_reply), 2},
		{{.magic = 1, .version = FG_ABI_VERSION}, sizeof(struct fg_reply), 1},
		{{.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION + 1}, sizeof(struct fg_reply), 1},
		{{.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION, .status = EPERM}, sizeof(struct fg_reply), 1},
		{{.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION, .number = FG_DOMAINS}, sizeof(struct fg_reply), 1},
	};
	/* A monitor that refuses is asked half as often after each time; nonsense is no refusal. */
	const uint64_t attempts[] = {1, 1, 1, 1, 2, 4};
	int before = descriptors();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(!after((attempts[i] - 1) * ATTEMPT));
		CHECK(descriptors() == before, "too early after bad answer %zu", i - 1);
		answered_as(bad[i], make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, now + 2 * ATTEMPT, 1));
		CHECK(!fgi_preempted_cs(), "attached after bad answer %zu", i);
		CHECK(descriptors() == before, "bad answer %zu leaves a descriptor open", i);
	}
}

/* In a time namespace this process's clock is ahead of the monitor's, or behind. */
static void in_a_time_namespace(void)
{
	const uint64_t day_ns = 86400ull * 1000000000;

	for (int ahead = 0; ahead <= 1; ahead++) {
		uint64_t beat = now + ATTEMPT + (ahead ? -day_ns : day_ns);

		answered_with(make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, beat, 1));
		CHECK(after(LOOK) && fgi_preempted_cs(), "not attached");
		CHECK(!after(FG_HEARTBEAT_DEAD_NS), "a dead monitor is not noticed");
		abandoned();
	}
}

/* The name is another user's: that user gets nothing of us. */
static void another_user(void)
{
	char byte;
	int fd;

	if (geteuid() != 0)
		return; /* no other user to become */
	CHECK(seteuid(65534) == 0 && listen(listener, 4) == 0 && seteuid(0) == 0);
	CHECK(!after(ATTEMPT));
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0 && recv(fd, &byte, 1, 0) == 0, "something was sent");
	close(fd);
	CHECK(listen(listener, 4) == 0);
}

/* Answers with that status, or hangs up without an answer. */
static void turn_away(int fd, uint32_t status)
{
	const struct answer no = {
		{.magic = FG_ABI_MAGIC, .version = FG_ABI_VERSION, .status = status}, sizeof(struct fg_reply), 0};

	if (status != ECONNRESET)
		answer(fd, no, -1);
	close(fd);
}

/* The first registration is answered after its time, while a thread waits for a lock. */
static void late(void)
{
	int before = descriptors(), fd = accepted(), page;

	CHECK(fgi_monitor_refusal() == ETIMEDOUT);
	CHECK(!after(LOOK) && !after(LOOK));
	CHECK(descriptors() == before + 1, "it is hung up");
	page = make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, now, 1);
	answer(fd, good, page);
	after(LOOK);
	CHECK(after(LOOK) && fgi_preempted_cs(), "not attached");
	CHECK(fgi_monitor_refusal() == 0);
	hung_up(fd);
	close(page);
	CHECK(descriptors() == before - 1, "its descriptor stays");
	CHECK(!after(FG_HEARTBEAT_DEAD_NS) && !after(100 * ATTEMPT));
	CHECK(descriptors() == before - 1, "nobody has asked for another registration");
}

/* FLEXGUARD_LOADING=1: the monitor is being loaded, and the program has not waited for it. A child that was forked
 * meanwhile asks for itself. */
static void loading(void)
{
	int before = descriptors(), status, fd = accepted(), page;
	pid_t child;

	CHECK(fgi_monitor_refusal() == ETIMEDOUT);
	child = fork();
	if (child == 0) {
		CHECK(descriptors() == before, "the child still has the parent's socket"); /* but the accepted one */
		CHECK(!after(LOOK));
		CHECK(descriptors() == before + 1, "the child does not ask");
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	hung_up(accepted());
	page = make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, now, 1);
	answer(fd, good, page);
	after(LOOK);
	CHECK(after(LOOK) && fgi_preempted_cs(), "not attached");
	hung_up(fd);
	close(page);
}

/* The program is about to enter a sandbox: what is under way ends before, and nothing follows. */
static void sandboxing(uint32_t answered)
{
	int before = descriptors(), fd = accepted(), page;

	page = make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, now, 1);
	if (answered)
		answer(fd, good, page);
	close(page);
	errno = ENOTTY;
	fgi_monitor_before_sandbox();
	CHECK(errno == ENOTTY);
	CHECK(fgi_monitor_refusal() == (answered ? 0 : ETIMEDOUT));
	hung_up(fd);
	CHECK(descriptors() == before - 1, "its descriptor stays");
	CHECK(!after(FG_HEARTBEAT_DEAD_NS) && !after(100 * ATTEMPT));
	CHECK(descriptors() == before - 1, "asked again");
}

/* The monitor could not serve this program then. It is asked again, after a second refusal half as soon. */
static void postponed(uint32_t why)
{
	int before = descriptors(), fd;

	CHECK(fgi_monitor_refusal() == why);
	CHECK(!after(2 * ATTEMPT));
	CHECK(descriptors() == before + 1, "no other attempt");
	turn_away(accepted(), why);
	after(LOOK);
	CHECK(fgi_monitor_refusal() == why);
	if (why != ECONNRESET)
		CHECK(!after(ATTEMPT));
	CHECK(descriptors() == before, "too early");
	CHECK(!after(ATTEMPT));
	CHECK(descriptors() == before + 1, "no other attempt");
	fd = accepted();
	answer(fd, good, make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, now, 1));
	after(LOOK);
	CHECK(after(LOOK) && fgi_preempted_cs(), "not attached");
	hung_up(fd);
}

/* It does not want this program. */
static void refused(void)
{
	int before = descriptors();

	CHECK(fgi_monitor_refusal() == EPERM);
	CHECK(!after(100 * ATTEMPT));
	CHECK(descriptors() == before, "asked again");
}

static char main_thread(void)
{
	char path[64], text[256] = "", *state;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	state = strrchr(text, ')');
	CHECK(state);
	return state[2];
}

/* It has none of the parent's attempt, and makes its own while it waits for a lock. */
static void child_of_a_fork(int before, int answered)
{
	char byte;

	CHECK(descriptors() == before - 1, "the child still has it");
	CHECK(!after(LOOK));
	CHECK(read(answered, &byte, 1) == 1);
	after(LOOK);
	CHECK(after(LOOK) && fgi_preempted_cs(), "not attached");
	CHECK(fgi_monitor_refusal() == 0);
	_exit(0);
}

/* Forks while the main thread waits for the answer to the first registration. */
static void *fork_meanwhile(void *unused)
{
	int fd = accepted(), page, answers[2], before, status;
	pid_t child;

	CHECK(pipe(answers) == 0);
	while (main_thread() != 'S')
		;
	before = descriptors();
	page = make_page(FG_PAGE, F_SEAL_SHRINK, FG_ABI_VERSION, now, 1);
	child = fork();
	if (child == 0) {
		close(page);
		child_of_a_fork(before, answers[0]);
	}
	answer(fd, good, page);
	hung_up(fd);
	fd = accepted();
	answer(fd, good, page);
	CHECK(write(answers[1], "", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %x", status);
	return unused;
}

static pthread_t forks;

/* Before the constructors, of which one registers. */
static void before_constructors(int argc, char **argv, char **environment)
{
	(void)environment;
	if (argc < 4 || strcmp(argv[2], "forking") != 0)
		return;
	listener = atoi(argv[1]);
	now = fgi_now_ns(CLOCK_MONOTONIC);
	CHECK(pthread_create(&forks, NULL, fork_meanwhile, NULL) == 0);
}

__attribute__((section(".preinit_array"), used)) static void (*const before)(int, char **,
									     char **) = before_constructors;

static void forking(void)
{
	CHECK(pthread_join(forks, NULL) == 0);
	CHECK(fgi_monitor_refusal() == 0);
}

/* Runs this program again, which registers in its constructor, and is answered by a child with that status; 0: not. */
static void run_again(char **again, const char *mode, const char *reconnect, uint32_t status)
{
	static char number[16];
	int ended;
	pid_t child;

	snprintf(number, sizeof(number), "%u", status);
	again[2] = (char *)mode;
	again[3] = number;
	child = fork();
	if (child == 0) {
		if (reconnect)
			setenv(FGI_RECONNECT_ENV, reconnect, 1);
		else
			unsetenv(FGI_RECONNECT_ENV);
		execv("/proc/self/exe", again);
		_exit(1);
	}
	if (status)
		turn_away(accepted(), status);
	CHECK(waitpid(child, &ended, 0) == child && ended == 0, "%s: %x", mode, ended);
}

/* FLEXGUARD_RECONNECT=0. */
static void once(void)
{
	int before = descriptors();

	hung_up(accepted());
	CHECK(!after(100 * ATTEMPT));
	CHECK(descriptors() == before, "asked again");
}

static void reconnecting(void)
{
	close(accepted()); /* the first registration, by the constructor */
	after(LOOK);       /* finds that */
	unanswered();
	taken_away();
	forked();
	vforked();
	answered();
	answered_with_a_domain();
	answered_badly();
	answered_with_nonsense();
	in_a_time_namespace();
	another_user();
}

static void play(const char *mode, uint32_t status)
{
	if (strcmp(mode, "reconnect") == 0)
		reconnecting();
	else if (strcmp(mode, "late") == 0)
		late();
	else if (strcmp(mode, "loading") == 0)
		loading();
	else if (strcmp(mode, "sandboxing") == 0)
		sandboxing(0);
	else if (strcmp(mode, "answered") == 0)
		sandboxing(1);
	else if (strcmp(mode, "once") == 0)
		once();
	else if (strcmp(mode, "postponed") == 0)
		postponed(status);
	else if (strcmp(mode, "forking") == 0)
		forking();
	else
		refused();
}

int main(int argc, char **argv)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	socklen_t length;
	char number[16], *again[] = {argv[0], number, NULL, NULL, NULL};
	const uint32_t may_pass[] = {EAGAIN, EBUSY, ECONNRESET, EDQUOT, ETOOMANYREFS, EIO, ENOMEM};

	check_watchdog(500);
	if (argc > 3) {
		listener = atoi(argv[1]);
		now = fgi_now_ns(CLOCK_MONOTONIC);
		play(argv[2], (uint32_t)atoi(argv[3]));
		return 0;
	}
	snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "flexguard-test-reconnect.%d", (int)getpid());
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(addr.sun_path + 1));
	CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&addr, length) == 0 && listen(listener, 4) == 0);
	snprintf(number, sizeof(number), "%d", listener);
	addr.sun_path[0] = '@';
	setenv(FG_SOCKET_ENV, addr.sun_path, 1);
	run_again(again, "reconnect", "1", 0);
	run_again(again, "late", NULL, 0);
	setenv(FGI_LOADING_ENV, "1", 1);
	run_again(again, "loading", NULL, 0);
	run_again(again, "sandboxing", NULL, 0);
	run_again(again, "answered", NULL, 0);
	unsetenv(FGI_LOADING_ENV);
	run_again(again, "once", "0", 0);
	run_again(again, "forking", NULL, 0);
	for (size_t i = 0; i < sizeof(may_pass) / sizeof(may_pass[0]); i++)
		run_again(again, "postponed", NULL, may_pass[i]);
	run_again(again, "refused", NULL, EPERM);
	return 0;
}
