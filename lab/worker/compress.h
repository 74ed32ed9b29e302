/* SPDX-License-Identifier: MIT */
/* A small compression of the LZ77 kind (Ziv and Lempel, 1977), for workloads that compress: repeats of 4 bytes and more
 * become a length and a distance. A token is four bytes: how many bytes follow it as they are, how many are then
 * repeated, and from how far back (the lower byte first). */
#ifndef FGB_COMPRESS_H
#define FGB_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FGB_TOKEN 4  /* bytes of a token; also the shortest repeat */
#define FGB_MOST 255 /* bytes that one token can stand for, of each kind */
#define FGB_SEEN_BITS 10

static inline uint32_t fgb_word(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* Writes a token and its bytes; false if there is no space. */
static inline bool fgb_emit(uint8_t **to, const uint8_t *end, const uint8_t *plain, uint32_t plains, uint32_t repeats,
			    uint32_t distance)
{
	uint8_t *at = *to;

	if (plains + FGB_TOKEN > (uint64_t)(end - at))
		return false;
	at[0] = (uint8_t)plains;
	at[1] = (uint8_t)repeats;
	at[2] = (uint8_t)distance;
	at[3] = (uint8_t)(distance >> 8);
	memcpy(at + FGB_TOKEN, plain, plains);
	*to = at + FGB_TOKEN + plains;
	return true;
}

/* Compresses up to 65,535 bytes. Returns how many it wrote; `length` if that would not be fewer: then as they are. */
static inline uint32_t fgb_compress(const uint8_t *from, uint32_t length, uint8_t *to)
{
	uint16_t seen[1 << FGB_SEEN_BITS]; /* one past where such a word was last */
	const uint8_t *end = to + (length ? length - 1 : 0);
	uint32_t plain = 0, at = 0;
	uint8_t *out = to;
	bool fits = true;

	memset(seen, 0, sizeof(seen));
	while (fits && at + FGB_TOKEN <= length) {
		uint32_t word = fgb_word(from + at), slot = word * 2654435761u >> (32 - FGB_SEEN_BITS);
		uint32_t before = seen[slot], same = FGB_TOKEN;

		seen[slot] = (uint16_t)(at + 1);
		if (!before || fgb_word(from + before - 1) != word) {
			if (++at - plain == FGB_MOST) {
				fits = fgb_emit(&out, end, from + plain, FGB_MOST, 0, 0);
				plain = at;
			}
			continue;
		}
		while (same < FGB_MOST && at + same < length && from[before - 1 + same] == from[at + same])
			same++;
		fits = fgb_emit(&out, end, from + plain, at - plain, same, at - (before - 1));
		at += same;
		plain = at;
	}
	while (fits && plain < length) {
		uint32_t rest = length - plain < FGB_MOST ? length - plain : FGB_MOST;

		fits = fgb_emit(&out, end, from + plain, rest, 0, 0);
		plain += rest;
	}
	if (fits)
		return (uint32_t)(out - to);
	memcpy(to, from, length);
	return length;
}

/* Whether the `stored` bytes at `from` are what fgb_compress makes of `length` bytes at `plain`; reads no others. */
static inline bool fgb_stands_for(const uint8_t *from, uint32_t stored, const uint8_t *plain, uint32_t length)
{
	uint32_t at = 0, done = 0;

	if (stored == length)
		return memcmp(from, plain, length) == 0;
	while (at + FGB_TOKEN <= stored) {
		uint32_t plains = from[at], repeats = from[at + 1];
		uint32_t distance = from[at + 2] | (uint32_t)from[at + 3] << 8;

		at += FGB_TOKEN;
		if (plains > stored - at || plains + repeats > length - done ||
		    memcmp(from + at, plain + done, plains) != 0)
			return false;
		at += plains;
		done += plains;
		if (repeats && (distance == 0 || distance > done))
			return false;
		for (; repeats; repeats--, done++)
			if (plain[done] != plain[done - distance])
				return false;
	}
	return at == stored && done == length;
}

#endif
