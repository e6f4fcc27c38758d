#!/usr/bin/env ruby
# convert_test.rb - `malloctape import`: files that are written here from the definitions of their
# formats become the same calls, of the same threads, on the same objects.

require 'json'
require 'tmpdir'
require_relative '../tap'
require_relative 'program'
require_relative 'writers'

MALLOCTAPE = "#{BUILD}/bin/malloctape".freeze

def dump(file)
  lines, status = Open3.capture2(MALLOCTAPE, 'dump', file)
  status.success? ? Dump.new(lines.lines) : raise("dump of #{file} failed")
end

# Imports the bytes, from a file or through a pipe, and returns the stream, read, and the summary.
def import(bytes, *options, pipe: false)
  File.binwrite('in', bytes)
  input = pipe ? '-' : 'in'
  messages, status = Open3.capture2e(MALLOCTAPE, 'import', *options, '--json', 'j', input, '-o',
                                     'out', stdin_data: pipe ? bytes : '', binmode: true)
  raise messages unless status.success?
  messages, status = Open3.capture2e(MALLOCTAPE, 'verify', 'out')
  raise messages unless status.success?
  messages, status = Open3.capture2e("#{BUILD}/bin/replay", '--engine=null', '--quiet', 'out')
  raise messages unless status.success?

  [dump('out'), JSON.parse(File.read('j'))]
end

# Records of 36 bytes do not go into a window of 64 MiB evenly: four bytes are left over.
def over_a_window
  window = 64 << 20
  pair = Writers.dj_record(false, 7, 1, [0, 0x1000, 24]) + Writers.dj_record(false, 7, 3, [0x1000])
  magic = Writers.dj_record(false, 7, 255, [0x1234, 0, 4])
  pairs = ((window / 36) - 1) / 2
  first = magic + (pair * pairs)
  File.binwrite('in', first + ("\xff".b * (window - first.bytesize)) + (pair * 3))
  messages, = Open3.capture2e(MALLOCTAPE, 'import', '--json', 'j', 'in', '-o', 'out')
  events = JSON.parse(File.read('j'))['events']
  good = events == 2 * (pairs + 3)
  report good, '.mtrace, 32-bit, over 64 MiB', good ? [] : [messages]
end

# What a format keeps of a call: threads and kinds as they are, or as a hash says, or not at all.
def kept(call, threads: {}, kinds: {}, alignments: true)
  thread = threads ? threads.fetch(call.thread, call.thread) : 0
  kind = kinds ? kinds.fetch(call.kind, call.kind) : :malloc
  kind = call.kind if %i[realloc free].include?(call.kind)
  [thread, kind, call.object, call.size, alignments ? call.alignment : 0]
end

# differences PROGRAM DUMP SUMMARY EXPECTED - notes.
def differences(program, dump, summary, expected)
  notes = []
  at = expected.zip(dump.calls).index { |wanted, got| wanted != got }
  notes << "call #{at}: #{expected[at]} became #{dump.calls[at]}" if at
  { 'calls' => [expected.size, dump.calls.size],
    'live objects' => [program.live.size, dump.live, summary['live_at_end']],
    'peak' => [program.peak_bytes, dump.peak_bytes, summary['peak_live_bytes']],
    'events' => [program.calls.size, summary['events']] }.each do |name, numbers|
    notes << "#{name}: #{numbers.join(', ')}" if numbers.uniq.size > 1
  end
  notes
end

def same_calls(text, program, bytes, *options, pipe: false, **keeps)
  dump, summary = import(bytes, *options, pipe: pipe)
  notes = differences(program, dump, summary, program.calls.map { |call| kept(call, **keeps) })
  report notes.empty?, text, notes
rescue RuntimeError => e
  report false, text, [e.message]
end

# Beyond what each thread does and which objects it does it to, the order is open.
def same_threads(text, program, bytes, **keeps)
  dump, summary = import(bytes)
  expected = program.calls.map { |call| kept(call, **keeps).values_at(0, 1, 3, 4) }
  got = dump.calls.map { |call| call.values_at(0, 1, 3, 4) }
  notes = []
  notes << 'a thread makes other calls' if expected.group_by(&:first) != got.group_by(&:first)
  unlike = { 'live_at_end' => program.live.size, 'unknown_objects' => 0, 'held_back' => 0,
             'never_freed' => 0 }.reject { |key, value| summary[key] == value }
  notes << "unlike: #{unlike}" if unlike.any?
  report notes.empty?, text, notes
