/* SPDX-License-Identifier: MIT */
/* A worker under the simulator: takes its own options from the command line, and gives the rest to the worker's main
 * function, which simulated thread 0 runs. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simulator/calls.h"
#include "simulator/engine.h"
#include "simulator/futex.h"
#include "simulator/limits.h"
#include "worker/bench.h"
#include "worker/json.h"

static const char usage[] = "fg-sim-NAME: the worker of a lock on a simulated machine; options besides the worker's:\n"
			    "  --machine FILE     a machine file, or the name of one of lab/machines (near)\n"
			    "  --seed N           of all that is random (1)\n"
			    "  --trace FILE       who ran, waited, held a lock, and on which line, for Perfetto\n"
			    "  --lines N          the N cache lines on which most time was lost, on standard error\n"
			    "  --describe         only reads the machine file, and says its name and number of CPUs\n"
			    "  --unmonitored      without a monitor\n"
			    "  --cost KEY=VALUE   a key of the machine file, with another value\n"
			    "  --virtual-limit S  ends a run that goes on for longer, in virtual time (3600)\n"
			    "  --host-limit S     the same by the host's CPU time (600)\n";

static struct {
	const char *machine, *trace;
	uint64_t seed, lines;
	bool unmonitored, describe;
	int argc;
	char **argv;
} given = {.machine = "near", .seed = 1};

static uint64_t number(const char *option, const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || *end || errno || *text == '-') {
		fprintf(stderr, "fg-sim: %s: '%s' is not a whole number\n", option, text);
		exit(FGB_USAGE);
	}
	return value;
}

static double seconds(const char *option, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0)) {
		fprintf(stderr, "fg-sim: %s: '%s' is not a number of seconds\n", option, text);
		exit(FGB_USAGE);
	}
	return value;
}

/* The costs of --cost, until the machine is known. */
static struct {
	const char *text[32];
	unsigned int count;
} costs;

static bool take(const char *option, const char *value)
{
	if (strcmp(option, "--machine") == 0)
		given.machine = value;
	else if (strcmp(option, "--trace") == 0)
		given.trace = value;
	else if (strcmp(option, "--seed") == 0)
		given.seed = number(option, value);
	else if (strcmp(option, "--lines") == 0)
		given.lines = number(option, value);
	else if (strcmp(option, "--virtual-limit") == 0)
		fgs_limits.virtual_seconds = seconds(option, value);
	else if (strcmp(option, "--host-limit") == 0)
		fgs_limits.host_seconds = seconds(option, value);
	else if (strcmp(option, "--cost") == 0 && costs.count < 32)
		costs.text[costs.count++] = value;
	else
		return false;
	return true;
}

static bool is_ours(const char *option, size_t length)
{
	static const char *const ours[] = {"--machine",       "--trace",      "--seed", "--lines",
					   "--virtual-limit", "--host-limit", "--cost"};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (strlen(ours[i]) == length && strncmp(option, ours[i], length) == 0)
			return true;
	return false;
}

static void parse(int argc, char **argv)
{
	given.argv = calloc((size_t)argc + 1, sizeof(*given.argv));
	if (!given.argv)
		exit(FGB_FAILED);
	for (int i = 0; i < argc; i++) {
		size_t length = strcspn(argv[i], "=");
		char option[32];

		if (strcmp(argv[i], "--unmonitored") == 0) {
			given.unmonitored = true;
		} else if (i && strcmp(argv[i], "--describe") == 0) {
			given.describe = true;
		} else if (i && is_ours(argv[i], length)) {
			snprintf(option, sizeof(option), "%.*s", (int)length, argv[i]);
			if (!argv[i][length] && i + 1 == argc) {
				fprintf(stderr, "fg-sim: %s needs a value\n", option);
				exit(FGB_USAGE);
			}
			take(option, argv[i][length] ? argv[i] + length + 1 : argv[i + 1]);
			i += !argv[i][length];
		} else {
			given.argv[given.argc++] = argv[i];
		}
	}
}

