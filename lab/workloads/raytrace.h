/* SPDX-License-Identifier: MIT */
/* A ray tracer with the locks of SPLASH-2x's Raytrace (section 5.3, figure 3 m-p). An operation is one ray.
 *
 * Locks: 45, as the paper counts them, of which one is hot.
 *   rays        the number of each ray, taken once a ray: the hot one; one increment
 *   memory      a free list of buffers for tiles: taken and given back once a tile
 *   statistics  rays, intersections and pixels: once a tile; three additions
 *   frame       which picture is being rendered: when all queues are empty
 *   queues      41; a thread takes tiles from its own queue, and from the others when it is empty: once a tile
 * A ray takes some 0.5 us outside of all sections (--spheres), a section some 20 ns.
 * Differs from the original: it renders a scene of its own, of spheres on a plane with shadows and reflections, and the
 * same picture again and again, without a barrier between two; how the original divides 45 locks among queues and the
 * rest depends on its settings.
 *
 * Checked: each tile's pixels equal those of a sequential run to the last bit, and rays, intersections and tiles add
 * up to what the sequential run counts for these tiles. */
#include <math.h>
#include <stdlib.h>

#include "worker/json.h"

#define FGB_RAY_QUEUES 41
#define FGB_RAY_EDGE 8 /* pixels of a tile's edge */
#define FGB_RAY_PIXELS (FGB_RAY_EDGE * FGB_RAY_EDGE)
#define FGB_RAY_DEPTH 3

struct fgb_vector {
	float x, y, z;
};

struct fgb_sphere {
	struct fgb_vector at;
	float radius, shine; /* shine: the share of light that is reflected */
};

struct fgb_buffer { /* the pixels of a tile while it is rendered */
	struct fgb_buffer *next;
	float pixel[FGB_RAY_PIXELS];
};

struct fgb_tile { /* what a sequential run counts */
	uint64_t hash, tests;
};

struct fgb_ray_lock {
	struct fg_lock lock;
	uint64_t value;
} __attribute__((aligned(FGB_ALONE)));

struct fgb_ray_thread { /* its tile; it may outlast a phase */
	struct fgb_buffer *buffer;
	uint64_t tile, done, tests; /* done: pixels */
	uint64_t finished, wrong;   /* tiles */
	uint64_t all_tests;         /* what it added to the statistics */
} __attribute__((aligned(FGB_ALONE)));

static struct {
	uint64_t edge, spheres; /* edge: tiles in a row */
	struct fgb_sphere *sphere;
	struct fgb_tile *tile;
	struct fgb_ray_lock rays, memory, statistics, frame, queue[FGB_RAY_QUEUES]; /* queue: tiles left in it */
	struct fgb_buffer *free;
	uint64_t pixels, tests;
	struct fgb_ray_thread *thread;
	uint64_t threads;
} fgb_ray = {24, 100, NULL, NULL, {}, {}, {}, {}, {}, NULL, 0, 0, NULL, 0};

/* ---- the picture ---- */

static inline struct fgb_vector fgb_along(struct fgb_vector from, struct fgb_vector to, float t)
{
	struct fgb_vector v = {from.x + to.x * t, from.y + to.y * t, from.z + to.z * t};

	return v;
}

static inline float fgb_dot(struct fgb_vector a, struct fgb_vector b)
{
	return a.x * b.x + a.y * b.y + a.z * b.z;
}

static inline struct fgb_vector fgb_normal(struct fgb_vector v)
{
	struct fgb_vector zero = {0, 0, 0};

	return fgb_along(zero, v, 1 / sqrtf(fgb_dot(v, v)));
}

/* The nearest sphere that the ray meets, or NULL; its distance. Looks at every sphere. */
static const struct fgb_sphere *fgb_nearest(struct fgb_vector from, struct fgb_vector to, float *distance)
{
	const struct fgb_sphere *nearest = NULL;

	*distance = 1e9F;
	for (uint64_t i = 0; i < fgb_ray.spheres; i++) {
		const struct fgb_sphere *s = &fgb_ray.sphere[i];
		struct fgb_vector gap = fgb_along(s->at, from, -1); /* from the ray's start to the centre */
		float b = fgb_dot(gap, to), c = fgb_dot(gap, gap) - s->radius * s->radius, root;

		if (b * b < c)
			continue;
		root = b - sqrtf(b * b - c);
		if (root > 1e-3F && root < *distance) {
			*distance = root;
			nearest = s;
		}
	}
	return nearest;
}

