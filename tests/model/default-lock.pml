/* SPDX-License-Identifier: MIT */
/* The default lock (lock/default/flexguard.inc.h, waiters.h) in Promela, for Spin: tests/model/verify runs it.
 *
 * Each statement, or atomic block, is one access to shared memory. After each, Spin lets any other thread go on, for
 * any time: so every thread may be preempted everywhere. What clocks, the monitor and the lock's pace decide in C is a
 * free choice here: whether the lock is hot, who parks and how, who demands, whether a turn is over or a CPU idles,
 * when the clock of a parked waiter fires. The futex wakes any sleeper, not the first.
 *
 * What is one step here and two in C, without loss: a load and the compare-and-swap that expects what it found, if
 * nothing else was read in between. One that fails changes nothing, and the waiter looks again.
 * What is two steps, as on x86-64: the AND of the release, which loads and stores.
 *
 * A thread stands back for one look. The lock's count `ops` is the set of threads that have read its present value.
 *
 *   THREADS         2 to 4
 *   TRIES, TIMED    sets of threads, bit by bit: which may call trylock, and which may have a deadline. It passes at
 *                   any time
 *   MONITOR         0: there is none, so no lock is hot and each parked waiter is needy
 *   COUNTED         so many parked waiters can be counted of a kind
 *   ATOMIC_RELEASE  the release of arm64
 *   MOVES           with the property `moves`
 *   DEFECT_name     a defect: then the model must fail */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef TRIES
#define TRIES 0
#endif
#ifndef TIMED
#define TIMED 0
#endif
#ifndef MONITOR
#define MONITOR 1
#endif
#ifndef COUNTED
#define COUNTED 7
#endif

/* The word. */
#define OWNER 7
#define DEMAND 8
#define PARKED 16
#define NEEDY 32
#define FLAGS (DEMAND | PARKED | NEEDY)
#define is_free(w) (((w) & OWNER) == 0)

byte word;
byte clocked, needy, watchers; /* the counts of waiters.h: one word in C, so each statement may read all */
byte asleep;                   /* on the futex; this and the following are sets of threads */
byte ops;                      /* those that have read the present value */

/* Only to check. */
byte inside;   /* the critical section: a number */
byte ended;    /* those that will not come again */
bit releasing; /* the owner's CPU is between the load and the store of the release */
bit adrift;    /* the word's DEMAND may be nobody's: a release has brought it back */
byte waiting;  /* those in `contended` */

#define ALL ((1 << THREADS) - 1)
#define ME (1 << _pid)

inline take(with)
{
	word = (_pid + 1) | (with);
	inside++;
	assert(inside == 1); /* I1 */
	adrift = adrift && ((with) & DEMAND);
	found = 0;
	flags = 0;
	ops = 0
}

inline wake_one()
{
	if
	:: asleep & 1 -> asleep = asleep & ~1
	:: asleep & 2 -> asleep = asleep & ~2
	:: asleep & 4 -> asleep = asleep & ~4
	:: asleep & 8 -> asleep = asleep & ~8
	:: asleep == 0
	fi
}

#ifdef DEFECT_FLAGS_DROP_NEEDY
#define needy_flag 0
#else
#define needy_flag (needy -> NEEDY : 0)
#endif
#define parked_flag (clocked -> (watchers -> found & PARKED : PARKED) : 0)
#ifdef DEFECT_FLAGS_KEPT
#define flags_of (found & (PARKED | NEEDY))
#elif defined(DEFECT_DEMAND_KEPT)
#define flags_of (needy_flag | parked_flag | (found & DEMAND))
#else
#define flags_of (needy_flag | parked_flag)
#endif

/* How a waiter parks. A needy one has a clock until it is stuck. */
#define CLOCKED_WAITER 1
#define NEEDY_WAITER 2
#define STUCK_WAITER 3
/* A release that finds PARKED: it wakes a waiter, or it only drops the flag. */
#define WAKES 1
#define DROPS 2
/* The word is not free, or it is the first look since it is: the waiter need not take it. */
#define tries_on (!is_free(found) || (!head && !stood_back))
#define flag (kind == CLOCKED_WAITER -> PARKED : NEEDY)

