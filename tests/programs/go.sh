# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Go with C beside it: threads that Go's runtime makes by pthread_create, and which take a mutex and wait in C.
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs go cc
cat >"$scratch/main.go" <<'END'
package main

/*
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long total, turn;

static void add(long n)
{
	pthread_mutex_lock(&mutex);
	total += n;
	pthread_mutex_unlock(&mutex);
}

static void take_turn(long mine, long all)
{
	pthread_mutex_lock(&mutex);
	while (turn % all != mine)
		pthread_cond_wait(&turned, &mutex);
	turn++;
	pthread_cond_broadcast(&turned);
	pthread_mutex_unlock(&mutex);
}

static long total_of(void)
{
	pthread_mutex_lock(&mutex);
	long all = total + turn;
	pthread_mutex_unlock(&mutex);
	return all;
}
*/
import "C"

import (
	"fmt"
	"sync"
)

const all = 16

func main() {
	var group sync.WaitGroup
	for i := 0; i < all; i++ {
		group.Add(1)
		go func(mine int) {
			defer group.Done()
			for n := 1; n <= 20000; n++ {
				C.add(C.long(n))
			}
			for n := 0; n < 50; n++ {
				C.take_turn(C.long(mine), all)
			}
		}(i)
	}
	group.Wait()
	fmt.Println("total", C.total_of())
}
END
(cd "$scratch" && GO111MODULE=off CGO_ENABLED=1 go build -o counts main.go) >"$scratch/out" 2>&1 ||
	wrong 'go does not build'
under_lock "$scratch/counts"
says '^total 3200160800$'
