/* SPDX-License-Identifier: MIT */
#include "runtime/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/arch/arch.h"
#include "runtime/clock.h"
#include "runtime/sandbox.h"
#include "runtime/thread.h"

const struct fg_shared fgi_no_monitor __attribute__((aligned(FG_CACHE_LINE)));
const struct fg_shared *fgi_monitor_page = &fgi_no_monitor;
const uint32_t *fgi_preempted_counter = &fgi_no_monitor.num_preempted_cs;
const uint32_t *fgi_off_cpu = fgi_no_monitor.off_cpu;
const uint32_t *fgi_off_cpu_notes;

/* A monitor's page, and what the domain of this process has there. */
struct view {
	const struct fg_shared *page;
	const uint32_t *counter, *off_cpu, *notes;
};

static const struct view nowhere = {&fgi_no_monitor, &fgi_no_monitor.num_preempted_cs, fgi_no_monitor.off_cpu, NULL};

/* While registered, whether the monitor lives or not; `page` is NULL before. A thread that finds parts of two views may
 * look at them: each is mapped for ever. */
static struct view attached = {NULL, &fgi_no_monitor.num_preempted_cs, fgi_no_monitor.off_cpu, NULL};

/* What to take from this process's CLOCK_MONOTONIC to get the one of the heartbeat: 0 but in a time namespace. */
static int64_t clock_skew_ns;

/* What came of the registration: 0, or an errno number (runtime/monitor.h). */
static uint32_t refusal = EINPROGRESS;

/* This image's window table, which the linker gathers. Absent if no lock of the image uses windows. */
extern const struct fgi_window_entry __start_fg_windows[] __attribute__((weak, visibility("hidden")));
extern const struct fgi_window_entry __stop_fg_windows[] __attribute__((weak, visibility("hidden")));

/* What this image's locks ask the monitor for (lock/slice_forecast.h). */
extern const uint64_t __start_fg_wants[] __attribute__((weak, visibility("hidden")));
extern const uint64_t __stop_fg_wants[] __attribute__((weak, visibility("hidden")));

struct message {
	struct fg_registration head;
	struct fg_window windows[FG_MAX_WINDOWS];
};

static uint64_t resolve(const int32_t *relative)
{
	return (uint64_t)((intptr_t)relative + *relative);
}

/* Returns the size of the message, or 0 if the table is larger than the ABI allows: a defect of the build, for which
 * the tests look. */
static size_t compose(struct message *m)
{
	size_t n = (size_t)(__stop_fg_windows - __start_fg_windows);

	if (n > FG_MAX_WINDOWS)
		return 0;
	memset(m, 0, sizeof(*m));
	for (size_t i = 0; i < n; i++) {
		const struct fgi_window_entry *e = &__start_fg_windows[i];

		m->windows[i] = (struct fg_window){
			.begin = resolve(&e->begin),
			.end = resolve(&e->end),
			.mask = e->mask,
			.value = e->value,
			.reg = e->reg,
		};
	}
	m->head.magic = FG_ABI_MAGIC;
	m->head.version = FG_ABI_VERSION;
	m->head.windows = (uint32_t)n;
	m->head.size = (uint32_t)(sizeof(m->head) + n * sizeof(m->windows[0]));
	m->head.block_offset = (char *)&fg_thread - (char *)__builtin_thread_pointer();
	for (const uint64_t *want = __start_fg_wants; want < __stop_fg_wants; want++)
		m->head.flags |= *want;
	return m->head.size;
}

/* Where to register. Read from the environment once, since the program may change it while threads run. */
static struct {
	struct sockaddr_un addr;
	socklen_t length; /* 0: nowhere */
	int why_nowhere;
	bool again;       /* FLEXGUARD_RECONNECT is 1 */
	bool once;        /* it is 0 */
	uint32_t wait_ms; /* for the answer */
} target = {.why_nowhere = ECANCELED};

/* Once the first registration is over: target.again, or that one is postponed (is_postponed). */
static uint32_t may_reconnect;

static bool is_set_to(const char *variable, const char *wanted)
{
	const char *value = secure_getenv(variable);

	return value && strcmp(value, wanted) == 0;
}

