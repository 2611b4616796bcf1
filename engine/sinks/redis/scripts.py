"""What Redis does in one step each, in its Lua.

::

    continuous:<query id>                    a hash: generation, timeline, epoch
    continuous:<query id>:staged             a set: the names of what is staged
    continuous:<query id>:g<g>:e<e>:t<t>     a stream: what a task has staged of an epoch

A script runs alone, and what it changes goes to Redis's log as one: it is there as a whole after a
crash, or not at all. It can fail in the middle only where it has changed nothing yet: what could
make a later step fail (another kind of key, memory that is used up) is met by its first one.

Source: Redis, "Scripting with Lua"; ``KEYS`` are marks, names, and what the line above says.
"""

from __future__ import annotations

from typing import Final

BIND: Final = """
local seen = redis.call('HGET', KEYS[1], 'generation')
if seen and tonumber(seen) > tonumber(ARGV[1]) then return seen end
redis.call('HSET', KEYS[1], 'generation', ARGV[1])
return ''
"""
"""KEYS: marks. ARGV: generation. Shut earlier runs out. Returns the generation of a later one, or
nothing."""

STAGE: Final = """
local seen = redis.call('HGET', KEYS[1], 'generation')
if seen ~= ARGV[1] then return seen or '' end
local at = 3
while at <= #ARGV do
  local size = tonumber(ARGV[at])
  redis.call('XADD', KEYS[3], '*', unpack(ARGV, at + 1, at + size))
  at = at + size + 1
end
redis.call('EXPIRE', KEYS[3], ARGV[2])
redis.call('SADD', KEYS[2], KEYS[3])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return ARGV[1]
"""
"""KEYS: marks, names, stage. ARGV: generation, how many seconds it is kept, and for each row how
many fields and values follow, and these. Returns the generation that may write, nothing if none is
known."""

FENCE: Final = """
local seen = redis.call('HGET', KEYS[1], 'generation')
if seen ~= ARGV[1] then return seen or '' end
for _, name in ipairs(redis.call('SMEMBERS', KEYS[2])) do redis.call('UNLINK', name) end
redis.call('DEL', KEYS[2])
return ARGV[1]
"""
"""KEYS: marks, names. ARGV: generation. Remove what is staged."""

COMMIT: Final = """
local epoch = tonumber(ARGV[3])
local seen = redis.call('HMGET', KEYS[1], 'generation', 'timeline', 'epoch')
if seen[1] and tonumber(seen[1]) > tonumber(ARGV[1]) then return {'stale', seen[1]} end
local newest, gap = seen[2] == ARGV[2] and tonumber(seen[3]), ''
if not newest or newest < epoch then
  if newest and newest < epoch - 1 then gap = seen[3] end
  if not seen[2] and epoch > 0 then gap = '-' end
  if gap ~= '' and ARGV[4] == '1' then return {'gap', gap} end
  local kind = redis.call('TYPE', KEYS[3]).ok
  if kind ~= 'stream' and kind ~= 'none' then return {'kind', kind} end
  for i = 4, #KEYS do
    if redis.call('XLEN', KEYS[i]) ~= tonumber(ARGV[i + 2]) then return {'lost', KEYS[i]} end
  end
  for i = 4, #KEYS do
    local from = '-'
    repeat
      local rows = redis.call('XRANGE', KEYS[i], from, '+', 'COUNT', 500)
      for _, row in ipairs(rows) do
        redis.call('XADD', KEYS[3], '*', unpack(row[2]))
        from = '(' .. row[1]
      end
    until #rows < 500
  end
  if ARGV[5] ~= '' then redis.call('XTRIM', KEYS[3], 'MAXLEN', '~', ARGV[5]) end
  redis.call('HSET', KEYS[1], 'generation', ARGV[1], 'timeline', ARGV[2], 'epoch', ARGV[3])
end
for i = 4, #KEYS do
  redis.call('UNLINK', KEYS[i])
  redis.call('SREM', KEYS[2], KEYS[i])
end
return {'done', gap}
"""
"""KEYS: marks, names, stream, and what tasks have staged of the epoch. ARGV: generation, timeline,
epoch, whether a gap is an error, how long the stream may be, and how many rows each has staged.
Returns ``done``, ``stale``, ``gap``, ``kind`` or ``lost``, and what there is to say of it."""
