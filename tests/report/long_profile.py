# SPDX-License-Identifier: MIT
"""Prints a saved profile with what widens a page: C++ names, many locks, long paths, a long command, large numbers."""
import json

TEMPLATE = 'std::unordered_map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, ' \
	'std::shared_ptr<storage::engine::PageCacheShard<std::mutex, 64ul> >, std::hash<std::string> >'
DEEP = '/srv/build/a-directory-with-a-long-name-and-no-space-in-it/third_party/storage-engine-9.0.0/src'


def place(depth, symbol=True):
	name = f'storage::engine::Shard{depth}<{TEMPLATE}>::insert_or_assign({TEMPLATE} const&, unsigned long) [clone .isra.0]'
	file = f'{DEEP}/page_cache_shard_implementation_number_{depth}_{"x" * 40}.cpp'
	return {
		'address': f'{0x7f0012340000 + depth:#x}', 'symbol': name if symbol else None, 'offset': 77,
		'file': file if symbol else None, 'line': 123456, 'module': f'{DEEP}/libstorage_engine_{"y" * 60}.so.9.0.0',
		'module_address': f'{0x12340000 + depth:#x}',
	}


def times(seconds):
	return {'total_seconds': seconds, 'p50_us': 123456.7, 'p90_us': 654321.9, 'p99_us': 987654.3, 'max_us': 98765432.1}


def site(seconds, depth):
	return {
		'acquisitions': 1234567890, 'wait_seconds': seconds, 'hold_seconds': seconds / 3,
		'stack': [place(i, i % 5 != 4) for i in range(depth)],
	}


def lock(i):
	kinds = ['mutex', 'rw-lock', 'condition-variable', 'semaphore', 'barrier']
	names = [f'storage::engine::(anonymous namespace)::caches<{TEMPLATE}>::shards[{i}].mutex', 'm', None, f'{"n" * 120}']
	seconds = 12345.6 / (i + 1)
	return {
		'address': f'{0x7ffff0000000 + 64 * i:#x}', 'kind': kinds[i % 5], 'name': names[i % 4],
		'first_use': [place(i)], 'acquisitions': 1234567890, 'contended': 1234567889, 'contended_share': 0.999,
		'failed': 0, 'cond_waits': 7, 'wait': times(seconds) if i % 7 else None, 'hold': times(seconds / 3),
		'preempted': {'count': 12345678, 'seconds': 1234.5}, 'sites': [site(seconds / (n + 1), 3 + n) for n in range(12 if i < 3 else 1)],
	}


print(json.dumps({
	'schema': 'flexguard-profile/1', 'version': '0.9.0',
	'command': [f'{DEEP}/bin/storage-server', f'--configuration={DEEP}/etc/{"z" * 80}.conf', '--threads', '64'],
	'lock': 'flexguard', 'elapsed_seconds': 98765.43, 'preemptions_unknown': None,
	'processes': [{
		'pid': 4194303, 'name': 'storage-server', 'lost': {'acquisitions': 1234567, 'call_sites': 12, 'holds': 3},
		'locks': [lock(i) for i in range(count)],
	} for count in (120, 2)],
}))