static void find_target(void)
{
	const char *name = secure_getenv(FG_SOCKET_ENV);
	size_t n;

	target.wait_ms = is_set_to(FGI_REQUIRE_ENV, "1") ? FGI_REQUIRED_TIMEOUT_MS : FGI_REGISTER_TIMEOUT_MS;
	if (!name)
		name = FG_SOCKET_DEFAULT;
	n = strlen(name);
	if (n >= sizeof(target.addr.sun_path))
		target.why_nowhere = ENAMETOOLONG;
	else if (n > 0 && fgi_sandbox_look())
		target.why_nowhere = EOPNOTSUPP;
	if (n == 0 || n >= sizeof(target.addr.sun_path) || fg_load_relaxed(&fgi_sandboxed))
		return;
	target.addr.sun_family = AF_UNIX;
	memcpy(target.addr.sun_path, name, n);
	target.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	if (name[0] == '@')
		target.addr.sun_path[0] = '\0'; /* the abstract namespace: no terminator, no file */
	else
		target.length++;
	target.again = is_set_to(FGI_RECONNECT_ENV, "1");
	target.once = is_set_to(FGI_RECONNECT_ENV, "0");
}

/* A monitor is run by root or by this process's own user. In a user namespace root may have no number, and is seen as
 * the user that stands for all those; the permissions of the file system say who can be at a path, but an abstract name
 * is anybody's. */
static bool is_trusted(int fd)
{
	struct ucred server = {.uid = (uid_t)-1};
	socklen_t length = sizeof(server);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &length) < 0)
		return false;
	return server.uid == 0 || server.uid == geteuid() ||
	       (server.uid == FGI_UNMAPPED_UID && target.addr.sun_path[0]);
}

/* What to wait for in a registration: `connect` waits while other clients fill the monitor's backlog. */
enum wait { WAIT_NEVER, WAIT_IN_BACKLOG };

static int new_socket(enum wait wait)
{
	const struct timeval most = {.tv_usec = FGI_REGISTER_TIMEOUT_MS * 1000};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait == WAIT_NEVER ? SOCK_NONBLOCK : 0), 0);

	/* If that fails, there is no memory either for what follows. */
	if (fd >= 0 && wait != WAIT_NEVER)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	return fd;
}

/* 0, or an errno number. The buffer of a fresh socket takes the whole message at once. */
static int send_to_monitor(int fd, const struct message *message, size_t size)
{
	ssize_t sent;

	if (connect(fd, (struct sockaddr *)&target.addr, target.length) < 0)
		return errno == EAGAIN ? ETIMEDOUT : errno; /* its backlog is full, and stays so */
	if (!is_trusted(fd))
		return EKEYREJECTED;
	sent = send(fd, message, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0)
		return errno;
	return sent == (ssize_t)size ? 0 : EPROTO;
}

/* Returns a socket on which a registration is on its way, or -1, with the reason in `refusal`. */
static int request(enum wait wait)
{
	static struct message message; /* used by one thread at a time, and too large for a stack */
	size_t size = compose(&message);
	int fd, why;

	if (size == 0) {
		fg_store_release(&refusal, ENOSPC);
		return -1;
	}
	fd = new_socket(wait);
	why = fd < 0 ? errno : send_to_monitor(fd, &message, size);
	if (why == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	fg_store_release(&refusal, (uint32_t)why);
	return -1;
}

/* The descriptor that came with a message; -1: none, or several, which are closed. */
static int descriptor_of(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	size_t n;
	int fd = -1;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
	for (size_t i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (n > 1)
			close(fd);
	}
	return n == 1 ? fd : -1;
}

/* Takes the reply, and returns the descriptor that comes with it; -1: there is none, and `why` is the reason. Does not
 * wait. */
static int receive(int fd, uint32_t *domain, uint32_t *why)
{
	union {
		char space[CMSG_SPACE(sizeof(int))]; /* aligned, and so large enough for two */
		struct cmsghdr align;
	} control;
	struct fg_reply reply = {0};
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.space,
			   .msg_controllen = sizeof(control.space)};
	ssize_t size = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int page;

	*why = size < 0 ? (uint32_t)errno : ECONNRESET;
	if (size <= 0)
		return -1;
	page = descriptor_of(&m);
	if (size != (ssize_t)sizeof(reply) || reply.magic != FG_ABI_MAGIC)
		*why = EPROTO;
	else if (reply.version != FG_ABI_VERSION)
		*why = EPROTONOSUPPORT;
	else if (reply.status != 0)
		*why = reply.status;
	else
		*why = page >= 0 && reply.number < FG_DOMAINS ? 0 : EPROTO;
	if (page >= 0 && *why) {
		close(page);
		page = -1;
	}
	*domain = reply.number;
	return page;
}

