# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Erlang's machine: sixteen schedulers, whose processes pass messages in a ring, read a file and fill a table.
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs erl
make_data "$scratch/data"
cat >"$scratch/ring.erl" <<'END'
-module(ring).
-export([main/1]).

main([File]) ->
	{ok, Data} = file:read_file(File),
	Table = ets:new(counts, [public, {write_concurrency, true}]),
	Self = self(),
	Readers = [spawn_link(fun() -> read(File, Data, Table, N, Self) end) || N <- lists:seq(1, 32)],
	Last = lists:foldl(fun(_, Next) -> spawn_link(fun() -> pass(Next) end) end, Self, lists:seq(1, 500)),
	[Last ! N || N <- lists:seq(1, 100)],
	Sum = lists:sum([receive M when is_integer(M) -> M end || _ <- lists:seq(1, 100)]),
	[receive {same, R} -> ok end || R <- Readers],
	[{total, Total}] = ets:lookup(Table, total),
	io:format("sum ~b total ~b~n", [Sum, Total]),
	halt(0).

pass(Next) ->
	receive N -> Next ! N + 1, pass(Next) end.

read(File, Data, Table, N, Whom) ->
	{ok, Data} = file:read_file(File),
	[ets:update_counter(Table, total, I, {total, 0}) || I <- lists:seq(1, 1000)],
	true = ets:insert(Table, {N, self()}),
	Whom ! {same, self()}.
END
(cd "$scratch" && erlc ring.erl) >"$scratch/out" 2>&1 || wrong 'erlc does not compile'
under_lock erl +S 16:16 +SDio 16 -noshell -pa "$scratch" -run ring main "$scratch/data"
says '^sum 55050 total 16016000$'