static int read_machine(void)
{
	char file[PATH_MAX];

	snprintf(file, sizeof(file), "%s", given.machine);
	if (!strchr(given.machine, '/') && access(file, R_OK))
		snprintf(file, sizeof(file), "%s/%s.toml", FGS_MACHINES, given.machine);
	if (fgs_machine_read(&fgs_machine, file))
		return FGB_USAGE;
	for (unsigned int i = 0; i < costs.count; i++)
		if (fgs_machine_set(&fgs_machine, costs.text[i]))
			return FGB_USAGE;
	return 0;
}

static int status;

static void *worker(void *unused)
{
	(void)unused;
	status = fgb_main(given.argc, given.argv);
	return NULL;
}

static struct mark {
	fgs_ps now, idle;
	struct fgs_statistics all;
	struct fgs_futex_counts futex;
} from, to;

void fgs_mark(void)
{
	from = to;
	to = (struct mark){.now = fgs_here->now, .all = fgs_statistics, .futex = fgs_futex_counts};
	for (uint32_t i = 0; i < fgs_machine_cpus(&fgs_machine); i++) {
		const struct fgs_cpu *c = &fgs_cpus[i];

		to.idle += c->idle_sum + (!c->thread && to.now > c->idle_since ? to.now - c->idle_since : 0);
	}
}

/* A member of the worker's JSON: what was between the two ends of the measurement. */
void fgb_describe_simulation(void)
{
	fgb_json_object("simulated");
	fgb_json_text("machine", fgs_machine.name);
	fgb_json_count("seed", given.seed);
	fgb_json_count("cpus", fgs_machine_cpus(&fgs_machine));
	fgb_json_flag("monitored", !given.unmonitored);
	fgb_json_count("switches", to.all.switches - from.all.switches);
	fgb_json_count("wakes", to.all.wakes - from.all.wakes);
	fgb_json_count("migrations", to.all.migrations - from.all.migrations);
	fgb_json_count("futex_waits", to.futex.waits - from.futex.waits);
	fgb_json_count("futex_wakes", to.futex.wakes - from.futex.wakes);
	if (fgs_machine.key[FGS_guests] > 0)
		fgb_json_count("pause_exits", to.all.pause_exits - from.all.pause_exits);
	fgb_json_count("line_transfers", to.all.transfers - from.all.transfers);
	fgb_json_rounded("idle_share",
			 (double)(to.idle - from.idle) / ((double)(to.now - from.now) * fgs_machine_cpus(&fgs_machine)),
			 4);
	fgb_json_rounded("virtual_ms", (double)fgs_here->now * 1e-9, 3);
	fgb_json_end();
}

int main(int argc, char **argv)
{
	struct fgs_thread *first;

	parse(argc, argv);
	if (given.argc > 1 && given.argv[1] && strcmp(given.argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	status = read_machine();
	if (status)
		return status;
	if (given.describe) {
		printf("{\"machine\":\"%s\",\"cpus\":%u}\n", fgs_machine.name, fgs_machine_cpus(&fgs_machine));
		return 0;
	}
	if (given.trace && fgs_trace_start(given.trace))
		return FGB_FAILED;
	fgs_engine_start(given.seed);
	fgs_memory_start();
	fgs_fibers_start();
	fgs_sched_start();
	fgs_futex_start();
	fgs_watch_start(!given.unmonitored);
	first = fgs_thread_new(worker, NULL, 0);
	fgs_set_nice(first, 0);
	fgs_restrict(first);
	fgs_watch_thread(first);
	fgs_wake_new(first, 0);
	fgs_start_early_threads();
	fgs_engine_run(first);
	if (given.lines)
		fgs_lines_print((uint32_t)given.lines, 0);
	fgs_trace_end();
	fflush(stdout);
	_exit(status);
}
