# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs java javac
cat >"$scratch/Threads.java" <<'END'
import java.util.concurrent.*;
import java.util.concurrent.locks.ReentrantLock;

class Threads {
	static final int THREADS = 64, TIMES = 5000;
	static long monitored, locked;

	public static void main(String[] arguments) throws Exception {
		Object monitor = new Object();
		ReentrantLock lock = new ReentrantLock();
		BlockingQueue<int[]> queue = new ArrayBlockingQueue<>(16);
		ExecutorService pool = Executors.newFixedThreadPool(THREADS);
		for (int thread = 0; thread < THREADS; thread++)
			pool.submit(() -> {
				for (int i = 0; i < TIMES; i++) {
					synchronized (monitor) {
						monitored++;
					}
					lock.lock();
					try {
						locked++;
					} finally {
						lock.unlock();
					}
					if (i % 50 == 0)
						queue.put(new int[1000]);
				}
				return null;
			});
		long taken = 0;
		for (int i = 0; i < THREADS * TIMES / 50; i++)
			taken += queue.take().length;
		pool.shutdown();
		pool.awaitTermination(1, TimeUnit.HOURS);
		System.gc();
		System.out.println(monitored + " " + locked + " " + taken);
	}
}
END
javac -d "$scratch" "$scratch/Threads.java"
under_lock java -Xmx256m -cp "$scratch" Threads
says '^320000 320000 6400000$'
