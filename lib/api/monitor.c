/* SPDX-License-Identifier: MIT */
#include "flexguard/monitor.h"

#include <errno.h>

#include "runtime/monitor.h"
#include "runtime/spin_budget.h"

bool fg_monitor_attached(void)
{
	return fgi_monitor_alive(fgi_now_ns(CLOCK_MONOTONIC));
}

int fg_monitor_error(void)
{
	return (int)fgi_monitor_refusal();
}

const char *fg_strerror(int error)
{
	switch (error) {
	case 0:
		return "registered with the monitor";
	case ENOENT:
	case ECONNREFUSED:
		return "no monitor listens there";
	case EACCES:
		return "the monitor's socket may not be connected to";
	case ECANCELED:
		return "FLEXGUARD_SOCKET is empty: no monitor is wanted";
	case ENAMETOOLONG:
		return "FLEXGUARD_SOCKET is too long";
	case EKEYREJECTED:
		return "what listens there runs as neither root nor this user";
	case EPROTO:
		return "what listens there is no monitor";
	case ETIMEDOUT:
	case ECONNRESET:
		return "the monitor did not answer";
	case EPROTONOSUPPORT:
		return "the monitor is of another version";
	case ENOEXEC:
		return "the monitor refused: an emulator runs this program, for another architecture";
	case EAGAIN:
	case EBUSY:
		return "the monitor refused: this user's programs ask too much of it";
	case EDQUOT:
		return "the monitor refused: too many programs of this user are registered";
	case EPERM:
		return "the monitor refused: this user may not trace the process";
	case E2BIG:
		return "the monitor refused: the process has too many threads";
	case ENOSPC:
		return "the monitor refused: the process has too many images";
	case EINPROGRESS:
		return "the registration is under way";
	default:
		return "the registration failed";
	}
}

bool fg_critical_section_preempted(void)
{
	return fgi_preempted_cs();
}