/* The light along a ray. Adds the tests of a sphere against a ray to *tests. */
static float fgb_trace(struct fgb_vector from, struct fgb_vector to, uint64_t *tests)
{
	const struct fgb_vector sun = {0.57735F, 0.57735F, -0.57735F};
	float light = 0, share = 1;

	for (int depth = 0; depth < FGB_RAY_DEPTH && share > 0.01F; depth++) {
		float distance, shadow, here, ground = to.y < 0 ? -(from.y + 1) / to.y : -1;
		const struct fgb_sphere *s = fgb_nearest(from, to, &distance);
		struct fgb_vector normal = {0, 1, 0};
		float shine = 0.2F;

		*tests += fgb_ray.spheres;
		if (!s && ground < 1e-3F)
			return light + share * (0.3F + 0.5F * to.y); /* the sky */
		if (s && (ground < 1e-3F || distance < ground)) {
			from = fgb_along(from, to, distance);
			normal = fgb_normal(fgb_along(from, s->at, -1));
			shine = s->shine;
		} else {
			from = fgb_along(from, to, ground);
		}
		here = fgb_dot(normal, sun);
		*tests += fgb_ray.spheres;
		if (here < 0 || fgb_nearest(from, sun, &shadow))
			here = 0.1F;
		light += share * (1 - shine) * here;
		share *= shine;
		to = fgb_normal(fgb_along(to, normal, -2 * fgb_dot(to, normal)));
	}
	return light;
}

static float fgb_pixel(uint64_t tile, uint64_t pixel, uint64_t *tests)
{
	float width = (float)(fgb_ray.edge * FGB_RAY_EDGE);
	uint64_t column = tile % fgb_ray.edge * FGB_RAY_EDGE + pixel % FGB_RAY_EDGE;
	uint64_t row = tile / fgb_ray.edge * FGB_RAY_EDGE + pixel / FGB_RAY_EDGE;
	struct fgb_vector eye = {0, 0.5F, -4};
	struct fgb_vector to = {2 * (float)column / width - 1, 1 - 2 * (float)row / width, 1.5F};

	return fgb_trace(eye, fgb_normal(to), tests);
}

static uint64_t fgb_hash(const struct fgb_buffer *buffer)
{
	uint64_t hash = 0;

	for (int i = 0; i < FGB_RAY_PIXELS; i++) {
		union {
			float pixel;
			uint32_t bits;
		} of = {buffer->pixel[i]};

		hash = fgb_mix(hash ^ of.bits);
	}
	return hash;
}

/* ---- what the locks protect ---- */

/* As in the shm workload, read first and written last, so that a second thread in the section leaves a trace. */
static inline uint64_t fgb_ray_add(uint64_t *value, uint64_t what)
{
	uint64_t was = fg_load_relaxed(value);

	FGB_IN_SECTION();
	fg_store_relaxed(value, was + what);
	return was;
}

/* A tile of this queue; UINT64_MAX if there is none. Queue q has the tiles q, q + FGB_RAY_QUEUES, ... */
static uint64_t fgb_ray_pop(uint64_t q)
{
	struct fgb_ray_lock *queue = &fgb_ray.queue[q];
	uint64_t left;

	fgb_call_lock(&queue->lock);
	left = queue->value;
	if (left)
		fg_store_relaxed(&queue->value, left - 1);
	fgb_call_unlock(&queue->lock);
	return left ? q + (left - 1) * FGB_RAY_QUEUES : UINT64_MAX;
}

