/* SPDX-License-Identifier: MIT */
/* The default lock (locks/default/flexguard.c, locks/default/room.h) in Promela, for Spin: tests/model/verify runs it, and
 * docs/design/default-lock.md says what is checked and what is not.
 *
 * Each statement, or atomic block, is one access to shared memory, and after each Spin lets any other thread go on, for
 * any time: so everybody may be preempted everywhere. Clocks, the ledger and the monitor's counter, however late, only
 * decide which of several ways a thread goes: here those are free choices.
 *
 * What is one step here and two in C, without loss: a load, and the compare-and-swap that expects what it found (one that
 * fails changes nothing and is tried again). What is two steps, as on x86: the AND of the release, which loads and stores.
 *
 * A gate counts calls in C. Here it is the set of those who know its present value: a call makes that nobody.
 *
 *   THREADS   2 to 4
 *   LOCKS     1, or 2: then a thread may take the second inside the first
 *   TIMED     so many of the threads may have a deadline, which passes at any time, and try before they wait
 *   HOT       0: each alpha that leaves calls the next, and no parked thread's sleep has a bound
 *             1: it may leave without, others may take turns, and every parked thread's sleep may end at any time
 *   LEASE     1: an alpha may keep the lock reserved when it takes it, and calls when it no longer does
 *   ATOMIC_RELEASE  the release as it is where there is no such AND
 *   FIFO            a futex wakes who came first; otherwise anybody who sleeps there
 *   SERVED          I4, under assumptions: who has come to the gate is asleep there before another comes or the alpha
 *                   leaves, and an alpha that decides to sleep does. With ATOMIC_RELEASE, FIFO, and no deadlines
 *   a defect, by its name: then the model must fail */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef LOCKS
#define LOCKS 1
#endif
#ifndef TIMED
#define TIMED 0
#endif
#ifndef HOT
#define HOT 0
#endif
#ifndef LEASE
#define LEASE 0
#endif

/* the word */
#define OWNER 7
#define DEMAND 8
#define WAKE 16
#define FLAGS (DEMAND | WAKE)
/* seats */
#define SEAT 1
#define CALLED 2
#define KNOCK 4
#define COMING 8
#define AHEAD 16
#define ONE 32

byte word[LOCKS];
byte seats[LOCKS];
byte current[LOCKS]; /* the gate: threads, as a set, that have read its present value */
byte at_word[LOCKS]; /* sleepers on the futex, as a set */
byte at_gate[LOCKS];
byte before_it[LOCKS]; /* the same, of who is AHEAD: the same futex, but woken first */
byte kept[LOCKS];     /* who took it last, + 1, if reserved for itself: in C the lock's count tells */
bit releasing[LOCKS]; /* some CPU is between the load and the store of a release */

/* only to check */
byte inside[LOCKS];   /* threads in the critical section */
byte alpha[LOCKS];    /* who has the seat uncalled, + 1 */
bit demanded[LOCKS];  /* the alpha's demand stands in the word and cannot be lost any more */
byte ended;           /* threads that will not come again */
#ifdef FIFO
chan line[LOCKS] = [THREADS] of {byte};
#endif
#ifdef SERVED
bit wants; /* thread 0 has come for the lock and does not have it */
#endif

/* Until somebody has sat down. Where nothing is to be shown of bypass it may be any number of sections. */
#ifdef SERVED
#define STAYS_RESERVED !(seats[l] & SEAT)
#else
#define STAYS_RESERVED true
#endif

#define calling(s) (((s) | SEAT | CALLED) & ~KNOCK)
#define ALL ((1 << THREADS) - 1)
#define ME (1 << _pid)
#define is_free(w) (((w) & OWNER) == 0)
#if LOCKS == 1
#define ASLEEP (at_word[0] | at_gate[0] | before_it[0])
#else
#define ASLEEP (at_word[0] | at_gate[0] | before_it[0] | at_word[1] | at_gate[1] | before_it[1])
#endif

inline take(keep)
{
	word[l] = (_pid + 1) | ((keep) & word[l]);
	kept[l] = 0;
	inside[l]++;
	assert(inside[l] == 1) /* I1 */
#ifdef SERVED
	if
	:: _pid == 0 -> wants = 0
	:: else
	fi
#endif
}

/* By a thread that does not have the seat. I4: not past a demand. */
inline take_freely()
{
	assert(!demanded[l]);
	take(0)
}

inline sit()
{
	assert(alpha[l] == 0); /* at most one */
	alpha[l] = _pid + 1;
	current[l] = current[l] & ~ME
}

inline wake_any(set)
{
	if
	:: set & 1 -> set = set & ~1
	:: set & 2 -> set = set & ~2
	:: set & 4 -> set = set & ~4
	:: set & 8 -> set = set & ~8
	:: set == 0
	fi
}

