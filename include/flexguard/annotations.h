/* SPDX-License-Identifier: MIT */
/* What the calls do to a lock, as clang -Wthread-safety reads it. Other compilers see nothing of it. A program that has
 * attributes of its own for what a lock protects (guarded_by, requires_capability) names these locks in them. */
#ifndef FLEXGUARD_ANNOTATIONS_H
#define FLEXGUARD_ANNOTATIONS_H

#if defined(__clang__)
#define FG_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define FG_ANNOTATION(...)
#endif

#define FG_CAPABILITY(what) FG_ANNOTATION(capability(what))
#define FG_ACQUIRE(...) FG_ANNOTATION(acquire_capability(__VA_ARGS__))
#define FG_ACQUIRE_SHARED(...) FG_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define FG_TRY_ACQUIRE(...) FG_ANNOTATION(try_acquire_capability(__VA_ARGS__)) /* what it returns then, the lock */
#define FG_TRY_ACQUIRE_SHARED(...) FG_ANNOTATION(try_acquire_shared_capability(__VA_ARGS__))
#define FG_RELEASE(...) FG_ANNOTATION(release_capability(__VA_ARGS__))
#define FG_RELEASE_SHARED(...) FG_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define FG_RELEASE_ANY(...) FG_ANNOTATION(release_generic_capability(__VA_ARGS__)) /* shared or not */
#define FG_REQUIRES(...) FG_ANNOTATION(requires_capability(__VA_ARGS__))
#define FG_UNCHECKED FG_ANNOTATION(no_thread_safety_analysis) /* a function whose body is another lock's */

#endif