/* A BPF map is no file: nobody can truncate it, which would turn every look at the page into a SIGBUS. A file must be
 * sealed. */
static bool cannot_shrink(int fd, size_t size)
{
	struct stat s;
	int seals;

	if (fstat(fd, &s) < 0)
		return false;
	if ((s.st_mode & S_IFMT) == 0)
		return true;
	seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SHRINK) && s.st_size >= (off_t)size;
}

static const struct fg_shared *map_page(int fd, size_t size)
{
	const struct fg_shared *page;

	if (!cannot_shrink(fd, size))
		return NULL;
	page = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (page->magic == FG_ABI_MAGIC && page->version == FG_ABI_VERSION)
		return page;
	munmap((void *)page, size);
	return NULL;
}

/* From now on this process looks there. Two threads may do so at once, for two pages: the next look at the heartbeat
 * sets right what they leave. */
static void look_at(struct view v)
{
	if (fg_load_relaxed(&fgi_monitor_page) == v.page && fg_load_relaxed(&fgi_preempted_counter) == v.counter &&
	    fg_load_relaxed(&fgi_off_cpu) == v.off_cpu && fg_load_relaxed(&fgi_off_cpu_notes) == v.notes)
		return;
	fg_store_release(&fgi_preempted_counter, v.counter);
	fg_store_release(&fgi_off_cpu, v.off_cpu);
	fg_store_release(&fgi_off_cpu_notes, v.notes);
	fg_store_release(&fgi_monitor_page, v.page);
}

static void attach_to(struct view v)
{
	fg_store_relaxed(&attached.page, v.page);
	fg_store_relaxed(&attached.counter, v.counter);
	fg_store_relaxed(&attached.off_cpu, v.off_cpu);
	fg_store_relaxed(&attached.notes, v.notes);
	look_at(v.page ? v : nowhere);
}

/* The page alone will do for domain 0, but for the notes. */
static struct view view_of(const struct fg_shared *page, uint32_t domain, bool whole)
{
	const struct fg_published *all = (const struct fg_published *)page;
	const uint32_t *notes = whole ? all->off_cpu_notes[domain] : NULL;

	if (domain == 0)
		return (struct view){page, &page->num_preempted_cs, page->off_cpu, notes};
	return (struct view){page, &all->domains[domain].num_preempted_cs, all->off_cpu[domain], notes};
}

static void attach(const struct fg_shared *page, uint32_t domain, bool whole, uint64_t now_ns)
{
	int64_t age = (int64_t)(now_ns - fg_load_relaxed(&page->heartbeat_ns));
	bool same_clock = age > -(int64_t)FG_HEARTBEAT_DEAD_NS && age < (int64_t)FG_HEARTBEAT_DEAD_NS;

	fg_store_relaxed(&clock_skew_ns, same_clock ? 0 : age);
	attach_to(view_of(page, domain, whole));
}

/* Attaches to the page that came with the reply, if one did. An older page stays mapped: a thread may be reading it. */
static void take_reply(int fd, uint64_t now_ns)
{
	const struct fg_shared *page = NULL;
	uint32_t domain = 0, why;
	bool whole = false;
	int page_fd = receive(fd, &domain, &why);

	if (page_fd >= 0) {
		page = map_page(page_fd, sizeof(struct fg_published));
		whole = page != NULL;
		if (!page && domain == 0)
			page = map_page(page_fd, FG_PAGE);
		close(page_fd);
		why = page ? 0 : EPROTO;
	}
	if (page)
		attach(page, domain, whole, now_ns);
	fg_store_release(&refusal, why);
}

static int ms_until(uint64_t deadline_ns)
{
	uint64_t now_ns = fgi_now_ns(CLOCK_MONOTONIC);

	return now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / 1000000) : 0;
}

/* All signals are blocked during a registration. Is one pending that the program does not block? */
static bool signal_waits(const sigset_t *blocked)
{
	sigset_t pending;

	sigpending(&pending);
	for (int s = 1; s <= SIGRTMAX; s++) {
		if (sigismember(&pending, s) == 1 && sigismember(blocked, s) == 0)
			return true;
	}
	return false;
}

static void keep_dialogue(int fd, uint64_t now_ns, uint64_t at_most_ns);
static void hang_up(void);

/* Waits in steps of FGI_REGISTER_TIMEOUT_MS, of which a signal ends the next. A late answer is left to a waiter
 * (fgi_monitor_alive). */