/* Two system calls: first who is before the line, then the first in it. Sets `woken`. */
inline wake_gate()
{
#ifndef LINE_ONLY
	atomic {
		woken = before_it[l] != 0;
		before_it[l] = 0
	}
#endif
	atomic {
		if
		:: !woken && at_gate[l] ->
			woken = 1;
#ifdef FIFO
			line[l] ? next;
			at_gate[l] = at_gate[l] & ~(1 << next);
			next = 0
#else
			wake_any(at_gate[l])
#endif
		:: else
		fi
	}
}

inline sleep_at_gate()
{
	if
	:: ahead -> before_it[l] = before_it[l] | ME
	:: !ahead ->
		at_gate[l] = at_gate[l] | ME
#ifdef FIFO
		;
		line[l] ! _pid
#endif
	fi
}

#define AT_GATE ((at_gate[l] | before_it[l]) & ME)

inline leave_gate_unwoken()
{
#ifdef FIFO
	if
	:: at_gate[l] & ME -> line[l] ?? eval(_pid)
	:: else
	fi;
#endif
	at_gate[l] = at_gate[l] & ~ME;
	before_it[l] = before_it[l] & ~ME
}

/* The alpha's flags have just come into the word. */
inline note_demand()
{
	demanded[l] = demanded[l] || !releasing[l]
}

#ifdef SERVED
#define settled (seats[l] / ONE == len(line[l]) + (before_it[l] != 0))
#else
#define settled true
#endif