active [THREADS] proctype thread()
{
	byte found, flags; /* the word as it was loaded, and the flags that are to be stored */
	byte kind, sweeps;
	bit timed, head, watching, stood_back;
	bit joined, beside_watcher, clock, needed;
	byte useful; /* what a release does of PARKED; of a waiter that gives up: whether it sets PARKED */

idle:
	atomic {
		ops = ops & ~ME;
		if
		:: ended != (ALL & ~ME) -> ended = ended | ME; goto out
		:: ended != (ALL & ~ME) -> goto lock
		:: ended != (ALL & ~ME) && (TIMED & ME) -> timed = 1; goto lock
		:: ended != (ALL & ~ME) && (TRIES & ME) -> goto trylock
		:: ended == (ALL & ~ME) -> /* the last */
			assert(!clocked && !needy && !watchers && !asleep);
			assert(!(word & DEMAND) || adrift || sweeps);
			if
			:: word == 0 -> ended = ended | ME; goto out
			:: word != 0 ->
				/* No flag stays if threads keep acquiring. */
				sweeps++;
				assert(sweeps <= 1);
				goto lock
			fi
		fi
	}

	/* fgi_trylock: fails only if the lock is held, or was since it looked. */
trylock:
	atomic {
		if
		:: is_free(word) -> found = word; ops = ops | ME
		:: !is_free(word) -> goto idle
		fi
	}
	atomic {
		if
		:: word == found -> take(found); goto owner
		:: word != found -> found = 0
		fi;
#ifdef DEFECT_TRY_ONCE
		assert(!(ops & ME));
		goto idle
#else
		goto trylock
#endif
	}

	/* fgi_lock, fgi_timedlock */
lock:
	atomic {
		if
		:: word == 0 -> take(0); goto owner
		:: word != 0 -> goto slow
		fi
	}

	/* One look: may_take, and what look_at_clock and give_way choose of. */
slow:
	atomic {
		waiting = waiting | ME;
		found = word;
		head = head && (found & DEMAND);
		stood_back = stood_back && (ops & ME) && is_free(found);
#ifdef DEFECT_NO_GRACE
		stood_back = 0;
#endif
		if
		:: is_free(found) && (head || stood_back || !(found & DEMAND)) -> goto take_after_waiting
		:: tries_on && !head && !(found & DEMAND) -> word = word | DEMAND; head = 1
		:: tries_on && MONITOR && !watching && watchers < 2 -> watchers++; watching = 1
		:: tries_on && watching && watchers < 3 && clocked -> wake_one()
		:: tries_on && watching -> watchers--; watching = 0; word = word | PARKED /* it is no longer hot, or the monitor has gone */
		:: tries_on && timed && !is_free(found) -> goto give_up
		:: tries_on && (MONITOR || !is_free(found)) -> kind = CLOCKED_WAITER /* of some kind */
		:: tries_on
		fi;
		stood_back = is_free(found);
		ops = ops | ME;
		found = 0;
		if
		:: kind -> goto park
		:: !kind -> goto slow
		fi
	}

take_after_waiting:
	atomic {
		stood_back = 1;
		ops = ops | ME;
#ifndef DEFECT_WATCHER_LEFT
		watchers = (watching -> watchers - 1 : watchers);
#endif
		watching = 0
	}
	atomic { /* between the load of the word and the compare-and-swap */
		flags = flags_of;
		if
		:: !(found & PARKED) -> flags = flags & ~PARKED /* the lock is quick */
		:: watchers && clocked -> flags = flags | PARKED /* one taker in SOME */
		:: true
		fi
	}
#ifdef DEFECT_PLAIN_TAKE
	found = (word == found -> found : OWNER);
#endif
	atomic {
		if
#ifdef DEFECT_PLAIN_TAKE
		:: found != OWNER ->
#else
		:: word == found ->
#endif
			take(flags);
			goto owner
		:: else -> found = 0; flags = 0; if :: goto slow :: MONITOR -> goto park fi
		fi
	}

	/* give_way, park */
park:
	atomic {
		watchers = (watching -> watchers - 1 : watchers);
		watching = 0
	}
	atomic {
		if
		:: MONITOR -> kind = CLOCKED_WAITER; clock = 1
		:: MONITOR && watchers -> kind = CLOCKED_WAITER; clock = 1; beside_watcher = 1
		:: kind = NEEDY_WAITER; clock = 1
		:: kind = STUCK_WAITER
		fi;
		/* fgi_join */
		if
		:: kind == CLOCKED_WAITER && clocked < COUNTED -> clocked++; joined = 1
		:: kind != CLOCKED_WAITER && needy < COUNTED -> needy++; joined = 1
		:: else
		fi;
#ifdef DEFECT_NO_CLOCK
		clock = 0
#elif !defined(DEFECT_UNCOUNTED)
		clock = clock || !joined
#endif
	}
#ifdef DEFECT_MEMBARRIER_FIRST
	!releasing;
#endif
set_flag:
	atomic {
		if
		:: is_free(word) && !beside_watcher -> goto leave
#ifdef DEFECT_FLAG_NOT_SET
		:: !is_free(word) && !beside_watcher -> found = word
#else
		:: !is_free(word) && !beside_watcher -> word = word | flag; found = word
#endif
		:: beside_watcher -> found = word
		:: goto leave /* after so many tries */
		fi
	}
#if !defined(DEFECT_NO_MEMBARRIER) && !defined(DEFECT_MEMBARRIER_FIRST)
	/* No CPU is in the middle of a release of this lock, or has been once since. */
	(clock || !releasing);
#endif
#ifdef DEFECT_READ_LATE
	found = word;
#endif
	atomic { /* futex wait compares and goes to sleep as one */
		if
		:: word == found -> asleep = asleep | ME; found = 0
		:: word != found -> found = 0; if :: beside_watcher -> goto set_flag :: !beside_watcher -> goto leave fi
		fi
	}
	atomic {
		if
		:: !(asleep & ME)
		:: (clock || timed) && (asleep & ME) -> asleep = asleep & ~ME
		fi
	}
leave:
	atomic {
#ifdef DEFECT_COUNT_LEFT
		joined = joined && !timed;
#endif
		if
		:: joined && kind == CLOCKED_WAITER -> clocked--
		:: joined && kind != CLOCKED_WAITER -> needy--
		:: !joined
		fi;
		joined = 0; kind = 0; clock = 0; beside_watcher = 0
	}
	atomic { /* rise */
		stood_back = stood_back && (ops & ME);
		ops = ops | ME;
		if
		:: MONITOR -> watchers++; watching = 1
		:: true
		fi;
		goto slow
	}

give_up:
	atomic {
		found = 0;
		stood_back = 0;
		watchers = (watching -> watchers - 1 : watchers);
		if
		:: true -> useful = 1 /* it watched, or was woken */
		:: !watching -> useful = 0
		fi;
		watching = 0
	}
	atomic {
		word = (useful -> word | PARKED : word);
		useful = 0
	}
	atomic {
#ifndef DEFECT_DEMAND_LEFT
		word = (head -> word & ~DEMAND : word);
		adrift = adrift && (word & DEMAND);
#endif
		head = 0
	}
	if
#ifndef DEFECT_SILENT_GIVE_UP
	:: needy -> goto pass_on
#endif
	:: else -> goto gave_up
	fi;
pass_on:
#ifndef DEFECT_FLAG_ABANDONED
	/* Another may take the flag of this one for its own, and go to sleep: a release may still overwrite it. */
	!releasing;
#endif
	atomic { wake_one() };
gave_up:
	atomic { waiting = waiting & ~ME; timed = 0; goto idle }

	/* The critical section; fgi_unlock, release_to_parked. */
owner:
	atomic {
		waiting = waiting & ~ME;
		ops = ops & ~ME;
		timed = 0; head = 0; stood_back = 0;
		if
		:: (word & PARKED) && clocked -> useful = WAKES /* a CPU idles, or a turn is over */
		:: (word & PARKED) -> useful = DROPS /* the C does so beside a watcher only */
		:: true
		fi;
		needed = (word & NEEDY) != 0
	}
#ifdef DEFECT_WAKE_FIRST
	atomic {
		if
		:: (word & NEEDY) || useful == WAKES -> wake_one()
		:: else
		fi;
		useful = 0;
		needed = 0
	}
#endif
	atomic {
		assert((word & OWNER) == _pid + 1);
		inside--;
		flags = word & (useful -> FLAGS - PARKED : FLAGS) & (needed -> FLAGS - NEEDY : FLAGS);
#ifdef ATOMIC_RELEASE
		word = flags
#else
		releasing = 1
#endif
	}
#ifndef ATOMIC_RELEASE
	atomic {
		adrift = (flags & DEMAND) && (adrift || !(word & DEMAND));
		word = flags;
		releasing = 0
	}
#endif
	atomic {
		if
#if !defined(DEFECT_WAKE_FIRST) && !defined(DEFECT_NO_WAKE)
		:: needed || useful == WAKES -> wake_one()
#ifndef DEFECT_LATE_FLAG
		:: !needed && useful != WAKES && (flags & NEEDY) -> wake_one()
#endif
#endif
		:: else
		fi;
		flags = 0;
		useful = 0;
		needed = 0;
		goto idle
	}
out:
	skip
}

#ifdef MOVES
/* While a thread waits, the lock is not free for ever. */
ltl moves { [] <> (!waiting || !is_free(word)) }
#endif