static void register_image(const sigset_t *blocked)
{
	uint64_t deadline_ns = fgi_now_ns(CLOCK_MONOTONIC) + target.wait_ms * 1000000ull;
	struct pollfd readable = {.fd = request(WAIT_IN_BACKLOG), .events = POLLIN};
	int ready, ms;

	while (readable.fd < 0 && fg_load_relaxed(&refusal) == ETIMEDOUT && ms_until(deadline_ns) > 0 &&
	       !signal_waits(blocked))
		readable.fd = request(WAIT_IN_BACKLOG);
	if (readable.fd < 0)
		return;
	/* From here on a child that another thread forks closes its copy. */
	keep_dialogue(readable.fd, fgi_now_ns(CLOCK_MONOTONIC), target.wait_ms * 1000000ull + FGI_LATE_ANSWER_NS);
	do {
		ms = ms_until(deadline_ns);
		ready = poll(&readable, 1, ms < FGI_REGISTER_TIMEOUT_MS ? ms : FGI_REGISTER_TIMEOUT_MS);
	} while (ready == 0 && ms > FGI_REGISTER_TIMEOUT_MS && !signal_waits(blocked));
	if (ready == 1)
		take_reply(readable.fd, fgi_now_ns(CLOCK_MONOTONIC));
	else
		fg_store_release(&refusal, ETIMEDOUT);
	if (ready == 1 || target.once)
		hang_up();
}

uint32_t fgi_monitor_refusal(void)
{
	return fg_load_acquire(&refusal); /* pairs with the stores of take_reply, request and register_image */
}

/* A registration that is under way while threads wait for locks. A thread that finds it `busy` leaves it to the
 * other. */
static struct {
	uint32_t busy;
	uint64_t due_ns; /* when to go on; all threads read it, the one that set `busy` writes it */
	uint64_t give_up_ns;
	bool open;
	int fd;
	ino_t inode; /* of the socket: the program may close descriptors it does not know, and use their numbers */

	uint32_t refusals; /* one after the other */
} dialogue;

static bool dialogue_is_ours(void)
{
	struct stat s;

	return dialogue.open && fstat(dialogue.fd, &s) == 0 && S_ISSOCK(s.st_mode) && s.st_ino == dialogue.inode;
}

static void hang_up(void)
{
	if (dialogue_is_ours())
		close(dialogue.fd);
	dialogue.open = false;
}

/* Has a monitor said so? One that hangs up is restarted. */
static bool is_refused(void)
{
	uint32_t why = fg_load_relaxed(&refusal);

	return why != 0 && why != EPROTO && why != ECONNRESET;
}

/* It may be otherwise later. The monitor was too busy, for its answer to come in time or for this user; it was
 * restarted; or something was used up: this user's share, or memory. */
static bool is_postponed(void)
{
	switch (fg_load_relaxed(&refusal)) {
	case ETIMEDOUT:
	case EAGAIN:
	case EBUSY:
	case ECONNRESET:
	case EDQUOT:
	case ETOOMANYREFS:
	case EIO:
	case ENOMEM:
		return true;
	default:
		return false;
	}
}

/* A monitor that refuses is asked half as often after each refusal: it has its reasons, and other clients. */
static uint64_t next_attempt(uint64_t now_ns)
{
	return now_ns + (FGI_RECONNECT_NS << (dialogue.refusals < FGI_RECONNECT_DOUBLINGS ? dialogue.refusals
											  : FGI_RECONNECT_DOUBLINGS));
}

static void keep_dialogue(int fd, uint64_t now_ns, uint64_t at_most_ns)
{
	struct stat s = {0};

	fstat(fd, &s);
	dialogue.fd = fd;
	dialogue.inode = s.st_ino;
	dialogue.open = true;
	dialogue.give_up_ns = now_ns + at_most_ns;
}

/* Returns when to go on. */
static uint64_t begin_dialogue(uint64_t now_ns)
{
	int fd = request(WAIT_NEVER);

	if (fd < 0)
		return next_attempt(now_ns);
	keep_dialogue(fd, now_ns, FGI_REGISTER_TIMEOUT_MS * 1000000ull);
	return now_ns + FGI_REPLY_LOOK_NS;
}