static void fgb_ray_fill(void)
{
	uint64_t tiles = fgb_ray.edge * fgb_ray.edge;

	for (uint64_t q = 0; q < FGB_RAY_QUEUES; q++) {
		fgb_call_lock(&fgb_ray.queue[q].lock);
		fg_store_relaxed(&fgb_ray.queue[q].value, tiles / FGB_RAY_QUEUES + (q < tiles % FGB_RAY_QUEUES));
		fgb_call_unlock(&fgb_ray.queue[q].lock);
	}
}

/* A tile of this thread's queue, of another one, or of the next frame. */
static uint64_t fgb_ray_next(uint64_t thread)
{
	for (;;) {
		uint64_t frame = fg_load_relaxed(&fgb_ray.frame.value);

		for (uint64_t i = 0; i < FGB_RAY_QUEUES; i++) {
			uint64_t tile = fgb_ray_pop((thread + i) % FGB_RAY_QUEUES);

			if (tile < fgb_ray.edge * fgb_ray.edge)
				return tile;
		}
		fgb_call_lock(&fgb_ray.frame.lock);
		if (fg_load_relaxed(&fgb_ray.frame.value) == frame) {
			fgb_ray_fill();
			fg_store_relaxed(&fgb_ray.frame.value, frame + 1);
		}
		fgb_call_unlock(&fgb_ray.frame.lock);
	}
}

/* A buffer of the free list, which has one a thread. */
static struct fgb_buffer *fgb_ray_buffer(void)
{
	static struct fgb_buffer spare; /* only if locks exclude nobody, which is found out at the end */
	struct fgb_buffer *buffer;

	fgb_call_lock(&fgb_ray.memory.lock);
	buffer = fg_load_relaxed(&fgb_ray.free);
	if (buffer)
		fg_store_relaxed(&fgb_ray.free, buffer->next);
	fgb_call_unlock(&fgb_ray.memory.lock);
	return buffer ? buffer : &spare;
}

static void fgb_ray_finish(struct fgb_ray_thread *t)
{
	const struct fgb_tile *tile = &fgb_ray.tile[t->tile];

	if (fgb_hash(t->buffer) != tile->hash || t->tests != tile->tests)
		t->wrong++;
	fgb_call_lock(&fgb_ray.statistics.lock);
	fgb_ray_add(&fgb_ray.statistics.value, 1);
	fgb_ray_add(&fgb_ray.pixels, FGB_RAY_PIXELS);
	fgb_ray_add(&fgb_ray.tests, t->tests);
	fgb_call_unlock(&fgb_ray.statistics.lock);
	fgb_call_lock(&fgb_ray.memory.lock);
	t->buffer->next = fg_load_relaxed(&fgb_ray.free);
	fgb_ray_add(&fgb_ray.memory.value, 1);
	fg_store_relaxed(&fgb_ray.free, t->buffer);
	fgb_call_unlock(&fgb_ray.memory.lock);
	t->buffer = NULL;
	t->finished++;
	t->all_tests += t->tests;
}

__attribute__((noinline)) static void fgb_ray_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	struct fgb_ray_thread *t = &fgb_ray.thread[self->index];
	struct fgb_counts *counts = &self->counts[phase];

	while (fg_load_relaxed(&run->phase) == phase) {
		uint64_t asked, acquired, released;

		if (!t->buffer) {
			t->tile = fgb_ray_next(self->index);
			t->buffer = fgb_ray_buffer();
			t->done = t->tests = 0;
		}
		asked = fg_cycles_ordered();
		fgb_call_lock(&fgb_ray.rays.lock);
		acquired = fg_cycles_ordered();
		fgb_ray_add(&fgb_ray.rays.value, 1);
		fgb_call_unlock(&fgb_ray.rays.lock);
		released = fg_cycles_ordered();
		t->buffer->pixel[t->done] = fgb_pixel(t->tile, t->done, &t->tests);
		t->done++;
		fgb_count(counts, asked, acquired, released);
		if (t->done == FGB_RAY_PIXELS)
			fgb_ray_finish(t);
	}
}

/* ---- before and after ---- */

