/* SPDX-License-Identifier: MIT */
#include "bench/worker/bench.h"

int main(int argc, char **argv)
{
	return fgb_main(argc, argv);
}