active [THREADS] proctype thread()
{
	byte l, seen;
#ifdef FIFO
	byte next;
#endif
	bit timed, past, waited, ahead, woken, giving_up, wakes, outer;

idle:
	atomic {
		if
		:: l = 0
#if LOCKS > 1
		:: l = 1
#endif
#ifdef SERVED
		:: _pid != 0 -> ended = ended | ME; goto out
#else
		:: ended = ended | ME; goto out
#endif
		fi;
		if
		:: _pid < TIMED -> timed = 1
		:: true
		fi;
#ifdef SERVED
		wants = wants || _pid == 0
#endif
	}

	/* fgi_lock; fgi_timedlock begins with fgi_trylock, which takes what is free whatever anybody demands */
come:
	atomic {
		if
		:: word[l] == 0 -> take_freely(); goto got
		:: timed && is_free(word[l]) && word[l] != 0 -> take(DEMAND); goto got
		:: word[l] == DEMAND && kept[l] == _pid + 1 ->
			if
			:: STAYS_RESERVED -> take(DEMAND); kept[l] = _pid + 1; goto got
			:: goto reserved
			fi
		:: else -> goto slow
		fi
	}

	/* take_reserved: if nobody has the seat it calls (fgi_room_call); then takes the lock, if that is still reserved */
reserved:
	atomic {
		_pid == 0 || settled;
		if
		:: !(seats[l] & SEAT) && seats[l] >= ONE -> wakes = !(seats[l] & COMING); seats[l] = calling(seats[l])
		:: (seats[l] & SEAT) || seats[l] < ONE -> goto take_last
		fi
#ifndef SERVED
	}
	atomic {
#else
		;
#endif
		current[l] = 0 /* fetch_add(gate) */
	}
	if
#ifdef SILENT_CALL
	:: wakes -> wakes = 0
#else
	:: wakes -> wakes = 0; wake_gate(); woken = 0
#endif
	:: else
	fi;
take_last:
	atomic {
		if
		:: word[l] == DEMAND && kept[l] == _pid + 1 -> demanded[l] = 0; take(0); goto got
		:: else
		fi
	}

	/* slow_path: tries on for a while; stands back before a demand; then reads the gate */
slow:
#ifdef PLAIN_TAKE
	is_free(word[l]) && !(word[l] & DEMAND);
	atomic { take(0); goto got };
#endif
	atomic {
		if
#ifdef DEMAND_IGNORED
		:: is_free(word[l]) -> take_freely(); goto got
#else
		:: is_free(word[l]) && !(word[l] & DEMAND) -> take_freely(); goto got
#endif
#ifdef GATE_LATE
		:: true
#else
		:: _pid == 0 || settled -> current[l] = current[l] | ME
#endif
		fi
#ifndef SERVED
	}

	/* fgi_room_enter */
	atomic {
#else
		;
#endif
		if
		:: !(seats[l] & SEAT) && seats[l] >= ONE -> /* rotate, or somebody has knocked */
			wakes = !(seats[l] & COMING);
			seats[l] = (calling(seats[l]) | COMING) + ONE
		:: !(seats[l] & SEAT) && (seats[l] < ONE || !(seats[l] & KNOCK)) ->
			seats[l] = seats[l] | SEAT;
			sit();
			goto watch
		:: seats[l] & SEAT ->
			seats[l] = seats[l] + ONE;
#ifdef GATE_LATE
			goto read_late
#else
			goto park
#endif
		fi
	}
	current[l] = ME; /* fetch_add(gate) */
	if
	:: wakes -> wake_gate()
	:: else -> woken = 1 /* somebody is coming already */
	fi;
	atomic { /* fgi_room_take_back */
#ifndef STALE_COMING
		seats[l] = (woken -> seats[l] : seats[l] & ~COMING);
#endif
		wakes = 0;
		woken = 0;
		if
		:: seats[l] & CALLED ->
			seats[l] = (seats[l] & ~CALLED) - ONE;
			sit();
			goto watch
		:: else -> goto park
		fi
	}
#if defined(GATE_LATE) || defined(LOOK_LATE)
read_late:
	current[l] = current[l] | ME;
#endif

	/* fgi_room_park */
park:
	atomic {
		waited = 0;
		woken = 0;
		if
		:: current[l] & ME -> sleep_at_gate()
		:: else -> goto look
		fi
	}
asleep:
	atomic {
		if
		:: !AT_GATE -> woken = 1
#ifdef LATER_WAITER
			;
			if
			:: current[l] & ME -> goto park /* called before I came: so not for me */
			:: else
			fi
#endif
#ifdef FALSE_HEAD
			;
			woken = 0;
			seats[l] = ((seats[l] | SEAT) & ~(CALLED | COMING)) - ONE; sit(); goto watch
#endif
#if HOT
		:: AT_GATE ->
			/* All are asleep, nobody owns the lock, and somebody is called: that wake-up is lost. */
			assert((ASLEEP | ended) != ALL || !is_free(word[l]) || !(seats[l] & CALLED));
			waited = 1;
			leave_gate_unwoken()
#endif
		:: timed && AT_GATE -> waited = 1; past = 1; leave_gate_unwoken()
		fi
	}
look:
#ifndef LOOK_LATE
	current[l] = current[l] | ME;
#endif
	atomic {
		seats[l] = (ahead -> seats[l] & ~AHEAD : seats[l]);
		if
#ifdef TIMEOUT_FIRST
		:: past ->
			past = 0; waited = 0; timed = 0; woken = 0; ahead = 0;
			seats[l] = seats[l] - ONE;
			current[l] = current[l] & ~ME;
			goto gave_up
#endif
		:: (seats[l] & CALLED) || !(seats[l] & SEAT) ->
			seats[l] = ((seats[l] | SEAT) & ~(CALLED | COMING)) - ONE;
			past = 0; waited = 0; woken = 0; ahead = 0;
			sit();
			goto watch
		:: !(seats[l] & CALLED) && (seats[l] & SEAT) && past ->
			seats[l] = (seats[l] & ~COMING) - ONE;
			past = 0; waited = 0; timed = 0; woken = 0; ahead = 0;
			current[l] = current[l] & ~ME;
			goto gave_up
		:: !(seats[l] & CALLED) && (seats[l] & SEAT) && !past ->
			/* Nobody else is awake, nobody owns the lock, but the seat is taken: a wake-up is lost. */
			assert((ASLEEP | ended) != (ALL & ~ME) || !is_free(word[l]));
			seats[l] = seats[l] & ~COMING;
			seats[l] = (waited -> seats[l] | KNOCK : seats[l]);
			ahead = (ahead || woken) && !(seats[l] & AHEAD);
			seats[l] = (ahead -> seats[l] | AHEAD : seats[l]);
			woken = 0
		fi
	}
#if HOT
	/* Its clock may find the lock free, twice: then it is its own, demanded or not. */
	atomic {
		if
		:: waited && is_free(word[l]) -> demanded[l] = 0; take(0); goto quit
		:: true
		fi
	}
#endif
#ifdef LOOK_LATE
	goto read_late;
#else
	goto park;
#endif

#if HOT
	/* fgi_room_quit */
quit:
	atomic {
		waited = 0;
		seats[l] = (ahead -> seats[l] & ~AHEAD : seats[l]) - ONE;
		ahead = 0;
		current[l] = current[l] & ~ME;
		if
#ifndef CALL_LEFT
		:: (seats[l] & CALLED) && seats[l] >= ONE -> wakes = !(seats[l] & COMING); goto called
		:: (seats[l] & CALLED) && seats[l] < ONE -> seats[l] = seats[l] & ~(SEAT | CALLED | COMING)
#endif
		:: else
		fi;
		goto got
	}
#endif

	/* The alpha looks. It takes what is free, demands when its lease is over, and sleeps when nothing moves or the
	 * monitor says so: at any time, that is. */
watch:
	atomic {
		if
		:: is_free(word[l]) ->
			demanded[l] = 0;
			if
			:: take(0)
			:: LEASE -> word[l] = DEMAND; take(DEMAND); kept[l] = _pid + 1
			fi;
			goto leave
		:: !is_free(word[l]) && !(word[l] & DEMAND) ->
			word[l] = word[l] | DEMAND;
			note_demand();
			goto watch
		:: !is_free(word[l]) ->
			word[l] = word[l] | DEMAND | WAKE;
			note_demand();
#ifdef SERVED
			at_word[l] = at_word[l] | ME;
			goto asleep_on_word
#else
			seen = word[l]
#endif
		:: timed ->
			word[l] = word[l] & ~DEMAND;
			demanded[l] = 0;
			giving_up = 1;
			goto leave
		fi
	}
#ifndef NO_MEMBARRIER
	!releasing[l]; /* membarrier: no CPU is in the middle of a release of this lock, or has been once since */
#endif
	atomic { /* futex wait: compares and goes to sleep as one */
		if
		:: word[l] == seen -> seen = 0; at_word[l] = at_word[l] | ME
		:: else -> seen = 0; goto watch
		fi
	}
asleep_on_word:
	atomic {
		if
		:: !(at_word[l] & ME)
		:: timed && (at_word[l] & ME) -> at_word[l] = at_word[l] & ~ME
		fi;
		goto watch
	}

	/* fgi_room_leave, as the owner or giving up */
leave:
#ifdef GATE_FIRST
	current[l] = 0;
#endif
	atomic {
		settled;
		alpha[l] = 0;
		if
#ifdef SILENT_LEAVE
		:: giving_up -> seats[l] = seats[l] & ~SEAT; goto left
		:: !giving_up && seats[l] >= ONE -> wakes = !(seats[l] & COMING); seats[l] = calling(seats[l])
#else
		:: seats[l] >= ONE -> wakes = !(seats[l] & COMING); seats[l] = calling(seats[l])
#endif
		:: seats[l] < ONE || (HOT && !giving_up && !(seats[l] & KNOCK)) ->
			seats[l] = seats[l] & ~SEAT;
			goto left
		fi
#ifndef SERVED
	}
#ifndef SERVED
called:
#endif
#ifndef GATE_FIRST
	current[l] = 0; /* fetch_add(gate) */
#endif
	atomic {
#else
		;
		current[l] = 0;
#endif
		if
		:: !wakes || giving_up
		:: wakes && !giving_up ->
			wakes = 0;
#ifndef MISSING_WAKE
			word[l] = word[l] | WAKE
#endif
		fi
	}
	if
	:: wakes -> wakes = 0; wake_gate(); woken = 0
	:: else
	fi;
left:
	atomic {
		if
		:: giving_up -> giving_up = 0; timed = 0; goto gave_up
		:: else
		fi
	}

got:
	atomic {
		timed = 0;
		if
#if LOCKS > 1
		:: l == 0 -> outer = 1; l = 1; goto come
#endif
		:: true
		fi
	}

	/* fgi_unlock */
unlock:
#ifdef EARLY_WAKE
	if
	:: word[l] & WAKE -> at_word[l] = 0; wake_gate(); woken = 0
	:: else
	fi;
#endif
	atomic {
		assert((word[l] & OWNER) == _pid + 1);
		inside[l]--;
		seen = word[l] & FLAGS;
		releasing[l] = 1;
#ifdef ATOMIC_RELEASE
		releasing[l] = 0;
		word[l] = seen;
#endif
	}
#ifndef ATOMIC_RELEASE
	atomic { word[l] = seen; releasing[l] = 0 };
#endif
#ifdef WAKE_HANDED_ON
	atomic {
		if
		:: !is_free(word[l]) -> seen = 0 /* the next owner will */
		:: else
		fi
	}
#endif
	atomic {
		if
#ifdef EARLY_WAKE
		:: true -> seen = 0; goto released
#endif
		:: !(seen & WAKE) -> seen = 0; goto released
		:: (seen & WAKE) && at_word[l] ->
			seen = 0;
			wake_any(at_word[l]);
#ifndef SURPLUS_WAKE
			goto released
#endif
		:: (seen & WAKE) && !at_word[l] -> seen = 0
		fi
	}
	wake_gate();
	woken = 0;
released:
gave_up:
	atomic {
		if
		:: outer -> outer = 0; l = 0; goto unlock
		:: else -> l = 0; goto idle
		fi
	}
out:
	skip
}

#ifdef SERVED
/* I4: thread 0 gets the lock each time it comes, whatever the others do, if whoever can run does so in the end. */
ltl served { [] (wants -> <> !wants) }
#endif