static int fgb_ray_prepare(const struct fgb_run *run)
{
	uint64_t tiles = fgb_ray.edge * fgb_ray.edge, random = 0;
	struct fgb_buffer *buffer = (struct fgb_buffer *)fgb_allocate(run->threads, sizeof(*buffer));

	fgb_ray.threads = run->threads;
	fgb_ray.thread = (struct fgb_ray_thread *)fgb_allocate(run->threads, sizeof(*fgb_ray.thread));
	fgb_ray.sphere = (struct fgb_sphere *)fgb_allocate(fgb_ray.spheres, sizeof(*fgb_ray.sphere));
	fgb_ray.tile = (struct fgb_tile *)fgb_allocate(tiles, sizeof(*fgb_ray.tile));
	if (!buffer || !fgb_ray.thread || !fgb_ray.sphere || !fgb_ray.tile)
		return FGB_FAILED;
	for (uint64_t i = 0; i < fgb_ray.spheres; i++) {
		float number[4];

		for (int n = 0; n < 4; n++)
			number[n] = (float)(fgb_random(&random) >> 40) * 0x1p-24F;
		fgb_ray.sphere[i] = (struct fgb_sphere){{4 * number[0] - 2, 2 * number[1] - 0.8F, 4 * number[2]},
							0.1F + 0.3F * number[3],
							number[3] * 0.8F};
	}
	for (uint64_t i = 0; i < tiles; i++) {
		for (uint64_t pixel = 0; pixel < FGB_RAY_PIXELS; pixel++)
			buffer->pixel[pixel] = fgb_pixel(i, pixel, &fgb_ray.tile[i].tests);
		fgb_ray.tile[i].hash = fgb_hash(buffer);
	}
	for (uint64_t i = 0; i < run->threads; i++)
		buffer[i].next = i + 1 < run->threads ? &buffer[i + 1] : NULL;
	fgb_ray.free = buffer;
	fgb_ray_fill();
	return 0;
}

static bool fgb_ray_adds_up(uint64_t ops)
{
	uint64_t finished = 0, wrong = 0, tests = 0, pixels = 0, buffers = 0, unfinished = 0;

	for (uint64_t i = 0; i < fgb_ray.threads; i++) {
		const struct fgb_ray_thread *t = &fgb_ray.thread[i];

		finished += t->finished;
		wrong += t->wrong;
		tests += t->all_tests;
		pixels += t->finished * FGB_RAY_PIXELS + (t->buffer ? t->done : 0);
		unfinished += t->buffer != NULL;
	}
	for (const struct fgb_buffer *b = fgb_ray.free; b && buffers <= fgb_ray.threads; b = b->next)
		buffers++;
	return wrong == 0 && fgb_ray.rays.value == ops && pixels == ops && fgb_ray.statistics.value == finished &&
	       fgb_ray.memory.value == finished && fgb_ray.pixels == finished * FGB_RAY_PIXELS &&
	       fgb_ray.tests == tests && buffers + unfinished == fgb_ray.threads;
}

static uint64_t fgb_ray_locks(void)
{
	return FGB_RAY_QUEUES + 4;
}

static void fgb_ray_describe(void)
{
	fgb_json_count("tiles", fgb_ray.edge * fgb_ray.edge);
	fgb_json_count("spheres", fgb_ray.spheres);
	fgb_json_count("frames", fgb_ray.frame.value);
}

static const struct fgb_option fgb_ray_options[] = {
	FGB_OPTION_NUMBER("--edge", "the picture's edge in tiles of 8 x 8 pixels", 1, 1024, &fgb_ray.edge),
	FGB_OPTION_NUMBER("--spheres", "spheres in the scene: how long a ray takes", 1, 1e5, &fgb_ray.spheres),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_raytrace = {
	.name = "raytrace",
	.brief = "a ray tracer with queues of tiles; all threads number their rays under one lock",
	.sample = 1,
	.own_loop = true,
	.options = fgb_ray_options,
	.prepare = fgb_ray_prepare,
	.loop = fgb_ray_loop,
	.adds_up = fgb_ray_adds_up,
	.locks = fgb_ray_locks,
	.describe = fgb_ray_describe,
};