static uint64_t go_on_with_dialogue(uint64_t now_ns)
{
	struct pollfd readable = {.fd = dialogue.fd, .events = POLLIN};

	if (dialogue_is_ours()) {
		if (poll(&readable, 1, 0) == 1) {
			take_reply(dialogue.fd, now_ns);
			dialogue.refusals = is_refused() ? dialogue.refusals + 1 : 0;
		} else if (now_ns < dialogue.give_up_ns) {
			return now_ns + FGI_REPLY_LOOK_NS;
		}
	}
	hang_up();
	return next_attempt(now_ns);
}

__attribute__((noinline, cold)) static void reconnect(uint64_t now_ns)
{
	int saved = errno, cancel;

	if (fg_xchg_acquire(&dialogue.busy, 1))
		return;
	if (now_ns >= fg_load_relaxed(&dialogue.due_ns)) { /* again: another thread may have been here since */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		fg_store_relaxed(&dialogue.due_ns,
				 dialogue.open ? go_on_with_dialogue(now_ns) : begin_dialogue(now_ns));
		pthread_setcancelstate(cancel, NULL);
		if (!target.again && !dialogue.open && !is_postponed())
			fg_store_relaxed(&may_reconnect, 0); /* it is registered, or has another reason not to be */
	}
	fg_store_release(&dialogue.busy, 0); /* pairs with the exchange above, by the next thread */
	errno = saved;
}

/* The first registration of this process, by the first thread that begins it. */
static uint32_t first;
enum first { NOT_BEGUN, UNDER_WAY, OVER };

/* The parent's registration counts for the child; one that is under way does not. If it was the first, another thread
 * made it, and the child lacks that thread. */
void fgi_monitor_after_fork(void)
{
	int saved = errno;

	hang_up();
	dialogue.busy = 0;
	dialogue.due_ns = 0;
	if (first == UNDER_WAY) {
		bool by_a_waiter = target.length && !target.once;

		refusal = EINPROGRESS;
		may_reconnect = by_a_waiter;
		first = by_a_waiter ? OVER : NOT_BEGUN;
	}
	errno = saved;
}

void fgi_monitor_attach(const struct fg_shared *page)
{
	attach_to(page ? view_of(page, 0, false) : (struct view){NULL, nowhere.counter, nowhere.off_cpu, NULL});
}

void fgi_monitor_attach_all(const struct fg_published *all, uint32_t domain)
{
	attach_to(view_of(&all->page, domain, true));
}

void fgi_process_init(void)
{
	int saved = errno, cancel;
	sigset_t all, before;

	/* A second thread does not wait: until the first has registered, the process runs without a monitor. */
	if (fg_load_relaxed(&first) || fg_xchg_relaxed(&first, UNDER_WAY))
		return;
	find_target();
	if (!target.length) {
		fg_store_release(&refusal, (uint32_t)target.why_nowhere);
		fg_store_release(&first, OVER);
		errno = saved;
		return;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
			       &cancel); /* connect and poll are cancellation points; locks are not */
	sigfillset(&all);        /* a signal handler that locks must not find this half done by its own thread */
	sigdelset(&all, SIGSYS); /* a sandbox may answer system calls by it; if it is blocked, it kills */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	register_image(&before);
	dialogue.due_ns = fgi_now_ns(CLOCK_MONOTONIC) + (dialogue.open ? FGI_REPLY_LOOK_NS : FGI_RECONNECT_NS);
	/* release: pairs with the acquire in fgi_monitor_alive */
	fg_store_release(&may_reconnect, target.again || (is_postponed() && !target.once));
	fg_store_release(&first, OVER);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

bool fgi_monitor_alive(uint64_t now_ns)
{
	struct view v = {.page = fg_load_relaxed(&attached.page)};
	uint64_t beat = v.page ? fg_load_relaxed(&v.page->heartbeat_ns) : 0;
	/* A beat may be later than `now`, which was read before. */
	int64_t age = (int64_t)(now_ns - beat) - fg_load_relaxed(&clock_skew_ns);
	bool alive = beat != 0 && age < (int64_t)FG_HEARTBEAT_DEAD_NS;

	if (alive) {
		v.counter = fg_load_relaxed(&attached.counter);
		v.off_cpu = fg_load_relaxed(&attached.off_cpu);
		v.notes = fg_load_relaxed(&attached.notes);
		look_at(v);
	} else if (v.page) {
		look_at(nowhere);
	}
	if (!alive && fg_unlikely(fg_load_acquire(&may_reconnect)) && now_ns >= fg_load_relaxed(&dialogue.due_ns))
		reconnect(now_ns);
	return alive;
}