rescue RuntimeError => e
  report false, text, [e.message]
end

WAYS = %w[thread_cache processor_cache contention sbrk mmap munmap malloc_and_free hook unsorted_add
          unsorted_remove unsorted_empty fastbin_add fastbin_remove consolidate].freeze

# The letters of reading/path.h that fit, and the names of all ways; "" where there are none.
def path_text(ways)
  names = WAYS.each_index.select { |bit| ways[bit] == 1 }.map { |bit| WAYS[bit] }
  return '' if names.empty?

  system = names.intersect?(%w[sbrk mmap munmap])
  cache = names.intersect?(%w[thread_cache processor_cache]) && !system
  [format('%s--%s%s--', cache ? 'T' : '-', system ? 'S' : '-', names.include?('contention') ? 'W' : '-'),
   *names].join(' ')
end

# What each call of a thread did inside the allocator, call by call.
def same_ways(program)
  import(Writers.dj_mtrace(program))
  threads = {}
  told = Hash.new { |all, thread| all[thread] = [] }
  path = ''
  `#{MALLOCTAPE} dump out`.scan(/ L(\d+) (\w+)(.*)$/) do |lane, word, rest|
    threads[lane] = rest.to_i if word == 'thread_begin'
    path = rest.strip if word == 'path'
    next if %w[lane thread_begin thread_end path].include?(word)

    told[threads[lane]] << path
    path = ''
  end
  wanted = program.calls.each_with_index.group_by { |call, _| call.thread }
                  .transform_values { |all| all.map { |_, i| path_text(i * 7919 & 0x3fff) } }
  report told == wanted, '.mtrace: which ways each call took', told == wanted ? [] : ['others']
end

plan 18

Dir.mktmpdir do |directory|
  Dir.chdir(directory) do
    single = Program.new(1)
    several = Program.new(2, threads: 5)
    less = { threads: nil, kinds: nil, alignments: false }
    same_calls 'rep', single, Writers.rep(single), **less
    same_calls 'mtrace', single, Writers.mtrace(single), **less
    same_calls 'memory_replay, of five threads', several, Writers.memory_replay(several)
    same_calls 'memory_replay through a pipe', several, Writers.memory_replay(several), pipe: true
    same_calls '.mtrace, 64-bit', several, Writers.dj_mtrace(several)
    same_calls '.mtrace, 32-bit', several, Writers.dj_mtrace(several, wide: false)
    same_ways several
    over_a_window
    same_calls '.wl of one thread', single, Writers.wl(single), threads: { 4000 => 1 }
    numbers = several.calls.map(&:thread).uniq.each_with_index.to_h { |thread, i| [thread, i + 1] }
    same_threads '.wl of five threads', several, Writers.wl(several), threads: numbers
    c_kinds = Program.new(3, threads: 3, kinds: %i[malloc memalign])
    same_calls '.ops', c_kinds, Writers.ops(c_kinds), '--from=ops',
               kinds: { memalign: :aligned_alloc }
    mallocs = Program.new(4, threads: 3, kinds: %i[malloc], reallocs: false)
    same_calls 'microbench', mallocs, Writers.microbench(mallocs)
    same_calls 'heaptrack', mallocs, Writers.heaptrack(mallocs), **less
    same_calls 'logalloc', several, Writers.logalloc(several)
    same_calls 'logalloc, munged', several, Writers.logalloc(several, munged: true)
    eights = Program.new(5, threads: 4, kinds: %i[malloc memalign], unit: 8)
    same_calls 'wip_processed', eights, Writers.wip_processed(eights)
    single_eights = Program.new(6, kinds: %i[malloc memalign], unit: 8)
    same_calls 'wip_raw of one thread', single_eights, WipRaw.new(single_eights).to_s
    same_threads 'wip_raw of four threads', eights, WipRaw.new(eights).to_s
  end
end
