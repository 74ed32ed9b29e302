/* SPDX-License-Identifier: MIT */
/* FLEXGUARD_TUNE: what it says is taken, what it does not say well is left alone. */
#include "locks/default/tune.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tests/check.h"

static const struct fgi_tune before = {FGI_ANY_REGIME, 11000, 12000, 13000, 14000, 15000};

static struct fgi_tune parsed(const char *text)
{
	struct fgi_tune tune = before;

	fgi_tune_parse(&tune, text);
	return tune;
}

static bool same(struct fgi_tune a, struct fgi_tune b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

static void test_each_name(void)
{
	const struct fgi_tune expected = {FGI_LEASED, 1000, 2000, 3000, 4000, 10000000000};

	CHECK(same(parsed("regime=leased,lease_us=1,rotate_us=2,sample_us=3,yield_us=4,sleep_us=10000000"), expected));
	CHECK(parsed("regime=greedy").regime == FGI_GREEDY);
	CHECK(parsed("regime=leased,regime=any").regime == FGI_ANY_REGIME, "the last one counts");
	CHECK(parsed("yield_us=0").yield_ns == 0 && parsed("sleep_us=0").sleep_ns == 0, "at once");
}

static void test_nonsense(void)
{
	static const char *const nonsense[] = {
		"",
		",",
		",,,",
		"=",
		"=5",
		"lease_us",
		"lease_us=",
		"lease_us,=5",
		"lease_us=-5",
		"lease_us=+5",
		"lease_us= 5",
		"lease_us=5 ",
		"lease_us=0x5",
		"lease_us=5e3",
		"lease_us=10000001",
		"lease_us=18446744073709551617",
		"lease_us=99999999999999999999999999999999999999999",
		"lease=5",
		"LEASE_US=5",
		"lease_us_=5",
		"ease_us=5",
		"lease_us==5",
		"lease_us=5=6",
		"regime",
		"regime=",
		"regime=1",
		"regime=LEASED",
		"regime=leas",
		"regime=leasedd",
		"regime:leased",
	};

	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
		CHECK(same(parsed(nonsense[i]), before), "`%s` was understood", nonsense[i]);
}

/* A nonsense beside a word of sense does not take it down. */
static void test_neighbours(void)
{
	struct fgi_tune expected = before;

	expected.lease_ns = 5000;
	CHECK(same(parsed("lease_us=5,"), expected));
	CHECK(same(parsed(",lease_us=5"), expected));
	CHECK(same(parsed("x=1,lease_us=5,sleep_us=never,regime=best"), expected));
	CHECK(same(parsed("lease_us=5,lease_us=x"), expected));
}

/* Times by which something is divided, or which bound a sleep, are never 0. */
static void test_zero(void)
{
	CHECK(same(parsed("sample_us=0"), before), "a sample of no length");
	CHECK(same(parsed("lease_us=0"), before), "a lease of no length: the parked would not sleep");
}

/* What the constructor took from the environment, which CMakeLists.txt has set. */
static void test_environment(void)
{
	const char *text = getenv("FLEXGUARD_TUNE");
	const struct fgi_tune defaults = fgi_tune;

	CHECK(text && *text, "this test wants FLEXGUARD_TUNE=lease_us=77,regime=greedy");
	CHECK(fgi_tune.lease_ns == 77000 && fgi_tune.regime == FGI_GREEDY, "the environment was not read");
	setenv("FLEXGUARD_TUNE", "", 1);
	fgi_tune_start();
	CHECK(same(fgi_tune, defaults));
	unsetenv("FLEXGUARD_TUNE");
	fgi_tune_start();
	CHECK(same(fgi_tune, defaults));
}

int main(void)
{
	check_watchdog(60);
	test_each_name();
	test_nonsense();
	test_neighbours();
	test_zero();
	test_environment();
	return 0;
}
