/* SPDX-License-Identifier: MIT */
#include "worker/bench.h"

int main(int argc, char **argv)
{
	return fgb_main(argc, argv);
}
